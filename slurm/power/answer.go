package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// launched takes a launch's answer into the journal. Whatever goes wrong here
// leaves the launch as it was, to be called again under the same token.
func (e *Engine) launched(ctx context.Context, token string, got []cloud.Instance, err error) {
	delete(e.flying, token)
	delete(e.market.called, token)
	l, ok := e.mem.launches[token]
	if !ok || ctx.Err() != nil {
		return
	}
	e.note(l.Provider, err)
	e.tried(l, got, err)
	nodes := e.claimants(l)
	c, known := e.assign(l, nodes, got, err)
	e.credentials(&c, l.Provider, opLaunch, err)
	pool := e.mem.poolOf(l)
	key := sourceKey(pool, l.Provider)
	if known {
		delete(e.market.trouble, key)
	} else {
		e.market.trouble[key] = fmt.Sprintf("%s: %s", phrase(cloud.KindOf(err)), brief(err))
		e.doubt[token] = e.doubt[token] || begun(got, err)
		switch late := e.overdue(nodes); {
		case late && !e.doubt[token] || time.Since(l.Created) > e.bootTimeout(pool):
			e.abandon(&c, l, nodes, err)
		case !late && e.turnsAway(l, nodes, err):
			e.withdraw(&c, l, nodes, err)
		}
	}
	if err := e.commit(ctx, c); err != nil {
		e.log.Warn("a launch's answer could not be written; it will be asked again", "token", token, "error", err)
		e.failed("launch " + token)
		return
	}
	if _, open := e.mem.launches[token]; known || !open { // or withdrawn
		delete(e.backoff, "launch "+token)
		delete(e.doubt, token)
		return
	}
	e.refused("launch "+token, err)
	if cloud.KindOf(err) == cloud.Auth {
		return // one event has said it, and the provider's gate holds the others back
	}
	e.log.Warn("the launch has not been carried out, as far as is known; the same request follows", "pool", pool, "token", token, "error", err)
}

func (e *Engine) tried(l Launch, got []cloud.Instance, err error) {
	if e.cfg.Tried != nil {
		e.cfg.Tried(l, got, err)
	}
}

// overdue says that an instance that is launched now could not become any of
// the nodes before Slurm gives them up.
func (e *Engine) overdue(nodes []Node) bool {
	p := planning{pools: e.pools, bootTimeout: e.cfg.BootTimeout, resume: e.cfg.ResumeTimeout, now: time.Now()}
	return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n Node) bool { return !p.late(n) })
}

// abandon plans that a launch without a known outcome comes too late for
// Slurm, or is one of a stopped pool: its nodes go back, and what became of it
// is still to be learnt.
func (e *Engine) abandon(c *Change, l Launch, nodes []Node, err error) {
	now := time.Now()
	if l.State = Abandoned; !e.doubt[l.Token] {
		l.Account = "" // it has had no effect anywhere
	}
	if err != nil {
		l.Error = err.Error()
	}
	c.Launches = append(c.Launches, l)
	name := e.mem.poolOf(l)
	pool, ok := e.pools[name]
	if !ok {
		pool = Pool{Name: name, Provider: l.Provider}
	}
	why, again := tooLate(e.market, pool, e.bootTimeout(pool.Name)), func(h Hold) time.Time { return retryAt(h, now) }
	if text, stopped := e.mem.stopped(name, l.Provider); stopped {
		why, again = text, func(Hold) time.Time { return now.Add(maxRetry) }
	}
	e.giveWhole(c, nodes, nil, why, now)
	for _, n := range nodes {
		if n.Job != 0 {
			hold(c, e.mem, n.Job, again(e.mem.holds[n.Job]), why)
		}
	}
}

// settled says whether the outcome of a launch is known: nothing of it may
// come, or come again, later under the same token. A refusal for credentials
// or for too many calls was no launch; the same request follows.
func settled(err error) bool {
	all := cloud.Errors(err)
	over := slices.ContainsFunc(all, func(e *cloud.Error) bool { return e.Settled })
	open := slices.ContainsFunc(all, func(e *cloud.Error) bool {
		return !e.Settled && (e.Kind == cloud.Transient || e.Kind == cloud.Throttled || e.Kind == cloud.Auth)
	})
	cut := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
	return err == nil || !cut && len(all) > 0 && (over || !open)
}

// begun says that an answer which does not settle its launch may be of one that has had its
// effect, or a part of it: a cloud that is asked for instances one after the other has some
// when it refuses the next.
func begun(got []cloud.Instance, err error) bool {
	return len(got) > 0 || cloud.KindOf(err) == cloud.Transient ||
		slices.ContainsFunc(cloud.Errors(err), func(e *cloud.Error) bool { return e.Kind == cloud.Transient })
}

