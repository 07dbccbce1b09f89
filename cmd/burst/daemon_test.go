package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
)

// scriptBurstd is the script command `burstd up|empty|away`: it serves a
// burstd with something, nothing or itself missing, and sets BURST_CONFIG.
func scriptBurstd(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: burstd up|empty|away")
	}
	socket, config := ts.MkAbs(args[0]+".sock"), ts.MkAbs(args[0]+".toml")
	ts.Check(os.WriteFile(config, fmt.Appendf(nil, "[daemon]\nsocket = %q\n", socket), 0o600))
	ts.Setenv("BURST_CONFIG", config)
	ts.Setenv("TZ", "UTC")
	if args[0] == "away" {
		return
	}
	b := new(apitest.Backend)
	if args[0] == "up" {
		populate(b)
	}
	stop, err := apitest.Serve(b, socket)
	ts.Check(err)
	ts.Defer(func() { ts.Check(stop()) })
}

func populate(b *apitest.Backend) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	usd := 1.5
	b.SetStatus(api.Status{Cluster: "f00d", Version: "v1", Started: at, SlurmError: "connection refused",
		Nodes: map[string]int{"up": 2, "booting": 1}, Orders: 1, Instances: 3, Evictions: 1, Spooled: 4,
		Providers: map[string]string{"lon": "ok", "east": "auth: token expired"}, Stopped: map[string]string{"p": "5 instances in a row"},
		USDPerHour: &usd, Unpriced: 1, Pools: []api.PoolLoad{{Pool: "p", Instances: 3, USDPerHour: usd, Nodes: map[string]int{"up": 2, "booting": 1}}},
		Running: 2, Steps: []api.Step{{Job: 7, Step: "0", Method: "dmtcp"}, {Job: 9, Step: "solve", Method: "scr", Checkpoint: &api.LastCheckpoint{Attempt: 1, Generation: 12, SinceSeconds: 75}}},
		Wait: 1, Waiting: []api.Waiting{{Job: 8, Until: at, Why: "no capacity in pool p"}},
		Evicting: []api.Evicting{{Node: "c1", Instance: "i-1", Kind: "spot-interruption", Stage: "draining", Jobs: []api.EvictingJob{{Job: 7, Stage: "signalled"}}}}})
	b.SetNodes([]api.NodeStatus{
		{Node: "c1", Pool: "p", Slurm: "ALLOCATED+CLOUD", Journal: "up", Instance: "i-1", Offering: "m5.large/a/spot", Addr: "10.0.0.1", Since: at},
		{Node: "c2", Pool: "p", Slurm: "IDLE+CLOUD+POWERED_DOWN", Reason: "no \x1b[31mcapacity"},
	})
	carol, idle, onDemand := 1.25, 0.1, 3.75
	b.SetUsage([]api.Usage{
		{Key: "7", User: "carol", Account: "phys", Seconds: 36000, USD: &carol, Instances: 2, OnDemandUSD: &onDemand,
			LostSeconds: 3600, LostUSD: 0.125, CheckpointSeconds: 1800, CheckpointUSD: 0.0625},
		{Seconds: 1800, USD: &idle, Instances: 3, OnDemandUnknownSeconds: 1800, BootSeconds: 1080, BootUSD: 0.06, IdleSeconds: 720, IdleUSD: 0.04},
		{Key: "8", User: "dave", ArrayJob: 6, ArrayTask: "2", Seconds: 5400, UnpricedSeconds: 5400, OnDemandUnknownSeconds: 5400, Instances: 1},
	})
	b.SetBills([]api.Bill{
		{Instance: "i-1", Provider: "east", Pool: "p", Offering: "m5/a/spot", Launched: at, Ended: at.Add(30 * time.Second), Billing: "second, at least 60",
			BilledSeconds: 60, ChargedSeconds: 60, BookedSeconds: 60, BookedChargeSeconds: 60, USD: &idle},
		{Instance: "i-2", Provider: "lon", Pool: "p", Offering: "v/on-demand", Launched: at, Ended: at.Add(time.Hour), Billing: "hour", Guessed: true,
			BilledSeconds: 3600, ChargedSeconds: 3600, BookedSeconds: 1800, BookedChargeSeconds: 1800, Differs: true},
	})
	b.SetBudget([]api.BudgetRow{
		{Of: "cluster", Period: "day", From: at.Truncate(24 * time.Hour), Cap: 50, Spent: 12.34, Committed: 30, Left: 7.66},
		{Of: "account", Name: "phys", Period: "month", From: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Cap: 300, Spent: 310, Left: -10, UnpricedHours: 1.5},
		{Of: "job", Name: "7", Period: "job", Cap: 20, Spent: 1.25, Committed: 4, Left: 14.75, AtCap: "requeue"},
	})
	b.SetJobs(someJobs())
	b.SetOverflows([]api.OverflowJob{
		{Job: "7_[1,2]", User: "carol", Partition: "main", Nodes: 1, Waited: 720, Action: "add", Rule: "small", To: "cloud", Why: "rule small: waits 12m for Resources; goes also to cloud"},
		{Job: "8", User: "dave", Partition: "main", Nodes: 2, Action: "leave", Why: "stays: asks for licence matlab, which is on-prem only"}},
		[]api.Overflowed{{Job: "5_2", User: "carol", Was: "main", To: "cloud", State: "added", Added: at, Why: "rule small: waits 10m for Priority; goes also to cloud"},
			{Job: "6", User: "dave", Was: "main", To: "cloud", State: "added", Added: at, Why: "rule small: waits 12m for Resources; goes also to cloud", Ended: at.Add(time.Hour), EndedWhy: "ran in cloud: completed"}})
	perHour := 0.25
	b.SetExplained(api.Explained{Job: "7", User: "carol", State: "PENDING", Line: "waits for nodes to be free (Resources) in main,cloud; rule small has added cloud", Details: []string{"it was told: hello"},
		Where: []api.Place{{Partition: "cloud", Pool: "p", Provider: "east", Offering: "m5/a/spot", Nodes: 2, USDPerHour: &perHour, Priced: at},
			{Partition: "cloud", Pool: "q", Provider: "lon", Nodes: 2, Forbidden: "pool q is stopped by hand"}}},
		api.Explained{State: "SCRIPT", Line: "would also go to the cloud (cloud) by rule small", Where: []api.Place{
			{Partition: "cloud", Pool: "p", Provider: "east", Offering: "m5/a/on-demand", Nodes: 3, When: "when spot_timeout (2m) is over"}, {Partition: "cloud", Pool: "q", Provider: "lon", Offering: "c2", Nodes: 3}}, Details: []string{"a price is asked for"}})
	const stopped = "5 instances in a row did not become nodes"
	b.SetPools([]api.PoolStatus{{Pool: "p", Provider: "east", Partition: "cloud", Nodes: 100, Failures: 5, MaxFailures: 5, Stopped: at, Why: stopped},
		{Pool: "q", Provider: "lon", Nodes: 2}})
	b.SetBoots([]api.Boot{
		{Node: "c1", Pool: "p", Job: 7, Ordered: at, Outcome: "up", Seconds: 41.8, Stages: map[string]float64{"queued": .1, "launched": 2, "running": 8,
			"reachable": 10, "setup": .5, "ready": 20, "registered": 1, "started": .2}},
		{Node: "c2", Pool: "p", Job: 7, Ordered: at, Outcome: "up", Seconds: 41.5, Stages: map[string]float64{"queued": .1, "launched": 2, "registered": 39, "started": .4}},
		{Node: "c3", Pool: "p", Ordered: at, Outcome: "instance i-3 is gone", Seconds: 2.1, Stages: map[string]float64{"queued": .1, "launched": 2}},
		{Node: "c4", Pool: "p", Job: 8, Ordered: at, Stages: map[string]float64{}},
	})
	b.SetEvicted([]api.Evicted{{Node: "c1", Instance: "i-1", Pool: "p", Provider: "east", Deadline: at, Way: "burstd"}})
	b.SetPlanned([]api.Planned{{Action: "terminate", Instance: "i-9", Why: "nobody asked for it", Settling: true},
		{Action: "down", Node: "c2", Why: "its instance is gone"}})
	b.AddEvent(api.Event{Seq: 1, Time: at, Kind: "order", Text: "resume c1"})
	b.AddEvent(api.Event{Seq: 2, Time: at.Add(time.Second), Kind: "launch", Node: "c1", Instance: "i-1", Pool: "p", Job: 7, Text: "launched"})
}

