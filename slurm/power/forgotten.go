package power

import (
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// toldText begins what a job is told when its start is set.
const toldText = "burst: requeued: "

// startText is in what a job is told when its start is set to that time.
func startText(start time.Time) string {
	return "starts again from " + start.Local().Format(time.DateTime) + " on"
}

// rememberFor is how long after its start a released job is looked at:
// slurmctld writes its state every few seconds.
const rememberFor = 2 * time.Minute

// forgotten plans that jobs are told again whose start slurmctld has
// forgotten: it was killed before it had written it, and has the job's state of
// before, with another start or none. What the job is told goes with it, and
// tells the two apart.
func forgotten(c *Change, m *memory, snap *slurm.Snapshot, now time.Time) {
	for id, h := range m.holds {
		j, known := snap.Jobs[id]
		if !known || !h.Released || j.State != "PENDING" || now.Sub(h.Start) > rememberFor {
			continue
		}
		if older := strings.HasPrefix(j.AdminComment, toldText); j.AdminComment != "" && !older || strings.Contains(j.AdminComment, startText(h.Start)) {
			continue
		}
		h.Released = false
		c.Holds = append(c.Holds, h)
	}
}
