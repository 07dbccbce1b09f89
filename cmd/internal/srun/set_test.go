package srun

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

func TestMembers(t *testing.T) {
	at := func(h int) time.Time { return time.Unix(0, 0).Add(time.Duration(h) * time.Hour) }
	run := func(name string, began int, components ...int) steprecord.Step {
		return steprecord.Step{Name: name, Attempt: 1, Began: at(began), Components: components}
	}
	done := func(e steprecord.Step, ended int) steprecord.Step { e.Done, e.Ended = true, at(ended); return e }
	for _, c := range []struct {
		name  string
		steps []steprecord.Step
		want  string
		fails string
	}{
		{"nothing", nil, "", ""},
		{"both", []steprecord.Step{run("0", 1, 0), run("1", 1, 1)}, "0 1", ""},
		{"of an earlier attempt", []steprecord.Step{{Name: "0", Components: []int{0}}, run("1", 1, 0), run("2", 1, 1)}, "1 2", ""},
		{"one alone", []steprecord.Step{run("0", 1, 0)}, "", "component 1"},
		{"one is not protected", []steprecord.Step{run("0", 1, 0), run("1", 1)}, "", "component 1"},
		{"one had ended before", []steprecord.Step{done(run("0", 1, 1), 2), run("1", 3, 0)}, "1", ""},
		{"one has ended beside it", []steprecord.Step{run("0", 1, 0), done(run("1", 1, 1), 2)}, "", "step 1 has ended"},
		{"that is not run again", []steprecord.Step{run("0", 1, 0), done(run("post", 1, 1), 2)}, "0", ""},
		{"that was not run again", []steprecord.Step{run("0", 1, 0), done(steprecord.Step{Name: "post", Components: []int{1}}, 2)}, "0", ""},
		{"one step of all before", []steprecord.Step{done(run("0", 1, 0, 1), 2), run("1", 3, 0)}, "1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := steprecord.Record{Attempt: 1, Steps: c.steps}
			names, err := members(r, 2, isDoneIn(r))
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Errorf("%v, want %q", err, c.fails)
				}
				return
			}
			if err != nil || strings.Join(names, " ") != c.want {
				t.Errorf("%q, %v, want %q", names, err, c.want)
			}
		})
	}
}

// TestStrategyOfParts: a part has no timer of its own, nor is it protected by one alone.
func TestStrategyOfParts(t *testing.T) {
	f := facts{job: step.Job{Place: step.Batch, ID: 17, Components: 2}, burstd: true}
	f.call.Parts = make([]step.Part, 1)
	f.merged.Method = directive.BySignal
	f.merged.Strategy = directive.Periodic
	env := func(string) string { return "" }
	if d := after(f, env); !d.Direct || !strings.Contains(d.Why, "together") {
		t.Errorf("%+v", d)
	}
	f.call.Parts = make([]step.Part, 2) // a : b
	if d := after(f, env); d.Direct {
		t.Errorf("%+v", d)
	}
}
