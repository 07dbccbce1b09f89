package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/overflow"
	"github.com/burst-hpc/burst/slurm/overflow/budget"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestWhy: one sentence for each thing that a job may wait for.
func TestWhy(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	at := func(d time.Duration) time.Time { return now.Add(d) }
	usd := 0.25
	place := api.Place{Partition: "cloud", Pool: "p", Provider: "aws", Offering: "small/z1/spot", Nodes: 2, USDPerHour: &usd, Priced: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
	forbidden := place
	forbidden.Forbidden, forbidden.USDPerHour = "pool p is stopped by hand", nil
	pending := func(reason, partition string) slurm.Job {
		return slurm.Job{ID: 7, User: "ada", State: "PENDING", Reason: reason, Partition: partition, NumNodes: 2, TimeLimit: time.Hour}
	}
	comment := func(j slurm.Job, text string) slurm.Job { j.AdminComment = text; return j }
	held := func(why string, released bool) *power.Hold {
		return &power.Hold{Job: 7, Start: at(5 * time.Minute), Why: why, Released: released}
	}
	decided := func(a overflow.Action, why string) *overflow.Decision {
		return &overflow.Decision{Action: a, Rule: "small", To: []string{"cloud"}, Why: why}
	}
	boots := slurm.Job{ID: 7, State: "CONFIGURING", Partition: "cloud"}
	node := func(p power.Phase) power.Node {
		return power.Node{Pool: "p", Phase: p, Job: 7, Made: at(-time.Minute)}
	}
	const dear = "budget: the cluster's budget of 50.00 USD a day: 3.00 are left on 2026-11-22, and by the time limit this could cost 4.00"
	after := overflow.Rule{Name: "small", After: 10 * time.Minute}
	for _, tt := range []struct {
		name string
		f    facts
		want string
		more string // one of the details
	}{
		{name: "resources at the site", f: facts{job: pending("Resources", "main")}, want: "waits for nodes to be free (Resources); no rule of overflow is from its partition main"},
		{name: "a reason without words", f: facts{job: pending("Cleaning", "main")}, want: "waits for Cleaning; no rule of overflow is from its partition main"},
		{name: "a limit of Slurm's", f: facts{job: pending("AssocGrpCpuLimit", "main")}, want: "waits for a limit of its account or QOS (AssocGrpCpuLimit); no rule of overflow is from its partition main"},
		{name: "a rule that waits", f: facts{job: pending("Priority", "main"), decision: decided(overflow.Leave, "stays for now: waits 3m for Priority; rule small moves it after 10m")},
			want: "waits for jobs that come before it (Priority); of the cloud: stays for now: waits 3m for Priority; rule small moves it after 10m"},
		{name: "about to be moved", f: facts{job: pending("Resources", "main"), decision: decided(overflow.Add, "rule small: waits 11m for Resources; goes also to cloud")},
			want: "waits for nodes to be free (Resources); it is about to go to the cloud: rule small: waits 11m for Resources; goes also to cloud"},
		{name: "moved", f: facts{job: pending("Resources", "main,cloud"), decision: decided(overflow.Keep, ""), pools: []string{"cloud"}, places: []api.Place{place}},
			want: "waits for nodes to be free (Resources) in main,cloud; rule small has added cloud", more: "0.25 USD on pool p by its time limit of 1h, boot and idle time beside"},
		{name: "moved, and the pool is stopped", f: facts{job: pending("Resources", "main,cloud"), decision: decided(overflow.Keep, ""), pools: []string{"cloud"}, places: []api.Place{forbidden}},
			want: "waits for nodes to be free (Resources) in main,cloud; rule small has added cloud; nothing is launched for it now: pool p is stopped by hand"},
		{name: "about to be taken back", f: facts{job: pending("Resources", "main,cloud"), decision: decided(overflow.Take, "the rule is gone; back to main")},
			want: "waits for nodes to be free (Resources); it is about to lose cloud again: the rule is gone; back to main"},
		{name: "about to be taken back for a budget", f: facts{job: pending("BeginTime", "main,cloud"), decision: decided(overflow.Take, "it was given back: "+dear+"; back to main")},
			want: "waits for its start time (BeginTime); it is about to lose cloud again: it was given back: budget: the cluster's has no room; back to main"},
		{name: "no capacity", f: facts{job: pending("BeginTime", "cloud"), pools: []string{"cloud"}, hold: held("no capacity in east (small/z1/spot)", true), cold: []string{"pool p, aws: small/z1/spot: no capacity, not asked for before 12:04:00"}},
			want: "waits until 12:05:00 for nodes: no capacity in east (small/z1/spot)", more: "pool p, aws: small/z1/spot: no capacity, not asked for before 12:04:00"},
		{name: "no capacity, and its place at the site", f: facts{job: pending("Resources", "main"), hold: held("no capacity in east", true), decision: decided(overflow.Leave, "stays until")},
			want: "waits for nodes to be free (Resources); it is not tried in the cloud before 12:05:00: nodes: no capacity in east"},
		{name: "a budget, for a user", f: facts{job: pending("BeginTime", "cloud"), pools: []string{"cloud"}, hold: held(dear, true)}, want: "waits until 12:05:00 for budget: the cluster's has no room"},
		{name: "a budget, for an admin", f: facts{all: true, job: pending("BeginTime", "cloud"), pools: []string{"cloud"}, hold: held(dear, true)}, want: "waits until 12:05:00 for " + dear},
		{name: "a budget and no price", f: facts{job: pending("BeginTime", "cloud"), pools: []string{"cloud"}, hold: held("budget: the cluster's budget of 50.00 USD a day: the price of small/z1/spot is not known", true)},
			want: "waits until 12:05:00 for budget: the cluster's: the price of small/z1/spot is not known"},
		{name: "the user's own budget", f: facts{job: pending("BeginTime", "cloud"), pools: []string{"cloud"}, hold: held("budget: user ada's budget of 5.00 USD a day: 0.00 are left", true)},
			want: "waits until 12:05:00 for budget: user ada's budget of 5.00 USD a day: 0.00 are left"},
		{name: "a cap in its comment", f: facts{job: comment(pending("Resources", "main"), "burst: it was given back: "+dear+"; back to main")},
			want: "waits for nodes to be free (Resources); no rule of overflow is from its partition main", more: "it was told: it was given back: budget: the cluster's has no room; back to main"},
		{name: "a start time", f: facts{job: func() slurm.Job { j := pending("BeginTime", "main"); j.Eligible = at(24 * time.Hour); return j }()},
			want: "waits for its start time, 2026-11-23 12:00:00 (BeginTime); no rule of overflow is from its partition main"},
		{name: "boot", f: facts{job: boots, nodes: []power.Node{node(power.Booting), node(power.Up)}, boots: map[string]time.Duration{"p": 3 * time.Minute}},
			want: "waits for the boot of 1 of its 2 nodes of pool p, ordered 11:59:00, until about 12:02:00 as others have lately taken"},
		{name: "a long boot", f: facts{job: boots, nodes: []power.Node{node(power.Booting)}, boots: map[string]time.Duration{"p": 30 * time.Second}},
			want: "waits for the boot of its 1 node of pool p, ordered 11:59:00, which is longer than others have lately taken"},
		{name: "a cloud that is away", f: facts{job: comment(boots, "burst: its nodes are launched when a cloud answers: aws: no answer"), nodes: []power.Node{node(power.Wanted)}},
			want: "waits for the boot of its 1 node of pool p, ordered 11:59:00; 1 not launched yet: its nodes are launched when a cloud answers: aws: no answer"},
		{name: "a cloud that is away, of a moved job", f: facts{job: comment(boots, power.MovedText+"r: goes also to cloud, since 11:58:00; its nodes are launched when a cloud answers: aws: no answer"), nodes: []power.Node{node(power.Wanted)}},
			want: "waits for the boot of its 1 node of pool p, ordered 11:59:00; 1 not launched yet: its nodes are launched when a cloud answers: aws: no answer"},
		{name: "a budget without an answer, before it is told", f: facts{job: comment(boots, power.BootText+"1 of pool p"), nodes: []power.Node{node(power.Wanted)}, brief: []string{"the price of small/z1/spot is asked for"}},
			want: "waits for the boot of its 1 node of pool p, ordered 11:59:00; 1 not launched yet", more: "the price of small/z1/spot is asked for"},
		{name: "a fence", f: facts{job: comment(boots, "burst: i-1 may still run"), nodes: []power.Node{node(power.Up)}}, want: "its nodes are up; it waits all the same: i-1 may still run"},
		{name: "about to begin", f: facts{job: comment(boots, power.BootText+"1 of pool p"), nodes: []power.Node{node(power.Up)}}, want: "its nodes are up: it begins"},
		{name: "it runs", f: facts{job: slurm.Job{ID: 7, State: "RUNNING", Start: at(-time.Minute)}, places: []api.Place{place}},
			want: "runs in the cloud, on 2 nodes of pool p (small/z1/spot at aws, 0.25 USD/h as of 2026-11-22), since 11:59:00"},
		{name: "it runs at the site", f: facts{job: slurm.Job{ID: 7, State: "RUNNING", Nodes: "n[1-2]", Start: at(-time.Minute)}}, want: "runs at the site, on n[1-2], since 11:59:00"},
		{name: "it has ended", f: facts{job: slurm.Job{ID: 7, State: "CANCELLED", End: at(-time.Minute)}}, want: "has ended: CANCELLED at 11:59:00"},
		{name: "it is held", f: facts{job: comment(slurm.Job{ID: 7, State: "SPECIAL_EXIT", Start: at(-time.Minute), End: at(-time.Minute)}, "burst: its checkpoint cannot be read")},
			want: "is held (SPECIAL_EXIT): it waits to be released (scontrol release 7)", more: "it was told: its checkpoint cannot be read"},
		{name: "a task is held", f: facts{job: slurm.Job{ID: 9, ArrayID: 7, ArrayTask: "2", State: "REQUEUE_HOLD"}}, want: "is held (REQUEUE_HOLD): it waits to be released (scontrol release 7_2)"},
		{name: "its reservation is gone", f: facts{job: slurm.Job{ID: 7, State: "RESV_DEL_HOLD"}}, want: "is held (RESV_DEL_HOLD): it waits to be released (scontrol release 7)"},
		{name: "requeued", f: facts{job: slurm.Job{ID: 7, State: "REQUEUED", Nodes: "n1", End: at(-time.Minute)}}, want: "has been requeued: it waits for what is left of it on its nodes to end"},
		{name: "requeued by a federation", f: facts{job: slurm.Job{ID: 7, State: "REQUEUE_FED"}}, want: "has been requeued: it waits for what is left of it on its nodes to end"},
		{name: "it gets a signal", f: facts{job: slurm.Job{ID: 7, State: "SIGNALING", Nodes: "n1", Start: at(-time.Minute)}}, want: "runs at the site, on n1, since 11:59:00"},
		{name: "it gets nodes", f: facts{job: slurm.Job{ID: 7, State: "RESIZING", Nodes: "n1", Start: at(-time.Minute)}}, want: "runs at the site, on n1, since 11:59:00"},
		{name: "its files go", f: facts{job: slurm.Job{ID: 7, State: "STAGE_OUT", Nodes: "n1", Start: at(-time.Minute)}}, want: "ends at the site, on n1, since 11:59:00"},
		{name: "suspended", f: facts{job: slurm.Job{ID: 7, State: "STOPPED", Nodes: "n1", Start: at(-time.Minute)}}, want: "is suspended at the site, on n1, since 11:59:00"},
		{name: "a state of a later Slurm", f: facts{job: slurm.Job{ID: 7, State: "EXPEDITING", End: at(-time.Minute)}}, want: "is EXPEDITING, as Slurm says"},
		{name: "at another cluster", f: facts{job: slurm.Job{ID: 7, State: "REVOKED", End: at(-time.Minute)}}, want: "has ended: REVOKED at 11:59:00"},
		{name: "the history has it", f: facts{job: slurm.Job{ID: 7, State: "COMPLETED"}, run: &api.Job{State: "COMPLETED", Over: true, Ended: now, Seconds: 90, Attempts: 2, Pool: "p", Nodes: 1, Evictions: 1, USD: &usd}},
			want: "has ended: COMPLETED at 2026-11-22 12:00:00, after 1m30s of running in 2 attempts, on 1 node of pool p, with 1 eviction, for 0.2500 USD"},
		{name: "would be moved", f: facts{would: true, job: pending("", "main"), decision: decided(overflow.Add, ""), rule: &after, places: []api.Place{place}},
			want: "would also go to the cloud (cloud) by rule small after it has waited 10m for Resources or Priority: now on 2 nodes of pool p (small/z1/spot at aws, 0.25 USD/h as of 2026-11-22)"},
		{name: "would be moved, and a cap is in the way", f: facts{would: true, job: pending("", "main"), decision: decided(overflow.Add, ""), rule: &overflow.Rule{}, places: []api.Place{forbidden}},
			want: "would also go to the cloud (cloud) by rule small as soon as it has to wait for Resources or Priority; nothing is launched for it now: pool p is stopped by hand"},
		{name: "would stay", f: facts{would: true, job: pending("", "main"), decision: decided(overflow.Leave, "stays: says #BURST stay")}, want: "would stay at the site: says #BURST stay"},
		{name: "would stay for now", f: facts{would: true, job: pending("", "main"), decision: decided(overflow.Leave, "rule small: 2 of its jobs wait or run in cloud already, as many as it lets")},
			want: "would stay at the site for now: rule small: 2 of its jobs wait or run in cloud already, as many as it lets"},
		{name: "is for the cloud", f: facts{would: true, job: pending("", "cloud"), pools: []string{"cloud"}, places: []api.Place{place}},
			want: "would start in the cloud, as partition cloud is a pool's: now on 2 nodes of pool p (small/z1/spot at aws, 0.25 USD/h as of 2026-11-22)"},
		{name: "no rule", f: facts{would: true, job: pending("", "other")}, want: "would stay at the site: no rule of overflow is from partition other"},
		{name: "no partition", f: facts{would: true, job: pending("", "")}, want: "its partition is not known: it names none, and Slurm has no default"},
		{name: "an unknown partition", f: facts{would: true, job: pending("", "x"), unknown: []string{"x"}}, want: "Slurm has no partition x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.f.now = now
			e := tt.f.explained()
			if e.Line != tt.want {
				t.Errorf("got  %s\nwant %s", e.Line, tt.want)
			}
			if tt.more != "" && !slices.Contains(e.Details, tt.more) {
				t.Errorf("%q has no %q", e.Details, tt.more)
			}
		})
	}
}

