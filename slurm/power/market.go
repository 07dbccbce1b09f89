package power

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/slurm"
)

// market is what Run remembers of offerings and providers beside the journal.
// After a crash it is learnt again at the cost of a call.
type market struct {
	pauses    map[coolKey]time.Time // asked too often: not asked before then
	why       map[coolKey]refusal   // of the offerings that cool down
	trouble   map[string]string     // by sourceKey: why its launches get no answer
	preparing map[string]bool       // providers with a Prepare under way
	calling   map[string]int        // provider -> Launch calls under way
	called    map[string]time.Time  // token -> when its Launch was called that is under way
	away      map[string]string     // sources that do not answer, by sourceKey: why
	silent    map[string]bool       // providers whose last list had no answer
	unheard   map[string]cloud.Kind // providers whose last list failed: how
	unended   map[string]time.Time  // provider -> when it last refused terminations for our credentials
	denied    map[string]denial     // providers that do not take our credentials
	jobs      map[uint32]slurm.Job  // as last read
	wants     map[string][]string   // features that they want, by node; nil where no pool has several sources
	asked     map[ask]time.Time     // when a source had its turn first, but for a pool's first
	told      map[asking]string     // jobs that wait since no source answers, and what they were told
	telling   bool
	since     map[string]time.Time  // providers that are deaf: since when
	kept      map[string]aside      // by pool: names that are kept from jobs
	left      map[string]time.Time  // node that is up and is to go -> when Slurm was asked for that
	brief     map[turnOf]unanswered // nodes that wait and for which a budget had no answer when it was asked last
}

func newMarket() market {
	return market{pauses: map[coolKey]time.Time{}, why: map[coolKey]refusal{}, trouble: map[string]string{}, preparing: map[string]bool{},
		calling: map[string]int{}, called: map[string]time.Time{}, away: map[string]string{}, silent: map[string]bool{}, denied: map[string]denial{}, unheard: map[string]cloud.Kind{}, unended: map[string]time.Time{},
		asked: map[ask]time.Time{}, told: map[asking]string{}, left: map[string]time.Time{}, since: map[string]time.Time{}, kept: map[string]aside{}, brief: map[turnOf]unanswered{}}
}

// refusal is why a launch of an offering failed.
type refusal struct {
	kind cloud.Kind
	text string
	pool string // whose launch it was: the offering cools down for all pools that buy of the provider
}

// told is the refusal's text for a job of a pool. It must not read as if another pool had been
// tried for the job (Hold.names).
func (r refusal) told(pool string) string {
	switch {
	case r.kind == cloud.Capacity || r.kind == "":
		return ""
	case r.pool != "" && r.pool != pool:
		return fmt.Sprintf("said of a launch for %s, %s", r.pool, r.text)
	}
	return r.text
}

// phrase is a kind of error in words for a job's user.
func phrase(k cloud.Kind) string {
	switch k {
	case cloud.Quota:
		return "over the account's quota"
	case cloud.Invalid:
		return "refused as invalid"
	case cloud.Auth:
		return "credentials not accepted"
	case cloud.Throttled:
		return "the cloud asks us to slow down"
	case cloud.Transient:
		return "the cloud does not answer"
	}
	return "no capacity"
}

// brief is an error as it fits into a job's comment.
func brief(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	if len(text) > 200 {
		text = strings.ToValidUTF8(text[:200], "") + "…"
	}
	return text
}

// Limits of a pause: what was asked too often is asked again after 2 s, or
// when the cloud says, but no later than after a minute.
const (
	leastPause = 2 * time.Second
	mostPause  = time.Minute
)

// cooled is the memory of a provider's offerings as fleet wants it: the
// journal's cooldowns, and the pauses.
func (p planning) cooled(provider string) map[cloud.Offering]fleet.Cooldown {
	cool := map[cloud.Offering]fleet.Cooldown{}
	for k, until := range p.market.pauses {
		if k.provider == provider {
			cool[k.offering] = fleet.Cooldown{Until: until}
		}
	}
	for k, c := range p.mem.cool {
		if k.provider != provider {
			continue
		}
		if p.now.Before(c.Until) || cool[k.offering].Until.IsZero() {
			cool[k.offering] = c
		}
	}
	return cool
}

// none says why no offering of a pool is left, with the true reason of each.
func (p planning) none(pool Pool, ch fleet.Choice) string {
	type reason struct {
		kind cloud.Kind
		text string
	}
	by := map[reason][]string{}
	var reasons []reason
	for _, o := range ch.Tried {
		r := p.market.why[coolKey{pool.Provider, o}]
		k := reason{cmp.Or(r.kind, cloud.Capacity), r.told(pool.Name)}
		if by[k] == nil {
			reasons = append(reasons, k)
		}
		by[k] = append(by[k], o.String())
	}
	var parts []string
	for _, k := range reasons {
		part := fmt.Sprintf("%s in %s (%s)", phrase(k.kind), p.place(pool), strings.Join(by[k], ", "))
		if k.text != "" {
			part += ": " + k.text
		}
		parts = append(parts, part)
	}
	if len(ch.Dear) > 0 {
		parts = append(parts, fmt.Sprintf("above max_price %g USD/h in %s (%s)", pool.Fleet.MaxPrice, p.place(pool), listed(ch.Dear)))
	}
	if len(ch.Unpriced) > 0 {
		parts = append(parts, p.unpriced(pool, ch.Unpriced))
	}
	return strings.Join(parts, "; ")
}

// lateAfter is how much of ResumeTimeout may be over when a launch begins: in
// less than the last fifth no instance could become a node.
func lateAfter(bootTimeout time.Duration) time.Duration { return bootTimeout / 5 * 4 }

