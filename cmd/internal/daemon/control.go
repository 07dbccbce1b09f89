package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/power"
)

// ChangePause pauses launches or ends the pause.
func (d *Daemon) ChangePause(ctx context.Context, c api.PauseChange) error {
	if c.Pause {
		return d.engine.Pause(ctx, c.By, c.Reason)
	}
	return d.engine.Unpause(ctx, c.By)
}

// paused is the pause, nil if there is none.
func (d *Daemon) paused() *api.Paused {
	since, by, why := d.engine.Paused()
	if since.IsZero() {
		return nil
	}
	return &api.Paused{Since: since, By: by, Why: why}
}

// drillTimeout bounds what one drill asks of journal and clouds, whatever
// becomes of the client: a drill is begun as a whole.
const drillTimeout = time.Minute

// Evict carries out a drill. With a notice, a provider that can take instances
// back does; of others the guard hears a notice, and endDrills ends the
// instance at the deadline. Without, they are terminated behind the engine's back.
func (d *Daemon) Evict(ctx context.Context, r api.EvictRequest) ([]api.Evicted, error) {
	targets, err := drilled(r.Names, ownFirst(d.engine.Health()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drillTimeout)
	defer cancel()
	now := time.Now()
	if err := d.journal.CommitPower(ctx, power.Change{Events: drillEvents(targets, r, now)}); err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var all []api.Evicted
	var failed []error
	var wg sync.WaitGroup
	turn := make(chan struct{}, 32)
	for _, i := range targets {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			way, deadline, err := d.drill(ctx, i, r, now)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = append(failed, fmt.Errorf("evicting %s (%s): %w", i.ID, cmp.Or(i.Assigned, "no node"), err))
				return
			}
			all = append(all, api.Evicted{Node: i.Assigned, Instance: i.ID, Pool: i.Pool, Provider: i.Provider, Deadline: deadline, Way: way})
		})
	}
	wg.Wait()
	select {
	case d.drills <- struct{}{}:
	default:
	}
	slices.SortFunc(all, func(a, b api.Evicted) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Instance, b.Instance))
	})
	return all, errors.Join(failed...)
}

// Ways of a drill.
const (
	byCloud  = "cloud"
	byBurstd = "burstd"
	atOnce   = "at once"
)

// sourceDrill marks the notices that endDrills sees to.
const sourceDrill = "drill"

// drill begins one instance's, and says who ends it, and when.
func (d *Daemon) drill(ctx context.Context, i power.Instance, r api.EvictRequest, now time.Time) (way string, deadline time.Time, err error) {
	provider, ok := d.providers[i.Provider]
	if !ok {
		return "", now, fmt.Errorf("its provider %s has left the configuration", i.Provider)
	}
	if r.NoNotice {
		return atOnce, now, provider.Terminate(ctx, []string{i.ID})
	}
	deadline = now.Add(r.Lead)
	if e, ok := provider.(cloud.Evicter); ok {
		return byCloud, deadline, e.Evict(ctx, i.ID, r.Lead)
	}
	err = d.guard.Hear(ctx, i.Provider, cloud.Notice{Instance: i.ID, Kind: cloud.SpotInterruption,
		Action: "terminate", Deadline: deadline, Received: now, Source: sourceDrill})
	if err != nil {
		return "", deadline, err
	}
	// A notice from before counts: of a drill the earlier deadline, of the cloud its word.
	n, err := d.store.NoticeOf(ctx, i.ID, cloud.SpotInterruption)
	switch {
	case err != nil:
		return "", deadline, err
	case n.Source == sourceDrill:
		return byBurstd, n.Deadline, nil
	case n.Deadline.Before(now):
		return "", deadline, fmt.Errorf("its notice of %s, by %s, has not come true, and it gets no other: --no-notice ends it", n.Deadline.Local().Format(time.DateTime), n.Source)
	}
	return byCloud, n.Deadline, nil
}

// ownFirst are the instances, first those that are their nodes': another may live beside a server of files, and say
// that it is it.
func ownFirst(h power.Health) []power.Instance {
	own := map[string]bool{}
	for _, n := range h.Nodes {
		own[n.Instance] = true
	}
	all := slices.Clone(h.Instances)
	slices.SortStableFunc(all, func(a, b power.Instance) int {
		switch {
		case own[a.ID] == own[b.ID]:
			return 0
		case own[a.ID]:
			return -1
		}
		return 1
	})
	return all
}