// explaining is a shop with a pool that sells small at 0.1 and large at 0.4 USD.
func explaining(t *testing.T, st power.State, rows ...map[string]string) *shop {
	s := newShop(t, rows...)
	pool := config.Pool{Power: power.Pool{Name: "p", Provider: "here", Nodes: []string{"c1", "c2"}, Fleet: fleet.Config{Types: []string{"small", "large"}}}, Slurm: conf.Pool{Partition: "cloud"}}
	s.over.cfg.Pools = []config.Pool{pool}
	s.over.engine = engineOf(t, power.Config{Pools: []power.Pool{pool.Power}}, st)
	s.over.prices, s.over.market = newPrices(nil, nil, slog.New(slog.DiscardHandler)), newMarket(nil, nil, nil, nil)
	for name, usd := range map[string]float64{"small": 0.1, "large": 0.4} {
		key := priceKey{"here", cloud.Offering{Type: name, Market: cloud.OnDemand}}
		s.over.market.prices[key], s.over.market.dates[key] = usd, time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	}
	return s
}

func (s *shop) explain(ask api.ExplainAsk) api.Explained {
	s.Helper()
	all, err := s.over.Explain(s.Context(), ask)
	if err != nil || len(all) != 1 {
		s.Fatal(all, err)
	}
	return all[0]
}

