package power

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// TestAttempts: what a reading of Slurm says of what may run on an instance.
func TestAttempts(t *testing.T) {
	const up, silent, cut, boots, off, byAdmin = "ALLOCATED+CLOUD", "ALLOCATED+CLOUD+NOT_RESPONDING", "DOWN+CLOUD+NOT_RESPONDING",
		"ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", "IDLE+CLOUD+POWERED_DOWN", "DOWN+CLOUD"
	known := attempts{jobs: map[uint32]int{7: 1}, taken: at, back: at.Add(-time.Hour)}
	quiet := attempts{jobs: map[uint32]int{7: 1}, taken: at, silent: true}
	blank := attempts{blank: true, silent: true}
	for _, tt := range []struct {
		name    string
		a       attempts
		slurm   string // empty: Slurm does not show the node
		after   time.Duration
		jobs    map[uint32]int // that Slurm has there now
		want    []uint32
		verdict verdict
		blank   bool
		back    bool
	}{
		{name: "a new node", slurm: up, jobs: map[uint32]int{8: 0}, want: []uint32{8}, back: true},
		{name: "a new node that boots", slurm: boots, jobs: map[uint32]int{8: 0}, verdict: forgets},
		{name: "it answers, with another job", a: known, slurm: up, jobs: map[uint32]int{8: 0}, want: []uint32{8}, back: true},
		{name: "it does not answer", a: known, slurm: silent, jobs: map[uint32]int{8: 0}, want: []uint32{7, 8}},
		{name: "Slurm gives it up", a: known, slurm: cut, after: 5 * time.Second, want: []uint32{7}, verdict: giveUp},
		{name: "Slurm gives it up, and was last read long ago", a: known, slurm: cut, after: time.Minute, want: []uint32{7}, verdict: giveUp, blank: true},
		{name: "it was silent before", a: quiet, slurm: cut, after: time.Hour, want: []uint32{7}, verdict: giveUp},
		{name: "burstd was away", a: blank, slurm: cut, verdict: giveUp, blank: true},
		{name: "burstd was away, and it only does not answer", a: blank, slurm: silent, jobs: map[uint32]int{8: 2}, want: []uint32{8}},
		{name: "burstd was away, and it is off", a: blank, slurm: off, verdict: moved, blank: true},
		{name: "burstd was away, and it answers", a: blank, slurm: up, jobs: map[uint32]int{8: 2}, want: []uint32{8}, back: true},
		{name: "nobody saw it before", slurm: cut, verdict: giveUp, blank: true},
		{name: "an admin's DOWN, and it answers", a: known, slurm: byAdmin, want: []uint32{7}, back: true},
		{name: "powered down after its job", a: known, slurm: off, want: []uint32{7}, verdict: forgets, back: true},
		{name: "powered down without an answer", a: quiet, slurm: off, want: []uint32{7}, verdict: moved},
		{name: "not in the reading", a: quiet, want: []uint32{7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			states := map[string]string{}
			if tt.slurm != "" {
				states["c1"] = tt.slurm
			}
			snap := reading(states)
			got, v := tt.a.read(snap.Nodes["c1"], powerOf(snap, "c1"), tt.jobs, at.Add(tt.after))
			if jobs := slices.Sorted(maps.Keys(got.jobs)); !slices.Equal(jobs, tt.want) || v != tt.verdict {
				t.Errorf("jobs %v, verdict %d; want %v, %d", jobs, v, tt.want, tt.verdict)
			}
			if got.blank != tt.blank || got.back.IsZero() == tt.back {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestFenced: whose next attempt waits for what.
func TestFenced(t *testing.T) {
	m := newMemory(State{
		Instances: []Instance{onInstance("i-1", "c1", at), onInstance("i-2", "c2", at), {Instance: cloud.Instance{ID: "i-3", State: cloud.Terminated}}, doomed(onInstance("i-5", "c5", at), "w")},
		Fences: []Fence{{Instance: "i-1", Job: 7, Restarts: 2, Node: "c1", Since: at}, {Instance: "i-2", Job: 0, Node: "c2", Since: at},
			{Instance: "i-3", Job: 9, Node: "c3", Since: at}, {Instance: "i-gone", Job: 10, Node: "c4", Since: at}, {Instance: "i-5", Job: 11, Node: "c5", Since: at}},
	})
	before, after := at.Add(-time.Hour), at.Add(time.Hour)
	for _, tt := range []struct {
		name string
		job  slurm.Job
		want string // part of the reason
	}{
		{"its first attempt", slurm.Job{ID: 8, Submitted: before}, ""},
		{"the attempt after the fenced one", slurm.Job{ID: 7, Restarts: 3, Submitted: after}, "until instance i-1 (node c1) is gone, or answers Slurm again: "},
		{"one whose instance ends", slurm.Job{ID: 11, Restarts: 1, Submitted: after}, "until instance i-5 (node c5) is gone: "},
		{"the fenced attempt itself", slurm.Job{ID: 7, Restarts: 2, Submitted: after, Start: before}, ""},
		{"a later attempt, though restarts are counted anew", slurm.Job{ID: 7, Restarts: 1, Submitted: before, Start: after}, "i-1"},
		{"another job, when nobody knows what ran there", slurm.Job{ID: 8, Restarts: 1, Submitted: before}, "i-2"},
		{"another job that is newer", slurm.Job{ID: 8, Restarts: 1, Submitted: after}, ""},
		{"a job on both", slurm.Job{ID: 7, Restarts: 3, Submitted: before}, "and 1 more"},
		{"the instance is terminated", slurm.Job{ID: 9, Restarts: 1, Submitted: after}, ""},
		{"the instance is gone", slurm.Job{ID: 10, Restarts: 1, Submitted: after}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := m.fenced(tt.job); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestCutOff: whose doing it is that a node is DOWN.
func TestCutOff(t *testing.T) {
	for _, tt := range []struct {
		state, reason string
		want          bool
	}{
		{"DOWN+CLOUD+NOT_RESPONDING", "Not responding", true},
		{"DOWN+CLOUD+NOT_RESPONDING", "", true},
		{"DOWN+CLOUD+DRAIN+NOT_RESPONDING", "burst: spot interruption", true},
		{"DOWN+CLOUD+NOT_RESPONDING", "disk is broken, do not touch", false},
		{"DOWN+CLOUD", "Not responding", false},
		{"ALLOCATED+CLOUD+NOT_RESPONDING", "", false},
	} {
		if got := cutOff(slurm.Node{State: parseState(tt.state), Reason: tt.reason}); got != tt.want {
			t.Errorf("%s, %q: %v", tt.state, tt.reason, got)
		}
	}
}

// TestAFenceStandsForItsOwnOutage: burstd was away while the node came back,
// ran another job and was lost again.
func TestAFenceStandsForItsOwnOutage(t *testing.T) {
	for _, tt := range []struct {
		name string
		busy time.Time // when Slurm last had something on the node
		want bool
	}{
		{"the same outage", at.Add(-2 * time.Hour), false},
		{"a job has run there since", at.Add(-time.Minute), true},
		{"Slurm does not say", time.Time{}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := testEngine(State{
				Nodes:     []Node{{Name: "c1", Pool: "p", Phase: Up, Instance: "i-1", Since: at.Add(-5 * time.Hour)}},
				Instances: []Instance{onInstance("i-1", "c1", at.Add(-5*time.Hour))},
				Fences:    []Fence{{Instance: "i-1", Job: 7, Node: "c1", Since: at.Add(-time.Hour)}},
			})
			e.attempts = blanks(e.mem)
			snap := reading(map[string]string{"c1": "DOWN+CLOUD+NOT_RESPONDING"})
			n := snap.Nodes["c1"]
			n.LastBusy = tt.busy
			snap.Nodes["c1"] = n
			if err := e.observe(t.Context(), snap); err != nil {
				t.Fatal(err)
			}
			if _, got := e.mem.fences["i-1"][0]; got != tt.want {
				t.Errorf("fences %+v", e.mem.fences["i-1"])
			}
		})
	}
}

// TestAStrangerLiftsNoFence: a machine that has booted later answers Slurm by the name of a node that is
// fenced. What runs on the node's own instance may run on; that is ended as soon as it takes no job's node away.
func TestAStrangerLiftsNoFence(t *testing.T) {
	up := at.Add(-time.Hour)
	waits := slurm.Job{ID: 7, State: "CONFIGURING", Restarts: 1, Nodes: "c1"}
	for _, tt := range []struct {
		name    string
		boot    time.Time
		reason  string
		jobs    []slurm.Job
		lifted  bool
		isolate bool
	}{
		{name: "it has not booted since", boot: up.Add(-time.Minute), lifted: true},
		{name: "Slurm does not say", lifted: true},
		{name: "its registration was long under way", boot: up.Add(5 * time.Second), lifted: true},
		{name: "it has", boot: at.Add(-time.Minute), isolate: true},
		{name: "it has, and the job itself waits there", boot: at.Add(-time.Minute), jobs: []slurm.Job{waits}, isolate: true},
		{name: "it has, and another job's nodes boot", boot: at.Add(-time.Minute), jobs: []slurm.Job{{ID: 8, State: "CONFIGURING", Nodes: "c1"}}},
		{name: "it has, and an admin looks at it", boot: at.Add(-time.Minute), reason: "mine"},
		{name: "it has, and runs a job", boot: at.Add(-time.Minute), jobs: []slurm.Job{waits, {ID: 8, State: "RUNNING", Nodes: "c1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			i := onInstance("i-1", "c1", at.Add(-2*time.Hour))
			i.State = cloud.Running
			e, _ := testEngine(State{
				Nodes:     []Node{{Name: "c1", Pool: "p", Phase: Up, Instance: "i-1", Since: up, AddrSet: true}},
				Instances: []Instance{i},
				Fences:    []Fence{{Instance: "i-1", Job: 7, Node: "c1", Since: at.Add(-10 * time.Minute)}},
			})
			var snap *slurm.Snapshot
			for range 3 {
				taken := at
				if snap != nil {
					taken = snap.Taken.Add(answersFor)
				}
				snap = reading(map[string]string{"c1": "IDLE+CLOUD"}, tt.jobs...)
				n := snap.Nodes["c1"]
				n.BootTime, n.Reason, snap.Taken = tt.boot, tt.reason, taken
				snap.Nodes["c1"] = n
				if err := e.observe(t.Context(), snap); err != nil {
					t.Fatal(err)
				}
			}
			if got := len(e.mem.fences["i-1"]) == 0; got != tt.lifted {
				t.Errorf("lifted %t, want %t", got, tt.lifted)
			}
			if got := e.mem.fenced(waits) == ""; got != tt.lifted {
				t.Errorf("the next attempt begins: %t, want %t", got, tt.lifted)
			}
			l := &listing{lists: map[string][]cloud.Instance{i.Provider: nil}}
			if got := decide(e.cellOf(snap, l, "c1")) == isolate; got != tt.isolate {
				t.Errorf("isolated %t, want %t: %+v", got, tt.isolate, e.cellOf(snap, l, "c1"))
			}
		})
	}
}

// TestAdoptedIsFencedUntilItAnswers: the journal is lost, and with it whether an instance whose node powers up is older than
// that, and was given up with a job on it. A next attempt waits until it answers.
func TestAdoptedIsFencedUntilItAnswers(t *testing.T) {
	next, first := slurm.Job{ID: 7, State: "CONFIGURING", Restarts: 1, Nodes: "c2"}, slurm.Job{ID: 8, State: "CONFIGURING", Nodes: "c1"}
	for _, tt := range []struct {
		state  string
		fenced bool
	}{
		{"ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP", true},
		{"ALLOCATED+CLOUD", false},
	} {
		t.Run(tt.state, func(t *testing.T) {
			e, _ := testEngine(State{})
			var c Change
			l := newListing(at)
			l.lists["east"] = []cloud.Instance{{ID: "i-1", Pool: "p", Node: "c1", State: cloud.Running, Launched: at.Add(-time.Hour)}}
			e.takeLists(&c, l, reading(map[string]string{"c1": tt.state}, next, first))
			if err := e.commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if n := e.mem.nodes["c1"]; n.Instance != "i-1" {
				t.Fatalf("not adopted: %+v", c)
			}
			if why := e.mem.fenced(next); (why != "") != tt.fenced {
				t.Errorf("the next attempt: %q", why)
			}
			if why := e.mem.fenced(first); why != "" {
				t.Errorf("a first attempt waits: %s", why)
			}
			for n := range 2 {
				snap := reading(map[string]string{"c1": "ALLOCATED+CLOUD"}, next)
				snap.Taken = time.Now().Add(time.Duration(n+1) * answersFor)
				if err := e.observe(t.Context(), snap); err != nil {
					t.Fatal(err)
				}
			}
			if why := e.mem.fenced(next); why != "" {
				t.Errorf("it answers, and the next attempt still waits: %s", why)
			}
		})
	}
}

// TestACallerWhoLeavesSharesNothingWithRun is for the race detector.
func TestACallerWhoLeavesSharesNothingWithRun(t *testing.T) {
	e, _ := testEngine(State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Booting, Since: at}}})
	e.slurm = &scripted{snap: reading(map[string]string{"c1": "IDLE+CLOUD+POWERED_DOWN"})}
	for name, call := range map[string]func(ctx context.Context) error{
		"gate": func(ctx context.Context) error {
			_, err := e.Fenced(ctx, reading(nil, slurm.Job{ID: 7, Restarts: 1, Nodes: "c1"}), 7)
			return err
		},
		"plan": func(ctx context.Context) error { _, err := e.Plan(ctx); return err },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			f := <-e.results
			cancel()
			f(t.Context())
			close(done)
		}()
		if err := call(ctx); err != nil && ctx.Err() == nil {
			t.Errorf("%s: %v", name, err)
		}
		<-done
	}
}
