package power

import (
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// listing is what the clouds said in one round; a provider that did not answer
// has no list.
type listing struct {
	began time.Time
	lists map[string][]cloud.Instance
	errs  map[string]error // of the calls, nil ones too

	accounts    map[string]string          // provider -> whose instances its credentials show; lacks those that do not say it
	accountErrs map[string]error           // why they do not
	same        map[string]map[string]bool // provider -> names of that account

	awaited map[string]string // provider that is not configured -> the one without a list that is to have what it left

	witness map[string]time.Time // provider -> launch of the oldest instance that it shows and the journal has
	claims  map[string]bool      // nodes that a live instance says it is, and addresses of live ones; nil: not looked up
	answer  map[string]bool      // nodes that answer Slurm
	ours    *bool                // Slurm shows nodes of ours; nil: not looked up
}

func newListing(began time.Time) *listing {
	return &listing{began: began, lists: map[string][]cloud.Instance{}, errs: map[string]error{},
		accounts: map[string]string{}, accountErrs: map[string]error{}, same: map[string]map[string]bool{}, awaited: map[string]string{}}
}

// judge looks for what a provider's list shows of what the journal has. A list
// without any of it may be another account's, or one that other credentials see:
// nothing can be concluded from what it lacks.
func (l *listing) judge(provider string, m *memory) {
	if l.witness == nil {
		l.witness = map[string]time.Time{}
	}
	for _, i := range l.lists[provider] {
		rec, ok := m.instances[i.ID]
		if !ok || rec.Provider != provider {
			continue
		}
		if oldest, have := l.witness[provider]; !have || rec.Launched.Before(oldest) {
			l.witness[provider] = rec.Launched
		}
	}
}

// believed says that the instance, which the list of its provider has lacked
// since some time, is gone: the list is the account's in which it was launched,
// or, where that is not known, it shows an instance that is older than that time.
// An account that has been exchanged shows only newer ones; they count when nobody
// has minded for an hour. An instance whose node answers Slurm lives, whatever a
// list without any older one says.
func (l *listing) believed(i Instance, since time.Time, answers bool) bool {
	oldest, ok := l.witness[i.Provider]
	switch {
	case l.elsewhere(i):
		return false
	case l.here(i) && !answers:
		return true
	}
	return ok && (oldest.Before(since) || l.began.Sub(since) > forgetAccount)
}

const forgetAccount = time.Hour

// takeAbsent counts how long a list has lacked instances of the journal, and
// takes it for the cloud's word in the end, if the list can be believed.
func (e *Engine) takeAbsent(c *Change, l *listing, name string, listed map[string]bool) {
	now := time.Now()
	var doubted []Instance
	for id, i := range e.mem.instances {
		if i.Provider != name {
			continue
		}
		if listed[id] || l.began.Sub(i.Launched) <= e.providers[name].Limits().Lag {
			delete(e.missing, id)
			continue
		}
		s := e.missing[id].seen(string(absent), now)
		answers := e.mem.nodes[i.Assigned].Instance == id && l.answer[i.Assigned]
		switch doubt := !l.believed(i, s.since, answers); {
		case doubt:
			s.sure = time.Time{}
		case s.sure.IsZero():
			s.sure = now
		}
		e.missing[id] = s
		if s.sure.IsZero() && i.State != cloud.Terminated {
			doubted = append(doubted, i)
			continue
		}
		if s.times < absentTimes || now.Sub(s.since) < absentFor {
			continue
		}
		if i.Ended.IsZero() {
			i.Ended, i.Guessed = s.sure, true // not when that is acted upon: some clouds bill whole hours
			if s.sure.IsZero() {
				i.Ended = now
			}
		}
		if i.Doomed != "" {
			e.gone(c, i)
		} else if i.State != cloud.Terminated {
			i.State = cloud.Terminated
			c.Instances = append(c.Instances, i)
			e.plan(Planned{Kind: string(absent), Node: i.Assigned, Instance: id, Why: "the cloud's lists do not show it any more"})
		}
	}
	e.suspect(c, l, name, doubted)
}

// takeUnserving ends what the journal has and no node: it was another
// instance's, of which a newer one has registered, or what an old journal has
// left. One that ended without having been asked to is closed.
func (e *Engine) takeUnserving(c *Change, now time.Time) {
	unserved := map[string]sighting{}
	adopted := map[string]bool{}
	for _, n := range c.Nodes {
		adopted[n.Instance] = true
	}
	for id, i := range e.mem.instances {
		n, ok := e.mem.nodes[i.Assigned]
		if i.Doomed != "" || adopted[id] || ok && n.Instance == id || e.filesOn(i) && i.State != cloud.Terminated {
			continue
		}
		if i.State == cloud.Terminated {
			i.Doomed = because("ended by itself", i.Why)
			e.gone(c, i)
			continue
		}
		s := e.unserved[id].seen(string(unserving), now)
		unserved[id] = s
		settled := e.heard[i.Provider] && s.times > 1 && now.Sub(s.since) >= settle && now.Sub(i.Launched) > e.lag(i.Provider)
		i.Doomed = "it serves no node"
		if e.plan(Planned{Kind: string(unserving), Node: i.Assigned, Instance: id, Why: i.Doomed, Settling: !settled}) || !settled || !e.mayEnd() {
			continue
		}
		c.Instances = append(c.Instances, i)
		c.Actions = append(c.Actions, string(unserving))
		c.Events = append(c.Events, Event{Time: now, Kind: "terminate", Node: i.Assigned, Instance: id, Pool: i.Pool, Text: i.Doomed})
	}
	e.unserved = unserved
}

func (e *Engine) lag(provider string) time.Duration {
	p, ok := e.providers[provider]
	if !ok {
		return 0
	}
	return p.Limits().Lag
}

// mayEnd takes one of the terminations that a round may begin without an order.
func (e *Engine) mayEnd() bool {
	if e.ended >= e.cfg.MaxTerminate {
		return false
	}
	e.ended++
	return true
}

// showsOurs says that Slurm's answer has nodes of ours, so that one which it
// lacks has left slurm.conf.
func (e *Engine) showsOurs(snap *slurm.Snapshot, l *listing) bool {
	if l.ours == nil {
		shows := false
		for name := range snap.Nodes {
			if _, have := e.mem.nodes[name]; have || e.Owns(name) {
				shows = true
				break
			}
		}
		l.ours = &shows
	}
	return *l.ours
}

// unclaimed says that no instance is the node, by the word of its cloud: its
// list shows others of ours, and none that says it is the node, or is at its
// address. Of a node that Slurm has off, and whose boot has come to nothing,
// nothing is lost if the cloud shows nothing at all; so of one that Burst set DOWN while Slurm powered it down.
func (e *Engine) unclaimed(snap *slurm.Snapshot, l *listing, node string) bool {
	if l.claims == nil {
		l.claims = map[string]bool{}
		for _, list := range l.lists {
			for _, i := range list {
				if i.State.Live() {
					l.claims[i.Node], l.claims[i.Addr] = true, true
				}
			}
		}
		for _, i := range e.mem.instances { // that end, or are too new for the list
			l.claims[i.Assigned] = true
		}
	}
	n, answered, believed := snap.Nodes[node], true, true // all of its pool's sources
	for _, s := range e.pools[e.poolOf[node]].Sources() {
		_, ok := l.lists[s.Provider]
		answered = answered && ok
		_, ok = l.witness[s.Provider]
		believed = believed && ok
	}
	if powerOf(snap, node) == failed {
		return answered && !l.claims[node] && (strings.HasPrefix(n.Reason, "ResumeTimeout reached") || strings.HasPrefix(n.Reason, "burst: "))
	}
	return believed && !l.claims[node] && !l.claims[n.Addr]
}
