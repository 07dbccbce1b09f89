package methods

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

func testExitCodes(t *testing.T, c candidate) {
	for _, e := range []struct {
		args string
		code int
	}{
		{"exit 0", 0}, {"exit 3", 3}, {"exit 255", 255},
		{"die 15", 128 + 15}, {"die 9", 128 + 9}, {"die 1", 128 + 1},
	} {
		p := newPlace(t, c)
		p.start(p.launch(strings.Fields(e.args)...)).finish(e.code)
	}
}

func testNoProgram(t *testing.T, c candidate) {
	p := newPlace(t, c)
	for _, args := range [][]string{{"/nonexistent/program"}, {"no-such-program-on-the-path"}, nil} {
		l := p.launch()
		l.Args = args
		p.refused(l)
	}
	l := p.launch("exit", "0")
	l.Dir = filepath.Join(p.dir, "missing")
	p.refused(l)
}

func testTooLate(t *testing.T, c candidate) {
	p := newPlace(t, c)
	m, err := New(c.name, c.options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := p.launch("count", "-to=1000000")
	l.Env = append(l.Env, "BURST_TEST_MARK="+t.Name())
	if _, err := m.Start(ctx, l); !errors.Is(err, context.Canceled) {
		t.Errorf("started with %v", err)
	}
	if left := awaitNone(t.Name()); len(left) > 0 {
		t.Errorf("runs: %v", left)
	}
}

func testOthersGeneration(t *testing.T, c candidate) {
	p := newPlace(t, c)
	l := p.launch("exit", "0")
	l.From = &ckpt.Generation{Dir: p.folder(), Manifest: ckpt.Manifest{Method: "another"}}
	p.refused(l)
}

func testGoneGeneration(t *testing.T, c candidate) {
	p := newPlace(t, c)
	l := p.launch("exit", "0")
	l.From = &ckpt.Generation{Dir: filepath.Join(p.scratch, "gone"), Manifest: ckpt.Manifest{Method: c.name}}
	p.refused(l)
	l.From.Dir = p.folder() // there, and empty
	p.refused(l)
}

// testGoneFolder wants no step ended for a checkpoint that cannot be written.
func testGoneFolder(t *testing.T, c candidate) {
	p := newPlace(t, c)
	r := p.counting(1_000_000, nil)
	r.awaitAt(5)
	for _, stop := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if made, err := r.step.Checkpoint(ctx, filepath.Join(p.scratch, "gone"), stop); err == nil {
			t.Errorf("stop %v: written into no folder: %+v", stop, made)
		}
		cancel()
		r.awaitAt(r.out.last() + 3)
	}
}

// refused wants Start to fail.
func (p *place) refused(l ckpt.Launch) {
	p.t.Helper()
	m, err := New(p.c.name, p.c.options)
	if err != nil {
		p.t.Fatal(err)
	}
	step, err := m.Start(p.t.Context(), l)
	if err == nil {
		code, werr := step.Wait()
		p.t.Errorf("%v in %s was started, and ended with %d, %v", l.Args, l.Dir, code, werr)
	}
}

func testStdin(t *testing.T, c candidate) {
	text := strings.Repeat("all that the job reads\n", 50_000)
	p := newPlace(t, c)
	file := filepath.Join(p.dir, "input")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, stdin := range map[string]io.Reader{"file": f, "reader": strings.NewReader(text), "none": nil} {
		l := p.launch("cat")
		l.Stdin = stdin
		r := p.start(l)
		r.finish(0)
		if want := map[bool]string{true: text}[stdin != nil]; r.out.String() != want {
			t.Errorf("%s: %d bytes came, want %d", name, len(r.out.String()), len(want))
		}
	}
}

