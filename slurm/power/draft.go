package power

import (
	"crypto/rand"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// fleetFor is a source's choice of offerings for some nodes. Spot alone is not waited for so
// long that what is then launched on demand could not boot in time, however late the source
// has its turn.
func (p planning) fleetFor(source Pool, nodes []Node) fleet.Config {
	f := source.Fleet
	timeout := p.timeout(source.Name)
	if timeout <= 0 {
		return f
	}
	f.SpotTimeout = min(f.SpotTimeout, timeout/2)
	for _, n := range nodes {
		if !n.Made.IsZero() {
			f.SpotTimeout = max(0, min(f.SpotTimeout, timeout/2-p.since(n, source).Sub(n.Made)))
		}
	}
	return f
}

// query is what the choice for a group depends on, for whose job its nodes in these phases are launched there.
func (p planning) query(pool Pool, g group, phases ...Phase) fleet.Query {
	q := fleet.Query{Cool: p.cooled(pool.Provider), Now: p.now}
	for _, n := range g.nodes {
		if !n.Made.IsZero() {
			q.Waited = max(q.Waited, p.now.Sub(p.since(n, pool)))
		}
	}
	p.limit(q.Cool, pool.Provider, p.sizes(g, pool.Provider, phases...))
	instead := p.pools[pool.Name].Sources()
	if len(g.nodes) > 0 {
		instead = p.wished(g, p.pools[pool.Name])
	}
	q.Priced = p.mem.withPrice(p.priced, pool, instead)
	if p.price != nil {
		q.Price = func(o cloud.Offering) (float64, bool) { return p.price(pool.Provider, o) }
	}
	if p.cores != nil {
		q.Cores = func(t string) (int, bool) { return p.cores(pool.Provider, t) }
	}
	return q
}

// draft makes the launch of some of a group's nodes.
func (p planning) draft(g group, ch pick, nodes []Node) draft {
	pool := ch.pool
	l := Launch{
		Token: rand.Text(), Provider: pool.Provider, State: Written, Created: p.now,
		Request: cloud.LaunchRequest{
			Cluster: p.cluster, Pool: pool.Name, Offering: ch.Offering, Or: ch.Or, Count: len(nodes), Image: pool.Image,
			UserData: pool.UserData, Tags: p.tags(pool, nodes), AllOrNothing: g.job != 0,
		},
	}
	if ch.Offering.Market == cloud.Spot {
		l.Request.MaxPrice = pool.Fleet.MaxPrice
	}
	l.Request.Token = l.Token
	for _, n := range nodes {
		l.Nodes = append(l.Nodes, n.Name)
	}
	return draft{l, g.job, nodes, strings.TrimPrefix(p.place(pool), "pool "+pool.Name), ch.passed}
}

// tags are the site's, and for whom the nodes are, as far as it is known and
// the same for all of them.
func (p planning) tags(pool Pool, nodes []Node) map[string]string {
	tags := maps.Clone(pool.Tags)
	set := func(tag string, of func(Node) string) {
		value := of(nodes[0])
		for _, n := range nodes {
			if of(n) != value {
				return
			}
		}
		if value == "" {
			return
		}
		if tags == nil {
			tags = map[string]string{}
		}
		tags[tag] = value
	}
	set(cloud.TagJob, func(n Node) string {
		if n.Job == 0 {
			return ""
		}
		return fmt.Sprint(n.Job)
	})
	set(cloud.TagUser, func(n Node) string { return p.market.jobs[n.Job].User })
	set(cloud.TagAccount, func(n Node) string { return p.market.jobs[n.Job].Account })
	return tags
}

// write adds the launch to a change, with its nodes.
func (d draft) write(c *Change, now time.Time) {
	d.Created, d.State = now, Uncalled
	for _, n := range d.nodes {
		n.Phase, n.Since, n.Token = Launching, now, d.Token
		c.Nodes = append(c.Nodes, n)
	}
	c.Launches = append(c.Launches, d.Launch)
	text := fmt.Sprintf("%d × %s%s", len(d.nodes), d.Request.Offering, d.where)
	if n := len(d.Request.Or); n > 0 {
		text += fmt.Sprintf(" or %d other offerings", n)
	}
	if len(d.passed) > 0 {
		text += "; before it, " + strings.Join(d.passed, "; ")
	}
	c.Events = append(c.Events, Event{Time: now, Kind: "launch", Pool: d.Request.Pool, Job: d.job, Text: text})
}
