// Package overflow decides which pending jobs may also start in a cloud: by a site's rules, over a
// snapshot of Slurm. It asks nobody and changes nothing: what it returns says what to do, and why.
package overflow

import (
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// Rule says which pending jobs get partitions of a cloud beside their own, and when. Of a list of
// names one must be the job's, and none of those after a "!"; an empty list is about all jobs.
type Rule struct {
	Name string
	From []string // partitions, one of which the job asks for
	To   []string // partitions that are added

	Accounts, Users, QOS []string      // accounts and QOS in lower case
	MinNodes, MaxNodes   int           // how many nodes the job asks for; 0: any number
	MaxTime              time.Duration // of the job's limit, which it must have then; 0: any
	Features             []string      // a word of --constraint
	Gres                 []string      // "gpu" or "gpu:a100"
	Licenses             []string
	Directives           []string // "key=value", all of which its #BURST lines or comment say

	// A job that waits for Resources or Priority has waited so long, or Slurm says that it will start
	// later than that from now: either does. With neither it need not wait.
	After, StartsLater time.Duration
	// Jobs that Slurm may not requeue go also where a cloud may take its nodes back, which ends them.
	NoRequeue bool
	AtOnce    int // so many jobs, array tasks counted apart, wait or run in To by the rule; 0: any number

	Line int // of the file it stands in, for messages
}

// OnPrem is what exists at the site only: a job that uses one of these is never moved.
type OnPrem struct {
	FileSystems []string // clean absolute paths
	Licenses    []string
	Features    []string
}

// job is a pending job with what is read of it once.
type job struct {
	*slurm.Waiting
	partitions []string
	features   []string // words of its --constraint
	licenses   []string
	gres       map[string]int  // of any kind; nil: none
	unclear    string          // GRES that are not understood
	limit      whose           // the time limit that squeue shows is
	gets       []time.Duration // the limits that one of nobody's may get in its own partitions; 0: none
	home       kind            // the least that a node of its own partitions has
	script     *Script         // nil: not read
	would      bool            // it is not submitted: an account or a QOS that is empty is not known
}

// match says whether the rule is about the job. Unread: its script, which is not known, decides.
func (r *Rule) match(j *job) (yes, unread bool) {
	switch {
	case !overlap(r.From, j.partitions),
		!lists(r.Accounts, strings.ToLower(j.Account)), !lists(r.Users, j.User), !lists(r.QOS, strings.ToLower(j.QOS)),
		r.MinNodes > 0 && j.NumNodes < r.MinNodes, r.MaxNodes > 0 && j.NumNodes > r.MaxNodes,
		r.MaxTime > 0 && j.limit != unsaid && (j.TimeLimit == 0 || j.TimeLimit > r.MaxTime),
		!lists(r.Features, j.features...), !lists(r.Licenses, j.licenses...):
		return false, false
	}
	if len(r.Gres) > 0 && !lists(r.Gres, names(j.gres)...) {
		return false, false
	}
	if len(r.Directives) > 0 && j.script == nil {
		return true, true
	}
	for _, d := range r.Directives {
		key, value, _ := strings.Cut(d, "=")
		if j.script.Said[key] != value {
			return false, false
		}
	}
	return true, false
}

// lists says whether one of have is in the list, and none of them is left out of it.
func lists(list []string, have ...string) bool {
	if len(list) == 0 {
		return true
	}
	one, asks := false, false
	for _, l := range list {
		name, not := strings.CutPrefix(l, "!")
		has := slices.Contains(have, name)
		if not && has {
			return false
		}
		asks = asks || !not
		one = one || !not && has
	}
	return one || !asks
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

func names(counts map[string]int) []string {
	all := make([]string, 0, len(counts))
	for name := range counts {
		all = append(all, name)
	}
	return all
}

// Covers says whether the rule is about every job that other is about: one that comes later
// never matches. False where that is not certain.
func (r Rule) Covers(other Rule) bool {
	for _, of := range [][2][]string{{r.Accounts, other.Accounts}, {r.Users, other.Users}, {r.QOS, other.QOS}, {r.Features, other.Features},
		{r.Gres, other.Gres}, {r.Licenses, other.Licenses}} {
		if !coversList(of[0], of[1]) {
			return false
		}
	}
	within := func(all, of []string) bool {
		return !slices.ContainsFunc(of, func(s string) bool { return !slices.Contains(all, s) })
	}
	return within(r.From, other.From) && within(other.Directives, r.Directives) &&
		r.MinNodes <= max(1, other.MinNodes) && (r.MaxNodes == 0 || other.MaxNodes > 0 && other.MaxNodes <= r.MaxNodes) &&
		(r.MaxTime == 0 || other.MaxTime > 0 && other.MaxTime <= r.MaxTime)
}

// coversList says whether list is about all that other is about: what it leaves out the other must
// leave out too, and what the other names it must name.
func coversList(list, other []string) bool {
	some := false // list names some: it is not about all others
	for _, l := range list {
		if strings.HasPrefix(l, "!") {
			if !slices.Contains(other, l) {
				return false
			}
			continue
		}
		some = true
	}
	if !some {
		return true
	}
	named := 0
	for _, o := range other {
		if strings.HasPrefix(o, "!") {
			continue
		}
		if named++; !slices.Contains(list, o) {
			return false
		}
	}
	return named > 0
}
