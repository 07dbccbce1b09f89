package vultr_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// Somebody replaces an instance's tags. It lives and costs on: it is listed as ours
// still, by whoever has seen it, and after a restart by its label and what is
// written down. What is nobody's stays so.
func TestTagsAreReplaced(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	dir := t.TempDir()
	var log bytes.Buffer
	open := func() *vultr.Provider {
		return over(t, c, func(v *vultr.Config) { v.Dir, v.Log = dir, slog.New(slog.NewTextHandler(&log, nil)) })
	}
	p := open()
	got, err := p.Launch(t.Context(), ask("t-1", 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := over(t, c).Launch(t.Context(), ask("t-2", 1)); err != nil { // another cluster's, in the same account
		t.Fatal(err)
	}
	for _, m := range c.Machines() {
		c.Change(m.ID, func(m *vultrtest.Machine) { m.Tags = []string{"project=mine"} })
	}
	for name, p := range map[string]*vultr.Provider{"seen": p, "restarted": open()} {
		for range 2 {
			all, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"})
			if err != nil || len(all) != 1 || all[0].ID != got[0].ID || all[0].Token != "t-1" || all[0].Pool != "pool" || !all[0].State.Live() {
				t.Errorf("%s: %+v, %v, want %s alone", name, all, err, got[0].ID)
			}
		}
	}
	if n := strings.Count(log.String(), "instance="+got[0].ID); n != 2 {
		t.Errorf("it is said %d times by two processes:\n%s", n, log.String())
	}
	if err := p.Assign(t.Context(), map[string]string{got[0].ID: "n1"}); err != nil {
		t.Fatal(err)
	}
	untilNamed(t, p, got[0].ID, "n1")
	if all, err := over(t, c).List(t.Context(), cloud.Filter{Cluster: "c-1"}); err != nil || len(all) != 1 || all[0].Node != "n1" {
		t.Errorf("once it is named again: %+v, %v", all, err)
	}
	if err := p.Terminate(t.Context(), []string{got[0].ID}); err != nil || len(c.Machines()) != 1 {
		t.Errorf("ending it: %v, %d are left", err, len(c.Machines()))
	}
}

// The book by which such an instance is known is kept for as long as it lives: also
// where it is old, and burstd has been away.
func TestTagsAreReplacedAfterLong(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	dir := t.TempDir()
	open := func() *vultr.Provider { return over(t, c, func(v *vultr.Config) { v.Dir = dir }) }
	if _, err := open().Launch(t.Context(), ask("t-1", 1)); err != nil {
		t.Fatal(err)
	}
	c.Change(c.Machines()[0].ID, func(m *vultrtest.Machine) { m.Tags = nil })
	book, long := filepath.Join(dir, "t-1.launch"), time.Now().AddDate(0, -1, 0)
	if err := os.Chtimes(book, long, long); err != nil {
		t.Fatal(err)
	}
	for range 3 { // each is another process
		p := open()
		if _, err := p.Launch(t.Context(), ask("t-2", 1)); err != nil {
			t.Fatal(err)
		}
		all, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1", Tokens: []string{"t-1"}})
		if err != nil || len(all) != 1 || all[0].Pool != "pool" {
			t.Fatalf("%+v, %v, want the one of t-1", all, err)
		}
	}
	if err := open().Terminate(t.Context(), []string{c.Machines()[0].ID}); err != nil {
		t.Fatal(err)
	}
	if all, err := open().List(t.Context(), cloud.Filter{Cluster: "c-1", Tokens: []string{"t-1"}}); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := os.Stat(book); !os.IsNotExist(err) {
		t.Errorf("the old book of what has ended is kept: %v", err)
	}
}
