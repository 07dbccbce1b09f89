package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/power"
)

// newKept is a burstd without rules, with a budget that has no room for these jobs.
func newKept(t *testing.T, rows ...map[string]string) (s *shop, refused func(until time.Time, jobs ...uint32)) {
	s = newShop(t, rows...)
	s.nodes = "NodeName=m1 CPUTot=4 RealMemory=4000 State=IDLE Partitions=main,both\nNodeName=c1 CPUTot=4 RealMemory=4000 State=IDLE+CLOUD+POWERED_DOWN Partitions=cloud,both\n"
	s.rules.Rules = nil
	var st power.State
	s.started = func() {
		pool := config.Pool{Power: power.Pool{Name: "p", Provider: "here", Nodes: []string{"c1"}}, Slurm: conf.Pool{Partition: "cloud"}}
		s.over.cfg.Pools, s.over.cfg.Budget = []config.Pool{pool}, &config.Budget{}
		s.over.engine = engineOf(t, power.Config{Pools: []power.Pool{pool.Power}, Budget: func(context.Context, power.Standing) (power.Afford, error) { return nil, nil }}, st)
	}
	refused = func(until time.Time, jobs ...uint32) {
		st = power.State{}
		for _, id := range jobs {
			st.Holds = append(st.Holds, power.Hold{Job: id, Start: until, Why: "budget: user ada's budget for 2026-08-01 is spent", Tries: 1, Released: true})
			for _, row := range s.rows {
				if row["JobID"] == fmt.Sprint(id) && !until.Before(time.Now()) && row["EligibleTime"] == "" {
					row["EligibleTime"] = fmt.Sprint(until.Unix())
				}
			}
		}
		s.started()
	}
	s.start()
	return s, refused
}

// TestKeptFromTheCloudDies: wherever burstd dies, without any rule, a job that asks for the site and for the cloud waits for the
// site alone, and at once, as long as a budget has no room for it in the cloud, and has both again after that.
func TestKeptFromTheCloudDies(t *testing.T) {
	jobs := func() []map[string]string {
		all := []map[string]string{waiting("5", "N/A", "main,cloud"), waiting("6", "N/A", "main,cloud"), waiting("7", "N/A", "cloud"), waiting("8", "N/A", "main"),
			waiting("9", "N/A", "main,cloud"), waiting("10", "N/A", "both,cloud"), waiting("30", "1-3", "cloud,main")}
		all[0]["EligibleTime"] = ""
		all[4]["Reason"], all[4]["PriorityLong"] = "JobHeldUser", "0"
		return all
	}
	was := map[string]string{"5/N/A": "main,cloud", "6/N/A": "main,cloud", "7/N/A": "cloud", "8/N/A": "main", "9/N/A": "main,cloud", "10/N/A": "both,cloud", "30/1-3": "cloud,main"}
	kept := map[string]string{"5/N/A": "main", "6/N/A": "main,cloud", "7/N/A": "cloud", "8/N/A": "main", "9/N/A": "main,cloud", "10/N/A": "both,cloud", "30/1-3": "main"}
	for n := range 5 { // there are four updates: one job and one array, and back
		for _, after := range []bool{false, true} {
			s, refused := newKept(t, jobs()...)
			until := time.Now().Add(3 * time.Hour).Truncate(time.Second)
			refused(until, 5, 7, 8, 9, 10, 30)
			s.dieAt, s.after = n, after
			s.rounds()
			if got := s.state(); !maps.Equal(kept, got) {
				t.Fatalf("death at %d, after %v: %v, want %v", n, after, got, kept)
			}
			if log := s.log(); len(log) != 4 || slices.ContainsFunc(log, func(o store.Overflowed) bool { return o.State != overflow.InPlace || !o.Ended.IsZero() }) {
				t.Fatalf("death at %d, after %v: %+v", n, after, log)
			}
			wants := "burst: waits for main, and not for cloud until " + until.Format(time.DateTime) + ": budget: user ada's budget for 2026-08-01 is spent; it was requeued, and its age counts from then"
			if got := s.rows[0]["admin_comment"]; got != wants {
				t.Errorf("it is told %q", got)
			}
			for _, u := range s.updates {
				if strings.Contains(u, "jobid=5 ") && !strings.Contains(u, "partition=main starttime=now ") || strings.Contains(u, "jobid=30_") && (strings.Contains(u, "starttime") || !strings.Contains(u, "30_[1,2,3] ")) {
					t.Errorf("%s", u)
				}
			}
			plan, err := s.over.OverflowPlan(t.Context(), api.OverflowAsk{UID: -1})
			if err != nil || len(plan) != 4 || slices.ContainsFunc(plan, func(j api.OverflowJob) bool { return j.Action != "away" || j.To != "cloud" }) {
				t.Errorf("%+v, %v", plan, err)
			}
			refused(time.Now().Add(-time.Second), 5, 30)
			s.rounds()
			if got := s.state(); !maps.Equal(was, got) {
				t.Fatalf("death at %d, after %v, and room again: %v, want %v", n, after, got, was)
			}
			if log := s.log(); len(log) != 4 || slices.ContainsFunc(log, func(o store.Overflowed) bool { return o.Ended.IsZero() }) {
				t.Fatalf("death at %d, after %v, and room again: %+v", n, after, log)
			}
			if got := s.rows[0]["admin_comment"]; got != "burst: its budget is looked at anew; back to main,cloud" {
				t.Errorf("it is told %q", got)
			}
		}
	}
}

// TestKeptFromTheCloudIsTheUsers: who changes the partitions of such a job meanwhile has the last word; and while it is told
// anew when it starts, nothing goes to and fro.
func TestKeptFromTheCloudIsTheUsers(t *testing.T) {
	s, refused := newKept(t, waiting("5", "N/A", "main,cloud"), waiting("6", "N/A", "main,cloud"))
	until := time.Now().Add(3 * time.Hour)
	refused(until, 5, 6)
	s.rounds()
	s.rows[0]["Partition"] = "other"
	s.rounds()
	if len(s.updates) != 2 || s.state()["6/N/A"] != "main" {
		t.Fatal(s.updates)
	}
	s.over.engine = engineOf(t, power.Config{Budget: func(context.Context, power.Standing) (power.Afford, error) { return nil, nil }},
		power.State{Holds: []power.Hold{{Job: 6, Start: until.Add(time.Hour), Why: "budget: user ada's budget for 2026-08 is spent"}}})
	s.rounds()
	if len(s.updates) != 2 {
		t.Error(s.updates)
	}
	refused(time.Now().Add(-time.Second), 5, 6)
	s.rounds()
	if got := s.state(); got["5/N/A"] != "other" || got["6/N/A"] != "main,cloud" {
		t.Error(got)
	}
	s.over.cfg.Budget = nil
	s.rows[1]["State"] = "COMPLETED"
	s.rounds()
	if log := s.log(); len(log) != 2 || log[0].State != overflow.LeftAlone {
		t.Errorf("%+v", log)
	}
}
