package power

import "strings"

// Name says what a change does, for logs and for the points at which tests
// stop the daemon: its events' kinds, or what it writes.
func (c *Change) Name() string {
	var names []string
	add := func(n int, name string) {
		if n > 0 {
			names = append(names, name)
		}
	}
	for _, e := range c.Events {
		if len(names) == 0 || names[len(names)-1] != e.Kind {
			names = append(names, e.Kind)
		}
	}
	if len(names) > 0 {
		return strings.Join(names, ",")
	}
	add(len(c.Orders), "orders")
	add(len(c.CloseOrders), "closed-orders")
	add(len(c.Nodes)+len(c.DropNodes), "nodes")
	add(len(c.Launches), "launches")
	add(len(c.Instances), "instances")
	add(len(c.Holds)+len(c.DropHolds), "holds")
	add(len(c.Coolings), "coolings")
	add(len(c.Breakers), "breakers")
	add(len(c.Boots), "boots")
	add(len(c.Fences)+len(c.DropFences), "fences")
	if c.Pause != nil {
		add(1, "pause")
	}
	return strings.Join(names, ",")
}
