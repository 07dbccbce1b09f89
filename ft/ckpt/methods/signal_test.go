package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// bySignal is the method signal with the test program.
func bySignal() candidate {
	return candidate{
		name: "signal", options: Options{Files: []string{"state"}},
		program: []string{os.Args[0]}, count: []string{"-state=state"}, wipe: wipeState,
	}
}

func TestSignalConforms(t *testing.T) {
	t.Parallel()
	conform(t, bySignal())
}

func TestSignalOptions(t *testing.T) {
	for name, o := range map[string]struct {
		Options
		want string
	}{
		"defaults":      {Options{}, ""},
		"with SIG":      {Options{Signal: "SIGUSR2", Files: []string{"out/*.ckpt", "/scratch/a"}}, ""},
		"unknown":       {Options{Signal: "USR3"}, "signal=USR3: there is no such signal"},
		"KILL":          {Options{Signal: "KILL"}, "cannot be caught"},
		"STOP":          {Options{Signal: "STOP"}, "cannot be caught"},
		"grace":         {Options{Grace: -1}, "less than nothing"},
		"bad pattern":   {Options{Files: []string{"a["}}, "not a pattern"},
		"empty pattern": {Options{Files: []string{""}}, "not a pattern"},
		"leads out":     {Options{Files: []string{"../a"}}, "below the job's folder"},
		"the folder":    {Options{Files: []string{"."}}, "below the job's folder"},
		"everything":    {Options{Files: []string{"/"}}, "below the job's folder"},
		"not clean":     {Options{Files: []string{"a//b"}}, "below the job's folder"},
	} {
		_, err := New("signal", o.Options)
		if got := fmt.Sprint(err); o.want == "" && err != nil || !strings.Contains(got, o.want) {
			t.Errorf("%s: %v, want %q", name, err, o.want)
		}
	}
}

// bySignalWith begins a count by the method signal.
func bySignalWith(t *testing.T, o Options, more ...string) (*place, *running) {
	t.Helper()
	c := bySignal()
	c.options = o
	p := newPlace(t, c)
	r := p.counting(1_000_000, nil, more...)
	r.awaitAt(3)
	return p, r
}

// An application that leaves after its checkpoint says so by its exit code.
func TestSignalLeaves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    Options
		more []string
	}{
		"files":            {bySignal().options, nil},
		"written in place": {bySignal().options, []string{"-in-place", "-slow=100ms"}},
		"exit code alone":  {Options{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, r := bySignalWith(t, c.o, append(c.more, "-leave")...)
			g := p.checkpoint(r, true)
			r.finish(leftCode)
			at := r.out.last()
			if len(c.o.Files) == 0 {
				p.c.wipe = func(string) error { return nil } // what it wrote is not Burst's to keep
			}
			p.restart(at+5, g)
		})
	}
}

func TestSignalWithoutFilesProvesOnlyAnEnd(t *testing.T) {
	t.Parallel()
	p, r := bySignalWith(t, Options{})
	if _, err := r.step.Checkpoint(t.Context(), p.folder(), false); err == nil || !strings.Contains(err.Error(), "without files=") {
		t.Errorf("%v", err)
	}
	r.awaitAt(r.out.last() + 5)
	if strings.Contains(r.out.String(), "checkpoint") {
		t.Error("it was signalled all the same")
	}
}

// A step that dies with a file half written has not made a checkpoint.
func TestSignalHalfWritten(t *testing.T) {
	t.Parallel()
	p, r := bySignalWith(t, bySignal().options, "-in-place", "-slow=10s")
	go func() {
		state := filepath.Join(p.dir, "state")
		for st, err := os.Stat(state); err != nil || st.Size() == 0; st, err = os.Stat(state) {
			time.Sleep(5 * time.Millisecond)
		}
		syscall.Kill(r.pid(), syscall.SIGKILL)
	}()
	into := p.folder()
	if _, err := r.step.Checkpoint(t.Context(), into, false); !errors.Is(err, ckpt.ErrFinishing) {
		t.Errorf("%v, want ErrFinishing", err)
	}
	r.finish(137)
}

