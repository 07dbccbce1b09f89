package slurmtest

import (
	"slices"
	"strings"
)

// constrained says that the job's features decide which nodes it may have.
func (c *Controller) constrained(j Job) bool { return j.Features != "" && len(c.opt.Features) > 0 }

// suits says whether a node's active features meet a job's constraint.
func (c *Controller) suits(n *node, constraint string) bool {
	return slices.ContainsFunc(strings.Split(constraint, "|"), func(all string) bool {
		return !slices.ContainsFunc(strings.Split(all, "&"), func(f string) bool { return !slices.Contains(n.active, f) })
	})
}

// suiting are those of the nodes that suit the job.
func (c *Controller) suiting(nodes []*node, j Job) []*node {
	if !c.constrained(j) {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n *node) bool { return !c.suits(n, j.Features) })
}

// withFeatures counts the nodes of the job's partition that suit it, in whatever state.
func (c *Controller) withFeatures(j Job) int {
	count := 0
	for _, n := range c.nodes {
		if slices.Contains(j.partitions(), n.partition) && c.suits(n, j.Features) {
			count++
		}
	}
	return count
}

// tooFew says that some nodes suit the job, and fewer than it wants: slurmctld gives it up. With
// none at all it has it go on waiting.
func (c *Controller) tooFew(j Job) bool {
	if !c.constrained(j) {
		return false
	}
	have := c.withFeatures(j)
	return 0 < have && have < j.Nodes
}

// reconfigure gives all nodes the features of slurm.conf, as a start of slurmctld does.
func (c *Controller) reconfigure() {
	for _, n := range c.nodes {
		if n.cloud && n.partition != servers {
			n.active = c.opt.Features
		}
	}
}

// Features returns a node's active features.
func (c *Controller) Features(name string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.byName[name]; n != nil {
		return slices.Clone(n.active)
	}
	return nil
}

// split is a list of features as scontrol update takes it.
func split(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}
