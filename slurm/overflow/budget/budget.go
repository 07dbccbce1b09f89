// Package budget says whether a launch could take what is spent over a cap: of the
// cluster, an account or a user in a day or a month, or of a job over all its attempts. It is pure.
//
// What counts in a period is what the ledger has booked there, and what is committed:
// what each instance that lives, and each launch whose answer is not known, can come to
// cost until the end of its jobs' time limits and of the idle time after them. That is
// an upper bound; a launch has to fit into each period that it reaches into.
//
//	           booked          committed
//	launched |========|- - - - - - - - - - -| time limit, idle, the rest of a begun unit
//	                 From                  Until
package budget

import (
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
)

// Kind is whose budget it is.
type Kind string

const (
	Cluster Kind = "cluster"
	Account Kind = "account"
	User    Kind = "user"
	Job     Kind = "job"
)

// Scope is what a cap is of.
type Scope struct {
	Kind Kind
	Name string // of the account or user, the job's id; empty: the cluster
}

// AccountName is an account as Slurm writes it, whatever its users write.
func AccountName(name string) string { return strings.ToLower(name) }

// Limits are the caps of one scope in USD; 0: none.
type Limits struct{ Day, Month float64 }

// Caps are all there are. The zero Caps cap nothing.
type Caps struct {
	Cluster  Limits
	Accounts map[string]Limits // by AccountName
	Users    map[string]Limits
	Jobs     map[uint32]float64 // jobs' own, in USD over all their attempts
	// Location is where days and months begin; nil: UTC.
	Location *time.Location
	// Unknown is what an hour counts of which the price is not known, in USD; 0: nothing is
	// launched under a cap while something counts there that has no price.
	Unknown float64
}

// The lengths of periods.
const (
	Day   = "day"
	Month = "month"
	Whole = "job" // all of a job's attempts
)

// Period is a day or a month, from From up to, and without, To; of Whole both are zero.
type Period struct {
	Length   string
	From, To time.Time
}

// Day is the day in which t lies.
func (c Caps) Day(t time.Time) Period {
	return c.around(Day, t, func(t time.Time, n int) time.Time {
		y, m, d := t.Date()
		return time.Date(y, m, d+n, 0, 0, 0, 0, t.Location())
	})
}

// Month is the calendar month in which t lies.
func (c Caps) Month(t time.Time) Period {
	return c.around(Month, t, func(t time.Time, n int) time.Time {
		y, m, _ := t.Date()
		return time.Date(y, m+time.Month(n), 1, 0, 0, 0, 0, t.Location())
	})
}

// around finds the period by where the nth one after that of t begins.
func (c Caps) around(length string, t time.Time, begin func(t time.Time, n int) time.Time) Period {
	t = t.In(c.zone())
	n := 0
	for t.Before(begin(t, n)) { // where a day has no midnight, as the clocks are set forward then
		n--
	}
	for !t.Before(begin(t, n+1)) {
		n++
	}
	return Period{length, begin(t, n), begin(t, n+1)}
}

func (c Caps) zone() *time.Location {
	if c.Location == nil {
		return time.UTC
	}
	return c.Location
}

// of are the caps of a day and a month.
func (c Caps) of(s Scope) Limits {
	switch s.Kind {
	case Cluster:
		return c.Cluster
	case Account:
		return c.Accounts[s.Name]
	case User:
		return c.Users[s.Name]
	}
	return Limits{}
}

// Owner is a job that has, or is to have, an instance.
type Owner struct {
	Job           uint32
	User, Account string
	// Until is when the instance is of no use to it any more, by its time limit.
	Until time.Time
	// Since is when it was given the instance, of what Real counts; zero: not known, and all that is not
	// booked yet counts.
	Since time.Time
}

// Commitment is what an instance can still cost.
type Commitment struct {
	What string // the instance or offering, for people
	// Launched is where its units of time are counted from, From up to where it is booked:
	// not before Launched.
	Launched, From time.Time
	Until          time.Time // its end at the latest, but for the rest of the unit that it has begun
	USDPerHour     float64   // 0: not known
	Increment      price.Increment
	Owners         []Owner
}

// end is when what is paid for a use until then ends.
func (c Commitment) end(until time.Time) time.Time {
	return c.Launched.Add(c.Increment.Billed(until.Sub(c.Launched)))
}

// hours are those of a use until then which lie in a period and are charged.
func (c Commitment) hours(p Period, until time.Time) float64 {
	from, to := c.From, c.end(until)
	if p.Length != Whole {
		if from.Before(p.From) {
			from = p.From
		}
		if to.After(p.To) {
			to = p.To
		}
	}
	if !to.After(from) {
		return 0
	}
	d := to.Sub(from)
	for _, s := range c.Increment.Free(c.Launched, from, to) {
		d -= s.To.Sub(s.From)
	}
	return d.Hours()
}
