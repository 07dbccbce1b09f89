package bench

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// FTRow is a case's runs, and what comes of their comparison.
type FTRow struct {
	FTRun             // medians of the runs
	Runs   []FTRun    `json:"runs"`
	Ratio  float64    `json:"ratio"`  // of the times, to the undisturbed run's
	Spread [2]float64 `json:"spread"` // least and greatest ratio of a run
	// LessBoots is the ratio of the time without a node's boot for each eviction.
	LessBoots float64  `json:"ratio_less_boots"`
	Goal      *float64 `json:"goal"` // of judged; null: none
	Holds     bool     `json:"holds"`
	Savings   float64  `json:"savings"` // of the cost of all instances, to that of the undisturbed run on demand
}

// FTRows sums up runs by case, in their order. Cases without an undisturbed
// run to compare them with are left out.
func FTRows(runs []FTRun) (rows []FTRow) {
	by := map[FTCase][]FTRun{}
	var order []FTCase
	for _, r := range runs {
		if by[r.FTCase] == nil {
			order = append(order, r.FTCase)
		}
		by[r.FTCase] = append(by[r.FTCase], r)
	}
	for _, c := range order {
		if base := by[c.Undisturbed()]; base != nil {
			rows = append(rows, ftRow(by[c], base))
		}
	}
	return rows
}

func ftRow(runs, base []FTRun) FTRow {
	row := FTRow{FTRun: runs[0], Runs: runs, Holds: true}
	for _, f := range []func(*FTRun) *float64{
		func(r *FTRun) *float64 { return &r.Seconds },
		func(r *FTRun) *float64 { return &r.StartSeconds },
		func(r *FTRun) *float64 { return &r.BootSeconds },
		func(r *FTRun) *float64 { return &r.IterationSeconds },
		func(r *FTRun) *float64 { return &r.ComputeSeconds },
		func(r *FTRun) *float64 { return &r.CheckpointSeconds },
		func(r *FTRun) *float64 { return &r.IdleSeconds },
		func(r *FTRun) *float64 { return &r.LostSeconds },
		func(r *FTRun) *float64 { return &r.USD },
		func(r *FTRun) *float64 { return &r.AllUSD },
	} {
		*f(&row.FTRun) = ftMedian(runs, func(r FTRun) float64 { return *f(&r) })
	}
	row.Checkpoints = ftMiddle(runs, func(r FTRun) int { return r.Checkpoints })
	row.LostIterations = ftMiddle(runs, func(r FTRun) int { return r.LostIterations })
	row.Restarts = make([]int, len(runs[0].Restarts)) // as many in each run of a case
	for i := range row.Restarts {
		row.Restarts[i] = ftMiddle(runs, func(r FTRun) int { return r.Restarts[i] })
	}
	undisturbed := ftMedian(base, func(r FTRun) float64 { return r.Seconds })
	row.Ratio = round(row.Seconds / undisturbed)
	byTime := func(a, b FTRun) int { return cmp.Compare(a.Seconds, b.Seconds) }
	row.Spread = [2]float64{round(slices.MinFunc(runs, byTime).Seconds / undisturbed), round(slices.MaxFunc(runs, byTime).Seconds / undisturbed)}
	row.LessBoots = round((row.Seconds - float64(len(row.Restarts))*row.BootSeconds) / undisturbed)
	row.Savings = round(1 - row.AllUSD/ftMedian(base, func(r FTRun) float64 { return r.AllUSD }))
	if goal := ftOf(row.FTCase).goal; goal != 0 {
		row.Goal, row.Holds = &goal, row.judged() <= goal
	}
	return row
}

func ftMedian(runs []FTRun, what func(FTRun) float64) float64 {
	var all []float64
	for _, r := range runs {
		all = append(all, what(r))
	}
	return Median(all)
}

// ftMiddle is the median of what is counted; of two in the middle the lower, so
// that it is a run's.
func ftMiddle(runs []FTRun, what func(FTRun) int) int {
	var all []int
	for _, r := range runs {
		all = append(all, what(r))
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}

// judged is the ratio that the goal is of, and the benchmark's value.
func (r FTRow) judged() float64 {
	if ftOf(r.FTCase).boots {
		return r.LessBoots
	}
	return r.Ratio
}

// ftOf is a preemptive case's method, or ULFM's; of others it says that there is no goal.
func ftOf(c FTCase) ftMethod {
	if c.outlives() && c.Evicted {
		return ftMethod{name: FTULFM, nodes: c.Nodes, goal: ftULFMGoal}
	}
	for _, m := range ftMethods {
		if m.name == c.Method && c.Strategy == ftPreemptive {
			return m
		}
	}
	return ftMethod{}
}

// FTMethod says how the runs were made.
func FTMethod(s FTSize) string {
	return fmt.Sprintf("heat, %d x %d cells, %d iterations, %d ranks, each with a node of its own but for one-node cases; "+
		"--pace: an iteration takes at least %s, so that the time does not depend on how fast this host computes. "+
		"Real Slurm, burstd, MUNGE and MPI; local instances (a slurmd, no VM boot). "+
		"The node of the first rank is evicted at 1/3 and 2/3 of the iterations, with a notice of %s; of ulfm the other one, for its job lives on its batch host, and it is compared with itself, undisturbed. Periodic: every %s, which is %d iterations, and nothing on the notice.",
		s.Cells, s.Cells, s.Iterations, ftRanks, s.Pace, s.Notice, s.interval(), ftFrequent)
}

// FTTable prints the rows.
func FTTable(out io.Writer, rows []FTRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CASE\tTIME\tRATIO\tLESS BOOTS\tGOAL\tCHECKPOINTS\tTHEIR TIME\tIDLE\tLOST\tRESTARTED FROM\tFIRST START\tUSD\tALL USD\tSAVED")
	for _, r := range rows {
		ratio := fmt.Sprintf("%.3f", r.Ratio)
		if len(r.Runs) > 1 {
			ratio += fmt.Sprintf(" (%.3f to %.3f of %d)", r.Spread[0], r.Spread[1], len(r.Runs))
		}
		from := strings.Trim(fmt.Sprint(r.Restarts), "[]")
		fmt.Fprintf(w, "%s\t%.1f s\t%s\t%.3f\t%s\t%d\t%.1f s\t%.1f s\t%d, %.1f s\t%s\t%.1f s\t%.5f\t%.5f\t%s\n", r.Name(), r.Seconds, ratio, r.LessBoots, r.goal(),
			r.Checkpoints, r.CheckpointSeconds, r.IdleSeconds, r.LostIterations, r.LostSeconds, from, r.StartSeconds, r.USD, r.AllUSD, r.saved())
	}
	i := slices.IndexFunc(rows, func(r FTRow) bool { return r.ComputeSeconds > 0 }) // heat-ulfm does not tell
	if err := w.Flush(); err != nil || i < 0 {
		return err
	}
	_, err := fmt.Fprintf(out, "\nOf the %.3f s of an iteration heat computes for %.4f s, and sleeps for the rest, but not while it is stopped.\n", rows[i].IterationSeconds, rows[i].ComputeSeconds)
	return err
}

// goal says of which ratio it is, and whether it holds.
func (r FTRow) goal() string {
	if r.Goal == nil {
		return ""
	}
	of := "ratio"
	if ftOf(r.FTCase).boots {
		of = "less boots"
	}
	return fmt.Sprintf("%s %g: %s", of, *r.Goal, map[bool]string{true: "holds", false: "MISSED"}[r.Holds])
}

func (r FTRow) saved() string {
	if !r.Evicted {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*r.Savings)
}
