package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/slurm"
)

const threeRules = `[[overflow]]
name = "licensed"
from = ["onprem"]
to = ["cloud2"]
licenses = ["ansys"]
after = "1s"

[[overflow]]
name = "asked"
from = ["onprem"]
to = ["cloud1"]
directives = ["stay=no"]
after = "1s"
at_once = 2

[[overflow]]
name = "short"
from = ["onprem"]
to = ["cloud1"]
users = ["!daemon"]
accounts = ["!guests"]
nodes = "1"
time_limit = "20m"
after = "1s"
at_once = 4

[onprem]
licenses = ["matlab"]
file_systems = ["/nowhere/scratch"]
`

// one of twenty jobs: what it asks for, where it runs, and what is said of it, as regular expressions (ID: its own).
type one struct {
	name, account string
	minutes       int
	args, line    string // more of sbatch's options, and a line of its script
	wave          int    // it is submitted when all before are as the table says
	where         string // o1, or the pool
	raised        bool   // it runs only when the cap is higher
	instances     int    // that are launched for it
	plan          string // what burst overflow --dry-run says of it while it waits
	added, back   string // what the log says, when it was moved and when it was taken back
	told          string // its AdminComment
}

const (
	byShort = `rule short: waits \w+ for \w+; goes also to cloud1`
	byAsked = `rule asked: waits \w+ for \w+; goes also to cloud1`
	until   = `stays until [0-9:]{8}: `
	never   = `, unless the job is changed`
	kept    = `waits for onprem, and not for cloud1 until .*: budget: `
	given   = `it was given back: budget: `
	usedUp  = `the cluster's budget .*`
	limited = `account bio's budget .*`
	own     = `job ID's budget.*`
)

var twenty = []one{
	{name: "first", account: "physics", minutes: 10, where: "o1"},
	// The budget has room for all of these.
	{name: "stays", account: "physics", minutes: 10, line: "#BURST stay", wave: 1, where: "o1", plan: `stays: says #BURST stay`},
	{name: "moved", account: "physics", minutes: 10, wave: 1, where: "cloud1", instances: 1, added: byShort},
	{name: "bio", account: "bio", minutes: 10, wave: 1, where: "cloud1", instances: 1, added: byShort},
	{name: "matlab", account: "physics", minutes: 10, args: "-L matlab", wave: 1, where: "o1", plan: `stays: asks for licence matlab, which is on-prem only`},
	{name: "long", account: "physics", minutes: 30, wave: 1, where: "o1", plan: `stays: no rule is about it`},
	{name: "another", account: "physics", minutes: 10, args: asAnother(), wave: 1, where: "o1", plan: `stays: no rule is about it`},
	{name: "asked-1", account: "guests", minutes: 30, line: "#BURST stay=no", wave: 1, where: "cloud1", instances: 1, added: byAsked},
	{name: "asked-2", account: "physics", minutes: 45, line: "#BURST stay=no", wave: 1, where: "cloud1", instances: 1, added: byAsked},
	{name: "asked-3", account: "physics", minutes: 10, line: "#BURST stay=no", wave: 1, where: "o1", plan: `rule asked: 2 of its jobs wait or run in cloud1 already, as many as it lets`},
	{name: "scratch", account: "physics", minutes: 10, line: ": /nowhere/scratch/in", wave: 1, where: "o1", plan: `stays: its script names a path below /nowhere/scratch, which is on-prem only`},
	{name: "either", account: "physics", minutes: 10, args: "-p onprem,cloud1", wave: 1, where: "cloud1", instances: 1},
	// The cluster's budget has, their own have not.
	{name: "poor", account: "physics", minutes: 10, line: "#BURST budget=0.10", wave: 2, where: "o1", plan: `stays: ` + given + own + never, added: byShort, back: given + own + never + `; back to onprem`, told: `.*back to onprem; it was requeued, and its age counts from then`},
	{name: "bio-2", account: "bio", minutes: 10, wave: 2, where: "o1", plan: until + given + limited, added: byShort, back: given + limited + `; back to onprem`, told: `.*back to onprem; it was requeued, and its age counts from then`},
	// What is left is, to the cent, what one of four minutes can cost.
	{name: "tiny", account: "physics", minutes: 4, args: "-p cloud1", wave: 3, where: "cloud1", instances: 1},
	// It is used up: who has a place at the site goes there, who has none waits.
	{name: "either-2", account: "physics", minutes: 10, args: "-p onprem,cloud1", wave: 4, where: "o1", added: kept + usedUp, told: `burst: ` + kept + usedUp},
	{name: "broke", account: "physics", minutes: 10, wave: 4, where: "o1", plan: until + given + usedUp, added: byShort, back: given + usedUp + `; back to onprem`, told: `.*back to onprem; it was requeued, and its age counts from then`},
	{name: "behind", account: "chem", minutes: 10, wave: 5, where: "cloud1", raised: true, instances: 1, added: byShort,
		plan: until + `job \d+, which asks for no more, was given back: budget: ` + usedUp},
	{name: "wide", account: "chem", minutes: 10, args: "-p cloud1 -N2", wave: 5, where: "cloud1", raised: true, instances: 2, told: `.*budget: ` + usedUp},
	{name: "later", account: "physics", minutes: 10, args: "-L ansys", wave: 5, where: "cloud2", raised: true, instances: 1,
		plan: `stays: no nodes are launched for cloud2 now: .*the vendor calls.*`, added: `rule licensed: waits \w+ for \w+; goes also to cloud2`},
}

