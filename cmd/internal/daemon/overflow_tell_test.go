package daemon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestTellKept: what keeps a job that its rule would move stands in its AdminComment, once, until that is not so any more; others'
// words stay, and so do jobs that nothing keeps which may last.
func TestTellKept(t *testing.T) {
	row := func(id, comment string, change func(map[string]string)) map[string]string {
		r := waiting(id, "N/A", "main")
		r["PriorityLong"], r["admin_comment"] = fmt.Sprint(100-len(id)), comment
		if change != nil {
			change(r)
		}
		return r
	}
	first := row("1", "", func(r map[string]string) { r["PriorityLong"] = "1000" })
	s := explaining(t, power.State{}, first, row("21", "", nil), row("22", "see me", nil), row("23", "burst: requeued: no capacity; starts again from …", nil),
		row("24", "", func(r map[string]string) { r["EligibleTime"] = fmt.Sprint(time.Now().Add(-keptFor / 2).Unix()) }),
		row("25", "", func(r map[string]string) { r["Reason"] = "Dependency" }), row("26", "", func(r map[string]string) { r["Partition"] = "other" }),
		waiting("30", "1-3", "main"), row("28", "", nil), waiting("40", "1,2,3,4...", "main"))
	s.over.cfg.Overflow.Rules[0].AtOnce, s.over.cfg.Overflow.Rules[0].After = 1, 0
	for range 3 {
		s.rounds()
	}
	const kept = "burst: not moved: rule small: 1 of its jobs wait or run in cloud already, as many as it lets, since 20"
	says := func(i int) string { return s.rows[i]["admin_comment"] }
	if !strings.HasPrefix(says(0), "burst: rule small: goes also to cloud") || !strings.HasPrefix(says(1), kept) || says(2) != "see me" || !strings.HasPrefix(says(3), "burst: requeued") ||
		says(4) != "" || says(5) != "" || says(6) != "" || !strings.HasPrefix(says(7), kept) || !strings.HasPrefix(says(8), kept) || says(9) != "" || len(s.updates) != 4 {
		t.Fatalf("%q\n%q", s.updates, s.rows)
	}
	if power.KeptText != overflow.KeptText {
		t.Error("two texts")
	}
	s.over.overflows = overflowReads{} // another burstd
	s.rounds()
	if len(s.updates) != 4 {
		t.Errorf("it is told again: %q", s.updates)
	}
	if e := s.explain(api.ExplainAsk{Job: "21", UID: -1}); strings.Contains(fmt.Sprint(e.Details), "it was told") || !strings.Contains(e.Line, "as many as it lets") {
		t.Errorf("%+v", e)
	}
	s.rows[1]["Reason"] = "None" // Slurm was restarted
	s.rounds()
	if len(s.updates) != 4 {
		t.Errorf("it flickers: %q", s.updates)
	}
	if plan, err := s.over.OverflowPlan(t.Context(), api.OverflowAsk{UID: -1}); err != nil || !slices.ContainsFunc(plan, func(j api.OverflowJob) bool { return j.Job == "21" && strings.Contains(j.Why, "as many as it lets") }) {
		t.Errorf("it has lost its turn: %+v, %v", plan, err)
	}
	s.rows[1]["Reason"], s.rows[8]["Reason"] = "Resources", "QOSMaxJobsPerUserLimit"
	s.rounds()
	if says(8) != "" || !strings.HasPrefix(says(1), kept) {
		t.Errorf("%q", s.rows)
	}
	s.over.engine = engineOf(t, power.Config{Pools: []power.Pool{s.over.cfg.Pools[0].Power}}, power.State{Pause: power.Pause{Since: time.Now(), By: "uid 0", Why: "month's end"}})
	s.rounds()
	if !strings.HasPrefix(says(1), "burst: not moved: no nodes are launched for cloud now: ") || !strings.Contains(says(1), "month's end, since 20") {
		t.Errorf("%q", says(1))
	}
	s.over.engine = engineOf(t, power.Config{Pools: []power.Pool{s.over.cfg.Pools[0].Power}}, power.State{})
	s.over.cfg.Overflow.Rules[0].AtOnce = 20
	s.rounds()
	if !strings.HasPrefix(says(1), "burst: rule small: goes also to cloud") {
		t.Errorf("%q", says(1))
	}
}

