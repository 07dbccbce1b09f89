package bench

import (
	"context"
	"fmt"
)

// ftName is a benchmark's name.
func ftName(method string) string { return "ft-preemptive-" + method + "-ratio" }

// ftBenches are the ratios of the preemptive cases to the undisturbed run, as
// run measures them.
func ftBenches(run func(context.Context, Env, ftTask) (FTRun, error)) (all []Bench) {
	undisturbed := map[int]func(context.Context, Env) (FTRun, error){}
	measure := func(c FTCase) func(context.Context, Env) (FTRun, error) {
		return func(ctx context.Context, env Env) (FTRun, error) {
			return run(ctx, env, ftTask{c, FTDefault(), fmt.Sprint("f", c.Nodes), func(string, ...any) {}})
		}
	}
	for _, m := range ftMethods {
		if undisturbed[m.nodes] == nil {
			undisturbed[m.nodes] = once(measure(FTCase{Method: FTNone, Nodes: m.nodes}))
		}
		base, c := undisturbed[m.nodes], FTCase{Method: m.name, Strategy: ftPreemptive, Nodes: m.nodes, Evicted: true}
		less := ""
		if m.boots {
			less = ", less a node's boot for each eviction,"
		}
		all = append(all, Bench{
			Name: ftName(m.name), Unit: "ratio", Better: Lower, Goal: m.goal, Long: true,
			Method: fmt.Sprintf("time of a run through two evictions with ckpt=%s strategy=preemptive, from the script's first act to its last%s "+
				"over that of a run by srun without any; nodes: %d; %s", m.name, less, m.nodes, FTMethod(FTDefault())),
			Absent: func(env Env) string { return ftAbsent(env, m.name, m.tool) },
			Run: func(ctx context.Context, env Env) ([]float64, error) {
				b, err := base(ctx, env)
				if err != nil {
					return nil, err
				}
				r, err := measure(c)(ctx, env)
				if err != nil {
					return nil, err
				}
				if _, err := ftSame(b.Checksum, r); err != nil {
					return nil, err
				}
				row := ftRow([]FTRun{r}, []FTRun{b})
				env.note("%.1f s, %.1f s of it idle and %.1f s computed twice, over %.1f s; the ratio is %g, and %g less %d boots of %.1f s",
					r.Seconds, r.IdleSeconds, r.LostSeconds, b.Seconds, row.Ratio, row.LessBoots, len(r.Restarts), r.BootSeconds)
				return []float64{row.judged()}, nil
			},
		})
	}
	return all
}

// FTResults are the rows that are benchmarks, as `burst bench` writes them.
func FTResults(rows []FTRow) []Result {
	all := []Result{}
	for _, r := range rows {
		if r.Strategy == ftPreemptive {
			all = append(all, Result{Name: ftName(r.Method), Value: r.judged(), Unit: "ratio", Better: Lower, Goal: r.Goal, Holds: r.Holds})
		}
	}
	return all
}
