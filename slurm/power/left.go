package power

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Left is what the journal has of a provider that is not configured: nobody can watch or end it.
type Left struct{ Instances, Launches int }

// Say tells it, and what is to be done.
func (l Left) Say(provider string) string {
	return fmt.Sprintf("provider %s is not in burst.toml: %d instances, %d launches neither watched nor ended; put [provider.%s] back", provider, l.Instances, l.Launches, provider)
}

// inherit makes a provider's what is in the same account and of one that is not configured: it has another
// name in burst.toml, or another looks at the same place. Of several such one that is a source of the thing's pool has it,
// else the first, and the source that has no list is waited for (awaits). What its list lacks is judged as its own would be. What such a launch
// has made is looked for; it is not asked for again, as it is not this one's.
func (e *Engine) inherit(c *Change, l *listing, name string) {
	account := l.accounts[name]
	if account == "" {
		return
	}
	at, from := map[string]int{}, map[string]int{}
	for n, i := range c.Instances {
		at[i.ID] = n
	}
	for _, id := range slices.Sorted(maps.Keys(e.mem.instances)) {
		rec := e.mem.instances[id]
		if e.providers[rec.Provider] != nil || !l.same[name][rec.Account] || rec.Doomed == "" && rec.State != cloud.Terminating && e.awaits(l, name, heirless{rec.Provider, id, e.poolNow(rec.Instance, rec.Assigned)}) {
			continue
		}
		n, changes := at[id]
		if changes && e.providers[c.Instances[n].Provider] != nil {
			continue // another has it by now
		}
		if !changes {
			n, c.Instances = len(c.Instances), append(c.Instances, rec)
		}
		c.Instances[n].Provider, c.Instances[n].Account = name, account
		from[rec.Provider]++
	}
	for _, token := range slices.Sorted(maps.Keys(e.mem.launches)) {
		o := e.mem.launches[token]
		if e.providers[o.Provider] != nil || !l.same[name][o.Account] || slices.ContainsFunc(c.Launches, func(had Launch) bool { return had.Token == token }) ||
			e.awaits(l, name, heirless{o.Provider, token, e.poolOfLaunch(o)}) {
			continue
		}
		from[o.Provider]++
		o.Provider, o.Account, o.State = name, account, Abandoned
		if nodes := e.claimants(o); len(nodes) > 0 {
			e.withdraw(c, o, nodes, nil)
		} else {
			c.Launches = append(c.Launches, o)
		}
	}
	for _, old := range slices.Sorted(maps.Keys(from)) {
		keep := ""
		if e.cfg.Former != nil {
			if keep = e.cfg.Former(old, name); keep != "" {
				keep = "; " + keep
			}
		}
		c.Events = append(c.Events, Event{Time: time.Now(), Kind: "provider-renamed",
			Text: fmt.Sprintf("%d instances and launches of provider %s, which is not in burst.toml, are watched and ended by %s: the account is the same%s", from[old], old, name, keep)})
	}
}

// heirless is an instance or a launch that a provider has left.
type heirless struct{ left, id, pool string }

// awaits says that another provider of the same account is a source of the pool, and this one is not. What is inherited
// stays with its heir, so where that one has no answer in the same round it is waited for, but not for ever: nobody watches
// the thing meanwhile. What is to end has only to be ended, by whoever can.
func (e *Engine) awaits(l *listing, name string, h heirless) bool {
	source := func(provider string) bool { _, is := e.pools[h.pool].source(provider); return is }
	if source(name) {
		return false
	}
	for _, other := range slices.Sorted(maps.Keys(e.providers)) {
		if cmp.Or(l.accounts[other], e.accounts[other]) != l.accounts[name] || !source(other) {
			continue
		}
		if e.heirs[h.id].IsZero() {
			e.heirs[h.id] = l.began
		}
		waits := l.began.Sub(e.heirs[h.id]) < doubtFor
		if _, answers := l.lists[other]; waits && !answers {
			l.awaited[h.left] = other
		}
		return waits
	}
	return false
}

// poolOfLaunch is the pool that the launch's nodes have now.
func (e *Engine) poolOfLaunch(o Launch) string {
	node := ""
	if len(o.Nodes) > 0 {
		node = o.Nodes[0]
	}
	return e.poolNow(cloud.Instance{Pool: o.Request.Pool}, node)
}

// left counts what is left of providers that are not configured, after a change.
func (e *Engine) left(c Change) map[string]Left {
	instances := map[string]string{} // provider, by id
	for id, i := range e.mem.instances {
		instances[id] = i.Provider
	}
	for _, i := range c.Instances {
		if instances[i.ID] = i.Provider; !i.Gone.IsZero() {
			delete(instances, i.ID)
		}
	}
	all := map[string]Left{}
	for _, provider := range instances {
		if e.providers[provider] == nil {
			l := all[provider]
			l.Instances++
			all[provider] = l
		}
	}
	launches := map[string]string{}
	for token, o := range e.mem.launches {
		launches[token] = o.Provider
	}
	for _, o := range c.Launches {
		launches[o.Token] = o.Provider
	}
	for _, provider := range launches {
		if e.providers[provider] == nil {
			l := all[provider]
			l.Launches++
			all[provider] = l
		}
	}
	return all
}

// tellLeft says it once of each provider, and for whom what it has left waits.
func (e *Engine) tellLeft(c *Change, l *listing) {
	left := e.left(*c)
	for _, name := range slices.Sorted(maps.Keys(left)) {
		text := left[name].Say(name)
		if heir := l.awaited[name]; heir != "" {
			text += fmt.Sprintf("; they wait up to %s for the list of %s, which is of the same account", doubtFor, heir)
		}
		e.plan(Planned{Kind: "doubt", Why: text})
		if key := name + "provider-left" + l.awaited[name]; !e.doubtedOf[key] {
			e.doubtedOf[key] = true
			c.Events = append(c.Events, Event{Time: time.Now(), Kind: "provider-left", Text: text})
		}
	}
}
