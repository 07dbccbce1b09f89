package slurm

import (
	"strings"
	"time"
)

// OverLimits is how long jobs go on after their time limits: OverTimeLimit, of the cluster or a partition, and KillWait.
type OverLimits struct {
	kill       time.Duration
	cluster    time.Duration // below 0: without an end
	partitions map[string]time.Duration
}

// OverLimitsOf reads them in what ShowConfig and ShowPartitions have returned.
func OverLimitsOf(config map[string]string, partitions []map[string]string) OverLimits {
	over := func(text string) time.Duration {
		if text == "UNLIMITED" || text == "INFINITE" {
			return -1
		}
		return 60 * seconds(strings.TrimSuffix(text, " min"))
	}
	o := OverLimits{kill: seconds(strings.TrimSuffix(config["KillWait"], " sec")), cluster: over(config["OverTimeLimit"]), partitions: map[string]time.Duration{}}
	for _, p := range partitions {
		if text := p["OverTimeLimit"]; text != "" && text != "NONE" {
			o.partitions[p["PartitionName"]] = over(text)
		}
	}
	return o
}

// Of is the longest for a job of these partitions, as Slurm lists them; endless: no limit is kept.
func (o OverLimits) Of(partitions string) (d time.Duration, endless bool) {
	for _, p := range strings.Split(partitions, ",") {
		over, own := o.partitions[p]
		if !own {
			over = o.cluster
		}
		endless = endless || over < 0
		d = max(d, over)
	}
	return d + o.kill, endless
}
