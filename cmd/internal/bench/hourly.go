package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/paidhour"
)

// The day of jobs that hourly-saving simulates, at three loads.
const (
	hourlySeeds = 41
	hourlyNodes = 24
	hourlyUSD   = 0.132 // an hour of vhp-8c-16gb-amd
	hourlyFloor = 8.0   // per cent that burstd's rule saves in each of these seeds at each load; no promise for other days
)

var hourlyLoads = []struct {
	name string
	jobs float64 // an hour, between 8 and 18 o'clock; a quarter of it else
}{{"light", 4}, {"middle", 12}, {"busy", 30}}

// hourlySaving compares what idle nodes cost that use the hour that is paid for, and
// go shortly before its end, with the usual SuspendTime.
func hourlySaving() Bench {
	return Bench{
		Name: "hourly-saving",
		Method: fmt.Sprintf("model, no measurement: the cost of a day of jobs on %d nodes that are paid by the begun hour, with burstd's rule (package paidhour, SuspendTime %s as backstop) less than with SuspendTime %s; "+
			"one of these days, of any load, that saves less than %g %% is a failure; jobs come as a Poisson process, 12 an hour from 8 to 18 o'clock and a quarter of it else (light: 4, busy: 30), and run log-normally, median 12 min, sigma 1.2, at most 8 h, "+
			"on 1, 2 or 4 nodes (70, 20, 10 %%); first come first served, on nodes that are up if there are, idle ones being planned for the job that waits; a boot takes 3 min, a SuspendTimeout 2 min; %d seeds, of which this is the median",
			hourlyNodes, inMinutes(paidhour.SuspendTime), inMinutes(config.DefaultSuspend), hourlyFloor, hourlySeeds),
		Unit: "%", Better: Higher, Goal: 12.5, // an eighth of the bill, for nothing that anybody has to set
		Run: func(ctx context.Context, env Env) ([]float64, error) {
			var all []float64
			for _, load := range hourlyLoads {
				saved, text, err := hourlyLoad(ctx, load.jobs)
				if err != nil {
					return nil, err
				}
				env.note("%s: %s", load.name, text)
				if load.name == "middle" {
					all = saved
				}
			}
			return all, nil
		},
	}
}

func inMinutes(d time.Duration) string { return fmt.Sprintf("%g min", d.Minutes()) }

// hourlyRules are what is compared, the usual first and burstd's rule second.
var hourlyRules = []struct {
	name string
	rule hourlyRule
}{
	{"", hourlyRule{suspend: config.DefaultSuspend}},
	{"the rule", hourlyRule{suspend: paidhour.SuspendTime, paid: true}},
	{"the rule in a shared partition (SuspendTime " + inMinutes(config.DefaultSuspend) + ")", hourlyRule{suspend: config.DefaultSuspend, paid: true}},
	{"SuspendTime 30 min alone", hourlyRule{suspend: 30 * time.Minute}},
	{"SuspendTime 50 min alone", hourlyRule{suspend: 50 * time.Minute}},
}

// hourlyLoad simulates all seeds at one load: the savings of burstd's rule in per cent of
// the usual cost, and what there is to tell.
func hourlyLoad(ctx context.Context, jobs float64) (saved []float64, text string, err error) {
	days := make([][]hourlyDay, len(hourlyRules))
	for seed := range uint64(hourlySeeds) {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		list := hourlyJobs(rand.New(rand.NewPCG(seed, 7)), jobs)
		for i, r := range hourlyRules {
			day, err := simulateHours(list, r.rule)
			if err != nil {
				return nil, "", fmt.Errorf("seed %d, %s: %w", seed, r.name, err)
			}
			days[i] = append(days[i], day)
		}
	}
	of := func(i int, f func(hourlyDay) float64) (all []float64) {
		for _, d := range days[i] {
			all = append(all, f(d))
		}
		return all
	}
	usd := func(d hourlyDay) float64 { return d.usd }
	wait := func(d hourlyDay) float64 { return d.wait.Seconds() }
	boots := func(d hourlyDay) float64 { return float64(d.boots) }
	savings := func(i int) (all []float64) {
		for k, d := range days[i] {
			all = append(all, 100*(1-d.usd/days[0][k].usd))
		}
		return all
	}
	saved = savings(1)
	for seed, s := range saved {
		if s < hourlyFloor {
			return nil, "", fmt.Errorf("seed %d at %g jobs an hour: the rule saves %.1f %%, less than %g", seed, jobs, s, hourlyFloor)
		}
	}
	var others []string
	for i := 2; i < len(hourlyRules); i++ {
		s := savings(i)
		others = append(others, fmt.Sprintf("%s saves %.1f %% (%.1f to %.1f)", hourlyRules[i].name, Median(s), slices.Min(s), slices.Max(s)))
	}
	return saved, fmt.Sprintf("%.2f USD with the usual and %.2f with the rule, which saves %.1f %% (%.1f to %.1f); boots %g and %g, mean wait of a job %.0f and %.0f s; %s",
		Median(of(0, usd)), Median(of(1, usd)), Median(saved), slices.Min(saved), slices.Max(saved),
		Median(of(0, boots)), Median(of(1, boots)), Median(of(0, wait)), Median(of(1, wait)), strings.Join(others, ", ")), nil
}
