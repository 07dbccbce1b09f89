package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/burst-hpc/burst/slurm/overflow/budget"
)

// Budget is the section [budget].
type Budget struct {
	Caps budget.Caps // without those of jobs
	Warn int         // per cent of a cap from which on that is said
	// AtCap is what becomes of jobs that run in the cloud when a cap is really spent: RequeueJobs or CancelJobs;
	// empty: they finish.
	AtCap string
	// Doubts are what is likely not meant, each with its line.
	Doubts Errors
}

const defaultWarn = 80

// The words of at_cap.
const (
	Finish      = "finish"  // what runs goes on to its end
	RequeueJobs = "requeue" // those that can checkpoint go back into the queue
	CancelJobs  = "cancel"
	requeueLong = "checkpoint-and-requeue-onprem" // another word for RequeueJobs
)

// spending reads [budget]; nil: there is none, and nothing is capped.
func spending(top *section) *Budget {
	s := top.sub("budget")
	if !top.has("budget") {
		return nil
	}
	b := &Budget{Warn: s.number("warn", " of per cent", strconv.Itoa(defaultWarn))}
	b.Caps.Cluster = b.limits(s)
	if b.Warn == 0 {
		b.Warn = defaultWarn
	}
	if b.Warn > 100 {
		s.failAt("warn", "is %d: write a number of per cent from 1 to 100", b.Warn)
	}
	switch word := s.text("at_cap", Finish); word {
	case Finish:
	case RequeueJobs, CancelJobs:
		b.AtCap = word
	case requeueLong:
		b.AtCap = RequeueJobs
	default:
		s.failAt("at_cap", "%q is not known: write %q, %q or %q", word, Finish, RequeueJobs, CancelJobs)
	}
	if v := s.value("unknown_price"); v != nil && v != "refuse" {
		b.Caps.Unknown = s.amount("unknown_price", `write "refuse", or USD per hour as in unknown_price = 0.50`)
	}
	b.Caps.Location = time.Local
	if name := s.text("time_zone", ""); name != "" {
		zone, err := time.LoadLocation(name)
		if err != nil {
			s.failAt("time_zone", "%q is not known here: write a name as in \"Europe/Berlin\" or \"UTC\"", name)
		}
		b.Caps.Location = zone
	}
	b.Caps.Accounts, b.Caps.Users = b.each(s, "account"), b.each(s, "user")
	s.done()
	return b
}

// each reads the sections [budget.account.NAME] or [budget.user.NAME].
func (b *Budget) each(s *section, key string) map[string]budget.Limits {
	all := map[string]budget.Limits{}
	of := s.sub(key)
	for _, name := range slices.Sorted(maps.Keys(of.table)) {
		one, at := of.sub(name), name
		if key == "account" {
			name = budget.AccountName(name)
		}
		if _, twice := all[name]; twice {
			of.failAt(at, "is there twice: Slurm does not tell large letters of an account from small ones")
		}
		all[name] = b.limits(one)
		if all[name] == (budget.Limits{}) && !one.has("day") && !one.has("month") {
			of.failAt(at, "caps nothing: add day or month, in USD, or remove the section")
		}
		one.done()
	}
	return all
}

// limits reads the caps of a section, which may have none.
func (b *Budget) limits(s *section) budget.Limits {
	const how = "write USD above 0, as in 50.0; without the key there is no cap"
	l := budget.Limits{Day: s.amount("day", how), Month: s.amount("month", how)}
	if l.Day > l.Month && l.Month > 0 {
		at := s.key("day")
		b.Doubts = append(b.Doubts, Error{File: s.path, Line: s.lines[at.String()], Key: at.String(),
			What: fmt.Sprintf("%g USD a day are more than the %g of a whole month: the month's cap alone counts", l.Day, l.Month)})
	}
	return l
}

// amount is a number of USD above zero; 0 if it is not there.
func (s *section) amount(key, how string) (usd float64) {
	switch v := s.value(key).(type) {
	case nil:
		return 0
	case float64:
		usd = v
	case int64:
		usd = float64(v)
	default:
		s.failAt(key, "is %s: %s", kind(v), how)
		return 0
	}
	if !(usd > 0) || math.IsInf(usd, 0) {
		s.failAt(key, "is %v: %s", s.value(key), how)
		return 0
	}
	return usd
}
