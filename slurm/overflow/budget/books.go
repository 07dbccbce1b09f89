package budget

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Key names a sum: a scope's in a period.
type Key struct {
	Scope
	Length string // Day, Month or Whole
	From   int64  // where the period begins, in seconds since 1970; 0: Whole
}

// KeyOf names the sum of a scope in a period.
func KeyOf(s Scope, p Period) Key {
	if p.Length == Whole {
		return Key{s, Whole, 0}
	}
	return Key{s, p.Length, p.From.Unix()}
}

// Sum is what counts under a key.
type Sum struct {
	USD      float64
	Unpriced float64 // hours of instances of which the price is not known, and which are not in USD
	What     string  // one of those, for people; may be empty
}

func (s Sum) plus(o Sum) Sum {
	return Sum{s.USD + o.USD, s.Unpriced + o.Unpriced, cmp.Or(s.What, o.What)}
}

// Books are what is spent and committed, for one moment. It is no one's but who opened it.
type Books struct {
	caps  Caps
	now   time.Time
	spent map[Key]Sum
	held  map[Key]Sum
	at    map[Key]Period
	real  bool // what is not booked yet counts to owners only since they have had it
}

// Open adds up what is committed. Spent is what the ledger has booked, at least of the
// keys that have a cap; what it has booked for later than now counts too.
func Open(caps Caps, now time.Time, spent map[Key]Sum, committed []Commitment) *Books {
	b := &Books{caps: caps, now: now, spent: map[Key]Sum{}, held: map[Key]Sum{}, at: map[Key]Period{}}
	for k, s := range spent {
		if caps.Unknown > 0 {
			s = Sum{USD: s.USD + s.Unpriced*caps.Unknown}
		}
		b.spent[k] = s
	}
	for _, c := range committed {
		b.add(b.held, c)
	}
	return b
}

// Clone are the same books: what is committed in one does not count in the other.
func (b *Books) Clone() *Books {
	c := *b
	c.held, c.at = maps.Clone(b.held), maps.Clone(b.at)
	return &c
}

// add adds up a commitment, by each cap that it counts under.
func (b *Books) add(to map[Key]Sum, c Commitment) {
	b.count(to, c, Scope{Kind: Cluster}, c.Until)
	until, since := map[Scope]time.Time{}, map[Scope]time.Time{}
	for _, o := range c.Owners {
		for _, s := range []Scope{{User, o.User}, {Account, AccountName(o.Account)}, {Job, strconv.FormatUint(uint64(o.Job), 10)}} {
			if s.Name == "" {
				continue
			}
			if had, ok := since[s]; !ok || o.Since.Before(had) {
				since[s] = o.Since
			}
			if o.Until.After(until[s]) { // jobs of one share the instance: it is paid once
				until[s] = o.Until
			}
		}
	}
	for s, at := range until {
		own := c
		if b.real && since[s].After(c.From) {
			own.From = since[s]
		}
		b.count(to, own, s, at)
	}
}

func (b *Books) count(to map[Key]Sum, c Commitment, s Scope, until time.Time) {
	for _, p := range b.periods(s, c.From, c.end(until)) {
		hours := c.hours(p, until)
		if hours <= 0 {
			continue
		}
		sum := Sum{USD: hours * cmp.Or(c.USDPerHour, b.caps.Unknown)}
		if sum.USD == 0 {
			sum = Sum{Unpriced: hours, What: c.What}
		}
		k := KeyOf(s, p)
		to[k], b.at[k] = to[k].plus(sum), p
	}
}

// ahead is how many months are looked ahead: a time limit may be of any length.
const ahead = 13

// periods are those of the scope's caps that a time reaches into, as far as is looked ahead.
func (b *Books) periods(s Scope, from, to time.Time) []Period {
	if s.Kind == Job {
		if b.jobCap(s) > 0 {
			return []Period{{Length: Whole}}
		}
		return nil
	}
	var all []Period
	limits := b.caps.of(s)
	if end := from.AddDate(0, ahead, 0); to.After(end) {
		to = end
	}
	if limits.Day > 0 {
		for p := b.caps.Day(from); p.From.Before(to); p = b.caps.Day(p.To) {
			all = append(all, p)
		}
	}
	if limits.Month > 0 {
		for p := b.caps.Month(from); p.From.Before(to); p = b.caps.Month(p.To) {
			all = append(all, p)
		}
	}
	return all
}

