package libburst

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/ckpt/methods"
)

// TestExamples takes the examples through a checkpoint after which they go on, and one
// with which they end, by the method itself: they end as undisturbed ones do.
func TestExamples(t *testing.T) {
	if testing.Short() {
		t.Skip("runs and restarts real programs: slow end-to-end, run by make test")
	}
	out := makeLib(t)
	run(t, nil, "mpicc", "-Wall", "-Wextra", "-Werror", "-Isrc", "-o", filepath.Join(out, "mpi"), "examples/mpi.c", filepath.Join(out, "libburst.a"))
	mpirun := []string{"mpirun", "--oversubscribe", "--allow-run-as-root", "-n", "3"}
	for name, c := range map[string]struct {
		launcher []string
		to       string // which takes a second or more
	}{
		"count":     {nil, "200000000"},
		"count-f90": {nil, "200000000"},
		"mpi":       {mpirun, "40000"},
	} {
		t.Run(name, func(t *testing.T) {
			p := program{t, append(c.launcher, filepath.Join(out, name)), t.TempDir()}
			want, code := p.run(c.to, nil, nil)
			if code != 0 || !strings.HasPrefix(want, "done "+c.to+" ") {
				t.Fatalf("undisturbed: exit code %d: %s", code, want)
			}
			var kept, last *ckpt.Generation
			said, code := p.run(c.to, nil, func(s ckpt.Step) { kept = p.checkpoint(s, false); last = p.checkpoint(s, true) })
			if strings.Contains(said, "done") || code == 0 {
				t.Errorf("stopped, it ended with %d: %s", code, said)
			}
			if kept == nil || last == nil || kept.Iteration < 1 || last.Iteration <= kept.Iteration {
				t.Fatalf("checkpoints %+v, %+v", kept, last)
			}
			for _, from := range []*ckpt.Generation{kept, last} {
				if got, code := p.run(c.to, from, nil); code != 0 || got != want {
					t.Errorf("from iteration %d: exit code %d: %s, want %s", from.Iteration, code, got, want)
				}
			}
			if c.launcher != nil {
				p.line = slices.Concat(c.launcher[:len(c.launcher)-1], []string{"2", filepath.Join(out, name)})
				if got, code := p.run(c.to, last, nil); code == 0 || strings.Contains(got, "done") {
					t.Errorf("on 2 of its 3 ranks: exit code %d: %s", code, got)
				}
			}
		})
	}
}

// TestExamplesInPhases: the examples want checkpoints at the ends of phases, and get them just
// there.
func TestExamplesInPhases(t *testing.T) {
	if testing.Short() {
		t.Skip("runs and restarts real programs: slow end-to-end, run by make test")
	}
	out := makeLib(t)
	const phase, args = 5_000_000, "100000000 5000000"
	for _, name := range []string{"count", "count-f90"} {
		t.Run(name, func(t *testing.T) {
			p := program{t, []string{filepath.Join(out, name)}, t.TempDir()}
			want, code := p.run(args, nil, nil) // nobody hears what it wants
			if code != 0 || !strings.HasPrefix(want, "done 100000000 ") {
				t.Fatalf("undisturbed: exit code %d: %s", code, want)
			}
			var last *ckpt.Generation
			said, code := p.run(args, nil, func(s ckpt.Step) {
				wishes := s.(ckpt.Asker).Asked()
				for i := range 3 {
					select {
					case <-wishes:
					case <-time.After(time.Minute):
						t.Error("it wants no checkpoint")
						return
					}
					was := last
					last = p.checkpoint(s, i == 2)
					if last == nil || last.Iteration < 1 || last.Iteration%phase != 0 || was != nil && last.Iteration != was.Iteration+phase {
						t.Errorf("checkpoint %+v after %+v", last, was)
						return
					}
				}
			})
			if code == 0 || strings.Contains(said, "done") || last == nil {
				t.Fatalf("stopped, it ended with %d: %s", code, said)
			}
			if got, code := p.run(args, last, nil); code != 0 || got != want {
				t.Errorf("from iteration %d: exit code %d: %s, want %s", last.Iteration, code, got, want)
			}
		})
	}
}

// program is an example's command line.
type program struct {
	t    *testing.T
	line []string
	dir  string
}

// run runs it to its end, and returns what it printed. with is called once it has begun
// to count.
func (p program) run(to string, from *ckpt.Generation, with func(ckpt.Step)) (said string, code int) {
	p.t.Helper()
	m, err := methods.New("libburst", methods.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	var out, errs bytes.Buffer
	env := append(os.Environ(), "OMPI_MCA_orte_tmpdir_base="+p.dir, "OMPI_MCA_mpi_yield_when_idle=1")
	s, err := m.Start(p.t.Context(), ckpt.Launch{Args: append(p.line[:len(p.line):len(p.line)], strings.Fields(to)...), Dir: p.dir, Env: env, Stdout: &out, Stderr: &errs, Scratch: p.dir, From: from})
	if err != nil {
		p.t.Fatal(err)
	}
	if with != nil {
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if now, _ := s.(ckpt.Teller).Iteration(); now > 0 {
				break
			}
			if time.Now().After(end) {
				p.t.Errorf("it does not count: %s", errs.String())
				break
			}
		}
		with(s)
	}
	if code, err = s.Wait(); err != nil {
		p.t.Fatal(err)
	}
	if p.t.Failed() {
		p.t.Log(errs.String())
	}
	return out.String(), code
}

func (p program) checkpoint(s ckpt.Step, stop bool) *ckpt.Generation {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	into, err := os.MkdirTemp(p.dir, "gen-")
	if err != nil {
		p.t.Error(err)
		return nil
	}
	made, err := s.Checkpoint(ctx, into, stop)
	if err != nil {
		p.t.Error(err)
		return nil
	}
	return &ckpt.Generation{Dir: into, Manifest: ckpt.Manifest{Method: "libburst", Iteration: made.Iteration}}
}