// TestExplain: a job is explained to its user and to admins, by what burstd has of it.
func TestExplain(t *testing.T) {
	late := waiting("5", "N/A", "main")
	late["EligibleTime"] = fmt.Sprint(time.Now().Add(-30 * time.Second).Unix())
	s := explaining(t, power.State{}, late, waiting("30", "1-3", "main"))
	if e := s.explain(api.ExplainAsk{Job: "5", UID: 1000}); !strings.HasPrefix(e.Line, "waits for nodes to be free (Resources); of the cloud: stays for now: waits 3") || e.User != "ada" || e.Job != "5" {
		t.Errorf("%+v", e)
	}
	for job, code := range map[string]string{"6": "neither Slurm nor the history", "30_9": "neither Slurm", "x": "is no job's id", "0": "is no job's id"} {
		if _, err := s.over.Explain(t.Context(), api.ExplainAsk{Job: job, UID: -1}); err == nil || !strings.Contains(err.Error(), code) {
			t.Errorf("%s: %v", job, err)
		}
	}
	if all, err := s.over.Explain(t.Context(), api.ExplainAsk{Job: "5", UID: 1001}); err == nil {
		t.Errorf("another user is told %+v", all)
	}
	if e := s.explain(api.ExplainAsk{Job: "30_2", UID: -1}); !strings.Contains(e.Line, "it is about to go to the cloud: rule small") || e.Job != "30_[1-3]" {
		t.Errorf("%+v", e)
	}
	s.rounds()
	e := s.explain(api.ExplainAsk{Job: "30_2", UID: -1})
	if e.Line != "waits for nodes to be free (Resources) in main,cloud; rule small has added cloud" || len(e.Where) != 1 {
		t.Fatalf("%+v", e)
	}
	want := api.Place{Partition: "cloud", Pool: "p", Provider: "here", Offering: "small/on-demand", Nodes: 1, USDPerHour: e.Where[0].USDPerHour, Priced: time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)}
	if got := e.Where[0]; !reflect.DeepEqual(got, want) || *got.USDPerHour != 0.1 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestExplainNew: a job of this very moment is known, though Slurm was asked for jobs a moment before.
