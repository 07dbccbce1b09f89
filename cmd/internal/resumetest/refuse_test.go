package resumetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
)

func TestRefuse(t *testing.T) {
	now := time.Now()
	state := func(base string, flags ...string) func(*known) {
		return func(k *known) { k.node.State = slurm.NodeState{Base: base, Flags: append(flags, "CLOUD")} }
	}
	on := func(state, nodes string) func(*known) {
		return func(k *known) { k.jobs = []slurm.Job{{ID: 7, User: "ada", State: state, Nodes: nodes}} }
	}
	reserved := func(nodes string, from, to time.Duration) func(*known) {
		return func(k *known) {
			k.reservations = []slurm.Reservation{{Name: "theirs", Nodes: []string{nodes}, Start: now.Add(from), End: now.Add(to)}}
		}
	}
	for _, test := range []struct {
		name string
		set  func(*known)
		want string // of the refusal; empty: none
	}{
		{"off and free", func(*known) {}, ""},
		{"planned for a job that waits", state("IDLE", "POWERED_DOWN", "PLANNED"), ""},
		{"a job runs", on("RUNNING", "c[1-3]"), "job 7 of ada has it"},
		{"a job waits for its boot", on("CONFIGURING", "c1"), "job 7 of ada has it"},
		{"a job that waits had it once", on("PENDING", "c1"), ""},
		{"a job runs elsewhere", on("RUNNING", "c[2-3],c10"), ""},
		{"drained", state("IDLE", "POWERED_DOWN", "DRAIN"), "broken fan"},
		{"down", state("DOWN", "POWERED_DOWN"), "it is DOWN+POWERED_DOWN"},
		{"reserved", state("IDLE", "POWERED_DOWN", "RESERVED"), "kept for others"},
		{"in maintenance", state("IDLE", "POWERED_DOWN", "MAINTENANCE"), "kept for others"},
		{"reserved, and Slurm does not show it", reserved("c1", -time.Hour, time.Hour), "reservation theirs has it"},
		{"to be reserved before the test ends", reserved("c1", time.Minute, time.Hour), "reservation theirs has it"},
		{"to be reserved later", reserved("c1", time.Hour, 2*time.Hour), ""},
		{"was reserved", reserved("c1", -2*time.Hour, -time.Hour), ""},
		{"another is reserved", reserved("c2", -time.Hour, time.Hour), ""},
		{"up", state("IDLE"), "it is not off"},
		{"up, with a job of which the list says nothing", state("MIXED"), "it is not off"},
		{"goes down", state("IDLE", "POWERING_DOWN"), "being powered down"},
		{"is asked to go down", state("IDLE", "POWER_DOWN"), "being powered down"},
		{"comes up", state("IDLE", "POWERING_UP"), "powered up already"},
		{"is asked to come up", state("IDLE", "POWER_UP", "POWERED_DOWN"), "powered up already"},
		{"burstd has not done with it", func(k *known) { k.ours.Instance = "i-1" }, "burstd still has it"},
		{"paused", func(k *known) { k.status.Paused = &api.Paused{} }, "paused"},
		{"the pool is stopped", func(k *known) { k.status.Stopped = map[string]string{"p": "5 boots in a row"} }, "5 boots in a row"},
		{"another pool is stopped", func(k *known) { k.status.Stopped = map[string]string{"q": "5 boots in a row"} }, ""},
		{"burstd hears nothing of Slurm", func(k *known) { k.status.SlurmOK, k.status.SlurmError = false, "timed out" }, "timed out"},
	} {
		k := known{pool: "p", until: now.Add(10 * time.Minute), status: api.Status{SlurmOK: true},
			node: slurm.Node{Name: "c1", Reason: "broken fan", State: slurm.NodeState{Base: "IDLE", Flags: []string{"CLOUD", "POWERED_DOWN"}}}}
		test.set(&k)
		err := refuse(k)
		var r *Refusal
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.want != "" && (!errors.As(err, &r) || !strings.Contains(r.Why, test.want) || r.Next == ""):
			t.Errorf("%s: %v, want %q and what to do", test.name, err, test.want)
		}
	}
}

func TestWhatToDo(t *testing.T) {
	test := test{Result: Result{Node: "c1", Pool: "p"}}
	for why, want := range map[string]string{
		"budget: the cluster's of the day is used up":  "burst budget",
		"no capacity: local.small/a/spot":              "instance_types",
		"quota: vCPUs":                                 "instance_types",
		"it did not register within 15s":               "console",
		"Slurm gave it up after ResumeTimeout":         "console",
		"something that nobody has thought of as yet.": "burst events --node c1",
	} {
		if got := test.nextOf(why); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", why, got, want)
		}
	}
}

func TestSinceOrder(t *testing.T) {
	b := api.Boot{Stages: map[string]float64{"queued": 0.5, "launched": 1, "ready": 3}}
	if d, ok := sinceOrder(b, "ready"); !ok || d != 4500*time.Millisecond {
		t.Errorf("%v %v", d, ok)
	}
	if _, ok := sinceOrder(b, "running"); ok {
		t.Error("a stage of which nothing is known has a time")
	}
}
