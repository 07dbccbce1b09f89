package history

import (
	"fmt"
	"testing"

	"github.com/burst-hpc/burst/slurm"
)

func BenchmarkBook10k(b *testing.B) {
	in := Input{Snapshot: &slurm.Snapshot{Taken: at(100), Jobs: map[uint32]slurm.Job{}, Nodes: map[string]slurm.Node{}}, Pools: map[string]string{}}
	for i := range uint32(10_000) {
		name := fmt.Sprintf("c%d", i)
		in.Pools[name], in.Snapshot.Nodes[name] = "p", slurm.Node{Name: name, CPUs: 8}
		j := job("RUNNING", 0, 10)
		j.ID, j.Nodes = i+1, name
		in.Snapshot.Jobs[j.ID] = j
	}
	known := Book(nil, in)
	in.Snapshot.Taken = at(130)
	for b.Loop() {
		if n := len(Book(known, in)); n != 10_000 {
			b.Fatal(n)
		}
	}
}