// TestTellKeptOnce: estimates that come and go do not have jobs told again and again.
func TestTellKeptOnce(t *testing.T) {
	rows := []map[string]string{waiting("1", "N/A", "main")}
	rows[0]["PriorityLong"] = "1000"
	for i := range 8 {
		rows = append(rows, waiting(fmt.Sprint(20+i), "N/A", "main"))
	}
	s := explaining(t, power.State{}, rows...)
	r := &s.over.cfg.Overflow.Rules[0]
	r.AtOnce, r.After, r.StartsLater = 1, 0, time.Hour
	for n := range 20 {
		for _, row := range s.rows {
			row["StartTime"] = fmt.Sprint(time.Now().Add(time.Duration(n%2+1) * 50 * time.Minute).Unix())
		}
		s.rounds()
	}
	if len(s.updates) > 1+8 {
		t.Errorf("%d updates: %q", len(s.updates), s.updates)
	}
	if len(s.updates) < 9 {
		t.Errorf("%q", s.updates)
	}
}

// TestTellKeptIsTakenBack: words that are not true any more are taken back, whoever has made it so.
func TestTellKeptIsTakenBack(t *testing.T) {
	const kept = power.KeptText + "a rule, since 2026-01-01 00:00:00"
	s := explaining(t, power.State{}, waiting("5", "N/A", "other"), waiting("6", "N/A", "main"), waiting("7", "N/A", "main"))
	s.rows[0]["admin_comment"], s.over.cfg.Overflow.Rules[0].AtOnce = kept, 1
	s.rows[1]["PriorityLong"] = "1000"
	s.rows[2]["admin_comment"] = "burst: it waits for Dependency now, not for Resources or Priority; back to main"
	s.rounds()
	if s.rows[0]["admin_comment"] != "" || !strings.Contains(s.rows[2]["admin_comment"], "as many as it lets") {
		t.Errorf("%q", s.rows)
	}
	s.rules.Rules = nil
	s.rows = []map[string]string{waiting("5", "N/A", "other"), waiting("8", "N/A", "main"), waiting("9", "N/A", "main")}
	s.rows[0]["admin_comment"], s.rows[1]["admin_comment"], s.rows[2]["admin_comment"] = kept, kept, "see me"
	s.path = newJournal(t)
	s.start()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.over.keepOverflow(ctx); err != nil || ctx.Err() != nil || s.rows[0]["admin_comment"]+s.rows[1]["admin_comment"] != "" || s.rows[2]["admin_comment"] != "see me" {
		t.Errorf("%v, %q", err, s.rows)
	}
}

// TestTellKeptFew: however many wait, a round tells a few, and those that Slurm refuses keep nobody else from being told.
func TestTellKeptFew(t *testing.T) {
	var rows []map[string]string
	for i := range 5 * tellAtOnce {
		row := waiting(fmt.Sprint(1000+i), "N/A", "main")
		row["PriorityLong"] = fmt.Sprint(1000 - i)
		rows = append(rows, row)
	}
	s := explaining(t, power.State{}, rows...)
	s.over.cfg.Overflow.Rules[0].AtOnce = 1
	s.rounds() // scripts are read, and one job is moved
	s.updates = nil
	for _, row := range s.rows[1:] {
		row["admin_comment"] = ""
	}
	s.over.overflows.told = nil
	s.refuse, s.only = "slurm_update error: Access denied", "jobid=1001 "
	for n := range 5 {
		if err := s.over.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := min((n+1)*tellAtOnce, len(rows)-1); len(s.updates) != want {
			t.Errorf("%d updates after %d rounds, want %d", len(s.updates), n+1, want)
		}
	}
	if refused := s.over.overflows.refusedNow(time.Now()); len(refused) > 0 {
		t.Errorf("what cannot be told keeps from being moved: %v", refused)
	}
}

// TestTellKeptReadsScripts: a job that says itself that it stays is not told that anything else keeps it.
func TestTellKeptReadsScripts(t *testing.T) {
	s := explaining(t, power.State{Pause: power.Pause{Since: time.Now(), By: "uid 0", Why: "month's end"}}, waiting("5", "N/A", "main"), waiting("6", "N/A", "main"))
	s.rows[1]["Comment"] = "burst: stay"
	s.over.cfg.Overflow.OnPrem = overflow.OnPrem{}
	s.rounds()
	if got := s.rows[0]["admin_comment"]; !strings.Contains(got, "month's end") || s.rows[1]["admin_comment"] != "" || s.reads != 2 {
		t.Errorf("%q, %d scripts read", s.rows, s.reads)
	}
}