func TestExplainNew(t *testing.T) {
	s := explaining(t, power.State{}, waiting("5", "N/A", "main"))
	s.explain(api.ExplainAsk{Job: "5", UID: 1000})
	s.rows = append(s.rows, waiting("6", "N/A", "main"))
	if e := s.explain(api.ExplainAsk{Job: "6", UID: 1000}); e.Job != "6" {
		t.Errorf("%+v", e)
	}
}

// TestExplainHeld: a job that is held has no nodes, though Slurm shows it with those that it had.
func TestExplainHeld(t *testing.T) {
	for state, places := range map[string]int{"SPECIAL_EXIT": 0, "SIGNALING": 1} {
		row := waiting("5", "N/A", "cloud")
		row["State"], row["NodeList"] = state, "c1"
		s := explaining(t, power.State{Nodes: []power.Node{{Name: "c1", Pool: "p", Phase: power.Up}}}, row)
		if e := s.explain(api.ExplainAsk{Job: "5", UID: -1}); len(e.Where) != places || strings.HasPrefix(e.Line, "has ended") {
			t.Errorf("%+v", e)
		}
	}
}

// TestExplainTheirRun: ids of jobs begin anew some day, and the history keeps those that had them before.
func TestExplainTheirRun(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	at := func(hours int) time.Time { return now.Add(time.Duration(hours) * time.Hour) }
	row := waiting("5", "N/A", "cloud")
	row["State"], row["SubmitTime"], row["EndTime"] = "COMPLETED", fmt.Sprint(at(-5).Unix()), fmt.Sprint(at(-1).Unix())
	run := func(uid int, user string, submitted, ended int) history.Run {
		return history.Run{Job: 5, UID: uid, User: user, Nodes: 3, Pool: "p", Submitted: at(submitted), Started: at(submitted), Begun: at(submitted), Seen: at(ended), Ended: at(ended), State: "COMPLETED"}
	}
	for name, tt := range map[string]struct {
		run history.Run
		has bool
	}{
		"its own":            {run(1000, "ada", -4, -1), true},
		"another user's":     {run(1001, "eve", -4, -1), false},
		"its user's, before": {run(1000, "ada", -9, -6), false},
	} {
		s := explaining(t, power.State{}, row)
		if err := s.over.store.PutRuns(t.Context(), []history.Run{tt.run}); err != nil {
			t.Fatal(err)
		}
		if e := s.explain(api.ExplainAsk{Job: "5", UID: 1000}); strings.Contains(e.Line, "on 3 nodes of pool p") != tt.has || !strings.HasPrefix(e.Line, "has ended: COMPLETED at ") {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

// TestExplainCold: what a pool cannot buy now is left out, and said with the time until when.
func TestExplainCold(t *testing.T) {
	until := time.Now().Add(time.Minute)
	cool := func(name string) power.Cooling {
		return power.Cooling{Provider: "here", Offering: cloud.Offering{Type: name, Market: cloud.OnDemand}, Cooldown: fleet.Cooldown{Failures: 1, Until: until}}
	}
	s := explaining(t, power.State{Coolings: []power.Cooling{cool("small")}}, waiting("5", "N/A", "cloud"))
	e := s.explain(api.ExplainAsk{Job: "5", UID: -1})
	if len(e.Where) != 1 || e.Where[0].Offering != "large/on-demand" || !slices.Contains(e.Details, "pool p, here: small/on-demand: it has failed, not asked for before "+clock(until, time.Now())) {
		t.Errorf("%+v", e)
	}
	s = explaining(t, power.State{Coolings: []power.Cooling{cool("small"), cool("large")}}, waiting("5", "N/A", "cloud"))
	if e := s.explain(api.ExplainAsk{Job: "5", UID: -1}); !strings.HasSuffix(e.Line, "; nothing is launched for it now: nothing that it may buy is to be had now") {
		t.Errorf("%+v", e)
	}
	s = explaining(t, power.State{Pause: power.Pause{Since: time.Now(), By: "uid 0", Why: "month's end"}}, waiting("5", "N/A", "cloud"))
	if e := s.explain(api.ExplainAsk{Job: "5", UID: -1}); !strings.Contains(e.Line, "nothing is launched for it now: ") || !strings.Contains(e.Line, "month's end") {
		t.Errorf("%+v", e)
	}
}

// TestExplainUnpriced: where a budget needs a price that is not known, that is said, and what is launched for want of one.
func TestExplainUnpriced(t *testing.T) {
	const unpriced = "pool p, here: no price is known of small/spot, large/spot, and there is a budget"
	for timeout, when := range map[time.Duration]string{0: "", 2 * time.Minute: "when spot_timeout (2m) is over"} {
		s := explaining(t, power.State{}, waiting("5", "N/A", "cloud"))
		p := &s.over.cfg.Pools[0].Power
		p.Fleet.Market, p.Fleet.SpotTimeout = fleet.SpotThenOnDemand, timeout
		s.over.engine = engineOf(t, power.Config{Pools: []power.Pool{*p}, Priced: func(_ string, o cloud.Offering) bool { return o.Market == cloud.OnDemand }}, power.State{})
		e := s.explain(api.ExplainAsk{Job: "5", UID: -1})
		if len(e.Where) != 1 || e.Where[0].Offering != "small/on-demand" || e.Where[0].When != when || e.Where[0].Forbidden != "" || !slices.Contains(e.Details, unpriced) {
			t.Errorf("%s: %+v", timeout, e)
		}
	}
}

// TestExplainSpotTimeout: while spot alone is waited for, what is asked for next is said, and when: it is what burstd launches then.
func TestExplainSpotTimeout(t *testing.T) {
	soon, late := 30*time.Second, 9*time.Minute
	const over = "when spot_timeout (2m) is over"
	for _, tt := range []struct {
		name          string
		small, large  time.Duration // spot of it cools for so long
		dear          time.Duration // on-demand of both
		timeout, boot time.Duration
		offering      string
		when          string // "clock": when small has cooled
	}{
		{"nothing cools", 0, 0, 0, 2 * time.Minute, 0, "small/spot", ""},
		{"one cools", late, 0, 0, 2 * time.Minute, 0, "large/spot", ""},
		{"all cool, and on-demand does not wait", late, late, 0, 0, 0, "small/on-demand", ""},
		{"all cool for longer", late, late, 0, 2 * time.Minute, 0, "small/on-demand", over},
		{"one has cooled before", soon, late, 0, 2 * time.Minute, 0, "small/spot", "clock"},
		{"half of the boot's time is less", late, late, 0, 20 * time.Minute, 4 * time.Minute, "small/on-demand", over},
		{"so does on-demand", late, late, late, 2 * time.Minute, 0, "", ""},
		{"on-demand has cooled before", late, late, soon, 2 * time.Minute, 0, "small/on-demand", over},
	} {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Now()
			var st power.State
			for o, d := range map[cloud.Offering]time.Duration{{Type: "small", Market: cloud.Spot}: tt.small, {Type: "large", Market: cloud.Spot}: tt.large,
				{Type: "small", Market: cloud.OnDemand}: tt.dear, {Type: "large", Market: cloud.OnDemand}: tt.dear} {
				if d > 0 {
					st.Coolings = append(st.Coolings, power.Cooling{Provider: "here", Offering: o, Cooldown: fleet.Cooldown{Failures: 1, Until: now.Add(d)}})
				}
			}
			s := explaining(t, power.State{}, waiting("5", "N/A", "cloud"))
			p := &s.over.cfg.Pools[0].Power
			p.Fleet.Market, p.Fleet.SpotTimeout, p.BootTimeout = fleet.SpotThenOnDemand, tt.timeout, tt.boot
			s.over.engine = engineOf(t, power.Config{Pools: []power.Pool{*p}}, st)
			when, line := tt.when, ": now on 1 node of pool p ("+tt.offering
			if when == "clock" {
				when = "not before " + clock(now.Add(soon), now)
			}
			if when != "" {
				line = ": on 1 node of pool p (" + tt.offering
			}
			for name, ask := range map[string]api.ExplainAsk{"job": {Job: "5", UID: -1}, "script": {Would: &api.Would{Partition: "cloud", Limit: time.Hour}, UID: 1000, By: 1000}} {
				e := s.explain(ask)
				if len(e.Where) != 1 || e.Where[0].Offering != tt.offering || e.Where[0].When != when || (e.Where[0].Forbidden != "") != (tt.offering == "") {
					t.Fatalf("%s: %+v", name, e)
				}
				if name == "script" && tt.offering != "" && (!strings.Contains(e.Line, line) || !strings.HasSuffix(e.Line, when)) {
					t.Errorf("%q, want …%s…%s", e.Line, line, when)
				}
				if name == "job" && when != "" && !slices.Contains(e.Details, fmt.Sprintf("pool p, here: %s is asked for %s", tt.offering, when)) {
					t.Errorf("%q", e.Details)
				}
			}
		})
	}
}

// TestExplainFull: a pool whose nodes others have is not where a job would run now.
func TestExplainFull(t *testing.T) {
	const end = "; nothing is launched for it now: "
	for states, want := range map[string]string{
		"ALLOCATED+CLOUD,ALLOCATED+CLOUD+POWERING_UP":     end + "all 2 nodes of the pool are in use",
		"ALLOCATED+CLOUD,IDLE+CLOUD+DRAIN":                end + "all 2 nodes of the pool are in use, down or drained",
		"IDLE+CLOUD+COMPLETING,IDLE+CLOUD+POWERED_DOWN":   end + "1 of the 2 nodes of the pool are free",
		"MIXED+CLOUD,IDLE+CLOUD+POWERED_DOWN":             ": now on 2 nodes of pool p (small/on-demand at here, 0.2 USD/h as of 2026-11-22)",
		"IDLE+CLOUD+POWERED_DOWN,IDLE+CLOUD+POWERED_DOWN": ": now on 2 nodes of pool p (small/on-demand at here, 0.2 USD/h as of 2026-11-22)",
	} {
		s := explaining(t, power.State{})
		c1, c2, _ := strings.Cut(states, ",")
		s.nodes = fmt.Sprintf("NodeName=c1 CPUTot=4 RealMemory=4000 State=%s Partitions=cloud\nNodeName=c2 CPUTot=4 RealMemory=4000 State=%s Partitions=cloud\n", c1, c2)
		if e := s.explain(api.ExplainAsk{Would: &api.Would{Partition: "cloud", Limit: time.Hour, Nodes: 2}, UID: 1000, By: 1000}); !strings.HasSuffix(e.Line, want) {
			t.Errorf("%s: %q, want …%q", states, e.Line, want)
		}
	}
}

// TestExplainScript: what the rules say of a job in the end, whoever waits now, and nothing is changed by asking.
func TestExplainScript(t *testing.T) {
	s := explaining(t, power.State{}, waiting("5", "N/A", "main"))
	s.over.cfg.Overflow.OnPrem = overflow.OnPrem{FileSystems: []string{"/scratch"}, Licenses: []string{"matlab"}}
	s.nodes = "NodeName=c1 CPUTot=4 RealMemory=4000 State=IDLE+CLOUD+POWERED_DOWN Partitions=cloud\nNodeName=c2 CPUTot=4 RealMemory=4000 State=IDLE+CLOUD+POWERED_DOWN Partitions=cloud\nNodeName=n1 CPUTot=4 RealMemory=4000 State=IDLE Partitions=main\n"
	for name, tt := range map[string]struct {
		would api.Would
		want  string
	}{
		"moved":        {api.Would{Partition: "main", Limit: time.Hour, Nodes: 2}, "would also go to the cloud (cloud) by rule small after it has waited 1m for Resources or Priority: now on 2 nodes of pool p (small/on-demand at here, 0.2 USD/h as of 2026-11-22)"},
		"stays":        {api.Would{Partition: "main", Limit: time.Hour, Script: "#!/bin/sh\n#BURST stay\n"}, "would stay at the site: says #BURST stay"},
		"licence":      {api.Would{Partition: "main", Limit: time.Hour, Licenses: "matlab:2"}, "would stay at the site: asks for licence matlab, which is on-prem only"},
		"file system":  {api.Would{Partition: "main", Limit: time.Hour, Script: "cat /scratch/x\n"}, "would stay at the site: its script names a path below /scratch, which is on-prem only"},
		"too large":    {api.Would{Partition: "main", Limit: time.Hour, Nodes: 1, CPUs: 99}, "would stay at the site: cannot run in cloud: too few nodes there have 99 CPUs"},
		"the default":  {api.Would{Limit: time.Hour}, "would also go to the cloud (cloud) by rule small after it has waited 1m for Resources or Priority: now on 1 node of pool p (small/on-demand at here, 0.1 USD/h as of 2026-11-22)"},
		"its own wish": {api.Would{Partition: "cloud", Limit: time.Hour}, "would start in the cloud, as partition cloud is a pool's: now on 1 node of pool p (small/on-demand at here, 0.1 USD/h as of 2026-11-22)"},
		"two nodes":    {api.Would{Partition: "main", Limit: time.Hour, Tasks: 8}, "would also go to the cloud (cloud) by rule small after it has waited 1m for Resources or Priority: now on 2 nodes of pool p (small/on-demand at here, 0.2 USD/h as of 2026-11-22)"},
		"no node":      {api.Would{Partition: "cloud", Limit: time.Hour, Features: "ib"}, "would not start: cannot run in cloud: too few nodes there have ib"},
		"unknown":      {api.Would{Partition: "none"}, "Slurm has no partition none"},
	} {
		t.Run(name, func(t *testing.T) {
			if e := s.explain(api.ExplainAsk{Would: &tt.would, UID: 1000, By: 1000}); e.Line != tt.want || e.State != "SCRIPT" || e.Job != "" || strings.HasPrefix(tt.want, "would stay") != (len(e.Where) == 0) && name != "unknown" {
				t.Errorf("got  %s\nwant %s\n%+v", e.Line, tt.want, e)
			}
			if len(s.updates) > 0 || len(s.log()) > 0 || len(s.over.overflows.scripts) > 0 {
				t.Error("asking has changed something")
			}
		})
	}
}

// TestExplainScriptUnsaid: what a script does not say is as Slurm would have it, or is said not to be known.
func TestExplainScriptUnsaid(t *testing.T) {
	const (
		moved = "would also go to the cloud (cloud) by rule small"
		nodes = "NodeName=c1 CPUTot=4 RealMemory=4000 State=IDLE+CLOUD+POWERED_DOWN Partitions=cloud Gres=gpu:2\nNodeName=n1 CPUTot=8 RealMemory=64000 State=IDLE Partitions=main\n"
		cloud = "PartitionName=cloud State=UP MaxTime=UNLIMITED"
	)
	for name, tt := range map[string]struct {
		main, cloud, config string
		would               api.Would
		want, detail        string
	}{
		"no default":                   {"", "", "DefMemPerNode = UNLIMITED\n", api.Would{}, "would stay at the site: cannot run in cloud: it does not say what memory it needs (--mem), and may use the 64000 MiB", ""},
		"of a node":                    {"DefMemPerNode=2000", "", "DefMemPerNode = 64000\n", api.Would{}, moved, ""},
		"of a CPU":                     {"DefMemPerCPU=1500", "", "", api.Would{Nodes: 1, Tasks: 2}, moved, ""},
		"of a CPU, too much":           {"DefMemPerCPU=1500", "", "", api.Would{Nodes: 1, Tasks: 2, CPUs: 2}, "would stay at the site: cannot run in cloud: too few nodes there have 6000 MiB of memory", ""},
		"of the cluster":               {"DefMemPerNode=UNLIMITED", "", "DefMemPerCPU            = 1000\n", api.Would{}, moved, ""},
		"all, though there is one":     {"DefMemPerNode=2000", "", "", api.Would{AllMemory: true}, "would stay at the site: cannot run in cloud: it does not say what memory", ""},
		"GPUs of tasks":                {"DefMemPerNode=2000", "", "", api.Would{PerTask: "gpu:3"}, "would stay at the site: cannot run in cloud: too few nodes there have 3 of gpu", ""},
		"GPUs of sockets":              {"DefMemPerNode=2000", "", "", api.Would{PerSocket: "gpu:3"}, "would stay at the site: cannot run in cloud: too few nodes there have 3 of gpu", ""},
		"CPUs of a node":               {"DefMemPerNode=2000", "", "", api.Would{MinCPUs: 5}, "would stay at the site: cannot run in cloud: too few nodes there have 5 CPUs", ""},
		"no QOS, where some may":       {"DefMemPerNode=2000", "AllowQos=normal", "", api.Would{}, moved, "its QOS is not known here, and is taken for one that the partitions take, and that no rule names: add #SBATCH --qos"},
		"another QOS":                  {"DefMemPerNode=2000", "AllowQos=normal", "", api.Would{QOS: "low"}, `would stay at the site: cannot run in cloud: QOS "low" is not among those that may use it`, ""},
		"no account, where some may":   {"DefMemPerNode=2000", "AllowAccounts=phys", "", api.Would{}, moved, "its account is not known here, and rules and caps of accounts are judged as if it had none: add #SBATCH --account"},
		"a pool's partition for a QOS": {"", "AllowQos=normal", "", api.Would{Partition: "cloud", Memory: 10}, "would start in the cloud", "its QOS is not known here, and is taken for one that the partitions take, and that no rule names: add #SBATCH --qos"},
		"Slurm may not requeue it":     {"DefMemPerNode=2000", "", "", api.Would{NoRequeue: true}, "would stay at the site: Slurm may not requeue it, and partition cloud has nodes that the cloud may take back: add #SBATCH --requeue", ""},
		"it says nothing of its tasks": {"DefMemPerCPU=1500", "", "", api.Would{Nodes: 1}, moved, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := explaining(t, power.State{})
			s.nodes, s.config = nodes, tt.config
			s.partitions = "PartitionName=main Default=YES State=UP " + tt.main + "\n" + cloud + " " + tt.cloud + "\n"
			if tt.would.NoRequeue {
				s.over.cfg.Pools[0].Power.Fleet.Market = fleet.SpotThenOnDemand
			}
			tt.would.Limit = time.Hour
			if tt.would.Partition == "" {
				tt.would.Partition = "main"
			}
			e := s.explain(api.ExplainAsk{Would: &tt.would, UID: 1000, By: 1000})
			if !strings.HasPrefix(e.Line, tt.want) || tt.detail != "" && !slices.Contains(e.Details, tt.detail) {
				t.Errorf("got  %s\nwant %s\n%q", e.Line, tt.want, e.Details)
			}
			if tt.detail == "" && slices.ContainsFunc(e.Details, func(s string) bool { return strings.HasPrefix(s, "its QOS") }) {
				t.Errorf("%q", e.Details)
			}
		})
	}
}

