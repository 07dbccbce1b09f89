package power

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// write commits a plan. What a provider wants to complete first is prepared
// beside Run, all launches of the plan at once, and written when that is done;
// until then nothing more is planned for that provider.
func (e *Engine) write(ctx context.Context, out planned) error {
	now := time.Now()
	c := out.Change
	rounds := map[string][]draft{}
	for _, d := range out.drafts {
		if _, ok := e.providers[d.Provider].(cloud.Preparer); ok {
			rounds[d.Provider] = append(rounds[d.Provider], d)
			continue
		}
		d.Account = e.accounts[d.Provider]
		d.write(&c, now)
	}
	if err := e.commit(ctx, c); err != nil {
		return err
	}
	for name, drafts := range rounds {
		e.prepare(ctx, name, drafts)
	}
	return nil
}

func (e *Engine) prepare(ctx context.Context, name string, drafts []draft) {
	preparer := e.providers[name].(cloud.Preparer)
	e.market.preparing[name] = true
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		requests := make([]cloud.LaunchRequest, len(drafts))
		for i, d := range drafts {
			requests[i] = d.Request
		}
		errs := preparer.Prepare(ctx, requests)
		if len(errs) != len(requests) {
			errs = slices.Repeat([]error{fmt.Errorf("%d answers for %d requests", len(errs), len(requests))}, len(requests))
		}
		return func(ctx context.Context) { e.prepared(ctx, name, drafts, requests, errs) }
	})
}

// prepared writes the launches that are ready. One that is refused was never
// tried: its offerings cool down as after a launch. One that cannot be prepared
// now is planned again later. Of a job, all are written or none, and so of the components of a heterogeneous one.
func (e *Engine) prepared(ctx context.Context, name string, drafts []draft, requests []cloud.LaunchRequest, errs []error) {
	e.market.preparing[name] = false
	if ctx.Err() != nil {
		return
	}
	e.changed = true // what waited for this round is due
	now := time.Now()
	var c Change
	stale := make([]bool, len(drafts))
	ready := map[string]bool{} // by sourceKey: false if a launch has to wait
	for i, d := range drafts {
		_, stopped := e.mem.stopped(d.Request.Pool, name)
		stale[i] = stopped || errs[i] != nil || slices.ContainsFunc(d.nodes, func(n Node) bool { return e.mem.nodes[n.Name] != n })
	}
	e.withTheirs(drafts, stale)
	for _, i := range e.tooDear(ctx, drafts, func(i int) bool { return stale[i] }) {
		stale[i] = true
		key := sourceKey(drafts[i].Request.Pool, name)
		if _, waits := ready[key]; !waits { // should the plan allow it all the same, it is not prepared without a pause
			e.failed("preparing for " + key)
		}
		ready[key] = false
	}
	e.withTheirs(drafts, stale)
	for i, d := range drafts {
		err, pool, key := errs[i], d.Request.Pool, sourceKey(d.Request.Pool, name)
		if err == nil {
			if !stale[i] {
				d.Request, d.Account = requests[i], e.accounts[name]
				d.write(&c, now)
				if _, waits := ready[key]; !waits {
					ready[key] = true
				}
			}
			continue
		}
		if refusedForGood(err) {
			d.Request.Offering, d.Request.Or = requests[i].Offering, requests[i].Or
			e.tried(d.Launch, nil, err)
			e.refuse(&c, d.Launch, err, answer{})
			continue
		}
		e.market.trouble[key] = fmt.Sprintf("%s: %s", phrase(cloud.KindOf(err)), brief(err))
		ready[key] = false
		if k := cloud.KindOf(err); k == cloud.Transient || k == cloud.Auth {
			e.market.away[key] = fmt.Sprintf("%s at %s: %s", phrase(k), name, brief(err))
		}
		wait := e.refused("preparing for "+key, err)
		if cloud.KindOf(err) != cloud.Auth {
			e.log.Warn("a launch could not be prepared; it will be tried again", "pool", pool, "in", wait.Round(time.Millisecond), "error", err)
		}
	}
	e.credentials(&c, name, opPrepare, worst(errs))
	e.note(name, errors.Join(errs...))
	if err := e.commit(ctx, c); err != nil {
		e.log.Warn("launches that are prepared could not be written; they are prepared again", "provider", name, "error", err)
		keys := map[string]bool{}
		for _, d := range drafts {
			if key := sourceKey(d.Request.Pool, name); !keys[key] {
				keys[key] = true
				e.failed("preparing for " + key)
			}
		}
		return
	}
	for key, all := range ready {
		if all {
			delete(e.backoff, "preparing for "+key)
			delete(e.market.away, key)
		}
	}
}

// withTheirs has the launches be left, too, that jobs need beside one that is.
func (e *Engine) withTheirs(drafts []draft, left []bool) {
	out := map[uint32]bool{} // jobs of which not all can be launched
	for more := true; more; {
		more = false
		for i, d := range drafts {
			wholes := e.wholesOf(d)
			left[i] = left[i] || slices.ContainsFunc(wholes, func(id uint32) bool { return out[id] })
			for _, id := range wholes {
				more = more || left[i] && !out[id]
				out[id] = out[id] || left[i]
			}
		}
	}
}

// refusedForGood says that none of the offerings can be had as they are asked for.
func refusedForGood(err error) bool {
	all := cloud.Errors(err)
	return len(all) > 0 && !slices.ContainsFunc(all, func(e *cloud.Error) bool {
		return e.Kind == cloud.Auth || e.Kind == cloud.Throttled || e.Kind == cloud.Transient
	})
}

// worst is the error about credentials among those of a round, or else none,
// or if none is nil the first.
func worst(errs []error) error {
	for _, err := range errs {
		if err != nil && cloud.KindOf(err) == cloud.Auth {
			return err
		}
	}
	if slices.Contains(errs, nil) {
		return nil
	}
	return errs[0]
}