const twentyWaves = 6

// asAnother are options by which another user submits, if this one may. It is not nobody: sbatch refuses
// that name from Slurm 25.11 on.
func asAnother() string {
	if os.Geteuid() != 0 {
		return "-A guests"
	}
	return "--uid=daemon"
}

// TestOverflowOfTwentyJobs: one node of the site's, two pools of which one is stopped, three rules, and a
// budget that is used up in the middle: which job runs where, and why, is what the table says. With a higher
// cap the rest goes on. At no time more is launched, committed or charged than the cap lets.
func TestOverflowOfTwentyJobs(t *testing.T) {
	t.Parallel()
	var first, least, all float64 // USD: the cap at first, what its jobs count when they are up, and the cap then
	before, launches := 0, 0
	for _, j := range twenty {
		most, up := atMost(j.instances, j.limit())
		if all, launches = all+most, launches+j.instances; !j.raised {
			first, least, before = first+most, least+up, before+j.instances
		}
	}
	ten, _ := atMost(1, 10*time.Minute)
	tiny, tinyUp := atMost(1, 4*time.Minute)
	if len(twenty) != 20 || least-tinyUp+ten <= first || tiny > ten {
		t.Fatalf("the table: %d jobs; %.2f USD are too much for one of ten minutes beside %.2f", len(twenty), first, least-tinyUp)
	}
	s := start(t, cappedSite(t, rig.Options{Nodes: 24, Pools: 2, OnPrem: 1, ExtraToml: threeRules, SlurmExtra: "Licenses=matlab:4,ansys:4\n"},
		dayCap(first)+fmt.Sprintf("[budget.account.bio]\nday = %.2f\n", ten)))
	s.open()
	s.does("pool", "stop", "cloud2", "--reason", "the vendor calls")
	w := &twentyJobs{s, map[string]uint32{}}
	watch, began := s.watchCap(first, before), time.Now()
	for wave := range twentyWaves {
		w.submitWave(wave)
		w.settled(wave)
		t.Logf("wave %d is settled after %s", wave, time.Since(began).Round(100*time.Millisecond))
	}

	// The cap is reached, and it says so.
	var rows []api.BudgetRow
	if err := json.Unmarshal([]byte(s.does("budget", "--json")), &rows); err != nil || len(rows) < 2 || rows[0].Of != "cluster" || rows[0].Cap != round(first) || rows[0].Left >= ten || rows[0].Left < 0 {
		t.Errorf("%+v, %v", rows, err)
	}
	// The site's node runs its jobs, one after the other, up to the one that came back for want of a budget.
	for _, j := range twenty {
		if j.where == "o1" && j.name != "broke" {
			w.letGo(j)
		}
	}
	s.wait(60*time.Second, "the site's jobs are done", func() bool {
		jobs := w.jobs()
		return !slices.ContainsFunc(twenty, func(j one) bool {
			return j.where == "o1" && j.name != "broke" && jobs[w.ids[j.name]].State != "COMPLETED"
		})
	})
	s.wait(20*time.Second, "the job without budget runs at the site", func() bool { j := s.job(w.ids["broke"]); return j.State == "RUNNING" && j.Nodes == "o1" })
	for _, j := range twenty {
		if got := w.jobs()[w.ids[j.name]]; j.raised && got.State != "PENDING" && got.State != "CONFIGURING" {
			t.Errorf("%s is %s with no budget left", j.name, got.State)
		}
	}

	// With a higher cap, which has room for the rest and no cent more, they go on.
	watch.allow(all, launches)
	s.raise(first, all)
	s.does("pool", "start", "cloud2")
	s.wait(60*time.Second, "the rest goes on", func() bool {
		jobs := w.jobs()
		return !slices.ContainsFunc(twenty, func(j one) bool { return j.raised && !w.runs(j, jobs) })
	})
	for _, j := range twenty {
		w.letGo(j)
	}
	t.Logf("all run after %s", time.Since(began).Round(100*time.Millisecond))
	s.wait(30*time.Second, "all are done", func() bool {
		jobs := w.jobs()
		return !slices.ContainsFunc(twenty, func(j one) bool { return jobs[w.ids[j.name]].State != "COMPLETED" })
	})
	for _, j := range twenty {
		w.ranOnce(j)
		w.logged(j)
	}
	s.closed(launches)
	watch.end()
}

func (j one) limit() time.Duration { return time.Duration(j.minutes) * time.Minute }

// twentyJobs are those of the table that were submitted.
type twentyJobs struct {
	*site
	ids map[string]uint32
}