// assign plans what an answer means: instances for the nodes that still want
// one, another use for those that nobody wants, another offering for the nodes
// that got none. known is false when the outcome of the launch is not known.
func (e *Engine) assign(l Launch, nodes []Node, got []cloud.Instance, err error) (c Change, known bool) {
	now := time.Now()
	back := cloud.TakenBack(err)
	e.bookEnds(&c, l, back, cameShort)
	if !settled(err) {
		return c, false
	}
	got = slices.DeleteFunc(got, func(i cloud.Instance) bool {
		_, have := e.mem.instances[i.ID]
		return have || !i.State.Live()
	})
	for n := range got {
		if got[n].Launched.IsZero() {
			got[n].Launched = now // a fleet's answer does not say
		}
	}
	wanted := len(nodes)
	short := len(got) < wanted
	if short && l.Request.AllOrNothing {
		e.bookEnds(&c, l, got, cameShort) // the provider could not
		back, got = append(back, got...), nil
	}
	for _, i := range got[:min(len(got), wanted)] {
		rec := Instance{Instance: i, Provider: l.Provider, Account: e.madeIn(l)}
		n := nodes[0]
		nodes = nodes[1:]
		rec.Assigned = n.Name
		n.Phase, n.Since, n.Instance, n.AddrSet = Booting, now, i.ID, false
		c.Instances, c.Nodes = append(c.Instances, rec), append(c.Nodes, n)
		c.Events = append(c.Events, Event{Time: now, Kind: "instance", Node: n.Name, Instance: i.ID, Pool: n.Pool, Job: n.Job,
			Text: fmt.Sprintf("%s is node %s", i.Offering, n.Name)})
	}
	for _, n := range nodes { // nothing came for these: the next offering
		n.Phase, n.Since, n.Token = Wanted, now, ""
		c.Nodes = append(c.Nodes, n)
	}
	e.spare(&c, l, got[min(len(got), wanted):])
	if err == nil && short {
		err = &cloud.Error{Kind: cloud.Capacity, Op: opLaunch, Err: errors.New("fewer came than were asked for"), Settled: true}
	}
	if err != nil {
		e.refuse(&c, l, err, answer{len(got), back})
		l.Error = err.Error()
	}
	e.came(&c, l, got)
	if l.Resolved = now; err != nil && e.doubt[l.Token] {
		// An earlier call's outcome is unknown, and a refusal need not have looked
		// for it: it is looked up before another launch is tried for the nodes.
		l.Resolved, l.State = time.Time{}, Abandoned
	}
	c.Launches = append(c.Launches, l)
	return c, true
}

// resolve learns what became of a launch that no node waits for: what is
// found under its token is spare, but for what says, or whose address says, that
// it is a node: that was claimed, and reconciliation knows whether it still
// serves. Nothing found means nothing before the cloud's lag has passed, counted
// from now, since the call may have been a moment ago.
func (e *Engine) resolve(ctx context.Context, l Launch, provider cloud.Provider) {
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		err := pause(ctx, provider.Limits().Lag)
		var found []cloud.Instance
		if err == nil {
			err = stillAt(ctx, l, provider)
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(ctx, callTimeout)
			defer cancel()
			found, err = provider.List(ctx, cloud.Filter{Cluster: e.cfg.Cluster, Tokens: []string{l.Token}})
		}
		if err == nil {
			err = stillAt(ctx, l, provider) // the list may be another account's
		}
		return func(ctx context.Context) {
			delete(e.flying, l.Token)
			var over []cloud.Instance
			found = slices.DeleteFunc(found, func(i cloud.Instance) bool {
				if err == nil && i.State == cloud.Terminated && i.Node == "" {
					over = append(over, i)
				}
				return e.mem.knows(i.ID) || !i.State.Live() || i.Node != ""
			})
			if err == nil && len(found) > 0 {
				var snap *slurm.Snapshot
				if snap, err = e.slurm.Fresh(ctx, time.Now()); err == nil {
					found = slices.DeleteFunc(found, func(i cloud.Instance) bool { return e.nodeAt(snap, i) != "" })
				}
			}
			if err == nil {
				l.Resolved = time.Now()
				c := Change{Launches: []Launch{l}}
				e.bookEnds(&c, l, over, unwanted)
				e.spare(&c, l, found)
				err = e.commit(ctx, c)
			}
			if err != nil {
				e.failed("launch " + l.Token)
				return
			}
			delete(e.backoff, "launch "+l.Token)
			delete(e.doubt, l.Token)
		}
	})
}