// TestExplainAUserOfADirectory: rules and caps of a user whom /etc/passwd does not have, as Go without cgo reads it, are judged by the name.
func TestExplainAUserOfADirectory(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "getent"), []byte("#!/bin/sh\n[ $3 = 4242000 ] && echo eve:*:4242000:1:::\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	known := waiting("5", "N/A", "main")
	known["UserID"], known["UserName"] = "4242001", "zoe"
	s := explaining(t, power.State{}, known)
	s.over.cfg.Overflow.Rules[0].Users = []string{"eve", "zoe"}
	if _, err := s.over.watcher.Fresh(t.Context(), time.Now()); err != nil { // zoe is known by a job
		t.Fatal(err)
	}
	moved := "would also go to the cloud (cloud) by rule small"
	for uid, want := range map[int]string{4242000: moved, 4242001: moved, 4242002: "would stay at the site"} {
		if e := s.explain(api.ExplainAsk{Would: &api.Would{Partition: "main", Limit: time.Hour}, UID: uid, By: uid}); !strings.HasPrefix(e.Line, want) {
			t.Errorf("%d: %s", uid, e.Line)
		}
	}
	for uid, want := range map[int]bool{4242000: true, 4242001: false, 4242002: false} {
		if s.over.theirs(budget.Scope{Kind: budget.User, Name: "eve"}, uid, s.over.userName(t.Context(), uid)) != want {
			t.Errorf("a cap of eve's: %d", uid)
		}
	}
}