// testOutput wants stdout and stderr in the order in which they were written
// where they are one file, and each in its place where they are not.
func testOutput(t *testing.T, c candidate) {
	p := newPlace(t, c)
	f, err := os.Create(filepath.Join(p.dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var both, odd, even bytes.Buffer
	for i := range 2000 {
		fmt.Fprintln(&both, i)
		fmt.Fprintln([]io.Writer{&even, &odd}[i%2], i)
	}
	l := p.launch("order")
	l.Stdout, l.Stderr = f, f
	p.start(l).finish(0)
	if text, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(text, both.Bytes()) {
		t.Errorf("one file: %d bytes, want %d in order: %v", len(text), both.Len(), err)
	}
	out, errs := newOutput(), newOutput()
	l.Stdout, l.Stderr = out, errs
	p.start(l).finish(0)
	if out.String() != even.String() || errs.String() != odd.String() {
		t.Errorf("apart: %d and %d bytes, want %d and %d", len(out.String()), len(errs.String()), even.Len(), odd.Len())
	}
}

func testWhere(t *testing.T, c candidate) {
	p := newPlace(t, c)
	r := p.start(p.launch("where"))
	r.finish(0)
	dir, err := filepath.EvalSymlinks(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := dir + "\nBURST_RESTART=0\n"; r.out.String() != want {
		t.Errorf("%q, want %q", r.out, want)
	}
}

func testSignals(t *testing.T, c candidate) {
	r := newPlace(t, c).started("trap")
	want := ""
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGCONT, syscall.SIGTERM} {
		if s == c.noSignal {
			continue
		}
		if err := r.step.Signal(s); err != nil {
			t.Fatalf("%v: %v", s, err)
		}
		want += fmt.Sprintln("got", int(s))
		if s != syscall.SIGTERM {
			r.out.await(t, regexp.MustCompile(fmt.Sprintf(`(?m)^got (%d)$`, s)), 0)
		}
	}
	r.finish(7)
	if !strings.HasSuffix(r.out.String(), want) {
		t.Errorf("got:\n%swant:\n%s", r.out, want)
	}
	if err := r.step.Signal(syscall.SIGTERM); err == nil {
		t.Error("a signal to a step that has ended was sent somewhere")
	}
}

// started begins a step that says when it is ready.
func (p *place) started(args ...string) *running {
	p.t.Helper()
	r := p.start(p.launch(args...))
	r.pid()
	return r
}

// starting is what runAsBurstSrun is told.
type starting struct {
	Name    string
	Options Options
	Launch  struct {
		Args         []string
		Dir, Scratch string
	}
}

// runAsBurstSrun starts a step as burst-srun does, and waits for it.
func runAsBurstSrun(args []string) int {
	var s starting
	if err := json.Unmarshal([]byte(args[0]), &s); err != nil {
		fmt.Println(err)
		return 2
	}
	m, err := New(s.Name, s.Options)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	step, err := m.Start(context.Background(), ckpt.Launch{
		Args: s.Launch.Args, Dir: s.Launch.Dir, Scratch: s.Launch.Scratch, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		fmt.Println(err)
		return 2
	}
	code, _ := step.Wait() // the test kills this process
	return code
}

// testStarterKilled kills burst-srun: its step must not go on without it.
func testStarterKilled(t *testing.T, c candidate) {
	p := newPlace(t, c)
	l := p.launch(append([]string{"count", "-to=1000000", "-pace=10ms"}, c.count...)...)
	var s starting
	s.Name, s.Options, s.Launch.Args, s.Launch.Dir, s.Launch.Scratch = c.name, c.options, l.Args, l.Dir, l.Scratch
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	mark := "BURST_TEST_MARK=" + filepath.Base(p.scratch) + t.Name()
	r := &running{t: t, out: newOutput()}
	cmd := exec.Command(os.Args[0], "burst-srun", string(text))
	cmd.Env = slices.Concat(os.Environ(), []string{programEnv + "=1", mark})
	file, err := os.Create(filepath.Join(p.dir, "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	for deadline := time.Now().Add(longEnough); r.out.last() < 5; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(file.Name())
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("the step does not run: %v\n%s", err, text)
		}
		r.out.Write(text)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if left := awaitNone(mark); len(left) > 0 {
		t.Errorf("left behind by a burst-srun that was killed: %v", left)
	}
}
