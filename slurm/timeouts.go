package slurm

import (
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// ResumeTimeouts is how long slurmctld waits for each node of a partition to register when it powers it up, of what
// ShowConfig and ShowPartitions have returned: the longest time of its partitions that have one, or else the
// cluster's. A node that is waited for without an end, or of which that is not said, is not among them.
func ResumeTimeouts(config map[string]string, partitions []map[string]string) map[string]time.Duration {
	all, endless := map[string]time.Duration{}, map[string]bool{}
	own := map[string]bool{} // nodes of a partition with a time of its own
	cluster := seconds(strings.TrimSuffix(config["ResumeTimeout"], " sec"))
	for _, p := range partitions {
		nodes, err := hostlist.Expand(p["Nodes"])
		if err != nil {
			continue
		}
		text := p["ResumeTimeout"]
		t, has := seconds(text), text != "" && text != "GLOBAL"
		for _, n := range nodes {
			switch {
			case has:
				own[n], endless[n] = true, endless[n] || t == 0
				all[n] = max(t, all[n])
			case !own[n]:
				all[n] = 0
			}
		}
	}
	for n, t := range all {
		if !own[n] {
			t = cluster
		}
		if all[n] = t; t == 0 || endless[n] {
			delete(all, n)
		}
	}
	return all
}

// seconds reads a number of seconds; 0: it is none, as INFINITE.
func seconds(text string) time.Duration {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Second
}
