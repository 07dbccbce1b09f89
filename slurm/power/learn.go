package power

import (
	"context"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// look lists instances beside Run and takes in what has changed of them,
// unless that was done not long ago, measured by how long something has been
// waited for. It returns when it is due again.
func (e *Engine) look(ctx context.Context, what, name string, ids []string, waited time.Duration) time.Duration {
	provider, ok := e.providers[name]
	if !ok || e.flying[what] {
		return 0 // its provider has left the configuration: said at the start
	}
	pace := min(30*time.Second, max(100*time.Millisecond, waited/2))
	if wait := max(e.until(what), pace-time.Since(e.looked[what])); wait > 0 {
		return wait
	}
	e.flying[what] = true
	e.beside(ctx, func(ctx context.Context) func(context.Context) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		list, err := provider.List(ctx, cloud.Filter{Cluster: e.cfg.Cluster, IDs: ids})
		return func(ctx context.Context) {
			delete(e.flying, what)
			e.looked[what] = time.Now()
			e.note(name, err)
			if err == nil {
				err = e.commit(ctx, e.learn(list))
			}
			if err != nil {
				wait := e.refused(what, err)
				e.log.Warn("will ask again", "what", what, "in", wait.Round(time.Millisecond), "error", err)
				return
			}
			delete(e.backoff, what)
		}
	})
	return 0
}

// learn plans what a list says of instances that the journal has.
func (e *Engine) learn(list []cloud.Instance) Change {
	var c Change
	for _, i := range list {
		rec, ok := e.mem.instances[i.ID]
		closing := rec.Doomed != "" && i.State == cloud.Terminated
		if !ok || !closing && rec.State == i.State && rec.Addr == i.Addr && rec.Hostname == i.Hostname && rec.Why == i.Why {
			continue
		}
		rec.State, rec.Addr, rec.Hostname, rec.Ended, rec.Guessed, rec.Why = i.State, i.Addr, i.Hostname, i.Ended, false, i.Why
		if closing {
			e.gone(&c, rec)
			continue
		}
		c.Instances = append(c.Instances, rec)
	}
	return c
}

// gone plans that an instance is closed: the cloud has confirmed its end.
func (e *Engine) gone(c *Change, rec Instance) {
	e.closeRecord(c, &rec)
	c.Instances = append(c.Instances, rec)
}

// closeRecord is gone for a record that the change has already.
func (e *Engine) closeRecord(c *Change, rec *Instance) {
	rec.Gone = time.Now()
	e.closed[rec.ID] = rec.Gone
	if rec.Ended.IsZero() {
		rec.Ended, rec.Guessed = rec.Gone, true
	}
	rec.State = cloud.Terminated
	why := rec.Doomed
	if why == CloudEnded {
		why = because(why, rec.Why)
	}
	c.Events = append(c.Events, Event{Time: rec.Gone, Kind: "gone", Node: rec.Assigned, Instance: rec.ID, Pool: rec.Pool,
		Text: fmt.Sprintf("%s ended after %s: %s", rec.Offering, rec.Ended.Sub(rec.Launched).Round(time.Second), why)})
}
