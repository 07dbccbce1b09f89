package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm/power"
)

// open is Open. Where there is no journal yet it puts an empty one there, which takes
// longer to make, version by version of its schema, than most tests do with it.
func open(t *testing.T, path string) *Store {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		text, err := empty()
		if err == nil {
			err = os.WriteFile(path, text, 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

var empty = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "journal")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "burst.db")
	s, err := Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

var at = time.UnixMicro(1_795_000_000_123_456)

var spot = cloud.Offering{Type: "c6i.large", Zone: "a", Market: cloud.Spot}

func sample() power.Change {
	return power.Change{
		Orders: []power.Order{{ID: "o1", Kind: power.Resume, Nodes: "c[1-2]", ResumeFile: `{"jobs":[]}`, Made: at, Taken: true}},
		Nodes: []power.Node{{Name: "c1", Pool: "p", Phase: power.Booting, Since: at, Order: "o1", Made: at, Job: 7, Whole: true,
			Token: "t1", Instance: "i-1", AddrSet: true, Tries: 2, Reason: "r"}},
		Launches: []power.Launch{{Token: "t1", Provider: "east", Nodes: []string{"c1"}, State: power.Written, Created: at, Error: "e",
			Request: cloud.LaunchRequest{Token: "t1", Cluster: "x", Pool: "p", Offering: spot, Count: 1, Tags: map[string]string{"a": "b"}, AllOrNothing: true}}},
		Instances: []power.Instance{{Provider: "east", Assigned: "c1", Doomed: "d",
			Instance: cloud.Instance{ID: "i-1", Token: "t1", Pool: "p", Offering: spot, State: cloud.Running, Addr: "10.0.0.1", Hostname: "h", Launched: at}}},
		Holds:    []power.Hold{{Job: 7, Start: at, Why: "w", Tries: 3, NoRequeue: true, Released: true}},
		Coolings: []power.Cooling{{Provider: "east", Offering: spot, Cooldown: fleet.Cooldown{Failures: 2, Until: at}}},
		Events:   []power.Event{{Time: at, Kind: "k", Node: "c1", Instance: "i-1", Pool: "p", Job: 7, Text: "text"}},
	}
}

func state(c power.Change) power.State {
	return power.State{Orders: c.Orders, Nodes: c.Nodes, Launches: c.Launches, Instances: c.Instances, Holds: c.Holds, Coolings: c.Coolings}
}

func TestWhatIsCommittedIsLoadedAfterReopening(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	c := sample()
	c.Instances[0].Serves, c.Launches[0].Account = true, "A in b"
	c.Coolings[0].Most, c.Coolings[0].Paid = 7, at.Add(time.Hour)
	came := c.Coolings[0]
	came.Offering.Zone, came.Failures, came.Until = "b", 0, time.Time{} // of smaller launches some have come since
	c.Coolings = append(c.Coolings, came)
	if err := s.CommitPower(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.Close()
	s = open(t, path)
	got, err := s.LoadPower(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(state(c), got); diff != "" {
		t.Errorf("loaded (-want +got):\n%s", diff)
	}
	if node, err := s.NodeOf(t.Context(), "i-1"); node != "c1" || err != nil {
		t.Errorf("NodeOf: %q, %v", node, err)
	}
	events, err := s.Events(t.Context(), 0, 0)
	if err != nil || len(events) != 1 || events[0].Text != "text" || events[0].Job != 7 {
		t.Errorf("events: %+v, %v", events, err)
	}
}

func TestClosedRecordsLeaveTheState(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	c := sample()
	if err := s.CommitPower(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l, i, k := c.Launches[0], c.Instances[0], c.Coolings[0]
	l.Resolved, i.Gone, k.Failures = at, at, 0
	if err := s.CommitPower(t.Context(), power.Change{CloseOrders: []string{"o1"}, DropNodes: []string{"c1"}, DropHolds: []uint32{7},
		Launches: []power.Launch{l}, Instances: []power.Instance{i}, Coolings: []power.Cooling{k}}); err != nil {
		t.Fatal(err)
	}
	got, err := s.LoadPower(t.Context())
	if diff := cmp.Diff(power.State{}, got); err != nil || diff != "" {
		t.Errorf("still open: %v\n%s", err, diff)
	}
	if fresh, err := s.AddOrder(t.Context(), c.Orders[0]); fresh || err != nil {
		t.Errorf("a closed order's id was taken again: %v, %v", fresh, err)
	}
	all, err := s.Instances(t.Context(), at.Add(-time.Second))
	if err != nil || len(all) != 1 || all[0].ID != "i-1" {
		t.Errorf("the history of instances: %+v, %v", all, err)
	}
}

// TestServersThatAreGoneAreLoaded: a list may show one again, with its files.
func TestServersThatAreGoneAreLoaded(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	i, served := sample().Instances[0], sample().Instances[0]
	served.ID, served.Serves = "i-2", true
	i.Gone, served.Gone = at, at
	if err := s.CommitPower(t.Context(), power.Change{Instances: []power.Instance{i, served}}); err != nil {
		t.Fatal(err)
	}
	got, err := s.LoadPower(t.Context())
	if diff := cmp.Diff(power.State{Served: []power.Instance{served}}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestNoticesHaveOneKeyAndTheEarliestDeadline(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	n := cloud.Notice{Instance: "i-1", Kind: cloud.SpotInterruption, Deadline: at, Received: at, Source: "imds"}
	for _, tt := range []struct {
		name     string
		deadline time.Time
		want     bool
	}{
		{"the first", at, true},
		{"the same again", at, false},
		{"later", at.Add(time.Second), false},
		{"none", time.Time{}, false},
		{"earlier", at.Add(-time.Second), true},
	} {
		n.Deadline = tt.deadline
		if fresh, err := s.AddNotice(t.Context(), "east", n); fresh != tt.want || err != nil {
			t.Errorf("%s: %v, %v", tt.name, fresh, err)
		}
	}
	st, err := s.LoadFT(t.Context())
	if err != nil || len(st.Notices) != 1 || !st.Notices[0].Deadline.Equal(at.Add(-time.Second)) || st.Notices[0].Stage != ft.Heard {
		t.Errorf("loaded: %+v, %v", st, err)
	}
}

func TestEvictionsAreLoadedUntilTheirNoticeIsAcked(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	n := cloud.Notice{Instance: "i-1", Kind: cloud.SpotInterruption, Deadline: at, Received: at, Source: "local"}
	if _, err := s.AddNotice(t.Context(), "east", n); err != nil {
		t.Fatal(err)
	}
	rec := ft.Notice{Notice: n, Provider: "east", Node: "c1", Stage: ft.Draining}
	e := ft.Eviction{Instance: "i-1", Kind: n.Kind, Job: 7, Restarts: 1, Node: "c1", Stage: ft.Signalled, Signal: "B:USR1", Grace: 20 * time.Second, SignalledAt: at, Began: at,
		Ask: session.Stop, By: at.Add(time.Minute), Started: at.Add(-time.Hour), Lost: 3 * time.Second, LostIterations: 17, Hold: true}
	if err := s.CommitFT(t.Context(), ft.Change{Notices: []ft.Notice{rec}, Evictions: []ft.Eviction{e}, Events: []ft.Event{{Time: at, Kind: "evict", Job: 7, Text: "x"}}}); err != nil {
		t.Fatal(err)
	}
	st, err := s.LoadFT(t.Context())
	if diff := cmp.Diff(ft.State{Notices: []ft.Notice{rec}, Evictions: []ft.Eviction{e}}, st); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	rec.Stage = ft.Acked
	if err := s.CommitFT(t.Context(), ft.Change{Notices: []ft.Notice{rec}}); err != nil {
		t.Fatal(err)
	}
	if st, err = s.LoadFT(t.Context()); err != nil || len(st.Notices)+len(st.Evictions) > 0 {
		t.Errorf("closed, but loaded: %+v, %v", st, err)
	}
}

func TestEventsCanBeWaitedFor(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	got := make(chan []Event)
	go func() {
		all, err := s.Events(context.Background(), 0, time.Minute)
		if err != nil {
			t.Error(err)
		}
		got <- all
	}()
	if err := s.CommitPower(t.Context(), power.Change{Events: []power.Event{{Time: at, Kind: "k"}}}); err != nil {
		t.Fatal(err)
	}
	if all := <-got; len(all) != 1 {
		t.Errorf("%+v", all)
	}
	if all, err := s.Events(t.Context(), -5, 0); err != nil || len(all) != 1 {
		t.Errorf("the last five: %+v, %v", all, err)
	}
}

func TestTheClusterIDOutlivesTheJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	id, err := s.ClusterID(t.Context())
	if err != nil || len(id) != 16 {
		t.Fatalf("%q, %v", id, err)
	}
	s.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	if again, err := s.ClusterID(t.Context()); again != id || err != nil {
		t.Errorf("after the journal was lost: %q, want %q (%v)", again, id, err)
	}
	file := filepath.Join(filepath.Dir(path), "cluster-id")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if again, err := s.ClusterID(t.Context()); again != id || err != nil {
		t.Errorf("after the file was lost: %q, want %q (%v)", again, id, err)
	}
	if err := os.WriteFile(file, []byte("other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ClusterID(t.Context()); err == nil {
		t.Error("two ids that differ were taken")
	}
}

func TestANewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	if _, err := s.db.Exec("PRAGMA user_version = 999"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path); !errors.Is(err, ErrNewer) {
		t.Errorf("opened: %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("it has changed what the newer one wrote: %v", err)
	}
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		t.Errorf("it has left %d bytes to be written to what the newer one wrote", log.Size())
	}
}

// TestFullDisk: a commit that does not fit fails with a clear error, what was
// there stays, and the next one succeeds when there is room. The real thing,
// a small tmpfs, needs root; otherwise SQLite's own limit on pages stands in for it.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	mounted := os.Getuid() == 0 && syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=768k") == nil
	if mounted {
		t.Cleanup(func() {
			if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
				t.Errorf("umount: %v: %s", err, out)
			}
		})
	}
	path := filepath.Join(dir, "burst.db")
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !mounted {
		if _, err := s.db.Exec("PRAGMA max_page_count = 40"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.AddOrder(t.Context(), power.Order{ID: "kept", Kind: power.Resume, Nodes: "c1", Made: at}); err != nil {
		t.Fatal(err)
	}
	big := power.Order{ID: "big", Kind: power.Resume, Nodes: "c1", ResumeFile: strings.Repeat("x", 1<<20), Made: at}
	if _, err := s.AddOrder(t.Context(), big); err == nil || !strings.Contains(err.Error(), "full") {
		t.Fatalf("a full disk: %v", err)
	}
	st, err := s.LoadPower(t.Context())
	if err != nil || len(st.Orders) != 1 || st.Orders[0].ID != "kept" {
		t.Errorf("after the full disk: %+v, %v", st.Orders, err)
	}
	big.ResumeFile = ""
	if fresh, err := s.AddOrder(t.Context(), big); !fresh || err != nil {
		t.Errorf("with room again: %v, %v", fresh, err)
	}
}

// TestEndedOfOpenLaunches: instances that are gone are read again while their launch is open.
func TestEndedOfOpenLaunches(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	s := open(t, path)
	now := time.Unix(1795000000, 0)
	c := power.Change{Launches: []power.Launch{{Token: "open", Created: now}, {Token: "over", Created: now, Resolved: now}}}
	for id, token := range map[string]string{"i-1": "open", "i-2": "over", "i-3": "open"} {
		i := power.Instance{Gone: now}
		i.ID, i.Token = id, token
		if id == "i-3" {
			i.Gone = time.Time{}
		}
		c.Instances = append(c.Instances, i)
	}
	if err := s.CommitPower(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	st, err := s.LoadPower(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Ended) != 1 || st.Ended[0].ID != "i-1" || len(st.Instances) != 1 {
		t.Errorf("ended are %v, open %v", st.Ended, st.Instances)
	}
}
