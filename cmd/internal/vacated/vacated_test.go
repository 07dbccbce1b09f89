package vacated

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/slurm"
)

var t0 = time.Unix(1_800_000_000, 0)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

// ended is a job that had the nodes from 0 on.
func ended(id uint32, nodes string, end int) slurm.Job {
	return slurm.Job{ID: id, State: "COMPLETED", Nodes: nodes, Start: at(0), End: at(end)}
}

func with(j slurm.Job, state string, change func(*slurm.Job)) slurm.Job {
	j.State = state
	change(&j)
	return j
}

func TestNodes(t *testing.T) {
	mine := ended(7, "c[1-2],on1", 50)
	run := history.Run{Job: 7, State: "COMPLETED", Ended: at(50)}
	same := func(*slurm.Job) {}
	for _, tt := range []struct {
		name  string
		jobs  []slurm.Job
		nodes map[string]string // states other than IDLE+CLOUD
		want  string
	}{
		{"it has ended", []slurm.Job{mine}, nil, "c1 c2"},
		{"of no pool", []slurm.Job{ended(7, "on[1-2]", 50)}, nil, ""},
		{"Slurm has forgotten it", nil, nil, ""},
		{"it has ended at another time", []slurm.Job{ended(7, "c[1-2]", 60)}, nil, ""},
		{"it was requeued", []slurm.Job{with(mine, "PENDING", func(j *slurm.Job) { j.Restarts = 1 })}, nil, ""},
		{"it was requeued, and has ended in the same second", []slurm.Job{with(mine, "FAILED", func(j *slurm.Job) { j.Restarts = 1 })}, nil, ""},
		{"it is ending", []slurm.Job{with(mine, "COMPLETING", same)}, nil, ""},
		{"a list that is none", []slurm.Job{ended(7, "c[1-", 50)}, nil, ""},
		{"nodes that Slurm does not know", []slurm.Job{ended(7, "c[1-2],c[7-9]", 50)}, nil, "c1 c2"},

		{"one is given to a job", []slurm.Job{mine, with(ended(8, "c1", 0), "CONFIGURING", same)}, nil, "c2"},
		{"a job runs on one", []slurm.Job{mine, with(ended(8, "c2", 0), "RUNNING", func(j *slurm.Job) { j.End = at(9) })}, nil, "c1"},
		{"a job is suspended there", []slurm.Job{mine, with(ended(8, "c2", 0), "SUSPENDED", same)}, nil, "c1"},
		{"a job's state that we do not know", []slurm.Job{mine, with(ended(8, "c2", 0), "DREAMING", same)}, nil, "c1"},
		{"a job had one for longer", []slurm.Job{mine, ended(8, "c[2-3]", 51)}, nil, "c1"},
		{"jobs that had them before", []slurm.Job{mine, ended(6, "c[1-2]", 50), ended(8, "c2", 12)}, nil, "c1 c2"},
		{"a job waits that had them", []slurm.Job{mine, with(ended(8, "c[1-2]", 60), "PENDING", same)}, nil, "c1 c2"},

		{"one is busy", []slurm.Job{mine}, map[string]string{"c1": "MIXED+CLOUD"}, "c2"},
		{"one has CPUs in use", []slurm.Job{mine}, map[string]string{"c1": "IDLE+CLOUD cpus"}, "c2"},
		{"one is drained", []slurm.Job{mine}, map[string]string{"c1": "IDLE+CLOUD+DRAIN"}, "c2"},
		{"one is planned for another job", []slurm.Job{mine}, map[string]string{"c1": "IDLE+CLOUD+PLANNED"}, "c2 and planned"},
		{"one that is planned is drained too", []slurm.Job{mine}, map[string]string{"c1": "IDLE+CLOUD+DRAIN+PLANNED"}, "c2"},
		{"one that is planned is a job's", []slurm.Job{mine, with(ended(8, "c1", 0), "CONFIGURING", same)}, map[string]string{"c1": "IDLE+CLOUD+PLANNED"}, "c2"},
		{"one is in a reservation", []slurm.Job{mine}, map[string]string{"c1": "IDLE+CLOUD+RESERVED"}, "c2"},
		{"one does not answer", []slurm.Job{mine}, map[string]string{"c1": "IDLE+CLOUD+NOT_RESPONDING"}, "c2"},
		{"one is down", []slurm.Job{mine}, map[string]string{"c1": "DOWN+CLOUD"}, "c2"},
		{"power saving is at work", []slurm.Job{mine}, map[string]string{"c1": "IDLE+CLOUD+POWER_DOWN", "c2": "IDLE+CLOUD+POWERING_DOWN"}, ""},
		{"they are off", []slurm.Job{mine}, map[string]string{"c1": "IDLE+CLOUD+POWERED_DOWN", "c2": "IDLE+CLOUD+NOT_RESPONDING+POWERING_UP"}, ""},
		{"one is another instance by now", []slurm.Job{mine}, map[string]string{"c1": "IDLE+CLOUD later"}, "c2"},
		{"a dynamic node", []slurm.Job{mine}, map[string]string{"c1": "IDLE+CLOUD+DYNAMIC_NORM"}, "c1 c2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			snap := &slurm.Snapshot{Taken: at(70), Jobs: map[uint32]slurm.Job{}, Nodes: map[string]slurm.Node{}}
			for _, n := range []string{"c1", "c2", "c3", "on1", "on2"} {
				snap.Nodes[n] = node(n, "IDLE+CLOUD")
				if s := tt.nodes[n]; s != "" {
					snap.Nodes[n] = node(n, s)
				}
			}
			for _, j := range tt.jobs {
				snap.Jobs[j.ID] = j
			}
			free, planned := Read(snap, map[string]string{"c1": "p", "c2": "p", "c3": "p", "c9": "p"}).Nodes(run)
			got := strings.Join(free, " ")
			if planned {
				got += " and planned"
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// node has a state, and perhaps "cpus" in use, or a slurmd that was started "later".
func node(name, text string) slurm.Node {
	words := strings.Fields(text)
	flags := strings.Split(words[0], "+")
	n := slurm.Node{Name: name, State: slurm.NodeState{Base: flags[0], Flags: flags[1:]}, Started: at(-100)}
	if slices.Contains(words, "cpus") {
		n.AllocCPUs = 1
	}
	if slices.Contains(words, "later") {
		n.Started = at(51)
	}
	return n
}

func TestKept(t *testing.T) {
	for _, tt := range []struct {
		name, nodes, partitions, states string
		want                            string // of c1, c2 and d1, which is in the partition q and drained
		err                             bool
	}{
		{name: "nothing"},
		{name: "nodes", nodes: "c[1,3],d[1-2]", want: "c1 d1"},
		{name: "so many of them", nodes: "c[1-2]:1,e[1-9]:3", want: "c1 c2"},
		{name: "a partition", partitions: "x,q", want: "d1"},
		{name: "a state", states: "drain,MAINTENANCE", want: "d1"},
		{name: "all that is of a cloud", states: "CLOUD", want: "c1 c2 d1"},
		{name: "no list", nodes: "c[1-", err: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, err := KeptBy(map[string]string{"SuspendExcNodes": tt.nodes, "SuspendExcParts": tt.partitions, "SuspendExcStates": tt.states})
			if (err != nil) != tt.err {
				t.Fatal(err)
			}
			var got []string
			d1 := node("d1", "IDLE+CLOUD+DRAIN")
			d1.Partitions = []string{"p", "q"}
			for _, n := range []slurm.Node{node("c1", "IDLE+CLOUD"), node("c2", "IDLE+CLOUD"), d1} {
				if k.Has(n) {
					got = append(got, n.Name)
				}
			}
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("kept are %q, want %q", text, tt.want)
			}
		})
	}
}

// FuzzKept: a plain name stays kept, whatever stands around it.
func FuzzKept(f *testing.F) {
	f.Add("c[1,3]:1")
	f.Add("c],[")
	f.Add("c[1-")
	f.Fuzz(func(t *testing.T, around string) {
		k, err := KeptBy(map[string]string{"SuspendExcNodes": "d1," + around, "SuspendExcStates": around})
		if err == nil && !k.Has(slurm.Node{Name: "d1"}) {
			t.Errorf("with %q d1 is not kept", around)
		}
	})
}
