package power

import (
	"fmt"
	"slices"
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
		if e.mem.knows(i.ID) {
			continue
		}
		i.Token = l.Token
		if i.Launched.IsZero() {
			i.Launched = l.Created
		}
		rec := Instance{Instance: i, Provider: l.Provider, Account: e.madeIn(l), Doomed: why}
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

// sizes is how many nodes of a group's job are launched as an offering of a provider, of those in these phases and in
// all pools that buy it there. It is 0 if they serve on their own.
func (p planning) sizes(g group, provider string, phases ...Phase) func(cloud.Offering) int {
	if g.job == 0 {
		return func(cloud.Offering) int { return 0 }
	}
	by := map[string]int{} // by pool
	for _, n := range p.of[g.job] {
		if slices.Contains(phases, n.Phase) {
			by[n.Pool]++
		}
	}
	return func(o cloud.Offering) int {
		all := 0
		for pool, n := range by {
			if s, may := p.pools[pool].source(provider); may && s.sells(o) {
				all += n
			}
		}
		return max(all, len(g.nodes))
	}
}

// limit has those of a provider's offerings cool of which fewer came last than a launch of such a size needs, and are
// paid for.
func (p planning) limit(cool map[cloud.Offering]fleet.Cooldown, provider string, size func(cloud.Offering) int) {
	for k, c := range p.mem.cool {
		if k.provider != provider || !p.now.Before(c.Paid) {
			continue
		}
		if whole := c.Whole(size(k.offering), p.now); whole != c {
			cool[k.offering] = whole
		}
	}
}

// tooMany says of the offerings that a source does not launch for a group, as it needs more
// nodes than came last and those are paid for, that it is so; empty: of none.
func (p planning) tooMany(g group, source Pool, tried []cloud.Offering) (why string) {
	size := p.sizes(g, source.Provider, Wanted)
	for _, o := range tried {
		cool := p.mem.cool[coolKey{source.Provider, o}]
		if cool.Whole(size(o), p.now) != cool {
			why += fmt.Sprintf("; %d of %s came last and are paid for: more are not asked for before %s", cool.Most, o, cool.Paid.Local().Format(time.TimeOnly))
		}
	}
	return why
}
