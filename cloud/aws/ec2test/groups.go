package ec2test

import (
	"maps"
	"slices"
)

// group is a placement group.
type group struct {
	id, name, strategy string
	tags               map[string]string
}

// PlacementGroups returns the names of those that there are.
func (c *Cloud) PlacementGroups() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.groups))
}

func (g *group) show(a *answer) {
	a.text("groupId", g.id)
	a.text("groupName", g.name)
	a.text("strategy", g.strategy)
	a.text("state", "available")
	a.tags(g.tags)
}

func (c *Cloud) createGroup(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := p.get("GroupName")
	if c.groups[name] != nil {
		return nil, fail("InvalidPlacementGroup.Duplicate", "The placement group '%s' already exists.", name)
	}
	g := &group{id: c.id("pg"), name: name, strategy: p.get("Strategy"), tags: p.tagsOf("placement-group")}
	c.groups[name] = g
	return func(a *answer) { a.in("placementGroup", func() { g.show(a) }) }, nil
}

func (c *Cloud) describeGroups(p *params) (body, *failure) {
	f, failed := readFilters(p, "group-name", "state", "strategy")
	if failed != nil {
		return nil, failed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	wanted := p.strings("GroupName")
	var all []*group
	for _, name := range wanted {
		if c.groups[name] == nil {
			return nil, fail("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.groups)) {
		g := c.groups[name]
		if (len(wanted) == 0 || slices.Contains(wanted, name)) && f.match("group-name", name) &&
			f.match("state", "available") && f.match("strategy", g.strategy) && f.matchTags(g.tags) {
			all = append(all, g)
		}
	}
	return func(a *answer) { list(a, "placementGroupSet", all, func(g *group) { g.show(a) }) }, nil
}

func (c *Cloud) deleteGroup(p *params) (body, *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := p.get("GroupName")
	if c.groups[name] == nil {
		return nil, fail("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
	}
	now := c.now()
	for _, m := range c.machines {
		if m.spec.Placement == name && m.state(now) != terminated {
			return nil, fail("InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", name)
		}
	}
	delete(c.groups, name)
	return func(a *answer) { a.yes("return", true) }, nil
}
