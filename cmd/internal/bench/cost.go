package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/power"
)

const (
	costInstances = 1_000_000
	costDays      = 400
	costUsers     = 60
	costRuns      = 3 // of each sum
)

// costRecords measures the sums of a large ledger.
func costRecords() Bench {
	return Bench{
		Name: "cost-1m-records",
		Method: fmt.Sprintf("%d instances of %d days in a store's file (rows: boot, job, mostly idle time; %d users of 12 accounts, jobs of 1 to 16 nodes, 5 pools, 9 offerings, spot and on demand, of two providers, 200 that live; each job's run, with a step of burst-srun that has written checkpoints), "+
			"written by burstd's own way; store.Usage with ledger.Owed, as for burst cost, best of %d: the worst of all keys with the default --since (30d), and of all but job with --since 400d; with job 400d it prints a line for each of the year's jobs; beside it, and not in the figure, the days of the user who has most jobs",
			costInstances, costDays, costUsers, costRuns),
		Unit: "s", Better: Lower, Goal: 1, Long: true,
		Run: func(ctx context.Context, env Env) ([]float64, error) { return costSums(ctx, env, costInstances) },
	}
}

// costSums writes a ledger of so many instances and measures its sums.
func costSums(ctx context.Context, env Env, instances int) (samples []float64, err error) {
	s, err := store.Open(ctx, filepath.Join(env.Dir, "burst.db"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	now, began := time.Now(), time.Now()
	rows, err := costLedger(ctx, s, instances, now)
	if err != nil {
		return nil, err
	}
	env.note("%d rows, which took %.0f s to write", rows, time.Since(began).Seconds())
	worst, texts := 0.0, []string{}
	for _, days := range []int{30, costDays} {
		for _, by := range append(slices.Clone(api.UsageKeys), "") {
			q := store.UsageQuery{Since: now.Add(-time.Duration(days) * 24 * time.Hour), By: by, UID: -1}
			if by == "" {
				q.By, q.UID, by = "day", 1000, "its user's own"
			}
			best, lines, err := costSum(ctx, s, q, now)
			if err != nil {
				return nil, err
			}
			if q.UID < 0 && (days == 30 || by != "job") {
				worst = max(worst, best.Seconds())
			}
			texts = append(texts, fmt.Sprintf("%s %dd %.2f s (%d lines)", by, days, best.Seconds(), lines))
		}
	}
	env.note("%s", strings.Join(texts, ", "))
	return []float64{worst}, nil
}

// costSum is how long the best of some of the same sums takes, as for burst cost.
func costSum(ctx context.Context, s *store.Store, q store.UsageQuery, now time.Time) (best time.Duration, lines int, err error) {
	best = time.Hour
	for range costRuns {
		began := time.Now()
		q.Owed = func(instances []power.Instance, rows []ledger.Row) []ledger.Row {
			return ledger.Owed(rows, ledger.Input{Instances: instances, Price: func(string, cloud.Offering) ledger.Price { return ledger.Price{} },
				Increment: func(string, cloud.Offering) price.Increment { return price.PerHour }}, now)
		}
		all, err := s.Usage(ctx, q)
		if err != nil {
			return 0, 0, err
		}
		best, lines = min(best, time.Since(began)), len(all)
		var lost, written float64
		for _, u := range all {
			lost, written = lost+u.Lost.USD, written+u.Checkpoints.USD
		}
		if told := lost > 0 && written > 0; told != (q.By != "provider" && q.By != "offering") {
			return 0, 0, fmt.Errorf("by %s evictions have cost %.2f USD, and checkpoints %.2f", q.By, lost, written)
		}
	}
	return best, lines, nil
}

// costLedger writes the rows of instances that were launched evenly over the days.
func costLedger(ctx context.Context, s *store.Store, instances int, now time.Time) (n int, err error) {
	dice := rand.New(rand.NewPCG(1, 2))
	seconds := func(mean float64) time.Duration { return time.Duration(dice.ExpFloat64()*mean*1e6) * time.Microsecond }
	gap := costDays * 24 * time.Hour / time.Duration(instances)
	var rows []ledger.Row
	var runs []history.Run
	var live []power.Instance
	for i, job := 0, uint32(1); i < instances; job++ {
		nodes := min(1<<dice.IntN(5), instances-i) // 1 to 16
		user := int(float64(costUsers) * dice.Float64() * dice.Float64())
		pool := (user + dice.IntN(2)) % 5 // each uses two of them
		r := ledger.Row{Provider: "east", Pool: fmt.Sprint("pool", pool), Share: 1, USDPerHourOnDemand: 0.34,
			Offering: cloud.Offering{Type: []string{"c6i.2xlarge", "c5.2xlarge", "hpc6a.48xlarge", "m6i.large", "vhp-8c-16gb-amd"}[pool], Zone: "us-east-1" + string(rune('a'+dice.IntN(2))), Market: cloud.Spot},
			Price:    ledger.Price{USDPerHour: 0.1 + dice.Float64()/10, Date: now, Source: "spot-history"}}
		if pool == 4 {
			r.Provider, r.Offering.Zone, r.Offering.Market = "lon", "lhr", cloud.OnDemand
		}
		run := seconds(5400)
		began := now.Add(-costDays*24*time.Hour + time.Duration(i)*gap + 90*time.Second)
		h := history.Run{Job: job, Submitted: began, Started: began, Begun: began, Ended: began.Add(time.Duration(nodes-1)*gap + run),
			UID: 1000 + user, User: fmt.Sprint("user", user), Account: fmt.Sprint("account", user%12), Pool: r.Pool, Nodes: nodes, State: "COMPLETED"}
		for range nodes {
			launched := now.Add(-costDays*24*time.Hour + time.Duration(i)*gap)
			r.Instance, r.Node = fmt.Sprintf("i-%017x", dice.Uint64()>>4), fmt.Sprint("c", i%2000)
			cuts := []time.Time{launched, launched.Add(90 * time.Second), launched.Add(90*time.Second + run), launched.Add(390*time.Second + run)}
			if dice.IntN(5) == 0 {
				cuts, h.Restarts = cuts[:3], h.Restarts+1 // evicted
			}
			for k := range len(cuts) - 1 {
				p := r
				p.From, p.To, p.UID, p.Open = cuts[k], cuts[k+1], -1, instances-i < 200 && k == len(cuts)-2
				if k == 1 {
					p.Job, p.UID, p.User, p.Account = job, h.UID, h.User, h.Account
				}
				rows = append(rows, p)
			}
			if instances-i < 200 {
				live = append(live, power.Instance{Provider: r.Provider, Assigned: r.Node,
					Instance: cloud.Instance{ID: r.Instance, Pool: r.Pool, Offering: r.Offering, State: cloud.Running, Launched: launched}})
			}
			i++
		}
		if h.Ended.Before(now) {
			runs = append(runs, h)
		}
		if len(rows) > 20_000 || i == instances {
			if err := cmp.Or(s.PutUsage(ctx, rows), costWritten(ctx, s, runs)); err != nil {
				return n, err
			}
			n += len(rows)
			rows, runs = rows[:0], runs[:0]
		}
	}
	return n, s.CommitPower(ctx, power.Change{Instances: live})
}

// costWritten writes runs, each of a step that wrote checkpoints and did a part of its work again after evictions.
func costWritten(ctx context.Context, s *store.Store, runs []history.Run) error {
	var c session.Change
	for _, r := range runs {
		k, token := session.Key{Job: r.Job, Attempt: r.Restarts, Step: "0"}, "t"
		c.Opened = append(c.Opened, session.Session{UID: r.UID, Hello: session.Hello{Key: k, Token: token}})
		c.Closed = append(c.Closed, session.End{Key: k, Token: token, Summary: &session.Summary{Ran: r.Time(), Checkpoints: 10,
			Writing: r.Time() / 50, Restarts: r.Restarts, Lost: time.Duration(r.Restarts) * r.Time() / 100}})
	}
	return cmp.Or(s.CommitSession(ctx, c), s.PutRuns(ctx, runs))
}
