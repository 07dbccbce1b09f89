package power

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// shutOf says what keeps a source from launching now, if anything does, and how
// long at least.
func (e *Engine) shutOf(s Pool) (sh shut, wait time.Duration) {
	key := sourceKey(s.Name, s.Provider)
	refused, preparing := e.shut(s.Provider), max(0, e.until("preparing for "+key))
	strange, unheard := e.strangeTo(s)
	wait = max(refused, preparing, strange)
	e.mu.Lock()
	bad := e.bad[unheard]
	e.mu.Unlock()
	switch {
	case refused > 0:
		return shut{why: fmt.Sprintf("%s at %s", phrase(cloud.Auth), s.Provider), until: time.Now().Add(wait)}, wait
	case preparing > 0 && e.market.away[key] != "":
		return shut{why: e.market.away[key], until: time.Now().Add(wait)}, wait
	case len(e.pools[s.Name].Then) > 0 && e.market.silent[s.Provider], strange > 0 && bad != "": // it is asked again in the next round
		return shut{why: fmt.Sprintf("%s at %s: %s", phrase(cmp.Or(e.market.unheard[unheard], cloud.Transient)), unheard, bad), until: e.next}, wait
	case wait > 0, e.market.preparing[s.Provider]:
		return shut{brief: true}, wait
	}
	return shut{}, wait
}

// sawJobs remembers the jobs of a reading, and whether the site has nodes of its own.
func (e *Engine) sawJobs(snap *slurm.Snapshot) {
	e.dry.alone = !slices.ContainsFunc(slices.Collect(maps.Values(snap.Nodes)), e.ofSite)
	if e.market.jobs = snap.Jobs; e.several {
		e.market.wants = wishes(snap.Jobs)
	}
}

// heardOf notes whether a provider has answered a round's question. One that has
// not is passed over, where a pool has another, until it does.
func (e *Engine) heardOf(name string, err error) {
	was := e.market.unheard[name]
	delete(e.market.unheard, name)
	if err != nil {
		e.market.unheard[name] = cloud.KindOf(err)
	}
	e.market.silent[name] = e.market.unheard[name] == cloud.Transient
	e.changed = e.changed || was != e.market.unheard[name]
}

// others says that the nodes of a launch may be launched at another provider, some day.
func (e *Engine) others(l Launch, nodes []Node) bool {
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n Node) bool {
		return !slices.ContainsFunc(e.pools[n.Pool].named(e.market.jobs[n.Job].Features), func(s Pool) bool { return s.Provider != l.Provider })
	})
}

// saved says that another provider would have something for the nodes of a launch, for each by itself or for all of
// its job. Else nothing is gained by not waiting for what may come of the launch.
func (e *Engine) saved(l Launch, nodes []Node) bool {
	p, _ := e.planning()
	p.of = e.mem.byJob()
	return !slices.ContainsFunc(nodes, func(n Node) bool {
		not := map[string]bool{l.Provider: true}
		for token, o := range e.mem.launches {
			if token != l.Token && slices.Contains(o.Nodes, n.Name) {
				not[o.Provider] = true
			}
		}
		now, soon := p.elsewhere(groupOf(n, not), e.pools[n.Pool])
		return !now && !soon
	})
}

// turnsAway says that a launch which has not been carried out, as far as is known,
// is not waited for any longer where there is another source: its provider does not
// take our credentials, or has not answered for a while and another has room.
func (e *Engine) turnsAway(l Launch, nodes []Node, err error) bool {
	k := cloud.KindOf(err)
	switch {
	case !e.others(l, nodes):
		return false
	case e.doubt[l.Token]:
		return k != cloud.Throttled && time.Since(l.Created) > doubtFor && e.saved(l, nodes)
	}
	return k == cloud.Auth
}

// mayTake is how long a call for so many instances is waited for: some clouds are asked for one after the other.
// One that follows another of the same launch, whose outcome is not known, may take the
// provider's Lag beside: a cloud without launch tokens has to wait that long for what it may show late.
func mayTake(count int) time.Duration { return doubtFor + time.Duration(count)*500*time.Millisecond }

// errNoAnswer is of a call that has been under way for too long.
var errNoAnswer = &cloud.Error{Kind: cloud.Transient, Op: opLaunch, Err: fmt.Errorf("no answer for %s", doubtFor)}

// overstays withdraws a launch whose call has had no answer for too long, where its nodes may
// be launched at another provider which has room: a cloud that says nothing is no better than one
// that says that it cannot. The call goes on, and what comes of it is nobody's node. Else it
// returns when that is due, 0 for never.
func (e *Engine) overstays(ctx context.Context, l Launch) (time.Duration, error) {
	since, calling := e.market.called[l.Token]
	nodes := e.claimants(l)
	if !calling || l.State == Abandoned || e.overdue(nodes) || !e.others(l, nodes) {
		return 0, nil
	}
	forsaken := mayTake(l.Request.Count)
	if e.doubt[l.Token] {
		forsaken += e.providers[l.Provider].Limits().Lag // it may first have to see what an earlier call has begun
	}
	if wait := forsaken - time.Since(since); wait > 0 {
		return wait, nil
	}
	if !e.saved(l, nodes) {
		return leastWait, nil
	}
	e.doubt[l.Token] = true
	var c Change
	e.withdraw(&c, l, nodes, errNoAnswer)
	return 0, e.commit(ctx, c)
}

// withdraw plans that a launch's nodes are launched anew, at whichever source is
// their turn. What came of a launch in doubt is still to be learnt, and with an error its offerings
// cool down, as one that does not answer is not to be tried with each job.
func (e *Engine) withdraw(c *Change, l Launch, nodes []Node, err error) {
	now := time.Now()
	if err != nil {
		l.Error = err.Error()
	}
	l.State = Abandoned
	switch {
	case !e.doubt[l.Token]:
		l.Resolved = now // it never began
	case err != nil:
		for _, o := range l.Request.Offerings() {
			key := coolKey{l.Provider, o}
			c.Coolings = append(c.Coolings, Cooling{l.Provider, o, e.lacks(key, now)})
			e.because(key, refusal{cloud.Transient, brief(err), e.mem.poolOf(l)})
		}
	}
	c.Launches = append(c.Launches, l)
	for _, n := range nodes {
		n.Phase, n.Since, n.Token = Wanted, now, ""
		c.Nodes = append(c.Nodes, n)
	}
	c.Events = append(c.Events, Event{Time: now, Kind: "launch-withdrawn", Pool: l.Request.Pool, Job: nodes[0].Job,
		Text: fmt.Sprintf("%d × %s at %s: its nodes are launched where it is possible", len(nodes), l.Request.Offering, l.Provider)})
}
