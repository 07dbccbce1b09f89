package methods

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// candidate is a method that is to pass the suite.
type candidate struct {
	name    string
	options Options
	// program is the command line of the test program, to which the suite adds
	// what it is to do.
	program []string
	// count is added where it counts: what it needs to be checkpointed.
	count []string
	// wipe undoes what an attempt may have left in the job's folder, as far as a
	// restart must do without it.
	wipe func(dir string) error
	// noSignal is one that the method does not pass on.
	noSignal syscall.Signal
	// images: a restart is the program as it was, with its first arguments.
	images bool
	env    []string // beside this process's
}

// longEnough is more than anything here takes on a busy machine.
const longEnough = time.Minute

// conform runs the suite: what Method and Step say, with real processes.
func conform(t *testing.T, c candidate) {
	for name, test := range map[string]func(*testing.T, candidate){
		"exit codes":                            testExitCodes,
		"no such program":                       testNoProgram,
		"too late to start":                     testTooLate,
		"stdin":                                 testStdin,
		"output":                                testOutput,
		"folder and environment":                testWhere,
		"signals":                               testSignals,
		"checkpoint and go on":                  testGoOn,
		"checkpoint and stop, restart twice":    testStop,
		"checkpoints of a restart":              testChain,
		"stop of one that ignores SIGTERM":      testDeafStop,
		"one that ignores everything":           testDeaf,
		"busy":                                  testBusy,
		"finishing":                             testFinishing,
		"killed during a checkpoint":            testKilled,
		"its own starter is killed":             testStarterKilled,
		"a generation that is another method's": testOthersGeneration,
		"a generation that is gone":             testGoneGeneration,
		"a folder that is gone":                 testGoneFolder,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// running is a step under test.
type running struct {
	t     *testing.T
	step  ckpt.Step
	out   *output
	mark  string
	ended chan struct{}
	code  int
	err   error
}

// place is a job's folder and what its attempts share.
type place struct {
	t       *testing.T
	c       candidate
	dir     string
	scratch string
	at      int // of the program in its command line
}

func newPlace(t *testing.T, c candidate) *place {
	t.Helper()
	return &place{t: t, c: c, dir: t.TempDir(), scratch: t.TempDir()}
}

func (p *place) launch(args ...string) ckpt.Launch {
	return ckpt.Launch{
		Args: append(append([]string{}, p.c.program...), args...), Program: p.at, Dir: p.dir, Scratch: p.scratch,
		Env: slices.Concat(os.Environ(), []string{programEnv + "=1"}, p.c.env),
	}
}

// start begins a step, which the test's end ends.
func (p *place) start(l ckpt.Launch) *running {
	p.t.Helper()
	m, err := New(p.c.name, p.c.options)
	if err != nil {
		p.t.Fatal(err)
	}
	r := &running{t: p.t, out: newOutput(), mark: rand.Text(), ended: make(chan struct{})}
	l.Env = append(l.Env, "BURST_TEST_MARK="+r.mark)
	if l.Stdout == nil {
		l.Stdout = r.out
	}
	if l.Stderr == nil {
		l.Stderr = r.out
	}
	if r.step, err = m.Start(p.t.Context(), l); err != nil {
		p.t.Fatalf("starting %v: %v", l.Args, err)
	}
	go func() {
		r.code, r.err = r.step.Wait()
		close(r.ended)
	}()
	p.t.Cleanup(func() {
		select {
		case <-r.ended:
		default:
			r.step.Signal(syscall.SIGKILL)
			<-r.ended
		}
		if left := awaitNone(r.mark); len(left) > 0 {
			p.t.Errorf("processes left behind: %v", left)
		}
	})
	return r
}

// counting begins a count, from a generation if that is given.
func (p *place) counting(to int, from *ckpt.Generation, more ...string) *running {
	p.t.Helper()
	l := p.launch(append(append([]string{"count", "-to=" + strconv.Itoa(to), "-pace=10ms"}, p.c.count...), more...)...)
	l.From = from
	if from != nil && p.c.images {
		if err := os.WriteFile(filepath.Join(p.dir, "to"), []byte(strconv.Itoa(to)), 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return p.start(l)
}

// checkpoint takes one that must be good, as the generation that it becomes.
func (p *place) checkpoint(r *running, stop bool) *ckpt.Generation {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), longEnough)
	defer cancel()
	into := p.folder()
	made, err := r.step.Checkpoint(ctx, into, stop)
	if err != nil {
		p.t.Fatalf("checkpoint (stop %v): %v\noutput:\n%s", stop, err, r.out.end())
	}
	return p.generation(into, made)
}

func (p *place) folder() string {
	p.t.Helper()
	into, err := os.MkdirTemp(p.scratch, "gen-")
	if err != nil {
		p.t.Fatal(err)
	}
	return into
}

func (p *place) generation(into string, made ckpt.Made) *ckpt.Generation {
	p.t.Helper()
	if err := hasContent(into); err != nil {
		p.t.Fatalf("a checkpoint without files: %v", err)
	}
	return &ckpt.Generation{Dir: into, Manifest: ckpt.Manifest{Method: p.c.name, Ranks: made.Ranks, Iteration: made.Iteration, Extra: made.Extra}}
}

// restart runs a count from the generation to its end, and checks that it went on
// where it was, and what came of it. Nothing but the generation is left of before.
func (p *place) restart(to int, from *ckpt.Generation) {
	p.t.Helper()
	if err := p.c.wipe(p.dir); err != nil {
		p.t.Fatal(err)
	}
	r := p.counting(to, from, "-pace=1ms")
	r.finish(0)
	if first := r.out.first(); first < 2 {
		p.t.Errorf("the restart began at %d:\n%s", first, r.out.end())
	}
	r.done(to)
}

// done checks the result.
func (r *running) done(to int) {
	r.t.Helper()
	if want := undisturbed(to); !strings.HasSuffix(r.out.String(), want) {
		r.t.Errorf("the end is not %q:\n%s", want, r.out.end())
	}
}

// finish waits for the end and checks the exit code.
func (r *running) finish(code int) {
	r.t.Helper()
	if err := r.wait(); err != nil || r.code != code {
		r.t.Fatalf("the step ended with %d, %v; want %d\noutput:\n%s", r.code, err, code, r.out.end())
	}
}

func (r *running) wait() error {
	r.t.Helper()
	select {
	case <-r.ended:
		return r.err
	case <-time.After(longEnough):
		r.t.Fatalf("the step does not end:\n%s", r.out.end())
		return nil
	}
}

// awaitAt waits until a count is at i or beyond.
func (r *running) awaitAt(i int) {
	r.t.Helper()
	for r.out.last() < i {
		r.out.await(r.t, atLine, r.out.last())
	}
}

var readyLine = regexp.MustCompile(`(?m)^ready ([0-9]+)$`)

// pid is what the program says of itself, once it catches its signals.
func (r *running) pid() int {
	r.t.Helper()
	r.out.await(r.t, readyLine, 0)
	return number(readyLine.FindStringSubmatch(r.out.String()))
}

// output collects what a step prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed, and made anew, when there is more
}

func newOutput() *output { return &output{more: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.more)
	o.more = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// end is what a failure shows.
func (o *output) end() string {
	text := o.String()
	return "…" + text[max(0, len(text)-500):]
}

// await waits until the last number that the pattern finds is above n.
func (o *output) await(t *testing.T, pattern *regexp.Regexp, n int) {
	t.Helper()
	limit := time.After(longEnough)
	for {
		o.mu.Lock()
		all, more := pattern.FindAllStringSubmatch(o.text.String(), -1), o.more
		o.mu.Unlock()
		if len(all) > 0 && number(all[len(all)-1]) > n {
			return
		}
		select {
		case <-more:
		case <-limit:
			t.Fatalf("no more of %v comes:\n%s", pattern, o.end())
		}
	}
}

var atLine = regexp.MustCompile(`(?m)^at ([0-9]+)$`)

// first and last are where a count was; 0 if it was nowhere.
func (o *output) first() int { return number(atLine.FindStringSubmatch(o.String())) }

func (o *output) last() int {
	all := atLine.FindAllStringSubmatch(o.String(), -1)
	if len(all) == 0 {
		return 0
	}
	return number(all[len(all)-1])
}

func number(match []string) int {
	if match == nil {
		return 0
	}
	n, _ := strconv.Atoi(match[1])
	return n
}

// wipeState removes the test program's own checkpoints.
func wipeState(dir string) error {
	return errors.Join(os.RemoveAll(filepath.Join(dir, "state")), os.RemoveAll(filepath.Join(dir, "state.new")))
}
