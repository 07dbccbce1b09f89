package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestUnended: what lives or may live is read beside a burstd, of the first schema too, and
// what has gone is not.
func TestUnended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	read := func() []Unended {
		t.Helper()
		all, err := ReadUnended(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := read(); all != nil {
		t.Errorf("without a journal: %v", all)
	}
	s := open(t, path)
	if all := read(); all != nil {
		t.Errorf("of an empty journal: %v", all)
	}
	instance := func(id, node string, since time.Duration, gone time.Time) power.Instance {
		return power.Instance{Instance: cloud.Instance{ID: id, Offering: cloud.Offering{Type: "large"}, Launched: at.Add(since)}, Provider: "east", Assigned: node, Gone: gone}
	}
	err := s.CommitPower(t.Context(), power.Change{
		Instances: []power.Instance{instance("i-1", "c1", 0, time.Time{}), instance("i-2", "", time.Second, time.Time{}), instance("i-3", "c3", 0, at.Add(time.Hour))},
		Launches: []power.Launch{{Token: "open", Provider: "west", Nodes: []string{"w1", "w2"}, Created: at.Add(time.Minute)},
			{Token: "done", Provider: "west", Nodes: []string{"w3"}, Created: at, Resolved: at.Add(time.Minute)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []Unended{
		{ID: "i-1", Provider: "east", Type: "large", Nodes: []string{"c1"}, Since: at},
		{ID: "i-2", Provider: "east", Type: "large", Nodes: []string{}, Since: at.Add(time.Second)},
		{Provider: "west", Nodes: []string{"w1", "w2"}, Since: at.Add(time.Minute)},
	}
	if diff := cmp.Diff(want, read()); diff != "" {
		t.Errorf("beside a burstd (-want +got):\n%s", diff)
	}

	path = filepath.Join(t.TempDir(), "burst.db")
	db, run := ofVersion(t, path, 1)
	run(`INSERT INTO instances VALUES ('i-1', 'east', 't', 'p', 'large', 'z', 'spot', 'running', '', '', 'c1', '', ?, 0, 0)`, fromTime(at))
	if diff := cmp.Diff(want[:1], read()); diff != "" {
		t.Errorf("of the first schema (-want +got):\n%s", diff)
	}
	var version int
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != 1 {
		t.Errorf("reading has made it schema %d: %v", version, err)
	}
	db.Close()
}

// TestUnendedOfALostJournal: an id whose journal is lost or empty may have instances that nobody
// watches, which is not the same as none.
func TestUnendedOfALostJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "burst.db")
	lost := func(how string) {
		t.Helper()
		all, err := ReadUnended(t.Context(), path)
		if !errors.Is(err, ErrLost) || all != nil || !strings.Contains(err.Error(), how+`; instances of cluster "f00d" may live`) {
			t.Errorf("%v, %v", all, err)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("burst.db", "")
	if all, err := ReadUnended(t.Context(), path); err != nil || all != nil {
		t.Errorf("of a journal that was never begun: %v, %v", all, err)
	}
	write("cluster-id", "f00d\n")
	lost("is empty")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	lost("is not there")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading has made a journal: %v", err)
	}
	open(t, path)
	if all, err := ReadUnended(t.Context(), path); err != nil || all != nil {
		t.Errorf("of a new journal beside the id: %v, %v", all, err)
	}
}