func serveAt(t *testing.T, b api.Backend, socket string) (stop func()) {
	t.Helper()
	end, err := apitest.Serve(b, socket)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}

func TestFollowOutlivesARestart(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "b.sock")
	b := new(apitest.Backend)
	populate(b)
	stop := serveAt(t, b, socket)
	client := api.NewClient(socket)
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	warned, warn := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := runEvents(ctx, write, client, eventsOptions{last: 1, follow: true, warn: warn})
		write.Close()
		warn.Close()
		ended <- err
	}()
	lines, warnings := bufio.NewScanner(read), bufio.NewScanner(warned)
	expect := func(s *bufio.Scanner, want string) {
		t.Helper()
		if !s.Scan() || !strings.Contains(s.Text(), want) {
			t.Fatalf("printed %q, want %q", s.Text(), want)
		}
	}
	expect(lines, "launched")
	b.AddEvent(api.Event{Seq: 3, Text: "third"})
	expect(lines, "third")
	stop()
	expect(warnings, "waiting for it")
	b.AddEvent(api.Event{Seq: 4, Text: "fourth"})
	stop = serveAt(t, b, socket)
	defer stop()
	expect(warnings, "burstd is back")
	expect(lines, "fourth")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("interrupted: %v", err)
	}
	if lines.Scan() {
		t.Errorf("printed again: %q", lines.Text())
	}
}

