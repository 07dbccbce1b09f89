package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/paidhour"
	"github.com/burst-hpc/burst/cmd/internal/vacated"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// hoursEvery is the time between two looks: a paid hour's end has many within which its
// node may go.
const hoursEvery = 15 * time.Second

// hours has Slurm power down idle nodes shortly before an hour ends that is paid for.
// Slurm then calls burst-suspend, as for any node. It keeps nothing that a restart loses
// but which event it has written.
type hours struct {
	*Daemon
	rule map[source]bool      // those that are paid by the hour
	told map[string]time.Time // instance -> the end of the hour of which the event says that its node goes
}

func (d *Daemon) newHours() *hours {
	h := &hours{Daemon: d, rule: map[source]bool{}, told: map[string]time.Time{}}
	for _, p := range d.cfg.Sources() {
		if p.PaidUnit > 0 {
			h.rule[source{p.Power.Name, p.Power.Provider}] = true
		}
	}
	return h
}

// keepHours looks at the nodes that are paid by the hour until ctx ends.
func (d *Daemon) keepHours(ctx context.Context) error {
	h := d.newHours()
	if len(h.rule) == 0 {
		return nil
	}
	told := ""
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(jitter(hoursEvery)):
		}
		text := ""
		if err := h.round(ctx, time.Now()); err != nil {
			text = err.Error()
		}
		if text != "" && text != told && ctx.Err() == nil {
			d.log.Warn("idle nodes may stay beyond the hour that is paid for", "error", text)
		}
		told = text
	}
}

// round has those nodes powered down that are due.
func (h *hours) round(ctx context.Context, now time.Time) error {
	begun := time.Now()
	// Slurm's answers and the journal may be slow: too late, the node would go at the beginning of another hour.
	still := func(all []power.Instance) []power.Instance {
		at := now.Add(time.Since(begun))
		return slices.DeleteFunc(all, func(i power.Instance) bool { return !h.paid(i).Due(at) })
	}
	due := h.due(now)
	if len(due) == 0 {
		return nil
	}
	idle, err := h.idle(ctx, now, due)
	if idle = still(idle); err != nil || len(idle) == 0 {
		return err
	}
	var events []ft.Event
	for _, i := range idle {
		if end := h.paid(i).Until(now); !h.told[i.ID].Equal(end) {
			h.told[i.ID] = end
			events = append(events, ft.Event{Time: now, Kind: "power-down", Node: i.Assigned, Instance: i.ID,
				Text: fmt.Sprintf("idle, and what is paid of its instance ends at %s", end.Local().Format(time.TimeOnly))})
		}
	}
	if len(events) > 0 {
		if err := h.journal.CommitFT(ctx, ft.Change{Events: events}); err != nil {
			return err
		}
	}
	var nodes []string
	for _, i := range still(idle) {
		nodes = append(nodes, i.Assigned)
	}
	if len(nodes) == 0 {
		return nil
	}
	// A job that comes in this moment waits for another node, or for this one's next
	// instance; one that has just begun goes on, and the node goes when it is idle.
	err = h.client.UpdateNodes(ctx, slurm.NodeUpdate{Nodes: nodes, State: "power_down"})
	var part *slurm.PartialError
	if errors.As(err, &part) {
		return fmt.Errorf("slurm refuses to power down idle nodes: %w", err)
	}
	return err
}

// kept says which nodes slurm.conf keeps from being suspended.
func (d *Daemon) kept(ctx context.Context) (func(slurm.Node) bool, error) {
	config, err := d.client.ShowConfig(ctx)
	if err != nil {
		return nil, err
	}
	k, err := vacated.KeptBy(config)
	return k.Has, err
}

func (h *hours) paid(i power.Instance) paidhour.Paid {
	return paidhour.Paid{Launched: i.Launched, By: h.increment(i.Provider, i.Offering)}
}

// keeps is power.Config.Paid.
func (h *hours) keeps(i power.Instance) bool {
	return h.rule[source{i.Pool, i.Provider}] && h.paid(i).Waits()
}

// due are the instances of nodes that are up, if an hour of theirs ends soon, in the
// order of their nodes.
func (h *hours) due(now time.Time) []power.Instance {
	have := h.engine.Health()
	byID := make(map[string]power.Instance, len(have.Instances))
	for _, i := range have.Instances {
		byID[i.ID] = i
	}
	for id, end := range h.told {
		if now.After(end) {
			delete(h.told, id)
		}
	}
	var all []power.Instance
	for _, n := range have.Nodes {
		i := byID[n.Instance]
		if n.Phase == power.Up && i.Doomed == "" && i.Assigned == n.Name && h.rule[source{i.Pool, i.Provider}] && h.paid(i).Due(now) {
			all = append(all, i)
		}
	}
	return all
}

// idle are those whose nodes Slurm has idle, by a reading that is as new as can be, and
// that nobody keeps.
func (h *hours) idle(ctx context.Context, now time.Time, due []power.Instance) ([]power.Instance, error) {
	kept, err := h.kept(ctx)
	if err != nil {
		return nil, err
	}
	snap, err := h.watcher.Fresh(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	taken := map[string]bool{} // nodes of jobs that are not over
	for _, j := range snap.Jobs {
		if j.State == "PENDING" || history.Over(j) { // the nodes are of its last attempt
			continue
		}
		for _, n := range history.NodesOf(j) {
			taken[n] = true
		}
	}
	return slices.DeleteFunc(due, func(i power.Instance) bool {
		n, ok := snap.Nodes[i.Assigned]
		return !ok || taken[n.Name] || kept(n) || !paidhour.Idle(n, now)
	}), nil
}
