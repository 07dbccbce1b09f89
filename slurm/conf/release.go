package conf

import (
	"fmt"
	"slices"
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
	// topologyYAML: topology.yaml is read, where there is one, and topology.conf and TopologyPlugin are not.
	topologyYAML = Release{25, 5}
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

func (r Release) String() string { return fmt.Sprintf("%02d.%02d", r.Major, r.Minor) }

// Fits says whether a slurmd of r may be one of a slurmctld of ctld's: it is at most as new, by two releases older, and by three
// from slurmctld 24.11 on (Slurm's upgrade guide; bootstrap's fits is the same).
func (r Release) Fits(ctld Release) bool {
	window := 2
	if ctld.Since(Release{24, 11}) {
		window = 3
	}
	return ctld.Since(r) && r.number() >= ctld.number()-window
}

// number is the how manieth it is: 20.02 is 1, 24.11 is 8.
func (r Release) number() int {
	if r.Major >= 23 {
		n := 2 * (r.Major - 23)
		if r.Minor >= 11 {
			n++
		}
		return n + 5
	}
	return slices.Index([]Release{{20, 2}, {20, 11}, {21, 8}, {22, 5}}, r) + 1
}
