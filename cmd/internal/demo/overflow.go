package demo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// Ran is where a job of the demo ran, as Slurm says, and why, as burstd does.
type Ran struct {
	Job       uint32 `json:"job"`
	Name      string `json:"name"`
	State     string `json:"state"`
	Partition string `json:"partition"` // in which it ran last
	Nodes     string `json:"nodes"`
	Asked     string `json:"asked,omitempty"` // the partitions that its user asked for, of one that was moved
	Moved     string `json:"moved,omitempty"` // why it was; empty: it was not
	Stays     string `json:"stays,omitempty"` // why it was not, of one that a rule is about

	cloud, stay bool // as it is to be: see queued
}

func (r Ran) title() string { return fmt.Sprintf("job %d (%s)", r.Job, r.Name) }

// text says where the job ran, and why.
func (r Ran) text() string {
	text := fmt.Sprintf("%s: %s, on %s", r.title(), r.Partition, r.Nodes)
	if why := cmp.Or(r.Moved, r.Stays); why != "" {
		text += "; " + why
	}
	return text
}

// ran puts together what Slurm says of the jobs, and what burstd has moved.
func ran(queue []*queued, moved []api.Overflowed) (all []Ran) {
	for _, q := range queue {
		r := Ran{Job: q.id, Name: q.name, State: q.now.State, Partition: q.now.Partition, Nodes: q.now.Nodes, Stays: q.stays, cloud: q.cloud, stay: q.stay}
		for _, m := range moved {
			if m.Job == strconv.FormatUint(uint64(q.id), 10) {
				r.Asked, r.Moved = m.Was, m.Why
			}
		}
		all = append(all, r)
	}
	return all
}

// wrong says what is not as it must be; empty: nothing.
func (r Ran) wrong() string {
	want := "onprem"
	if r.cloud {
		want = "cloud"
	}
	switch {
	case r.Partition != want:
		return fmt.Sprintf("%s ran in %s, not in %s", r.title(), r.Partition, want)
	case r.cloud && r.Moved == "":
		return r.title() + " ran in the cloud, and no rule has moved it there"
	case r.cloud && r.Asked != "onprem":
		return fmt.Sprintf("%s asked for %s, not for onprem", r.title(), r.Asked)
	case !r.cloud && r.Moved != "":
		return fmt.Sprintf("%s was to stay at the site, and was moved: %s", r.title(), r.Moved)
	case r.stay && r.Stays == "":
		return r.title() + " was not seen to stay at the site"
	}
	return ""
}

// readStays asks burstd why jobs that are to stay do, while they wait.
func (s *show) readStays(ctx context.Context) {
	waits := func(q *queued) bool { return q.stay && q.stays == "" && q.now.State == "PENDING" }
	if !slices.ContainsFunc(s.queue, waits) || time.Since(s.askedAt) < askEvery {
		return
	}
	s.askedAt = time.Now()
	plan, err := s.site.API.OverflowPlan(ctx, api.OverflowAsk{})
	if err != nil {
		return // it is asked again; what it never said the report misses
	}
	for _, q := range s.queue {
		for _, p := range plan {
			if waits(q) && p.Job == strconv.FormatUint(uint64(q.id), 10) && strings.Contains(p.Why, "#BURST stay") { // and not for something else
				q.stays = p.Why
				s.line.add(entry{at: time.Now(), who: "burst", what: fmt.Sprintf("job %d: %s", q.id, p.Why)}, true)
			}
		}
	}
}

// overflowed counts the jobs that were moved to the cloud, and ran there.
func (r *Report) overflowed() (n int) {
	for _, j := range r.Jobs {
		if j.Moved != "" && j.Partition == "cloud" {
			n++
		}
	}
	return n
}