// hasty ends every long poll soon.
type hasty struct{ *apitest.Backend }

func (b hasty) Events(ctx context.Context, after int64, wait time.Duration) ([]api.Event, error) {
	return b.Backend.Events(ctx, after, min(wait, 300*time.Millisecond))
}

// TestFollowIntoANewHistory: after a journal was lost or restored, numbers begin
// again, also when burstd was away so shortly that nobody has noticed.
func TestFollowIntoANewHistory(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "b.sock")
	b := hasty{new(apitest.Backend)}
	b.AddEvent(api.Event{Seq: 1, Text: "its first"}) // of a new history
	defer serveAt(t, b, socket)()
	client := api.NewClient(socket)
	defer client.Close()
	var warned strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	got, after, err := nextEvents(ctx, client, 500, &warned)
	if err != nil || after != 0 || len(got) != 1 || !strings.Contains(warned.String(), "new history") {
		t.Errorf("%v after %d, warned %q: %v", got, after, &warned, err)
	}
}

// TestLastEventsLooksBack: a filter finds what lies many pages back.
func TestLastEventsLooksBack(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "b.sock")
	b := &paged{Backend: new(apitest.Backend)}
	at := time.Now().Add(-time.Hour)
	for i := range int64(5000) {
		e := api.Event{Seq: i + 1, Time: at.Add(time.Duration(i) * time.Second / 2), Kind: "up", Node: "c1"}
		if i%1500 == 3 {
			e.Kind, e.Job = "died", 7
		}
		b.AddEvent(e)
	}
	defer serveAt(t, b, socket)()
	client := api.NewClient(socket)
	defer client.Close()
	for _, tt := range []struct {
		name string
		last int
		f    eventFilter
		want []int64
	}{
		{"all of a kind", 50, eventFilter{kinds: []string{"died"}}, []int64{4, 1504, 3004, 4504}},
		{"the last two of a job", 2, eventFilter{job: 7}, []int64{3004, 4504}},
		{"since then", 50, eventFilter{job: 7, since: at.Add(20 * time.Minute)}, []int64{3004, 4504}},
		{"no filter", 2, eventFilter{}, []int64{4999, 5000}},
		{"none", 2, eventFilter{nodes: map[string]bool{"c2": true}}, nil},
	} {
		got, newest, err := lastEvents(t.Context(), client, tt.last, tt.f)
		var seqs []int64
		for _, e := range got {
			seqs = append(seqs, e.Seq)
		}
		if err != nil || newest != 5000 || !slices.Equal(seqs, tt.want) {
			t.Errorf("%s: %v after %d, want %v: %v", tt.name, seqs, newest, tt.want, err)
		}
	}
}

// paged answers with at most 1,000 events, as burstd does.
type paged struct{ *apitest.Backend }

func (p *paged) Events(ctx context.Context, after int64, wait time.Duration) ([]api.Event, error) {
	all, err := p.Backend.Events(ctx, after, wait)
	return all[:min(len(all), 1000)], err
}
