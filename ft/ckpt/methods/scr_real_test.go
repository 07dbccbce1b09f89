package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// scrJob is a job of a real application with a real SCR, whose attempts run on
// nodes of their own: nothing is left in SCR's cache.
type scrJob struct {
	*place
	app string
}

func newSCRJob(t *testing.T) scrJob {
	t.Helper()
	if testing.Short() {
		t.Skip("a real SCR: slow end-to-end, run by make test")
	}
	found, err := exec.LookPath(scrHalt)
	if err != nil {
		t.Skip("NOT TESTED: no SCR is here; put the folder of scr_halt into PATH (docs/methods/scr.md)")
	}
	root := filepath.Dir(filepath.Dir(found))
	app := filepath.Join(t.TempDir(), "scr")
	out, err := exec.CommandContext(t.Context(), "mpicc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", app, "testdata/scr.c",
		"-I"+root+"/include", "-L"+root+"/lib", "-lscr", "-Wl,-rpath,"+root+"/lib").CombinedOutput()
	if err != nil {
		t.Fatalf("mpicc: %v\n%s", err, out)
	}
	return scrJob{newPlace(t, candidate{name: "scr", program: []string{"mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", app}}), app}
}

// attempt begins the job anew, up to a number.
func (j scrJob) attempt(from *ckpt.Generation, to int, how ...string) *running {
	j.t.Helper()
	node := j.t.TempDir()
	l := j.launch(append([]string{strconv.Itoa(to), "10"}, how...)...)
	l.From = from
	if len(how) > 0 && how[0] == "exit" {
		l.Env = append(l.Env, "SCR_HALT_EXIT=0")
	}
	l.Env = append(l.Env, "SCR_JOB_ID="+filepath.Base(j.dir), "SCR_CACHE_BASE="+node+"/cache", "SCR_CNTL_BASE="+node+"/cntl", "OMPI_MCA_orte_tmpdir_base="+node)
	return j.start(l)
}

// goesOn runs the next attempt to its end, which must begin there.
func (j scrJob) goesOn(from *ckpt.Generation, at int) {
	j.t.Helper()
	r := j.attempt(from, at+20)
	r.finish(0)
	if first := r.out.first(); first != at+1 {
		j.t.Errorf("the restart began at %d, want %d:\n%s", first, at+1, r.out.end())
	}
	if want := undisturbed(at + 20); !strings.Contains(r.out.String(), want) {
		j.t.Errorf("the end is not %q:\n%s", want, r.out.end())
	}
}

func TestRealSCR(t *testing.T) {
	j := newSCRJob(t)
	for code, how := range map[int][]string{1: nil, leftCode: {"exit"}} {
		j.place = newPlace(t, j.c)
		r := j.attempt(nil, 100_000, how...)
		r.awaitAt(20)
		g := j.checkpoint(r, true)
		r.finish(code)
		at := r.out.last()
		if g.Iteration != int64(at) {
			t.Errorf("the generation is of %d, it left at %d", g.Iteration, at)
		}
		j.goesOn(g, at)
		j.c.options.Exact = true // it has finished; SCR's own checkpoint of the end is younger
		j.goesOn(g, at)
		if err := errors.Join(os.RemoveAll(filepath.Join(j.dir, ".scr")), os.RemoveAll(filepath.Join(j.dir, g.Extra[scrName]))); err != nil {
			t.Fatal(err)
		}
		j.goesOn(g, at)
		j.c.options.Exact = false
	}
}

// The application's own checkpoints are kept as they come; one that is damaged in
// place comes back from the generation.
func TestRealSCRAlone(t *testing.T) {
	j := newSCRJob(t)
	r := j.attempt(nil, 100_000, "alone", "30")
	r.awaitAt(32)
	g := j.checkpoint(r, false)
	if g.Iteration != 30 {
		t.Errorf("iteration %d, want 30", g.Iteration)
	}
	r.awaitAt(62)
	g = j.checkpoint(r, false)
	// It does not ask for SCR_Need_checkpoint: it leaves after its next one.
	last := j.checkpoint(r, true)
	r.wait()
	if at := int64(r.out.last()); last.Iteration != at || at <= g.Iteration {
		t.Errorf("the last is of %d, it left at %d", last.Iteration, at)
	}
	damaged := filepath.Join(j.dir, last.Extra[scrName], "rank_1.ckpt")
	if err := os.WriteFile(damaged, []byte("0 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	j.goesOn(last, r.out.last())
}

func TestRealSCRTooLate(t *testing.T) {
	j := newSCRJob(t)
	r := j.attempt(nil, 300, "alone", "100000")
	r.awaitAt(5)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := r.step.Checkpoint(ctx, j.folder(), true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	r.finish(0)
	if want := fmt.Sprint(undisturbed(300)); !strings.Contains(r.out.String(), want) {
		t.Errorf("it did not go on to %q:\n%s", want, r.out.end())
	}
}
