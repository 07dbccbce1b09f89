package overflow

import "github.com/burst-hpc/burst/slurm"

// Fits says why the job, which asks for the partition itself, cannot run there; "": nothing speaks against it.
func (p Partition) Fits(w *slurm.Waiting) string {
	return p.fits(newJob(w, []string{p.Name}))
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
