package power

import (
	"maps"
	"slices"

	"github.com/burst-hpc/burst/cloud"
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

// ServesFiles says that files are served from the node's own disk, which go with it: it is not to be powered down for
// anything but an admin's word. It may be called at any time.
func (e *Engine) ServesFiles(node string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.serves(node)
}

// filePools are the pools of servers of files, by node; of one that has left the configuration the name is all that
// is known.
func (e *Engine) filePools() map[string]Pool {
	all := maps.Clone(e.servers.pools)
	for _, i := range e.mem.instances {
		if i.Serves && i.Assigned != "" && e.poolOf[i.Assigned] == "" {
			all[i.Assigned] = Pool{Name: i.Pool}
		}
	}
	return all
}

// heedServers has a change say of the instances in it which are servers of files, and close those that are given up
// while lists lack them: a list that shows one again must not find it doomed, but on its own, with its files.
func (e *Engine) heedServers(c *Change) {
	for n := range c.Instances {
		i := &c.Instances[n]
		if _, ok := e.servers.pools[i.Assigned]; ok {
			i.Serves = true
		}
		if i.Doomed != "" && i.State == cloud.Terminated && i.Gone.IsZero() && e.filesOn(*i) {
			e.closeRecord(c, i)
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
