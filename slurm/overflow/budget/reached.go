package budget

import (
	"strconv"
	"time"
)

// Real are the caps with what is really spent: what is booked, and as Committed what runs has come to cost
// by now, in the units that are billed, to an owner only since that has it. Live is what lives, as for Open.
func Real(caps Caps, now time.Time, spent map[Key]Sum, live []Commitment) []Row {
	b := Open(caps, now, spent, nil)
	b.real = true
	for _, c := range live {
		c.Until = earlier(c.Until, now)
		owners := make([]Owner, len(c.Owners))
		for n, o := range c.Owners {
			o.Since, o.Until = earlier(o.Since, now), earlier(o.Until, now)
			owners[n] = o
		}
		c.Owners = owners
		b.add(b.held, c)
	}
	return b.Rows()
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Reached says whether a cap is, by so many per cent. What fits it exactly, as a launch may, is not over it:
// at 100 it is reached when more than all of it is spent.
func (r Row) Reached(percent int) bool {
	used, at := r.Spent+r.Committed, r.Cap*float64(percent)/100
	if percent < 100 {
		return used >= at-roundoff
	}
	return used > at+roundoff
}

// Counts says whether a job's use of instances counts to the scope's caps.
func (s Scope) Counts(o Owner) bool {
	switch s.Kind {
	case Cluster:
		return true
	case Account:
		return s.Name == AccountName(o.Account)
	case User:
		return s.Name == o.User
	}
	return s.Name == strconv.FormatUint(uint64(o.Job), 10)
}

// Longer says that r has no room for longer than o: a job's own budget never has.
func (r Row) Longer(o Row) bool {
	return r.To.IsZero() && !o.To.IsZero() || !o.To.IsZero() && r.To.After(o.To)
}

// Short names the cap and its period without an amount.
func (r Row) Short() string {
	as := Refusal{Scope: r.Scope, Period: r.Period}
	text := as.whose() + " budget"
	if in := as.in(); in != "" {
		text += " for " + in[len(" on "):]
	}
	return text
}
