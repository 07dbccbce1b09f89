package bench

import (
	"context"
	"fmt"
)

// ftName is a benchmark's name.
func ftName(method string) string { return "ft-preemptive-" + method + "-ratio" }

// ftBenches are the ratios of the preemptive cases to the undisturbed run.
func ftBenches() (all []Bench) {
	type figures struct{ runs []FTRun }
	undisturbed := map[int]func(context.Context, Env) (figures, error){}
	measure := func(c FTCase) func(context.Context, Env) (figures, error) {
		return func(ctx context.Context, env Env) (figures, error) {
			runs, err := FT(ctx, env, FTOptions{Size: FTDefault(), Cases: []FTCase{c}, Runs: 1, Say: func(string, ...any) {}})
			return figures{runs}, err
		}
	}
	for _, m := range ftMethods {
		if undisturbed[m.nodes] == nil {
			undisturbed[m.nodes] = once(measure(FTCase{Method: FTNone, Nodes: m.nodes}))
		}
		base, c := undisturbed[m.nodes], FTCase{Method: m.name, Strategy: "preemptive", Nodes: m.nodes, Evicted: true}
		all = append(all, Bench{
			Name: ftName(m.name), Unit: "ratio", Better: Lower, Goal: m.goal, Long: true,
			Method: fmt.Sprintf("time of a run through two evictions with ckpt=%s strategy=preemptive, from the script's first act to its last, over that of a run by srun without any; on %d nodes; %s", m.name, m.nodes, FTMethod(FTDefault())),
			Absent: func(env Env) string { return ftAbsent(env, m.name, m.tool) },
			Run: func(ctx context.Context, env Env) ([]float64, error) {
				b, err := base(ctx, env)
				if err != nil {
					return nil, err
				}
				f, err := measure(c)(ctx, env)
				if err != nil {
					return nil, err
				}
				r, against := f.runs[0], b.runs[0]
				if _, err := ftSame(against.Checksum, r); err != nil {
					return nil, err
				}
				env.note("%.1f s over %.1f s, of which %.1f s idle and %.1f s computed twice", r.Seconds, against.Seconds, r.IdleSeconds, r.LostSeconds)
				return []float64{r.Seconds / against.Seconds}, nil
			},
		})
	}
	return all
}

// FTResults are the rows that are benchmarks, as `burst bench` writes them.
func FTResults(rows []FTRow) []Result {
	all := []Result{}
	for _, r := range rows {
		if r.Strategy == "preemptive" {
			all = append(all, Result{Name: ftName(r.Method), Value: r.Ratio, Unit: "ratio", Better: Lower, Goal: r.Goal, Holds: r.Holds})
		}
	}
	return all
}
