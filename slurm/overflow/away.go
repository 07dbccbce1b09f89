package overflow

import (
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// anew ends that a job is kept from the cloud for a budget.
const anew = "its budget is looked at anew"

// away decides that a job which asks for the cloud itself, and has a place at the site too, is kept from the cloud as long as a
// budget has no room for it: else it would wait with its whole start, at the site as well. False: it is not such a job.
func (d *decider) away(w *slurm.Waiting, keys []Key) bool {
	b, ok := d.Back[w.ID]
	if !ok || !b.Budget || b.Untold || !b.Never && b.Until.Sub(d.Now) <= patience || w.HetID != 0 || held(w) {
		return false
	}
	was := d.partitions(w.Partition)
	var cloud, site []string
	for _, p := range was {
		switch {
		case d.Cloud[p]:
			cloud = append(cloud, p)
		case len(d.Partitions[p].nodes) > 0:
			site = append(site, p)
		}
	}
	if len(cloud) == 0 || len(site) == 0 {
		return false
	}
	d.all = append(d.all, Decision{Job: w, Keys: keys, Action: Add, To: cloud, Was: was, Begin: d.waitsBack(w), Why: b.keeps(was, cloud)})
	return true
}

// keeps says for how long, and why, the job waits without the cloud's partitions.
func (b Back) keeps(was, cloud []string) string {
	until := ""
	if !b.Never {
		until = " until " + b.Until.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("waits for %s, and not for %s%s: %s", strings.Join(without(was, cloud), ","), strings.Join(cloud, ","), until, b.Why)
}
