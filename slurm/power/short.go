package power

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// A job that needs all its nodes may get too few: what came is ended again, and costs the
// least that its cloud bills, which may be an hour. To try again sooner would buy the same few anew.

// answer is what came of a launch.
type answer struct {
	came int              // for its nodes
	back []cloud.Instance // too few for all or nothing: ended again
}

// bookEnds plans that the journal has what a launch made and the journal does not know, and which
// ends, or has ended: it costs money. Why is said of it.
func (e *Engine) bookEnds(c *Change, l Launch, all []cloud.Instance, why string) {
	for _, i := range all {
		if _, have := e.mem.instances[i.ID]; have {
			continue
		}
		if i.Launched.IsZero() {
			i.Launched = l.Created
		}
		rec := Instance{Instance: i, Provider: l.Provider, Account: e.accounts[l.Provider], Doomed: why}
		if i.State == cloud.Terminated {
			e.gone(c, rec)
			continue
		}
		if i.State == cloud.Terminating {
			e.asked[i.ID] = time.Now() // its launch has
		}
		c.Instances = append(c.Instances, rec)
	}
}

// cameShort is why an instance ends that came with too few others.
const cameShort = "too few others came for its job"

// paid is an offering's memory after some of its instances came, which were too few: as long
// as they are paid for, which is at least for so long each, no job that needs more has it asked again. wanted is
// how many were: if the memory would have kept that from being asked for, this came beside what it is of.
func paid(cool fleet.Cooldown, back []cloud.Instance, wanted int, least time.Duration, now time.Time) fleet.Cooldown {
	var until time.Time
	for _, i := range back {
		launched := i.Launched
		if launched.IsZero() || launched.After(now) {
			launched = now
		}
		until = later(until, launched.Add(min(maxPaid, least)))
	}
	if !until.After(now) {
		return cool
	}
	came := len(back)
	if cool.Paid.After(now) && wanted > cool.Most {
		came += cool.Most
	}
	cool.Most, cool.Paid = came, later(until, cool.Paid)
	return cool
}

// least is what of an instance's time is paid for as soon as it is launched.
func (c Config) least(provider string, o cloud.Offering) time.Duration {
	if c.Begun == nil {
		return 0
	}
	return c.Begun(provider, o)
}

// of are the instances of one of the offerings that were asked for.
func of(o cloud.Offering, all []cloud.Instance, asked []cloud.Offering) []cloud.Instance {
	return slices.DeleteFunc(slices.Clone(all), func(i cloud.Instance) bool {
		is := about(i.Offering, asked)
		return len(is) != 1 || is[0] != o
	})
}

// waste plans the same for instances of a job's nodes that end because a launch for the others
// came short.
func (p planning) waste(c *Change, nodes []Node) {
	if p.least == nil {
		return
	}
	by := map[coolKey][]cloud.Instance{}
	for _, n := range nodes {
		if i, ok := p.mem.instances[n.Instance]; ok && i.Doomed == "" {
			key := coolKey{i.Provider, i.Offering}
			by[key] = append(by[key], i.Instance)
		}
	}
	for key, back := range by {
		old := p.mem.cool[key]
		if !p.now.Before(old.Until) {
			continue // it is not for want of more of it
		}
		if cool := paid(old, back, len(nodes), p.least(key.provider, key.offering), p.now); cool != old {
			c.Coolings = append(c.Coolings, Cooling{key.provider, key.offering, cool})
		}
	}
}

// size is how many nodes of a group's job are still to be launched, in all pools that buy of a
// provider; 0: they serve on their own.
func (p planning) size(g group, provider string) int {
	if g.job == 0 {
		return 0
	}
	n := 0
	for _, o := range p.of[g.job] {
		if _, may := p.pools[o.Pool].source(provider); may && o.Phase == Wanted {
			n++
		}
	}
	return max(n, len(g.nodes))
}

// tooMany says of the offerings that a source does not launch for a group, as it needs more
// nodes than came last and those are paid for, that it is so; empty: of none. Where
// there are other pools the job may go there, as the pool is dry for a moment, or until
// another may have something: jobs that need fewer nodes wait as long.
func (p planning) tooMany(c *Change, g group, source Pool, tried []cloud.Offering) (why string) {
	for _, o := range tried {
		cool := p.mem.cool[coolKey{source.Provider, o}]
		if cool.Whole(p.size(g, source.Provider), p.now) == cool {
			continue
		}
		why += fmt.Sprintf("; %d of %s came last and are paid for: more are not asked for before %s", cool.Most, o, cool.Paid.Local().Format(time.TimeOnly))
		if first, ok := p.beside(g); ok && !p.now.Before(cool.Until) {
			cool.Failures, cool.Until = max(1, cool.Failures), later(first, p.now.Add(leastWait))
			c.Coolings = append(c.Coolings, Cooling{source.Provider, o, cool})
		}
	}
	return why
}

// beside is when the first of the other pools that the group's job may have could launch
// something; false: there is none. They are those of its partition, or if there are none all: while a job has
// nodes Slurm names one only of its partitions.
func (p planning) beside(g group) (first time.Time, ok bool) {
	parts := strings.Split(p.market.jobs[g.job].Partition, ",")
	for _, all := range []bool{false, true} {
		for name, pool := range p.pools {
			if name == g.pool || !all && !slices.Contains(parts, pool.Partition) {
				continue
			}
			if until := p.dry(name); !ok || until.Before(first) {
				first, ok = until, true
			}
		}
		if ok {
			break
		}
	}
	return first, ok
}
