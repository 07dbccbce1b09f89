package daemon

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm/overflow"
)

const (
	overflowAgain = 5 * time.Minute // at most, between two tries of what Slurm refuses
	overflowFails = 20              // in one round, before what has failed is not tried again in it
)

// asked is what Slurm was asked of a job, or of tasks of an array: to add or take partitions, or
// for its script. A requeue makes it another.
type asked struct {
	overflow.ScriptID
	what overflow.Action
}

// readIt is what of its script, tellIt what of its AdminComment.
const (
	readIt overflow.Action = "script"
	tellIt overflow.Action = "tell"
)

func askedOf(dec overflow.Decision) asked {
	return asked{overflow.ScriptOf(dec.Job.Job), dec.Action}
}

// refusal is what came of asking, in vain.
type refusal struct {
	try
	why string
	row store.Overflowed // of the addition: the next try is not another row of the log
}

// refused notes that what was asked failed, and until when it is not asked again.
func (r *overflowReads) refused(a asked, why string, row store.Overflowed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refusals == nil {
		r.refusals = map[asked]refusal{}
	}
	n := r.refusals[a].times + 1
	r.refusals[a] = refusal{try{n, time.Now().Add(jitter(min(overflowAgain, overflowEvery<<min(n, 10))))}, why, row}
}

// How long a job rests that has given up its place: twice restFirst, then twice as long each time, restMost at most.
const (
	restFirst = 10 * time.Minute
	restMost  = 6 * time.Hour
)

// resting is how often a job has given up its place, and until when it rests.
type resting struct {
	times int
	overflow.Rest
}

// rest notes that a job gives up its place, or tasks of an array do; those of one array that do so while others of it rest count once.
func (r *overflowReads) rest(dec overflow.Decision, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := overflow.ScriptOf(dec.Job.Job)
	was := r.rests[id]
	if now.Before(was.Until) {
		return
	}
	if r.rests == nil {
		r.rests = map[overflow.ScriptID]resting{}
	}
	n := was.times + 1
	why := fmt.Sprintf("in %s it waited for %s", strings.Join(dec.To, ","), dec.Aside)
	r.rests[id] = resting{n, overflow.Rest{Until: now.Add(min(restMost, restFirst<<min(n, 10))), Why: why}}
}

func (r *overflowReads) restsNow() map[overflow.ScriptID]overflow.Rest {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[overflow.ScriptID]overflow.Rest{}
	for id, rest := range r.rests {
		all[id] = rest.Rest
	}
	return all
}

func (r *overflowReads) done(a asked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.refusals, a)
}

// last is what became of the last try; zero: there was none, or it succeeded.
func (r *overflowReads) last(a asked) refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refusals[a]
}

// waits says that it is too early to ask again.
func (r *overflowReads) waits(a asked) bool { return time.Now().Before(r.last(a).again) }

// mayFail is how many may have failed before it in a round: what is asked for the first time comes first.
func (r *overflowReads) mayFail(a asked) int {
	if r.last(a).times > 0 {
		return overflowFails
	}
	return overflowMoves
}

// refusedNow are those who wait for the next try, with why: they take nobody's place.
func (r *overflowReads) refusedNow(now time.Time) map[overflow.ScriptID]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all map[overflow.ScriptID]string
	for a, f := range r.refusals {
		if a.what == overflow.Take || a.what == tellIt || !now.Before(f.again) {
			continue
		}
		if all == nil {
			all = map[overflow.ScriptID]string{}
		}
		all[a.ScriptID] = fmt.Sprintf("%s; it is tried again at %s", f.why, f.again.Local().Format(time.TimeOnly))
	}
	return all
}

// grouped makes one of what is to be done to tasks of one array: Slurm is told of them together. Named all at once, those that wait
// stay one job of Slurm's; for a budget they have to, as they wait by that one's number.
func grouped(plan []overflow.Decision) []overflow.Decision {
	const most = 200
	type alike struct {
		job                       uint32
		what                      overflow.Action
		partition, rule, was, why string
		begin                     bool
	}
	at := map[alike]int{}
	all := make([]overflow.Decision, 0, len(plan))
	for _, dec := range plan {
		if dec.Action != overflow.Take && dec.Action != overflow.Add || dec.Keys[0].Task < 0 {
			all = append(all, dec)
			continue
		}
		key := alike{dec.Keys[0].Job, dec.Action, dec.Job.Partition, dec.Rule, fmt.Sprint(dec.Was), dec.Why, dec.Begin}
		if i, have := at[key]; have && (dec.Rule == "" || len(all[i].Keys) < most) {
			all[i].Keys = append(slices.Clip(all[i].Keys), dec.Keys...)
			continue
		}
		at[key] = len(all)
		all = append(all, dec)
	}
	return all
}