// A file that is written bit by bit is kept when it is whole.
func TestSignalSlowWriter(t *testing.T) {
	t.Parallel()
	p, r := bySignalWith(t, bySignal().options, "-in-place", fmt.Sprint("-slow=", quietTime*3/5))
	g := p.checkpoint(r, true)
	p.restart(r.out.last()+5, g)
}

func TestSignalGrace(t *testing.T) {
	t.Parallel()
	o := bySignal().options
	o.Grace = 400 * time.Millisecond
	p, r := bySignalWith(t, o, "-slow=2s")
	began := time.Now()
	_, err := r.step.Checkpoint(t.Context(), p.folder(), true)
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 1800*time.Millisecond {
		t.Errorf("after %v: %v", took, err)
	}
	r.awaitAt(r.out.last() + 5) // not ended: there is no checkpoint
}

// A shell would die of the signal: it is not sent, and the step goes on.
func TestSignalNotCaught(t *testing.T) {
	t.Parallel()
	p := newPlace(t, bySignal())
	for name, c := range map[string]struct{ script, want string }{
		"dies":    {"echo ready $$; sleep 1000; :", "does not catch it but would die of it; a shell must start"},
		"ignores": {"trap '' USR1; echo ready $$; sleep 1000; :", "does not catch it but ignores it"},
	} {
		l := p.launch()
		l.Args = []string{"sh", "-c", c.script}
		r := p.start(l)
		r.pid()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := r.step.Checkpoint(ctx, p.folder(), true)
		cancel()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		select {
		case <-r.ended:
			t.Errorf("%s: the step was ended with %d", name, r.code)
		default:
		}
		r.step.(*signalStep).p.signalGroup(syscall.SIGKILL)
	}
}

// Below a launcher it is not seen whether the program catches the signal. Dead of it,
// it has not ended by itself: its script must not go on as if it were done.
func TestSignalKillsBelowALauncher(t *testing.T) {
	t.Parallel()
	p := newPlace(t, bySignal())
	l := p.launch()
	l.Args = []string{"sh", "-c", "trap 'kill -USR1 $!' USR1; sh -c 'echo ready $$; exec >/dev/null 2>&1; sleep 1000; :' & wait $!; wait $!"}
	r := p.start(l)
	r.pid()
	ctx, cancel := context.WithTimeout(t.Context(), longEnough)
	defer cancel()
	_, err := r.step.Checkpoint(ctx, p.folder(), true)
	if err == nil || errors.Is(err, ckpt.ErrFinishing) || !strings.Contains(err.Error(), "died of SIGUSR1") {
		t.Errorf("%v", err)
	}
	r.step.(*signalStep).p.signalGroup(syscall.SIGKILL)
	<-r.ended
}

// A program that has only begun is not killed by its first checkpoint.
func TestSignalCaughtLate(t *testing.T) {
	t.Parallel()
	p := newPlace(t, bySignal())
	l := p.launch()
	l.Args = []string{"sh", "-c", "sleep 0.5; trap 'echo 5 7 > new && mv new state' USR1; while :; do sleep 0.1; done"}
	r := p.start(l)
	g := p.checkpoint(r, true)
	if text, err := os.ReadFile(stored(g.Dir, "state")); err != nil || string(text) != "5 7\n" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestSignalIteration(t *testing.T) {
	t.Parallel()
	p := newPlace(t, bySignal())
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	l := p.launch("count", "-to=100000", "-pace=10ms", "-state=state")
	l.Stdout = log
	r := p.start(l)
	for deadline := time.Now().Add(longEnough); r.out.last() < 3; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(log.Name())
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the step does not run: %v", err)
		}
		r.out.Write(text)
	}
	g := p.checkpoint(r, false)
	var at int64
	text, err := os.ReadFile(stored(g.Dir, "state"))
	if n, _ := fmt.Sscan(string(text), &at); n != 1 || err != nil || g.Iteration != at {
		t.Errorf("iteration %d, and the state is %q, %v", g.Iteration, text, err)
	}
}