func (w *twentyJobs) submitWave(wave int) {
	w.t.Helper()
	for _, j := range twenty {
		if j.wave != wave {
			continue
		}
		script := fmt.Sprintf("#!/bin/sh\n%s\necho \"$SLURMD_NODENAME\" >>ran-%[2]s\nwhile [ ! -e go-%[2]s ]; do sleep 0.2; done\necho done >>ran-%[2]s\n", j.line, j.name)
		args := append([]string{"-J", j.name, "-p", "onprem", "-t", fmt.Sprint(j.minutes), "-A", j.account}, strings.Fields(j.args)...)
		w.ids[j.name] = w.submit(script, args...)
	}
}

// settled waits until the jobs of a wave are where the table has them, or wait and are told why.
func (w *twentyJobs) settled(wave int) {
	w.t.Helper()
	for _, j := range twenty {
		if j.wave != wave {
			continue
		}
		waits := j.plan != "" || j.told != ""
		if !waits {
			w.wait(30*time.Second, j.name+" runs in "+j.where, func() bool { return w.runs(j, w.jobs()) })
			continue
		}
		var got slurm.Job
		var plan api.OverflowJob
		right := func() bool {
			got = w.job(w.ids[j.name])
			plan = w.plan(j)
			return got.State == "PENDING" && (j.told == "" || w.is(j, j.told, got.AdminComment)) && (j.plan == "" || plan.Action == "leave" && w.is(j, j.plan, plan.Why))
		}
		for end := time.Now().Add(40 * time.Second); !right(); time.Sleep(200 * time.Millisecond) {
			if time.Now().After(end) {
				w.t.Fatalf("%s is %s in %s, and was told %q; the plan is to %s: %q", j.name, got.State, got.Partition, got.AdminComment, plan.Action, plan.Why)
			}
		}
	}
}

func (w *twentyJobs) plan(j one) api.OverflowJob {
	all, err := w.API.OverflowPlan(w.t.Context(), api.OverflowAsk{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range all {
		if p.Job == id10(w.ids[j.name]) {
			return p
		}
	}
	return api.OverflowJob{}
}

// is says whether the text is what the table has of a job.
func (w *twentyJobs) is(j one, want, text string) bool {
	want = strings.Replace(want, "ID", id10(w.ids[j.name]), 1)
	return regexp.MustCompile("^" + want + "$").MatchString(text)
}

// jobs are all that Slurm knows of, by id.
func (w *twentyJobs) jobs() map[uint32]slurm.Job {
	all, err := w.Slurm().Jobs(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	by := map[uint32]slurm.Job{}
	for _, j := range all {
		by[j.ID] = j
	}
	return by
}

// runs says that the job's script has begun where the table has it.
func (w *twentyJobs) runs(j one, jobs map[uint32]slurm.Job) bool {
	got := jobs[w.ids[j.name]]
	return got.State == "RUNNING" && (got.Partition == j.where || got.Nodes == j.where) && len(w.ran(j)) == 1
}

// ran is what the job's scripts have written: the node where each began, and how each ended.
func (w *twentyJobs) ran(j one) []string {
	text, _ := os.ReadFile(filepath.Join(w.Work, "ran-"+j.name)) // not there yet: nothing
	return strings.Fields(string(text))
}

func (w *twentyJobs) letGo(j one) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.Work, "go-"+j.name), nil, 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// ranOnce: the job's script began once, on a node of where it was to run, and came to its end.
func (w *twentyJobs) ranOnce(j one) {
	w.t.Helper()
	nodes := map[string][]string{"o1": {"o1"}, "cloud1": expand(w.t, "c[1-12]"), "cloud2": expand(w.t, "c[13-24]")}[j.where]
	if ran := w.ran(j); len(ran) != 2 || !slices.Contains(nodes, ran[0]) || ran[1] != "done" {
		w.t.Errorf("%s ran as %v, and was to run once in %s", j.name, ran, j.where)
	}
}

// logged: the log has each job that was moved, how it was taken back, and no other.
func (w *twentyJobs) logged(j one) {
	w.t.Helper()
	all, err := w.API.Overflows(w.t.Context(), api.OverflowQuery{Last: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	all = slices.DeleteFunc(all, func(o api.Overflowed) bool { return o.Job != id10(w.ids[j.name]) })
	if j.added == "" && len(all) > 0 || j.added != "" && len(all) == 0 {
		w.t.Errorf("%s: the log has %+v", j.name, all)
	}
	for _, o := range all {
		if !w.is(j, j.added, o.Why) || j.back != "" && !w.is(j, j.back, o.EndedWhy) {
			w.t.Errorf("%s: the log has %q, and that it ended since %q", j.name, o.Why, o.EndedWhy)
		}
	}
}

// open lets jobs of other users write where jobs are submitted.
func (s *site) open() {
	s.t.Helper()
	for _, dir := range []string{filepath.Dir(filepath.Dir(s.Dir)), filepath.Dir(s.Dir), s.Dir} {
		if err := os.Chmod(dir, 0o755); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := os.Chmod(s.Work, 0o777); err != nil {
		s.t.Fatal(err)
	}
}
