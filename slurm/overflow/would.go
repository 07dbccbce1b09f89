package overflow

import "github.com/burst-hpc/burst/slurm"

// Fits says why the job, which is not submitted and asks for the partition itself, cannot run there; "": nothing speaks against it.
func (p Partition) Fits(w *slurm.Waiting) string {
	j := newJob(w, []string{p.Name})
	j.would = true
	return p.fits(j)
}

// DefaultMemory is what a job gets that does not say how much memory it needs, in MiB of a node or of each of its CPUs; 0: there is none.
type DefaultMemory struct{ Node, CPU int }

// DefaultMemoryOf reads what Slurm says of a partition, or of the cluster.
func DefaultMemoryOf(attrs map[string]string) DefaultMemory {
	return DefaultMemory{Node: number(attrs["DefMemPerNode"]), CPU: number(attrs["DefMemPerCPU"])}
}

// NodesFor is how many nodes have so many CPUs, if they are the largest of the partition; at least 1.
func (p Partition) NodesFor(cpus int) int {
	largest := 0
	for _, k := range p.kinds {
		largest = max(largest, k.cpus)
	}
	if largest == 0 {
		return 1
	}
	return max(1, (cpus+largest-1)/largest)
}
