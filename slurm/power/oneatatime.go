package power

import (
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Two launches of one offering beside each other, all or nothing, may both get too few where either would have got
// all alone: what came of both is ended again. Where that is paid for long they are made one after the other.

// worthATurn is how much of an instance's time has to be paid for at least for that.
const worthATurn = 5 * time.Minute

// byOffering is until when jobs have the turn at an offering.
type byOffering map[coolKey]map[uint32]time.Time

func (b byOffering) take(job uint32, until time.Time, keys []coolKey) {
	for _, k := range keys {
		if b[k] == nil {
			b[k] = map[uint32]time.Time{}
		}
		b[k][job] = later(until, b[k][job])
	}
}

// others is until when others than the job have it at one of these, the last; zero: they have not.
func (b byOffering) others(job uint32, keys []coolKey) (until time.Time) {
	for _, k := range keys {
		for other, t := range b[k] {
			if other != job {
				until = later(until, t)
			}
		}
	}
	return until
}

// takeTurns passes jobs over whose nodes are to be launched as what another job's launch is under way for, or is
// due for. They do not go to another offering or source instead, as in a moment it is known. It returns when to look
// again, though that launch has had no answer.
func (p planning) takeTurns(groups []group, picks []pick, passed map[uint32]bool) (wait time.Time) {
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
		until := busy.others(g.job, wanted[g.job])
		busy.take(g.job, p.now.Add(doubtFor), wanted[g.job]) // also one that waits: no younger job is before it
		if until.IsZero() {
			continue
		}
		passed[g.job] = true
		if wait.IsZero() || until.Before(wait) {
			wait = until
		}
	}
	return wait
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
