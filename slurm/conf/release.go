package conf

import (
	"fmt"
	"strings"
)

// Release is a version of Slurm; the zero value is not known, and older than all others.
type Release struct{ Major, Minor int }

var (
	// cloudShown: nodes of a cloud are always shown. PrivateData=cloud is taken, does nothing, and
	// slurmctld does not say that it has it.
	cloudShown = Release{23, 2}
	// firstAddrs: slurmctld tells srun of a job's nodes in a cloud the addresses with which the job
	// began, in order, also when its nodes have changed. So still in 26.05.
	firstAddrs = Release{23, 11}
	// manyPrologs: each PrologSlurmctld line counts, and slurmctld starts all the programs at once.
	// Before, the last line counts.
	manyPrologs = Release{24, 5}
	// prologTimeouts: prologs may have a time limit of their own.
	prologTimeouts = Release{25, 5}
)

// ParseRelease reads what Slurm says of its version: "24.11.5", or "slurm-wlm 24.11.5". What it
// cannot read is not known.
func ParseRelease(text string) Release {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return Release{}
	}
	var r Release
	if n, _ := fmt.Sscanf(fields[len(fields)-1], "%d.%d", &r.Major, &r.Minor); n != 2 {
		return Release{}
	}
	return r
}

// Since says whether r is s or newer.
func (r Release) Since(s Release) bool {
	return r.Major > s.Major || r.Major == s.Major && r.Minor >= s.Minor
}