// drilled finds the instances that names mean, each once, or says which there
// are not.
func drilled(names string, all []power.Instance) ([]power.Instance, error) {
	list, err := hostlist.Expand(names)
	if err != nil {
		return nil, &api.Error{Status: http.StatusBadRequest, Message: err.Error()}
	}
	by := map[string]power.Instance{}
	for _, i := range all {
		if i.Doomed != "" {
			continue // a drill of it would show nothing
		}
		by[i.ID] = i
		if _, taken := by[i.Assigned]; i.Assigned != "" && !taken {
			by[i.Assigned] = i
		}
	}
	found := map[string]power.Instance{}
	var none []string
	for _, name := range list {
		if i, ok := by[name]; ok {
			found[i.ID] = i
		} else {
			none = append(none, name)
		}
	}
	if len(none) > 0 {
		return nil, &api.Error{Status: http.StatusNotFound,
			Message: fmt.Sprintf("no instance that is not ending already is, or serves, %.500s; none of the drill was begun", hostlist.Fold(none))}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b power.Instance) int { return strings.Compare(a.ID, b.ID) }), nil
}

func drillEvents(targets []power.Instance, r api.EvictRequest, now time.Time) []power.Event {
	text := fmt.Sprintf("it goes in %s, by %s", r.Lead, r.By)
	if r.NoNotice {
		text = "it goes without a notice, by " + r.By
	}
	var all []power.Event
	for _, i := range targets {
		all = append(all, power.Event{Time: now, Kind: "drill", Node: i.Assigned, Instance: i.ID, Pool: i.Pool, Text: text})
	}
	return all
}

// drillAgain is how long the cloud has to end an instance of a drill before it
// is asked again.
const drillAgain = 30 * time.Second

// endDrills ends at their deadlines the instances of which the guard has heard
// a drill's notice. The notice in the journal is all that it knows: a drill
// goes on over a restart.
func (d *Daemon) endDrills(ctx context.Context) error {
	asked := map[string]time.Time{}
	for {
		wait, err := d.endDue(ctx, asked)
		if err != nil && ctx.Err() == nil {
			d.log.Warn("instances of a drill could not be ended; it will be tried again", "error", err)
		}
		var timer <-chan time.Time
		if wait > 0 {
			timer = time.After(wait)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.drills:
		case <-timer:
		}
	}
}

// endDue ends what is due and returns when to look again; 0: when a drill begins.
func (d *Daemon) endDue(ctx context.Context, asked map[string]time.Time) (time.Duration, error) {
	const soon = 5 * time.Second // after an error
	open, err := d.store.Drills(ctx)
	if err != nil {
		return soon, err
	}
	var wait time.Duration
	due := map[string][]string{} // by provider
	keep := map[string]bool{}
	for _, o := range open {
		keep[o.Instance] = true
		left := time.Until(o.Deadline)
		if at, ok := asked[o.Instance]; ok && left <= 0 {
			left = drillAgain - time.Since(at)
		}
		if left <= 0 {
			due[o.Provider] = append(due[o.Provider], o.Instance)
			left = drillAgain
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	maps.DeleteFunc(asked, func(id string, _ time.Time) bool { return !keep[id] })
	var failed []error
	for name, ids := range due {
		provider, ok := d.providers[name]
		if !ok {
			failed = append(failed, fmt.Errorf("provider %s has left the configuration", name))
			continue
		}
		call, cancel := context.WithTimeout(ctx, drillTimeout)
		err := provider.Terminate(call, ids)
		cancel()
		if err != nil {
			failed, wait = append(failed, fmt.Errorf("provider %s: %w", name, err)), min(wait, soon)
			continue
		}
		d.log.Info("the drill's instances end: their deadline has come", "provider", name, "instances", ids)
		for _, id := range ids {
			asked[id] = time.Now()
		}
	}
	return wait, errors.Join(failed...)
}

// Reconcile tells what a round would do, and unless it is a dry run has one run.
func (d *Daemon) Reconcile(ctx context.Context, r api.ReconcileRequest) ([]api.Planned, error) {
	plan, err := d.engine.Plan(ctx)
	if err != nil {
		return nil, err
	}
	if !r.DryRun {
		if err := d.engine.Reconcile(ctx); err != nil {
			return nil, err
		}
	}
	all := make([]api.Planned, len(plan))
	for i, p := range plan {
		all[i] = api.Planned{Action: p.Kind, Node: p.Node, Instance: p.Instance, Why: p.Why, Settling: p.Settling}
	}
	return all, nil
}