// TestTold: a moved job's comment says so, and who has written there before keeps the word; a boot is told once.
func TestTold(t *testing.T) {
	theirs := waiting("6", "N/A", "main")
	theirs["admin_comment"] = "see me"
	evicted := waiting("7", "N/A", "main")
	evicted["admin_comment"] = "burst: node c1 was taken back by the cloud"
	s := explaining(t, power.State{}, waiting("5", "N/A", "main"), theirs, evicted)
	s.rounds()
	says := func(row int) string { return s.rows[row]["admin_comment"] }
	if !strings.HasPrefix(says(0), "burst: rule small: goes also to cloud, since 20") || says(1) != "see me" || says(2) != "burst: node c1 was taken back by the cloud" || len(s.updates) != 3 {
		t.Fatalf("%q, %q", s.updates, s.rows)
	}

	made := time.Now().Add(-time.Minute).Truncate(time.Second)
	node := func(name string, job uint32, at time.Time) power.Node {
		return power.Node{Name: name, Pool: "p", Phase: power.Booting, Job: job, Order: fmt.Sprint("o", job, at.Unix()), Made: at}
	}
	boots := func(nodes ...power.Node) {
		s.over.engine = engineOf(t, power.Config{Pools: []power.Pool{s.over.cfg.Pools[0].Power}}, power.State{Nodes: nodes})
	}
	boots(node("c1", 5, made), node("c2", 6, made))
	look := func(told map[ordered]bool) {
		if _, err := s.over.watcher.Fresh(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		s.over.tellBoots(t.Context(), told, time.Now())
	}
	told := map[ordered]bool{}
	look(told) // they wait, as Slurm shows them
	for _, row := range s.rows {
		row["State"] = "CONFIGURING"
	}
	for range 3 {
		look(told)
	}
	want := "; nodes ordered: 1 of pool p at " + made.Format(time.DateTime) + "; it starts when they have booted"
	if !strings.HasPrefix(says(0), "burst: rule small: goes also to cloud, since 20") || !strings.HasSuffix(says(0), want) || says(1) != "see me" || len(s.updates) != 4 {
		t.Errorf("%q, %q", s.updates, s.rows)
	}
	look(map[ordered]bool{}) // another burstd
	if len(s.updates) != 4 {
		t.Errorf("it is told again: %q", s.updates)
	}
	again := made.Add(30 * time.Second)
	boots(node("c1", 5, again)) // requeued
	look(told)
	if got := says(0); strings.Count(got, "nodes ordered") != 1 || !strings.Contains(got, again.Format(time.DateTime)) {
		t.Error(got)
	}
	away := power.MovedText + "small: goes also to cloud, since 12:00:00; its nodes are launched when a cloud answers: no answer"
	s.rows[0]["admin_comment"] = away
	boots(node("c1", 5, again.Add(time.Second)))
	if look(told); says(0) != away {
		t.Errorf("over what it waits for: %q", says(0))
	}
	s.rows[0]["admin_comment"], s.rows[1]["admin_comment"] = "", "burst: i-1 may still run"
	boots(node("c1", 5, time.Now()), node("c2", 6, made.Add(time.Second)))
	look(told)
	if says(0) != "" || says(1) != "burst: i-1 may still run" {
		t.Errorf("a short boot, or over another word: %q", s.rows)
	}
	boots(node("c1", 5, made.Add(2*time.Second)))
	look(told)
	if !strings.HasPrefix(says(0), power.BootText+"1 of pool p at ") {
		t.Errorf("%q", says(0))
	}
}

// TestTellsFew: however many jobs boot, a look tells a few.
func TestTellsFew(t *testing.T) {
	var rows []map[string]string
	var nodes []power.Node
	for i := range 3 * tellAtOnce {
		row := waiting(fmt.Sprint(100+i), "N/A", "cloud")
		row["State"] = "CONFIGURING"
		rows = append(rows, row)
		nodes = append(nodes, power.Node{Name: fmt.Sprint("c", i), Pool: "p", Phase: power.Wanted, Job: uint32(100 + i), Order: "o", Made: time.Now().Add(-time.Minute)})
	}
	s := explaining(t, power.State{Nodes: nodes}, rows...)
	if _, err := s.over.watcher.Fresh(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	told := map[ordered]bool{}
	for n := 1; n < 5; n++ {
		s.over.tellBoots(t.Context(), told, time.Now())
		if want := min(n, 3) * tellAtOnce; len(s.updates) != want {
			t.Errorf("%d are told after %d looks, want %d", len(s.updates), n, want)
		}
	}
}
