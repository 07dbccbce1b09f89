package daemon

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestOverflowRefused: what Slurm refuses is tried again, and not in each round.
func TestOverflowRefused(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"))
	s.refuse = "slurm_update error: Access denied"
	if err := s.over.round(t.Context()); err == nil || !strings.Contains(err.Error(), "changing the partitions of job 5: scontrol: slurm_update error") {
		t.Error(err)
	}
	for range 3 {
		if err := s.over.round(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(s.updates) != 1 {
		t.Errorf("%v", s.updates)
	}
	s.refuse = "Job is no longer pending execution for job 5"
	s.anew()
	if err := s.over.round(t.Context()); err != nil {
		t.Error(err)
	}
	if log := s.log(); len(log) != 1 || log[0].EndedWhy != "it began before it was added" {
		t.Errorf("%+v", log)
	}
}

// anew has what was refused tried in the next round.
func (s *shop) anew() {
	for a, f := range s.over.overflows.refusals {
		f.again = time.Time{}
		s.over.overflows.refusals[a] = f
	}
}

// TestOverflowRefusedForLong: what Slurm goes on refusing is tried less and less often, is one row of the log that
// has its words, and takes neither a place nor a move from others, however many they are.
func TestOverflowRefusedForLong(t *testing.T) {
	first := waiting("5", "N/A", "main")
	first["PriorityLong"] = "99"
	s := newShop(t, first, waiting("6", "N/A", "other"))
	s.refuse, s.only = "slurm_update error: Access denied", "jobid=5 "
	for range 10 {
		s.anew()
		if err := s.over.round(t.Context()); err == nil {
			t.Fatal("it is not refused")
		}
		if err := s.over.round(t.Context()); err != nil { // nor tried again
			t.Fatal(err)
		}
	}
	s.rows[1]["Partition"], s.over.cfg.Overflow.Rules[0].AtOnce = "main", 1
	s.rounds()
	if got := s.state(); got["5/N/A"] != "main" || got["6/N/A"] != "main,cloud" {
		t.Error(got)
	}
	log := s.log()
	if len(log) != 2 || !strings.Contains(log[0].EndedWhy+log[1].EndedWhy, "not added: changing the partitions of job 5: scontrol: slurm_update error: Access denied") {
		t.Errorf("%+v", log)
	}
	for _, f := range s.over.overflows.refusals {
		if wait := time.Until(f.again); f.times != 10 || wait < 3*time.Minute {
			t.Errorf("%d times, again in %s", f.times, wait)
		}
	}
	plan, err := s.over.OverflowPlan(t.Context(), api.OverflowAsk{UID: -1})
	if err != nil || !slices.ContainsFunc(plan, func(j api.OverflowJob) bool {
		return j.Job == "5" && j.Action == "leave" && strings.Contains(j.Why, "stays for now: adding cloud failed: ") && strings.Contains(j.Why, "Access denied; it is tried again at ")
	}) {
		t.Errorf("%+v, %v", plan, err)
	}
	s.refuse = ""
	s.rows[1]["Partition"] = "main" // its user's doing: there is room
	s.anew()
	s.rounds()
	if got := s.state()["5/N/A"]; got != "main,cloud" || len(s.log()) != 2 {
		t.Error(got, s.log())
	}

	var rows []map[string]string
	for i := range 2*overflowMoves + 1 {
		row := waiting(fmt.Sprint(1000+i), "N/A", "main")
		row["PriorityLong"] = fmt.Sprint(1000 - i)
		rows = append(rows, row)
	}
	s = newShop(t, rows...)
	s.refuse, s.only = "slurm_update error: Access denied", "jobid=1"
	last := rows[len(rows)-1]
	last["JobID"], last["ArrayJobID"] = "2999", "2999"
	for range 5 { // what is tried anew does not come before what was never tried
		s.anew()
		if err := s.over.round(t.Context()); err == nil {
			t.Fatal("nothing is refused")
		}
	}
	if got := s.state()["2999/N/A"]; got != "main,cloud" {
		t.Errorf("the last of %d jobs is in %s", len(rows), got)
	}
}

// TestOverflowAside: since when a moved job waits for something else is kept from round to round, also for those who ask for a
// plan, and counts anew when it waits for nodes again.
func TestOverflowAside(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"), waiting("6", "N/A", "main"))
	s.rounds()
	for _, row := range s.rows {
		row["Reason"] = "QOSMaxJobsPerUserLimit"
	}
	s.rounds()
	if s.over.overflows.aside[5].IsZero() || len(s.over.overflows.aside) != 2 {
		t.Errorf("%v", s.over.overflows.aside)
	}
	s.rows[1]["Reason"] = "Priority"
	s.rounds()
	if _, seen := s.over.overflows.aside[6]; seen {
		t.Error("it waits for nodes again")
	}
	s.rows[1]["Reason"] = "QOSMaxJobsPerUserLimit"
	s.rows, s.over.cfg.Overflow.Rules[0].AtOnce = append(s.rows, waiting("9", "N/A", "main")), 2
	s.rounds()
	s.over.overflows.aside[5] = time.Now().Add(-time.Hour)
	if plan, err := s.over.OverflowPlan(t.Context(), api.OverflowAsk{UID: -1}); err != nil || plan[0].Action != "take" {
		t.Errorf("%+v, %v", plan, err)
	}
	s.rounds()
	if got := s.state(); got["5/N/A"] != "main" || got["6/N/A"] != "main,cloud" || got["9/N/A"] != "main,cloud" {
		t.Error(got)
	}
	if rest := s.over.overflows.restsNow()[overflow.ScriptOf(slurm.Job{ID: 5, Submitted: unixOf(s.rows[0]["SubmitTime"])})]; time.Until(rest.Until) < 19*time.Minute || rest.Why != "in cloud it waited for QOSMaxJobsPerUserLimit" {
		t.Errorf("%+v", s.over.overflows.rests)
	}
	s.rows = s.rows[1:]
	s.rounds()
	if len(s.over.overflows.rests) > 0 {
		t.Error("it rests though it has ended")
	}
}

func unixOf(text string) time.Time {
	var sec int64
	fmt.Sscan(text, &sec)
	return time.Unix(sec, 0)
}

// TestOverflowAsideForLong: a job that waits for a limit of the cloud's own each time that it is moved is moved less and less often.
func TestOverflowAsideForLong(t *testing.T) {
	var r overflowReads
	begin, next, moves := time.Now().Truncate(time.Second), uint32(100), 0
	job := func(id uint32) slurm.Waiting {
		return slurm.Waiting{Job: slurm.Job{ID: id, UID: 1000, User: "ada", Partition: "main", State: "PENDING", Reason: "Priority", Batch: true, Requeue: true, NumNodes: 1, Submitted: begin, Eligible: begin.Add(-time.Hour), TimeLimit: time.Hour},
			Needs: slurm.Needs{CPUs: 1, MinCPUs: 1}, Priority: 200 - int64(id)}
	}
	s := overflow.Snapshot{Rules: []overflow.Rule{{Name: "small", From: []string{"main"}, To: []string{"cloud"}, AtOnce: 1}}, Scripts: map[overflow.ScriptID]overflow.Script{},
		Partitions: overflow.PartitionsOf([]map[string]string{{"PartitionName": "cloud", "State": "UP"}}, map[string]slurm.Node{"c1": {Name: "c1", Partitions: []string{"cloud"}, CPUs: 4, RealMemory: 4000}}, nil), Waiting: []slurm.Waiting{job(5), job(next)}}
	for at := begin; at.Before(begin.Add(24 * time.Hour)); at = at.Add(time.Minute) {
		s.Now = at
		for _, w := range s.Waiting {
			s.Scripts[overflow.ScriptOf(w.Job)] = overflow.Script{}
		}
		r.watchAside(&s)
		s.Rests = r.restsNow()
		for _, dec := range overflow.Decide(s) {
			switch w := dec.Job; {
			case dec.Action == overflow.Add && w.ID == 5:
				w.Partition, w.Reason = "main,cloud", "QOSGrpNodeLimit"
				s.Records, moves = []overflow.Record{{Key: dec.Keys[0], UID: 1000, Submitted: begin, Rule: "small", Was: dec.Was, To: dec.To, State: overflow.InPlace, At: at}}, moves+1
			case dec.Action == overflow.Add: // it begins at once, and another waits
				next++
				*w = job(next)
			case dec.Action == overflow.Take:
				w.Partition, w.Reason, s.Records = "main", "Priority", nil
				r.rest(dec, at)
			}
		}
	}
	if moves < 2 || moves > 8 { // seven times again
		t.Errorf("moved %d times", moves)
	}
}

// TestOverflowTakenAgain: what is taken back in a second try has the words of the first.
func TestOverflowTakenAgain(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"))
	s.rounds()
	s.rows[0]["Reason"], s.refuse = "JobHeldUser", "slurm_update error: Access denied"
	if err := s.over.round(t.Context()); err == nil {
		t.Error("it is not refused")
	}
	s.refuse = ""
	s.start() // another burstd
	s.rounds()
	n := len(s.updates)
	if n != 3 || s.updates[n-1] != s.updates[n-2] || !strings.Contains(s.updates[n-1], "burst: it is held; back to main") {
		t.Errorf("%q", s.updates)
	}
}

// TestOverflowNoAnswer: what may have been done stays written, until Slurm shows whether it was.
func TestOverflowNoAnswer(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"))
	s.refuse = "slurm_update error: Socket timed out on send/recv operation"
	if err := s.over.round(t.Context()); err == nil {
		t.Error("it is not refused")
	}
	if log := s.log(); len(log) != 1 || log[0].State != overflow.Adding || !log[0].Ended.IsZero() {
		t.Errorf("%+v", log)
	}
	s.rows[0]["Partition"] = "main,cloud" // it was
	s.rounds()
	if log := s.log(); len(log) != 1 || log[0].State != overflow.InPlace {
		t.Errorf("%+v", log)
	}
}

// TestOverflowScriptMissing: a script that Slurm cannot give keeps its own job from the cloud, not the others;
// and that all scripts are read takes as many rounds as it must.
func TestOverflowScriptMissing(t *testing.T) {
	rows := []map[string]string{waiting("5", "N/A", "main")}
	for i := range overflowScripts + 5 {
		rows = append(rows, waiting(fmt.Sprint(1000+i), "N/A", "main"))
	}
	s := newShop(t, rows...)
	s.broken = "job script retrieval failed: Unable to read job script"
	if err := s.over.round(t.Context()); err == nil || !strings.Contains(err.Error(), "job script retrieval failed") {
		t.Error(err)
	}
	s.rounds()
	for job, got := range s.state() {
		if want := map[bool]string{true: "main", false: "main,cloud"}[job == "5/N/A"]; got != want {
			t.Errorf("job %s is in %s", job, got)
		}
	}
	if s.reads != len(rows) {
		t.Errorf("%d scripts of %d were read", s.reads, len(rows))
	}
	plan, err := s.over.OverflowPlan(t.Context(), api.OverflowAsk{UID: -1})
	if err != nil || !slices.ContainsFunc(plan, func(j api.OverflowJob) bool {
		return j.Job == "5" && j.Unread && strings.HasPrefix(j.Why, "stays for now: its script cannot be read: ")
	}) {
		t.Error(plan, err)
	}
}

// TestOverflowGivenBack: a job whose cloud nodes did not come has its own partitions alone again, and the start that burstd
// gave it is taken away: it loses nothing at the site. It is not moved again before that start is over.
func TestOverflowGivenBack(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"))
	pool := config.Pool{Power: power.Pool{Name: "p", Provider: "here", Nodes: []string{"c1"}}, Slurm: conf.Pool{Partition: "cloud"}}
	s.over.cfg.Pools = []config.Pool{pool}
	until := time.Now().Add(10 * time.Minute).Truncate(time.Second)
	given := func(start time.Time, released bool) {
		s.over.engine = engineOf(t, power.Config{Pools: []power.Pool{pool.Power}}, power.State{Holds: []power.Hold{{Job: 5, Start: start, Why: "nothing to launch", Tries: 1, Released: released}}})
		s.rows[0]["EligibleTime"] = fmt.Sprint(start.Unix())
	}
	s.over.engine = engineOf(t, power.Config{Pools: []power.Pool{pool.Power}}, power.State{})
	s.rounds()
	given(until, false) // the engine has the word
	s.rounds()
	if got := s.state()["5/N/A"]; got != "main,cloud" {
		t.Fatal(got)
	}
	given(until, true)
	s.rounds()
	if got, want := s.updates[len(s.updates)-1], "update jobid=5 partition=main starttime=now admincomment=burst: it was given back: nothing to launch; back to main; it was requeued, and its age counts from then"; got != want || len(s.updates) != 2 {
		t.Errorf("got %q, want %q", s.updates, want)
	}
	s.rows[0]["EligibleTime"] = fmt.Sprint(time.Now().Add(-time.Hour).Unix())
	s.rounds()
	if plan, err := s.over.OverflowPlan(t.Context(), api.OverflowAsk{UID: -1}); err != nil || len(plan) != 1 || plan[0].Why != "stays until "+until.Format(time.TimeOnly)+": it was given back: nothing to launch" {
		t.Error(plan, err)
	}
	given(time.Now().Add(-time.Hour), true)
	s.rounds()
	if got := s.state()["5/N/A"]; got != "main,cloud" || len(s.log()) != 2 {
		t.Error(got, s.log())
	}
	s.rows[0]["Partition"] = "cloud" // of the pool alone: it is the pool's to send it elsewhere
	given(until, true)
	if got := s.over.back([]slurm.Waiting{{Job: slurm.Job{ID: 5, Partition: "cloud"}}, {Job: slurm.Job{ID: 6, Partition: "main"}}}, s.over.backNow()); len(got) > 0 {
		t.Error(got)
	}
}

// TestOverflowThatNeverFits: a job for which a budget never has room stays so until it is changed; another refusal is about what it is then.
func TestOverflowThatNeverFits(t *testing.T) {
	var r overflowReads
	h := power.Hold{Job: 5, Start: time.Now(), Why: "budget: user ann's budget: by the time limit this could cost more than all of it, unless the job is changed"}
	w := slurm.Waiting{Job: slurm.Job{ID: 5, TimeLimit: time.Hour, NumNodes: 2}}
	for _, step := range []struct {
		name    string
		change  func()
		changed bool
	}{
		{"as it was", func() {}, false},
		{"still", func() { w.Priority = 7 }, false},
		{"shorter", func() { w.TimeLimit = time.Minute }, true},
		{"as it was again", func() { w.TimeLimit = time.Hour }, false},
		{"smaller", func() { w.NumNodes = 1 }, true},
		{"counted otherwise in other partitions", func() { w.Partition, w.NumNodes = "main", 8 }, false},
		{"larger there", func() { w.NumNodes = 9 }, true},
		{"refused again", func() { h.Start = h.Start.Add(time.Hour) }, false},
		{"with a comment", func() { w.Comment = "burst: budget=9" }, true},
		{"not refused any more, and then again", func() { r.forgetDear(nil) }, false},
	} {
		step.change()
		r.forgetDear(map[uint32]power.Hold{5: h})
		if got := r.changed(w, h); got != step.changed {
			t.Errorf("%s: changed %v", step.name, got)
		}
	}
}

// TestOverflowBudget: what a job is told of a budget says whose it is.
func TestOverflowBudget(t *testing.T) {
	for kind, want := range map[budget.Kind][2]bool{budget.Cluster: {true, true}, budget.User: {true, false}, budget.Account: {true, false}, budget.Job: {false, false}} {
		r := budget.Refusal{Scope: budget.Scope{Kind: kind, Name: "7"}, Cap: 10, Needs: 5}
		waits, cluster := power.Hold{Why: "budget: " + r.String()}.ForBudget()
		if got := [2]bool{waits, cluster}; got != want {
			t.Errorf("%s: %v, want %v", r, got, want)
		}
	}
	if waits, _ := (power.Hold{Why: "no capacity"}).ForBudget(); waits {
		t.Error("no capacity is no budget")
	}
}

// TestOverflowTakesTogether: tasks of one array go back with one call of Slurm's.
func TestOverflowTakesTogether(t *testing.T) {
	s := newShop(t, waiting("30", "1-3", "main"))
	s.rounds()
	s.rules.Rules = nil
	s.start()
	s.rounds()
	if len(s.updates) != 2 || s.updates[1] != "update jobid=30_[1,2,3] partition=main" {
		t.Errorf("%q", s.updates)
	}
}

// TestOverflowRequeuedLate: a job that has ended is still the one that was moved, for as long as Slurm may requeue it.
func TestOverflowRequeuedLate(t *testing.T) {
	s := newShop(t, waiting("5", "N/A", "main"), waiting("6", "N/A", "main"))
	s.rounds()
	ended := fmt.Sprint(time.Now().Add(-10 * time.Minute).Unix())
	for _, row := range s.rows {
		row["State"], row["Partition"], row["NodeList"], row["EndTime"] = "COMPLETED", "cloud", "c1", ended
	}
	s.over.made = time.Now() // what was read before is too old
	s.rounds()
	if log := s.log(); len(log) != 2 || !log[0].Ended.IsZero() {
		t.Errorf("%+v", log)
	}
	again := s.rows[0]
	again["State"], again["Partition"], again["RestartCnt"], again["SubmitTime"] = "PENDING", "main,cloud", "1", fmt.Sprint(time.Now().Unix())
	s.rows = s.rows[:1] // Slurm has forgotten the other
	s.over.made = time.Now()
	s.rounds()
	for _, o := range s.log() {
		if want := map[uint32]string{6: "ran in cloud: completed"}[o.Job]; o.EndedWhy != want || o.Ended.IsZero() != (want == "") {
			t.Errorf("%+v, want %q", o, want)
		}
	}
	s.rules.Rules = nil
	s.start()
	s.rounds()
	if got := s.state()["5/N/A"]; got != "main" {
		t.Error(got)
	}
}

// TestUnreadWordsAreToldOnce: each word of squeue's that nobody knows, once for all jobs and rounds.
func TestUnreadWordsAreToldOnce(t *testing.T) {
	var r overflowReads
	all := []slurm.Waiting{{}, {Unread: "Exclusive=RACK"}, {Unread: "Exclusive=RACK"}, {Unread: "Exclusive=ROW"}}
	var told []string
	for w := r.firstUnread(all); w != nil; w = r.firstUnread(all) {
		told = append(told, w.Unread)
	}
	if !slices.Equal(told, []string{"Exclusive=RACK", "Exclusive=ROW"}) {
		t.Error(told)
	}
}