// late says that a launch for the node would come too late.
func (p planning) late(n Node) bool {
	timeout := p.timeout(n.Pool)
	return timeout > 0 && !n.Made.IsZero() && p.now.Sub(n.Made) > lateAfter(timeout)
}

// timeout is how long the nodes of a pool may take to boot; 0: for ever.
func (p planning) timeout(pool string) time.Duration {
	return Config{BootTimeout: p.bootTimeout, ResumeTimeout: p.resume}.timeout(pool, p.pools[pool])
}

// tooLate says why nodes are given back that got no instance in time, with the trouble of each source.
func tooLate(m market, pool Pool, bootTimeout time.Duration) string {
	return fmt.Sprintf("%s, and too little of ResumeTimeout (%s) is left to boot one", m.troubles(pool), bootTimeout)
}

// troubles says why no instance came of a pool's sources.
func (m market) troubles(pool Pool) string {
	var why []string
	for _, s := range pool.Sources() {
		text := m.trouble[sourceKey(s.Name, s.Provider)]
		switch {
		case text == "":
		case len(pool.Then) > 0:
			why = append(why, s.Provider+": "+text)
		default:
			why = append(why, text)
		}
	}
	if len(why) == 0 {
		why = []string{"no instance came"}
	}
	return fmt.Sprintf("pool %s: %s", pool.Name, strings.Join(why, "; "))
}

// about lists the offerings of a launch that an error, or an instance, is
// about: the one it names, in the words of the launch, or all.
func about(o cloud.Offering, asked []cloud.Offering) []cloud.Offering {
	if slices.Contains(asked, o) {
		return []cloud.Offering{o}
	}
	anywhere := cloud.Offering{Type: o.Type, Market: o.Market} // a pool without zones
	if slices.Contains(asked, anywhere) {
		return []cloud.Offering{anywhere}
	}
	return asked
}

// refuse plans what the errors of an answer say of the offerings: what lacks
// capacity, is over a quota or is invalid cools down; what was asked too often
// only pauses.
func (e *Engine) refuse(c *Change, l Launch, err error, a answer) {
	now := time.Now()
	asked := l.Request.Offerings()
	done := map[cloud.Offering]bool{}
	said := map[cloud.Kind][]string{}
	var kinds []cloud.Kind
	var first, until time.Time
	most := 0
	for _, ce := range cloud.Errors(err) {
		for _, o := range about(ce.Offering, asked) {
			key := coolKey{l.Provider, o}
			switch ce.Kind {
			case cloud.Throttled, cloud.Transient, cloud.Auth:
				until := now.Add(min(mostPause, max(leastPause, ce.RetryAfter)))
				if e.market.pauses[key].Before(until) {
					e.market.pauses[key] = until
				}
			default:
				if done[o] {
					continue
				}
				done[o] = true
				cool := paid(e.lacks(key, now), of(o, a.back, asked), l.Request.Count, e.cfg.least(l.Provider, o), now)
				e.because(key, refusal{ce.Kind, brief(ce.Err), e.mem.poolOf(l)})
				c.Coolings = append(c.Coolings, Cooling{l.Provider, o, cool})
				if first.IsZero() || cool.Until.Before(first) {
					first = cool.Until
				}
				if len(a.back) > 0 && now.Before(cool.Paid) {
					most, until = cool.Most, later(until, cool.Paid)
				}
			}
			if said[ce.Kind] == nil {
				kinds = append(kinds, ce.Kind)
			}
			if text := o.String(); !slices.Contains(said[ce.Kind], text) {
				said[ce.Kind] = append(said[ce.Kind], text)
			}
		}
	}
	for _, k := range kinds {
		text := fmt.Sprintf("%d of %d × %s; ", a.came+len(a.back), l.Request.Count, strings.Join(said[k], ", "))
		if len(a.back) > 0 {
			text += "too few, they end again; "
		}
		if !until.IsZero() {
			text += fmt.Sprintf("they are paid for: more than %d not asked for before %s; ", most, until.Local().Format(time.TimeOnly))
		}
		switch k {
		case cloud.Throttled, cloud.Transient, cloud.Auth:
			text += "asked again after a pause"
		default:
			text += "not asked again before " + first.Local().Format(time.TimeOnly)
		}
		c.Events = append(c.Events, Event{Time: now, Kind: "no-" + string(k), Pool: l.Request.Pool, Text: fmt.Sprintf("%s: %v", text, err)})
	}
}

// lacks is an offering's memory after one more launch of it failed. While it is not to be asked for, that
// can only be of one that was under way before: it says what is known, and is no failure in a row.
func (e *Engine) lacks(key coolKey, now time.Time) fleet.Cooldown {
	old := e.mem.cool[key]
	if now.Before(old.Until) {
		return old
	}
	return old.Fail(now)
}

// came plans that the offerings of which instances came are good again.
func (e *Engine) came(c *Change, l Launch, got []cloud.Instance) {
	asked := l.Request.Offerings()
	seen := map[cloud.Offering]bool{}
	for _, i := range got {
		is := about(i.Offering, asked)
		if len(is) != 1 || seen[is[0]] {
			continue
		}
		o := is[0]
		seen[o] = true
		key := coolKey{l.Provider, o}
		old := e.mem.cool[key]
		next := old.Came(len(of(o, got, asked)), time.Now())
		if old != next && !slices.ContainsFunc(c.Coolings, func(k Cooling) bool { return k.Offering == o }) {
			c.Coolings = append(c.Coolings, Cooling{l.Provider, o, next})
			e.because(key, refusal{})
		}
	}
}
