package power

import (
	"context"
	"maps"
	"slices"

	"github.com/burst-hpc/burst/cloud"
)

// unseen is why an instance is closed that the journal never had while it lived.
const unseen = "it had ended before the journal knew of it"

// bookUnseen plans that the journal has what lists show as ended and it never had: the answer to a launch was lost, or
// there came more than was asked for, and the cloud had ended it before a list showed it; or the journal itself was lost
// meanwhile. Nothing is to be done about it, but it has cost money. A cloud that shows nothing of what it
// has ended, as Vultr of what was not destroyed by us, leaves nothing to book. Memory forgets what is gone, while EC2
// shows it for an hour: the journal is asked, once for each. What came of an open launch is its launcher's to learn, and what
// somebody makes an image of is his to book.
func (e *Engine) bookUnseen(ctx context.Context, c *Change, l *listing) {
	past, ended := map[string]bool{}, map[string]Instance{}
	for _, name := range slices.Sorted(maps.Keys(l.lists)) {
		for _, i := range l.lists[name] {
			_, have := e.mem.instances[i.ID]
			_, open := e.mem.launches[i.Token]
			_, builder := cloud.BuilderUntil(i.Token)
			switch {
			case i.State != cloud.Terminated || have || open || builder && e.cfg.Held != nil && e.cfg.Held(i):
				continue
			case e.past[i.ID]:
				past[i.ID] = true
				continue
			}
			_, twice := ended[i.ID] // two providers look at one place
			if _, source := e.pools[e.poolNow(i, i.Node)].source(name); source || !twice {
				ended[i.ID] = Instance{Instance: i, Provider: name, Account: l.accounts[name], Assigned: i.Node, Doomed: unseen}
			}
		}
	}
	e.past = past
	if len(ended) == 0 {
		return
	}
	ids := slices.Sorted(maps.Keys(ended))
	known, err := e.journal.Known(ctx, ids)
	if err != nil {
		e.log.Warn("whether instances that have ended stand in the bill is asked again", "instances", len(ids), "error", err)
		return
	}
	for _, id := range ids {
		if known[id] {
			past[id] = true
			continue
		}
		e.gone(c, ended[id])
	}
}
