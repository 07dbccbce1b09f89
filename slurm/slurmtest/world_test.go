package slurmtest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

var _ slurm.Runner = (*slurmtest.Controller)(nil)

// world is a controller with its client and what its programs were called with.
type world struct {
	*slurmtest.Controller
	t      *testing.T
	client *slurm.Client
	boot   time.Duration // from OnResume to registration; negative: never

	mu    sync.Mutex
	calls []string
}

// bubble runs test in a synctest bubble with a served controller.
func bubble(t *testing.T, o slurmtest.Options, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, boot: 2 * time.Second}
		if o.Nodes == nil {
			o.Nodes = []string{"c1", "c2", "c3"}
		}
		o.OnResume = func(nodes, file string) {
			w.called("resume " + nodes + " " + file)
			if w.boot < 0 {
				return
			}
			select {
			case <-time.After(w.boot):
				w.register(nodes)
			case <-t.Context().Done():
			}
		}
		o.OnSuspend = func(nodes string) { w.called("suspend " + nodes) }
		o.OnResumeFail = func(nodes string) { w.called("fail " + nodes) }
		w.Controller = slurmtest.New(o)
		w.client = slurm.New(w.Controller)
		go w.Serve(t.Context())
		test(w)
	})
}

func (w *world) called(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, line)
}

func (w *world) register(nodes string) {
	names, err := hostlist.Expand(nodes)
	if err != nil {
		w.t.Error(err)
	}
	for _, n := range names {
		w.Register(n)
	}
}

// pass lets d pass.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// run runs a command line of words without spaces.
func (w *world) run(line string) (stdout, stderr string, err error) {
	words := strings.Fields(line)
	out, errOut, err := w.Run(w.t.Context(), words[0], words[1:]...)
	return string(out), string(errOut), err
}

// must is run for a command that succeeds in silence.
func (w *world) must(line string) {
	w.t.Helper()
	if _, stderr, err := w.run(line); err != nil || stderr != "" {
		w.t.Errorf("%s: %v: %s", line, err, stderr)
	}
}

func (w *world) wantNodes(states ...string) {
	w.t.Helper()
	for i, want := range states {
		name := fmt.Sprintf("c%d", i+1)
		if got := w.Node(name); got != want {
			w.t.Errorf("node %s is %s, want %s", name, got, want)
		}
	}
}

func (w *world) wantJob(id uint32, state, reason string, restarts int) {
	w.t.Helper()
	j, ok := w.Info(id)
	if !ok || j.State != state || j.Reason != reason || j.Restarts != restarts {
		w.t.Errorf("job %d is %s, reason %s, %d restarts (known: %t), want %s, %s, %d", id, j.State, j.Reason, j.Restarts, ok, state, reason, restarts)
	}
}

func (w *world) wantCalls(lines ...string) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got, want := strings.Join(w.calls, "\n"), strings.Join(lines, "\n"); got != want {
		w.t.Errorf("slurmctld called:\n%s\nwant:\n%s", got, want)
	}
	w.calls = nil
}

// states are the node's states since New.
func (w *world) states(node string) []string {
	var all []string
	for _, c := range w.History(node) {
		all = append(all, c.State)
	}
	return all
}

const (
	off       = "IDLE+CLOUD+POWERED_DOWN"
	offAlloc  = "ALLOCATED+CLOUD+POWERED_DOWN"
	booting   = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	idleBoot  = "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP"
	allocated = "ALLOCATED+CLOUD"
	idle      = "IDLE+CLOUD"
	leaving   = "IDLE+CLOUD+COMPLETING"
	goingDown = "IDLE+CLOUD+POWERING_DOWN"
	timedOut  = "DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING"
)
