package overflow

import (
	"slices"
	"time"
)

// whose is a pending job's time limit. The DefaultTime of the first partition that it was submitted to is the job's own
// from then on. Of one without, squeue shows the MaxTime of one of its partitions, whichever Slurm has looked at last, as if
// it were the job's.
type whose int

const (
	own     whose = iota // the job's, or its user's
	nobodys              // none, or perhaps a partition's MaxTime: then the job gets one where it starts
	unsaid               // it cannot be told any more, since it may be that of a partition which was added
)

// limitOf says whose limit the job's is, by its own partitions.
func (d *decider) limitOf(j *job) (w whose, gets []time.Duration) {
	if j.TimeLimit == 0 {
		w = nobodys
	}
	shown, without := false, false
	for _, name := range j.partitions {
		p, known := d.Partitions[name]
		if !known {
			continue
		}
		gets = append(gets, p.Time)
		shown = shown || p.MaxTime == j.TimeLimit
		without = without || p.Time == p.MaxTime // no DefaultTime
	}
	if shown && without {
		w = nobodys
	}
	if len(gets) == 0 {
		gets = []time.Duration{j.TimeLimit} // as far as it is known
	}
	return w, gets
}

// movedLimit is limitOf once partitions were added: what was asked of a limit that is nobody's is not asked again.
func (d *decider) movedLimit(j *job, to []string) whose {
	w, _ := d.limitOf(j)
	if w == nobodys || slices.ContainsFunc(to, func(name string) bool { return d.Partitions[name].MaxTime == j.TimeLimit }) {
		return unsaid
	}
	return w
}

// keepsLimit says that the job has the limit that squeue shows in each of these, be it its own or not.
func (d *decider) keepsLimit(j *job, to []string) bool {
	return j.limit != nobodys || j.TimeLimit > 0 && !slices.ContainsFunc(to, func(name string) bool { return d.Partitions[name].Time != j.TimeLimit })
}

func orNone(limit time.Duration) string {
	if limit == 0 {
		return "none"
	}
	return short(limit)
}
