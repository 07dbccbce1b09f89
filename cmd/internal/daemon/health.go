package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/slurm/health"
	"github.com/burst-hpc/burst/slurm/power"
)

// wards are the nodes whose health is watched, as engine and journal have them.
type wards struct {
	engine  *power.Engine
	journal interface {
		CommitPower(ctx context.Context, c power.Change) error
	}
}

// Up implements health.Site. A server of files is not among them: it is not replaced for being sick, since what it
// serves would go.
func (w wards) Up() []health.Node {
	h := w.engine.Health()
	provider := make(map[string]string, len(h.Instances))
	for _, i := range h.Instances {
		if i.Doomed == "" {
			provider[i.ID] = i.Provider
		}
	}
	var up []health.Node
	for _, n := range h.Nodes {
		if p := provider[n.Instance]; n.Phase == power.Up && p != "" && !w.engine.ServesFiles(n.Name) {
			up = append(up, health.Node{Name: n.Name, Pool: n.Pool, Provider: p, Instance: n.Instance, Since: n.Since})
		}
	}
	return up
}

// Note implements health.Site.
func (w wards) Note(ctx context.Context, sick []health.Sick) error {
	var c power.Change
	for _, s := range sick {
		c.Events = append(c.Events, power.Event{Time: time.Now(), Kind: "sick", Node: s.Name, Instance: s.Instance, Pool: s.Pool,
			Text: fmt.Sprintf("%s: drained, its jobs run on; replaced when they have ended", s.Why)})
	}
	return w.journal.CommitPower(ctx, c)
}
