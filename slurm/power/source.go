package power

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
)

// Source is a provider of which a pool's instances may be bought, and how.
type Source struct {
	Provider string
	Fleet    fleet.Config
	Image    string
	UserData string
	Tags     map[string]string
}

// Sources lists the pool as it would be with each of its sources alone, in the
// order in which they are tried.
func (p Pool) Sources() []Pool {
	own := p
	own.Then = nil
	all := []Pool{own}
	for _, s := range p.Then {
		q := own
		q.Provider, q.Fleet, q.Image, q.UserData, q.Tags = s.Provider, s.Fleet, s.Image, s.UserData, s.Tags
		all = append(all, q)
	}
	return all
}

// source is the pool as it buys of the provider; false: it does not.
func (p Pool) source(provider string) (Pool, bool) {
	if p.Provider == provider {
		p.Then = nil
		return p, true
	}
	all := p.Sources()
	i := slices.IndexFunc(all, func(s Pool) bool { return s.Provider == provider })
	if i < 0 {
		return Pool{}, false
	}
	return all[i], true
}

// sells says that the source has the offering; where it names no zones any will do.
func (p Pool) sells(o cloud.Offering) bool {
	all := p.Fleet.Offerings()
	return slices.Contains(all, o) || slices.Contains(all, cloud.Offering{Type: o.Type, Market: o.Market})
}

// ofRemoved are the nodes that boot on instances of a source that the pool has no more: nobody
// may be left who sets them up.
func (e *Engine) ofRemoved() []Node {
	return slices.DeleteFunc(e.mem.inPhase(Booting), func(n Node) bool {
		return !e.ofRemovedSource(n.Pool, e.mem.instances[n.Instance].Provider)
	})
}

// withdrawRemoved withdraws the launches at sources that the pool has no more, of an earlier
// life: they are not asked for again, and what comes of them is watched to its end. Nodes that the
// change gives back or drops are not launched.
func (e *Engine) withdrawRemoved(c *Change) {
	for _, token := range slices.Sorted(maps.Keys(e.mem.launches)) {
		l := e.mem.launches[token]
		if !e.ofRemovedSource(e.mem.poolOf(l), l.Provider) {
			continue
		}
		nodes := slices.DeleteFunc(e.claimants(l), func(n Node) bool {
			return slices.Contains(c.DropNodes, n.Name) || slices.ContainsFunc(c.Nodes, func(o Node) bool { return o.Name == n.Name })
		})
		if len(nodes) > 0 {
			e.doubt[token] = true
			e.withdraw(c, l, nodes, nil)
		}
	}
}

// ofRemovedSource says that the pool does not buy of the provider any more, which can still be asked.
func (e *Engine) ofRemovedSource(pool, provider string) bool {
	p, known := e.pools[pool]
	_, is := p.source(provider)
	return known && !is && e.providers[provider] != nil
}

// named are the sources that a job's expression of features names; all, if it
// names none.
func (p Pool) named(features string) []Pool {
	all := p.Sources()
	if len(all) == 1 {
		return all
	}
	words := strings.FieldsFunc(features, func(r rune) bool {
		return !(r == '.' || r == '_' || r == '-' || unicode.IsLetter(r) || unicode.IsDigit(r))
	})
	names := slices.DeleteFunc(slices.Clone(all), func(s Pool) bool { return !slices.Contains(words, s.Provider) })
	if len(names) == 0 {
		return all
	}
	return names
}

// place is where the pool's source launches, in words.
func (p planning) place(source Pool) string { return place(p.pools, source.Name, source.Provider) }

func place(pools map[string]Pool, pool, provider string) string {
	if len(pools[pool].Then) == 0 {
		return "pool " + pool
	}
	return fmt.Sprintf("pool %s at %s", pool, provider)
}

// sourceKey names a pool's source; no pool's name has an @.
func sourceKey(pool, provider string) string { return pool + "@" + provider }

// Validate says what is wrong with the pool on its own.
func (p Pool) Validate() error {
	if len(p.Nodes) == 0 {
		return errors.New("nodes is missing")
	}
	seen := map[string]bool{}
	for _, s := range p.Sources() {
		switch {
		case s.Provider == "":
			return errors.New("provider is missing")
		case seen[s.Provider]:
			return fmt.Errorf("provider %s is a source twice", s.Provider)
		}
		seen[s.Provider] = true
		if err := s.Fleet.Validate(); err != nil {
			return err
		}
	}
	return nil
}
