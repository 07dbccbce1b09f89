package methods

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// libProgramBinary is the test program, with the library's own sources in it.
var libProgramBinary = sync.OnceValues(func() (string, error) {
	const lib = "../../../contrib/libburst/src/"
	program := filepath.Join(libTemp, "program")
	out, err := exec.Command("cc", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"+lib, "-o", program, "testdata/libburst.c", lib+"burst.c", lib+"link.c").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return program, nil
})

func byLibburst(t *testing.T, count ...string) *place {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("NOT TESTED: no C compiler is here; make deps installs gcc")
	}
	program, err := libProgramBinary()
	if err != nil {
		t.Fatal(err)
	}
	return newPlace(t, candidate{name: "libburst", program: []string{program}, count: count, wipe: func(string) error { return nil }})
}

func TestLibburst(t *testing.T) {
	if testing.Short() {
		t.Skip("kills and restarts real processes: slow end-to-end, run by make test")
	}
	c := byLibburst(t).c
	conform(t, c)
}

// order takes a checkpoint that may fail.
func (p *place) order(r *running, stop bool, limit time.Duration) (ckpt.Made, string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	into := p.folder()
	made, err := r.step.Checkpoint(ctx, into, stop)
	return made, into, err
}

func TestLibburstFaults(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		stop bool
		want string // of the error; empty: a good checkpoint
		says string // of the program
		// limit is the order's; 0: longEnough
		limit time.Duration
		ends  bool // the program does
	}{
		"good":                          {says: "commit 0"},
		"good, with stop":               {stop: true, says: "commit 2", ends: true},
		"does not end when told":        {args: []string{"-fault=stay"}, stop: true, says: "commit 2", limit: 5 * time.Second, ends: true},
		"never asks":                    {args: []string{"-fault=never"}, want: "has not asked burst_should_checkpoint", limit: time.Second},
		"never asks, with stop":         {args: []string{"-fault=never"}, stop: true, want: "has not asked burst_should_checkpoint", limit: time.Second},
		"never calls":                   {args: []string{"-fault=none"}, want: "no process of the step has called burst_init", limit: time.Second},
		"commits too late":              {args: []string{"-slow=2000"}, want: "not committed it in time", says: "commit -3", limit: time.Second},
		"commits too late, with stop":   {args: []string{"-slow=2000"}, stop: true, want: "not committed it in time", says: "commit -3", limit: time.Second},
		"aborts":                        {args: []string{"-fault=abort"}, want: "could not write it", says: "commit 0"},
		"writes nothing":                {args: []string{"-fault=empty"}, want: "without content", says: "commit -5"},
		"begins twice":                  {args: []string{"-fault=twice"}, says: "again -2"},
		"has a short buffer":            {args: []string{"-fault=short"}, says: "short -6"},
		"dies between begin and commit": {args: []string{"-fault=die"}, want: ckpt.ErrFinishing.Error(), ends: true},
		"leaves between the two":        {args: []string{"-fault=leave"}, want: "closed its connection", limit: 5 * time.Second},
		"has a child":                   {args: []string{"-fault=fork"}, says: "commit 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.limit == 0 {
				c.limit = longEnough
			}
			p := byLibburst(t, c.args...)
			r := p.counting(1_000_000, nil)
			r.awaitAt(5)
			made, into, err := p.order(r, c.stop, c.limit)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want %q\n%s", err, c.want, r.out.end())
			}
			if c.says != "" {
				r.awaitText(c.says)
			}
			if c.ends {
				r.wait()
			} else {
				r.awaitAt(r.out.last() + 3) // it goes on
			}
			if err != nil {
				return
			}
			if last := r.out.last(); made.Iteration < 5 || made.Iteration > int64(last) {
				t.Errorf("the checkpoint is of iteration %d, and the program at %d", made.Iteration, last)
			}
			p.c.count = nil
			p.restart(int(made.Iteration)+20, p.generation(into, made))
		})
	}
}

// awaitText waits until the output has a line.
func (r *running) awaitText(line string) {
	r.t.Helper()
	for limit := time.After(longEnough); !strings.Contains("\n"+r.out.String(), "\n"+line+"\n"); {
		r.out.mu.Lock()
		more := r.out.more
		r.out.mu.Unlock()
		if strings.Contains("\n"+r.out.String(), "\n"+line+"\n") {
			return
		}
		select {
		case <-more:
		case <-limit:
			r.t.Fatalf("%q does not come:\n%s", line, r.out.end())
		}
	}
}

// TestLibburstAfterALateOne: an order that was missed does not spoil the next.
func TestLibburstAfterALateOne(t *testing.T) {
	t.Parallel()
	p := byLibburst(t, "-slow=1000")
	r := p.counting(1_000_000, nil)
	r.awaitAt(5)
	if _, _, err := p.order(r, true, 300*time.Millisecond); err == nil {
		t.Fatal("a checkpoint that took a second was in time after 300 ms")
	}
	g := p.checkpoint(r, false) // while the program still writes the one before
	r.awaitText("commit 0")
	if out := r.out.String(); strings.Count(out, "commit ") != 2 || strings.Count(out, "commit -3\n") != 1 {
		t.Errorf("%s", r.out.end())
	}
	p.c.count = nil
	p.restart(int(g.Iteration)+20, g)
}

// TestLibburstTells: how far the program is, while it runs and after.
func TestLibburstTells(t *testing.T) {
	t.Parallel()
	p := byLibburst(t)
	r := p.counting(50, nil)
	teller, ok := r.step.(ckpt.Teller)
	if !ok {
		t.Fatal("it does not tell")
	}
	r.awaitAt(10)
	if now, of := teller.Iteration(); now < 9 || of != 50 {
		t.Errorf("%d of %d, and it is beyond 9 of 50", now, of)
	}
	r.finish(0)
	if now, of := teller.Iteration(); now != 50 || of != 50 {
		t.Errorf("in the end %d of %d", now, of)
	}
}

// TestLibburstEnvironment: what reaches the program, and what is refused.
func TestLibburstEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		args string // with | before the program
		env  string
		bad  bool
	}{
		"nothing said":         {"srun -n 2 | app", "", false},
		"all":                  {"srun --export=ALL,A=1 | app", "", false},
		"all, apart":           {"srun --export all | app", "", false},
		"none":                 {"srun --export=NONE | app", "", true},
		"none, in short":       {"srun --exp=NONE | app", "", true},
		"none, apart":          {"srun --expor NONE | app", "", true},
		"another option":       {"srun --exclusive=NONE --ex | app", "", false},
		"some":                 {"srun --export A,B | app", "", true},
		"the ones":             {"srun --export=A,BURST_LIB,BURST_LIB_RESTART | app", "", false},
		"one of them":          {"srun --export=A,BURST_LIB | app", "", true},
		"sbatch's":             {"srun | app", "NONE", true},
		"srun's over sbatch's": {"srun --export=ALL | app", "NONE", false},
		"the program's own":    {"srun | app --export=NONE", "", false},
		"no srun":              {"| app", "NONE", false},
	} {
		head, program, _ := strings.Cut(c.args, "|")
		before := strings.Fields(head)
		l := launch{Args: append(before, strings.Fields(program)...), Program: len(before)}
		if c.env != "" {
			l.Env = []string{"SLURM_EXPORT_ENV=" + c.env}
		}
		if err := l.passes(libSocketEnv, libRestartEnv); (err != nil) != c.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}