func (b *Books) jobCap(s Scope) float64 {
	id, err := strconv.ParseUint(s.Name, 10, 32)
	if err != nil {
		return 0
	}
	return b.caps.Jobs[uint32(id)]
}

// cap is that of a key, in USD.
func (b *Books) cap(k Key) float64 {
	switch k.Length {
	case Day:
		return b.caps.of(k.Scope).Day
	case Month:
		return b.caps.of(k.Scope).Month
	}
	return b.jobCap(k.Scope)
}

// roundoff is what sums of dollars may be off by, far below a cent.
const roundoff = 1e-9

// Try commits what a launch can cost, if that fits under each cap, or says which one is
// in the way longest: all of it is committed or nothing.
func (b *Books) Try(launch ...Commitment) (Refusal, bool) {
	more, in := b.judge(launch)
	if len(in) > 0 {
		return in[0], false
	}
	for k, s := range more {
		b.held[k] = b.held[k].plus(s)
	}
	return Refusal{}, true
}

// Against are all caps that are in the way of a launch, in the period in which each is so longest; that
// which is so longest comes first. Nothing is committed.
func (b *Books) Against(launch ...Commitment) []Refusal {
	_, in := b.judge(launch)
	return in
}

func (b *Books) judge(launch []Commitment) (more map[Key]Sum, in []Refusal) {
	more = map[Key]Sum{}
	for _, c := range launch {
		b.add(more, c)
	}
	for _, k := range slices.SortedFunc(maps.Keys(more), compare) {
		have := b.spent[k].plus(b.held[k])
		r := Refusal{Scope: k.Scope, Period: b.at[k], Cap: b.cap(k), Left: b.cap(k) - have.USD, Needs: more[k].USD, Spent: b.spent[k].USD}
		switch all := have.plus(more[k]); {
		case all.Unpriced > 0:
			r.Unpriced = cmp.Or(all.What, "part of what was used")
		case have.USD+more[k].USD <= r.Cap+roundoff:
			continue
		}
		if last := len(in) - 1; last < 0 || in[last].Scope != r.Scope {
			in = append(in, r)
		} else if r.longer(in[last]) {
			in[last] = r
		}
	}
	slices.SortStableFunc(in, func(x, y Refusal) int {
		switch {
		case x.longer(y):
			return -1
		case y.longer(x):
			return 1
		}
		return 0
	})
	return more, in
}

func compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Length, b.Length), cmp.Compare(a.From, b.From))
}

// Row is how one cap stands.
type Row struct {
	Scope
	Period
	Cap       float64 // USD
	Spent     float64 // booked
	Committed float64
	Unpriced  float64 // hours in neither, as their price is not known
}

// Left is what is neither spent nor committed; below 0 the cap is exceeded.
func (r Row) Left() float64 { return r.Cap - r.Spent - r.Committed }

// Used is the part of the cap that is spent or committed, in per cent.
func (r Row) Used() float64 { return 100 * (r.Spent + r.Committed) / r.Cap }

// Rows are all caps as they stand in the present day and month: the cluster's, then by
// kind and name.
func (b *Books) Rows() []Row {
	scopes := []Scope{{Kind: Cluster}}
	for _, name := range slices.Sorted(maps.Keys(b.caps.Accounts)) {
		scopes = append(scopes, Scope{Account, name})
	}
	for _, name := range slices.Sorted(maps.Keys(b.caps.Users)) {
		scopes = append(scopes, Scope{User, name})
	}
	for _, id := range slices.Sorted(maps.Keys(b.caps.Jobs)) {
		scopes = append(scopes, Scope{Job, strconv.FormatUint(uint64(id), 10)})
	}
	var all []Row
	for _, s := range scopes {
		for _, p := range b.periods(s, b.now, b.now.Add(1)) {
			k := KeyOf(s, p)
			all = append(all, Row{Scope: s, Period: p, Cap: b.cap(k), Spent: b.spent[k].USD, Committed: b.held[k].USD,
				Unpriced: b.spent[k].Unpriced + b.held[k].Unpriced})
		}
	}
	return all
}

// Title names the cap and its period.
func (r Row) Title() string {
	return Refusal{Scope: r.Scope, Period: r.Period, Cap: r.Cap}.title()
}
