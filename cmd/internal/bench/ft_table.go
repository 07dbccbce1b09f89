package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// FTRow is a case's runs, and what comes of their comparison.
type FTRow struct {
	FTRun              // medians of the runs
	Runs    []FTRun    `json:"runs"`
	Ratio   float64    `json:"ratio"`  // of the times, to the undisturbed run's
	Spread  [2]float64 `json:"spread"` // least and greatest ratio of a run
	Booted  float64    `json:"booted"` // the ratio to the undisturbed run and a node's boot for each eviction
	Goal    *float64   `json:"goal"`   // of Booted; null: none
	Holds   bool       `json:"holds"`
	Savings float64    `json:"savings"` // of the cost of all instances, to that of the undisturbed run on demand
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
		if base := by[c.undisturbed()]; base != nil {
			rows = append(rows, ftRow(by[c], base))
		}
	}
	return rows
}

func ftRow(runs, base []FTRun) FTRow {
	row := FTRow{FTRun: runs[0], Runs: runs, Holds: true}
	of := func(runs []FTRun, what func(FTRun) float64) float64 {
		var all []float64
		for _, r := range runs {
			all = append(all, what(r))
		}
		return Median(all)
	}
	seconds := func(r FTRun) float64 { return r.Seconds }
	all := func(r FTRun) float64 { return r.AllUSD }
	row.Seconds = of(runs, seconds)
	row.StartSeconds = of(runs, func(r FTRun) float64 { return r.StartSeconds })
	row.Checkpoints = int(of(runs, func(r FTRun) float64 { return float64(r.Checkpoints) }))
	row.CheckpointSeconds = of(runs, func(r FTRun) float64 { return r.CheckpointSeconds })
	row.IdleSeconds = of(runs, func(r FTRun) float64 { return r.IdleSeconds })
	row.LostIterations = int(of(runs, func(r FTRun) float64 { return float64(r.LostIterations) }))
	row.LostSeconds = of(runs, func(r FTRun) float64 { return r.LostSeconds })
	row.USD = of(runs, func(r FTRun) float64 { return r.USD })
	row.AllUSD = of(runs, all)
	undisturbed := of(base, seconds)
	ratio := func(r FTRun) float64 { return r.Seconds / undisturbed }
	row.Ratio = round(row.Seconds / undisturbed)
	byRatio := func(a, b FTRun) int { return int(1e6 * (ratio(a) - ratio(b))) }
	row.Spread = [2]float64{round(ratio(slices.MinFunc(runs, byRatio))), round(ratio(slices.MaxFunc(runs, byRatio)))}
	row.BootSeconds = of(runs, func(r FTRun) float64 { return r.BootSeconds })
	row.Booted = round(row.Seconds / (undisturbed + float64(len(row.Restarts))*row.BootSeconds))
	row.Savings = round(1 - row.AllUSD/of(base, all))
	if goal := ftGoal(row.FTCase); goal != 0 {
		row.Goal, row.Holds = &goal, row.Booted <= goal
	}
	return row
}

// ftGoal is the ratio that a case should not exceed; 0: none.
func ftGoal(c FTCase) float64 {
	for _, m := range ftMethods {
		if m.name == c.Method && c.Strategy == ftPreemptive {
			return m.goal
		}
	}
	return 0
}

// FTMethod says how the runs were made.
func FTMethod(s FTSize) string {
	return fmt.Sprintf("heat, %d x %d cells, %d iterations, %d ranks, each with a node of its own but for one-node cases; "+
		"--pace: an iteration takes at least %s, so that the time does not depend on how fast this host computes. "+
		"Real Slurm, burstd, MUNGE and MPI; local instances (a slurmd, no VM boot). "+
		"The node of the first rank is evicted at 1/3 and 2/3 of the iterations, with a notice of %s. Periodic: every %s, which is %d iterations, and nothing on the notice.",
		s.Cells, s.Cells, s.Iterations, ftRanks, s.Pace, s.Notice, s.interval(), ftFrequent)
}

// FTPaper is what the paper says in words and in its Table 8.
const FTPaper = `Beside it, HPC@Cloud's paper, 5.3: heat, 2048 x 2048 cells, 200 iterations on AWS, one instance ended at 1/3 and at 2/3 of them; periodic: 20 checkpoints,
every 10 iterations; preemptive: 2. Its text gives savings to the run without fault tolerance on demand from 48 % (BLCR periodic) to 87 % (ULFM);
its times and ratios are in a drawing only. On another machine, with other prices and a real boot, they cannot be compared digit by digit.`

// ftPaperCheckpoints are those of the paper's Table 8.
func ftPaperCheckpoints(c FTCase) string {
	switch {
	case c.Strategy == "" && !c.Evicted:
		return "0"
	case c.Strategy == "" || c.Method == "signal" || c.Method == "command":
		return "-"
	case c.Strategy == ftPeriodic:
		return "20"
	}
	return "2"
}

// FTTable prints the rows.
func FTTable(out io.Writer, rows []FTRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CASE\tTIME\tRATIO\tWITH BOOTS\tGOAL\tCHECKPOINTS\tPAPER'S\tTHEIR TIME\tIDLE\tLOST\tRESTARTED FROM\tFIRST START\tUSD\tALL USD\tSAVED")
	for _, r := range rows {
		goal, saved, ratio := "", "", fmt.Sprintf("%.3f", r.Ratio)
		if r.Goal != nil {
			goal = fmt.Sprintf("%g: %s", *r.Goal, map[bool]string{true: "holds", false: "MISSED"}[r.Holds])
		}
		if r.Evicted {
			saved = fmt.Sprintf("%.0f %%", 100*r.Savings)
		}
		if len(r.Runs) > 1 {
			ratio += fmt.Sprintf(" (%.3f to %.3f of %d)", r.Spread[0], r.Spread[1], len(r.Runs))
		}
		from := strings.Trim(fmt.Sprint(r.Restarts), "[]")
		fmt.Fprintf(w, "%s\t%.1f s\t%s\t%.3f\t%s\t%d\t%s\t%.1f s\t%.1f s\t%d, %.1f s\t%s\t%.1f s\t%.5f\t%.5f\t%s\n", r.Name(), r.Seconds, ratio, r.Booted, goal,
			r.Checkpoints, ftPaperCheckpoints(r.FTCase), r.CheckpointSeconds, r.IdleSeconds, r.LostIterations, r.LostSeconds, from, r.StartSeconds, r.USD, r.AllUSD, saved)
	}
	return w.Flush()
}
