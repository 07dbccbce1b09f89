package power

import (
	"maps"
	"slices"
)

// Which instances have files on them is in the journal (Instance.Serves), beside what the configuration says of
// their nodes: a pool may leave it while its server runs. A pool that is there and has no exports any more has
// given its files up.

// filesOn says that there may be files on the instance, which go with it.
func (e *Engine) filesOn(i Instance) bool {
	_, ok := e.servers.pools[i.Assigned]
	return ok || i.Serves && e.poolOf[i.Assigned] == ""
}

// serves says that the node is a server of files (Pool.Serves), or was one when its pool left the configuration.
func (e *Engine) serves(node string) bool {
	if _, ok := e.servers.pools[node]; ok || node == "" || e.poolOf[node] != "" {
		return ok
	}
	for _, i := range e.mem.instances {
		if i.Assigned == node && i.Serves {
			return true
		}
	}
	return false
}

// heedServers has a change say of the instances in it which are servers of files.
func (e *Engine) heedServers(c *Change) {
	for n, i := range c.Instances {
		if _, ok := e.servers.pools[i.Assigned]; ok {
			c.Instances[n].Serves = true
		}
	}
}

// markServers plans that the journal says it of those that it has from before their pool served files, or of an
// older burstd.
func (e *Engine) markServers(c *Change) {
	for _, id := range slices.Sorted(maps.Keys(e.mem.instances)) {
		if i := e.mem.instances[id]; !i.Serves && e.filesOn(i) {
			c.Instances = append(c.Instances, i) // heedServers does it
		}
	}
}
