package srun

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/ft/ckpt"
)

const (
	ctl1 = "ctl1(10.0.0.1):6817"
	long = 10 * time.Hour // ago: what is swept
)

// leaves has a job of cluster c leave generations and a record in dir.
func leaves(t *testing.T, dir, job string, steps ...steprecord.Step) {
	t.Helper()
	leavesRecord(t, steprecord.Book{Dir: dir, Cluster: "c", Ctld: ctl1, Job: job, Script: "s"}, long, steps...)
}

func leavesRecord(t *testing.T, b steprecord.Book, ago time.Duration, steps ...steprecord.Step) {
	t.Helper()
	for i := range steps {
		steps[i].Name = fmt.Sprint(i)
		f, err := ckpt.Open(t.Context(), ckpt.Options{Dir: b.Dir, Cluster: b.Cluster, Job: b.Job, Step: steps[i].Name, Reserve: 1})
		if err != nil {
			t.Fatal(err)
		}
		makeGenerations(t, f, 1)
		f.Close()
	}
	records := [][]steprecord.Step{{{Name: "0"}}, steps} // the last one counts
	for b.Attempt = range records {
		err := b.Change(t.Context(), func(r *steprecord.Record) error {
			r.Steps, r.Began = records[b.Attempt], time.Now().Add(-ago)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func makeGenerations(t *testing.T, f *ckpt.Folder, n int) {
	t.Helper()
	for range n {
		p, err := f.Begin(t.Context(), 0)
		if err == nil {
			err = os.WriteFile(filepath.Join(p.Dir, "count"), []byte("1s"), 0o600)
		}
		if err == nil {
			_, err = p.Commit(t.Context(), ckpt.About{Method: "signal"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
