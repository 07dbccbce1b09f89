package store

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/packaging/progtest"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestBackup makes copies as docs/backup.md says, from another connection, while the journal is
// written: each is whole, opens as a journal, and has all that was committed before it was begun.
func TestBackup(t *testing.T) {
	sql := regexp.MustCompile(`sqlite3 /var/lib/burst/burst.db "(VACUUM INTO '[^"]+')"`).FindStringSubmatch(progtest.Pages(t)["docs/backup.md"])
	if sql == nil {
		t.Fatal("docs/backup.md makes no backup")
	}
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "burst.db"))
	id, err := s.ClusterID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := connect(filepath.Join(dir, "burst.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()

	written, stop, done := make(chan int, 1000), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 1; n <= cap(written); n++ {
			c := sample()
			c.Orders[0].ID, c.Launches, c.Nodes, c.Holds, c.Coolings = fmt.Sprint("o", n), nil, nil, nil, nil
			c.Instances[0].ID = fmt.Sprint("i-", n)
			if err := s.CommitPower(t.Context(), c); err != nil {
				t.Error(err)
				return
			}
			written <- n
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	<-written
	for n := range 3 {
		least := len(written) // more than these are committed by now
		copied := filepath.Join(dir, fmt.Sprint("copy", n), "burst.db")
		if err := os.Mkdir(filepath.Dir(copied), 0o755); err != nil {
			t.Fatal(err)
		}
		text := regexp.MustCompile(`'[^']+'`).ReplaceAllString(sql[1], "'"+copied+"'")
		if _, err := other.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, err := other.ExecContext(t.Context(), text); err == nil || !strings.Contains(err.Error(), "exist") {
			t.Errorf("a second backup over the first: %v", err)
		}
		back := open(t, copied)
		var said string
		if err := back.db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&said); err != nil || said != "ok" {
			t.Errorf("copy %d: %q, %v", n, said, err)
		}
		st, err := back.LoadPower(t.Context())
		if err != nil || len(st.Orders) <= least || len(st.Orders) != len(st.Instances) {
			t.Errorf("copy %d: %d orders of more than %d, %d instances: %v", n, len(st.Orders), least, len(st.Instances), err)
		}
		if again, err := back.ClusterID(t.Context()); err != nil || again != id {
			t.Errorf("copy %d is of cluster %q, %v", n, again, err)
		}
		if err := back.CommitPower(t.Context(), power.Change{Events: sample().Events}); err != nil {
			t.Errorf("copy %d cannot be written: %v", n, err)
		}
	}
	close(stop)
	<-done
}
