package power

import (
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Two launches of one offering beside each other, all or nothing, may both get too few where either would have got
// all alone: what came of both is ended again. Where that is paid for long they are made one after the other.
//
// A turn that comes late is worse than none: what is launched then cannot register in time, and is paid for. So from
// a third of its ResumeTimeout on a job goes beside the others, at that risk. It is not given back for it:
// without a batch script it would be lost.

// worthATurn is how much of an instance's time has to be paid for at least for that.
const worthATurn = 5 * time.Minute

// byOffering is who has the turn at an offering.
type byOffering map[coolKey]*turns

// turns are the two jobs that have the turn the longest, each with the time until when, and the two oldest ones:
// enough to tell each job of the others, however many they are.
type turns struct{ last, oldest []holder }

type holder struct {
	job   uint32
	until time.Time
}

func (b byOffering) take(job uint32, until time.Time, keys []coolKey) {
	h := holder{job, until}
	for _, k := range keys {
		if b[k] == nil {
			b[k] = &turns{}
		}
		t := b[k]
		t.last = two(t.last, h, func(a, b holder) bool { return a.until.After(b.until) })
		t.oldest = two(t.oldest, h, func(a, b holder) bool { return a.job < b.job })
	}
}

// two are the first two of different jobs.
func two(all []holder, h holder, first func(a, b holder) bool) []holder {
	if i := slices.IndexFunc(all, func(o holder) bool { return o.job == h.job }); i >= 0 {
		if !first(h, all[i]) {
			return all
		}
		all = slices.Delete(all, i, i+1)
	}
	i := 0
	for i < len(all) && !first(h, all[i]) {
		i++
	}
	all = slices.Insert(all, i, h)
	return all[:min(2, len(all))]
}

// others is until when others than the job have it at one of these, the last, and which of them is the oldest, 0 if
// it is nobody's, and where; zero: they have not.
func (b byOffering) others(job uint32, keys []coolKey) (until time.Time, oldest uint32, at cloud.Offering) {
	not := func(h holder) bool { return h.job != job }
	for _, k := range keys {
		t := b[k]
		if t == nil {
			continue
		}
		i := slices.IndexFunc(t.oldest, not)
		if i < 0 {
			continue
		}
		if until.IsZero() || t.oldest[i].job < oldest {
			oldest, at = t.oldest[i].job, k.offering
		}
		until = later(until, t.last[slices.IndexFunc(t.last, not)].until)
	}
	return until, oldest, at
}

// takeTurns passes jobs over whose nodes are to be launched as what another job's launch is under way for, or is
// due for, if it is not late for them. They do not go to another offering or source instead, as in a moment it is known. It
// returns when to look again, though that launch has had no answer.
func (p planning) takeTurns(out *planned, groups []group, picks []pick, passed map[uint32]bool) (wait time.Time) {
	if p.least == nil {
		return wait
	}
	busy := byOffering{}
	for _, l := range p.mem.launches {
		if job, until := p.holdsTurn(l); p.now.Before(until) {
			busy.take(job, until, p.inTurns(l.Provider, l.Request.Offerings()))
		}
	}
	wanted := map[uint32][]coolKey{}
	for i, g := range groups {
		if ch := picks[i]; g.job != 0 && ch.Offering != (cloud.Offering{}) {
			wanted[g.job] = append(wanted[g.job], p.inTurns(ch.pool.Provider, append([]cloud.Offering{ch.Offering}, ch.Or...))...)
		}
	}
	for _, g := range groups { // by job: the oldest has its turn first
		if g.job == 0 || passed[g.job] {
			continue
		}
		until, other, at := busy.others(g.job, wanted[g.job])
		end := p.turnEnds(g.job)
		if until.IsZero() || !end.IsZero() && !p.now.Before(end) {
			busy.take(g.job, p.now.Add(doubtFor), wanted[g.job])
			continue
		}
		passed[g.job] = true
		whose := "another launch"
		if other != 0 {
			whose = fmt.Sprintf("job %d's launch", other)
		}
		busy.take(g.job, p.now.Add(doubtFor), wanted[g.job]) // also one that waits: no younger job is before it
		if !end.IsZero() {
			until = earlier(until, end)
		}
		if tell := g.nodes[0].Since.Add(leastWait); p.now.Before(tell) {
			until = earlier(until, tell)
		} else {
			p.quiet(out, g, []string{fmt.Sprintf("%s of %s is waited for", whose, at)})
		}
		if wait.IsZero() || until.Before(wait) {
			wait = until
		}
	}
	return wait
}

// turnEnds is until when a job waits for its turn; zero: for ever.
func (p planning) turnEnds(job uint32) (end time.Time) {
	for _, n := range p.of[job] {
		timeout := p.timeout(n.Pool)
		if n.Phase != Wanted || n.Made.IsZero() || timeout <= 0 {
			continue
		}
		if t := n.Made.Add(timeout / 3); end.IsZero() || t.Before(end) {
			end = t
		}
	}
	return end
}

// inTurns are those of a provider's offerings of which too few are paid for long.
func (p planning) inTurns(provider string, all []cloud.Offering) (keys []coolKey) {
	for _, o := range all {
		if p.least(provider, o) >= worthATurn {
			keys = append(keys, coolKey{provider, o})
		}
	}
	return keys
}

// holdsTurn is whose launch it is, and until when others wait for its answer: not for one that is given up, or that
// nobody waits for and that is not being called, and for no other longer than one may take, from its first call
// in this life on.
func (p planning) holdsTurn(l Launch) (job uint32, until time.Time) {
	if !l.Request.AllOrNothing || l.State == Abandoned {
		return 0, time.Time{}
	}
	for _, name := range l.Nodes {
		if n := p.mem.nodes[name]; n.Phase == Launching && n.Token == l.Token {
			job = n.Job
		}
	}
	if _, calling := p.market.called[l.Token]; job == 0 && !calling {
		return 0, time.Time{}
	}
	return job, later(l.Created, p.loaded).Add(mayTake(l.Request.Count) + p.limits[l.Provider].Lag)
}
