package power

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// TestPoolsOfDifferentSizes: p, whose nodes have 4 CPUs, 4000 MiB and 2 GPUs, is dry; a job
// goes to q, whose nodes have 2 CPUs and 1000 MiB, if it is known to fit there.
func TestPoolsOfDifferentSizes(t *testing.T) {
	const off = "IDLE+CLOUD+POWERED_DOWN"
	large := slurm.Node{CPUs: 4, RealMemory: 4000, Gres: "gpu:a100:2(S:0-1)"}
	small := slurm.Node{CPUs: 2, RealMemory: 1000}
	least := slurm.Needs{CPUs: 1, MinCPUs: 1, Tasks: 1}
	with := func(n slurm.Needs) slurm.Needs {
		n.CPUs, n.MinCPUs, n.Tasks = max(1, n.CPUs), max(1, n.MinCPUs), max(1, n.Tasks)
		return n
	}
	for _, tt := range []struct {
		name    string
		needs   slurm.Needs
		nodes   int // 1 if 0
		q       slurm.Node
		state   string // of q's
		unknown bool
		want    bool
	}{
		{name: "one CPU", needs: least, q: small, want: true},
		{name: "as many CPUs as there are", needs: with(slurm.Needs{CPUs: 2}), q: small, want: true},
		{name: "more CPUs", needs: with(slurm.Needs{CPUs: 3}), q: small},
		{name: "more CPUs, of two nodes", needs: with(slurm.Needs{CPUs: 3}), nodes: 2, q: small, want: true},
		{name: "tasks that cannot be halved", needs: with(slurm.Needs{CPUs: 6, MinCPUs: 2, Tasks: 3}), nodes: 2, q: slurm.Node{CPUs: 3, RealMemory: 4000, Gres: large.Gres}},
		{name: "one fits the dry one's alone", needs: with(slurm.Needs{MinCPUs: 3}), q: small},
		{name: "memory", needs: with(slurm.Needs{Memory: 1000}), q: small, want: true},
		{name: "more memory", needs: with(slurm.Needs{Memory: 1001}), q: small},
		{name: "memory of a CPU, or of a node", needs: with(slurm.Needs{CPUs: 2, Memory: 600}), q: small},
		{name: "memory of a node, as the dry one has not that for each CPU", needs: with(slurm.Needs{CPUs: 8, Memory: 600}), q: slurm.Node{CPUs: 8, RealMemory: 1000}, want: true},
		{name: "memory that nobody asks about", needs: with(slurm.Needs{CPUs: 2, Memory: 600}), q: slurm.Node{CPUs: 2, RealMemory: 4000}, want: true},
		{name: "a GPU", needs: with(slurm.Needs{PerNode: "gres:gpu:1"}), q: small},
		{name: "a GPU of the other", needs: with(slurm.Needs{PerNode: "gres:gpu:1"}), q: slurm.Node{CPUs: 2, RealMemory: 1000, Gres: "gpu:v100:1"}, want: true},
		{name: "a GPU of another kind", needs: with(slurm.Needs{PerNode: "gres/gpu:a100=1"}), q: slurm.Node{CPUs: 2, RealMemory: 1000, Gres: "gpu:v100:1"}},
		{name: "GPUs for all", needs: with(slurm.Needs{PerJob: "gres:gpu:2"}), q: slurm.Node{CPUs: 2, RealMemory: 1000, Gres: "gpu:1"}},
		{name: "GPUs for all, of two nodes", needs: with(slurm.Needs{PerJob: "gres:gpu:2"}), nodes: 2, q: slurm.Node{CPUs: 2, RealMemory: 1000, Gres: "gpu:1"}, want: true},
		{name: "GPUs for tasks", needs: with(slurm.Needs{CPUs: 2, Tasks: 2, PerTask: "gres:gpu:1"}), q: slurm.Node{CPUs: 2, RealMemory: 1000, Gres: "gpu:1"}},
		{name: "GPUs of sockets", needs: with(slurm.Needs{PerSocket: "gres:gpu:1"}), q: slurm.Node{CPUs: 2, RealMemory: 1000, Gres: "gpu:1"}},
		{name: "GPUs of sockets, and as large", needs: with(slurm.Needs{PerSocket: "gres:gpu:1"}), q: large, want: true},
		{name: "not known, and smaller", unknown: true, q: small},
		{name: "not known, less memory", unknown: true, q: slurm.Node{CPUs: 4, RealMemory: 3000, Gres: large.Gres}},
		{name: "not known, no GPU", unknown: true, q: slurm.Node{CPUs: 4, RealMemory: 4000}},
		{name: "not known, and as large", unknown: true, q: large, want: true},
		{name: "an admin has reserved them", needs: least, q: large, state: off + "+RESERVED"},
		{name: "maintenance", needs: least, q: large, state: "IDLE+CLOUD+MAINTENANCE+POWERED_DOWN+RESERVED"},
		{name: "the job is of a reservation", needs: with(slurm.Needs{Reservation: "course"}), q: large},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state := tt.state
			if state == "" {
				state = off
			}
			job := slurm.Job{ID: 7, State: "PENDING", Batch: true, NumNodes: max(1, tt.nodes), Partition: "both"}
			inSlurm(t, State{}, map[string]string{"c1": off, "d1": state, "d2": state}, []slurm.Job{job}, func(t *testing.T, e *Engine, s *scripted) {
				for name, n := range s.snap.Nodes {
					as := tt.q
					if name == "c1" {
						as = large
					}
					n.CPUs, n.RealMemory, n.Gres, n.Partitions = as.CPUs, as.RealMemory, as.Gres, []string{"both"}
					s.snap.Nodes[name] = n
				}
				if s.needs = map[uint32]slurm.Needs{7: tt.needs}; tt.unknown {
					s.needs, s.fail["needs"] = nil, errors.New("squeue: no answer")
				}
				end := time.Now().Add(30 * time.Second)
				c := Change{Holds: []Hold{{Job: 7, Start: end, Why: "no capacity in pool p (x)"}}}
				for _, o := range e.pools["p"].Fleet.Offerings() {
					c.Coolings = append(c.Coolings, Cooling{e.pools["p"].Provider, o, fleet.Cooldown{Failures: 1, Until: end}})
				}
				e.apply(c)
				if _, err := e.failOver(t.Context()); err != nil {
					t.Fatal(err)
				}
				h := e.mem.holds[7]
				if goes := strings.Contains(h.Why, "; it goes to pool q"); goes != tt.want || h.Start.Equal(end) == goes {
					t.Errorf("it starts at %s: %s", h.Start, h.Why)
				}
			})
		})
	}
}
