package vultr

import (
	"net/netip"
	"slices"
	"time"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud"
)

// machine is what Vultr says of an instance of cloud compute or of bare metal.
type machine struct {
	id, label, plan, region string
	status, power, server   string // server is empty for bare metal
	created                 time.Time
	mainIP, internalIP      string
	vpcs                    []govultr.VPCNetworkInfo
	tags                    []string
	metal                   bool
	bare                    bool // Vultr shows it without our tags; tags are those that it had
}

func ofCompute(i govultr.Instance) machine {
	return machine{id: i.ID, label: i.Label, plan: i.Plan, region: i.Region, status: i.Status, power: i.PowerStatus, server: i.ServerStatus,
		created: when(i.DateCreated), mainIP: i.MainIP, internalIP: i.InternalIP, vpcs: i.VPCs, tags: i.Tags}
}

func ofMetal(b govultr.BareMetalServer) machine {
	return machine{id: b.ID, label: b.Label, plan: b.Plan, region: b.Region, status: b.Status, power: b.PowerStatus,
		created: when(b.DateCreated), mainIP: b.MainIP, vpcs: b.VPC, tags: b.Tags, metal: true}
}

// when reads a time of Vultr's; zero where it says none.
func when(text string) time.Time {
	for _, layout := range []string{time.RFC3339, time.DateTime} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return time.Time{}
}

// instance is the machine as the engine sees it. Its region is all the zone it has.
func (m machine) instance(now time.Time) cloud.Instance {
	tags := readTags(m.tags)
	return cloud.Instance{
		ID: m.id, Token: tags[tagToken], Cluster: tags[tagCluster], Pool: tags[tagPool], Node: tags[tagNode],
		Offering: cloud.Offering{Type: m.plan, Market: cloud.OnDemand},
		State:    m.state(now), Addr: m.addr(tags[tagNet] == netVPC), Launched: m.created,
	}
}

// haltedAfter is how old an instance is before "stopped" means that somebody
// has stopped it: while it is set up Vultr says so too, after "active".
const haltedAfter = 30 * time.Minute

// state reads Vultr's three words:
//
//	status   power    server              means
//	pending  any      any                 Pending
//	active   stopped  locked, installing  Pending: it is being set up
//	active   running  not "ok"            Pending: it boots, or is installed
//	active   running  "ok"                Running
//	active   not "stopped", or no word    Running, if it is metal, whose power not all answers have
//	active   stopped  "ok", or metal      Terminating, if it is old enough: somebody has stopped it
//	suspended                             Terminating: by Vultr, for abuse or unpaid bills
//
// One that was stopped or suspended runs no job and will not come back by
// itself, but costs the same until it is destroyed. So it is ended again and
// again until Vultr shows it no more.
func (m machine) state(now time.Time) cloud.State {
	ready := m.server == "ok" || m.metal
	on := m.power == "running" || m.metal && m.power != "stopped"
	switch {
	case m.status == "suspended", m.status == "closed":
		return cloud.Terminating
	case m.status != "active":
		return cloud.Pending
	case on && ready:
		return cloud.Running
	case m.power == "stopped" && ready && !m.created.IsZero() && now.Sub(m.created) > haltedAfter:
		return cloud.Terminating
	}
	return cloud.Pending
}

// addr is where nodes of the cluster reach the machine: in its VPC, if that is
// how it was launched, else publicly. Vultr says 0.0.0.0 of one that has none yet.
func (m machine) addr(inVPC bool) string {
	candidates := []string{m.mainIP}
	if inVPC {
		candidates = []string{m.internalIP}
		for _, v := range m.vpcs {
			candidates = append(candidates, v.Subnet) // the machine's own address there
		}
	}
	for _, text := range candidates {
		if a, err := netip.ParseAddr(text); err == nil && !a.IsUnspecified() {
			return text
		}
	}
	return ""
}

// sight is what the provider remembers of an instance: of which kind it is, which
// its id does not say, its tags, as a change of them names them all, and whether
// Vultr has taken our word to destroy it.
type sight struct {
	machine
	at    time.Time // when Vultr last showed it
	ended time.Time // of the first answer that took it; zero: none did
}

func (p *Provider) see(machines ...machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range machines {
		m.tags = slices.Clone(m.tags)
		p.seen[m.id] = sight{m, time.Now(), p.seen[m.id].ended}
	}
}

// retag notes the tags that an instance has been given.
func (p *Provider) retag(id string, tags []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.seen[id]; ok {
		s.tags = tags
		p.seen[id] = s
	}
}

func (p *Provider) recall(id string) (sight, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s, ok := p.seen[id]
	return s, ok
}

// destroyed notes that Vultr has answered that it destroys the instance.
func (p *Provider) destroyed(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s, ok := p.seen[id]; ok && s.ended.IsZero() {
		s.ended = time.Now()
		p.seen[id] = s
	}
}

// departed are the destroyed instances that complete lists, begun at a time,
// do not show. Vultr forgets an instance as soon as it is destroyed, and a list that
// lacks one may be another account's. But whoever was answered that it is destroyed
// has asked about his own: once nothing has shown it for a Lag, in which its host
// stops it, it is gone.
func (p *Provider) departed(lists []machine, began time.Time) []cloud.Instance {
	shown := map[string]bool{}
	for _, m := range lists {
		shown[m.id] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []cloud.Instance
	for id, s := range p.seen {
		if s.ended.IsZero() || shown[id] {
			continue
		}
		i := s.instance(began)
		i.State = cloud.Terminating
		last := s.ended
		if s.at.After(last) {
			last = s.at
		}
		if began.Sub(last) >= p.c.Lag {
			i.State, i.Ended = cloud.Terminated, s.lived(last)
		}
		all = append(all, i)
	}
	return all
}

// lived is an end by this host's clock as one that can be: where the clock is behind Vultr's, an instance that
// was made may seem to have ended before, and its begun hour to cost nothing.
func (m machine) lived(end time.Time) time.Time {
	if !end.After(m.created) {
		return m.created.Add(time.Second)
	}
	return end
}

// forget drops what has not been seen for an hour: it has ended.
func (p *Provider) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, s := range p.seen {
		if time.Since(s.at) > time.Hour {
			delete(p.seen, id)
		}
	}
}
