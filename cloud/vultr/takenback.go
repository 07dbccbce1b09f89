package vultr

import (
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// takenBack are the instances that a launch has made and has had destroyed, as too few
// came, and that lists do not show any more; found are those that they do. Their
// begun hours are paid. Of what this process has had destroyed, the lists to come tell the
// end; of what one before has, it ended when that was about to ask for it.
func (p *Provider) takenBack(b *book, found map[int]machine) (all []cloud.Instance) {
	now := time.Now()
	for _, n := range slices.Sorted(maps.Keys(b.items)) {
		it := b.items[n]
		if _, live := found[n]; live || it.back.IsZero() {
			continue
		}
		if s, ok := p.recall(it.id); ok && !s.ended.IsZero() {
			i := s.instance(now)
			i.State = cloud.Terminating
			all = append(all, i)
			continue
		}
		m := machine{id: it.id, plan: it.plan, tags: b.tags, created: it.created}
		i := m.instance(now)
		i.State, i.Ended = cloud.Terminated, m.lived(it.back)
		all = append(all, i)
	}
	return all
}

// takenBackOf are those of the tokens that are not among the instances, as far as they
// are written down: of a launch that nobody repeats they are told by List.
func (p *Provider) takenBackOf(tokens []string, instances []cloud.Instance) (all []cloud.Instance) {
	for _, token := range tokens {
		for _, i := range p.takenBack(p.books.read(token), nil) {
			if !slices.ContainsFunc(instances, func(o cloud.Instance) bool { return o.ID == i.ID }) {
				all = append(all, i)
			}
		}
	}
	return all
}
