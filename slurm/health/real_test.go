package health

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/sandbox"
)

// watched is a real Slurm that is read at each question.
type watched struct{ *slurm.Client }

func (w watched) Fresh(ctx context.Context, _ time.Time) (*slurm.Snapshot, error) {
	return w.Snapshot(ctx)
}

// The programs of Slurm's power saving, which start and end a slurmd.
const (
	resume = `#!/bin/sh
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
spool=$(sed -n 's/^SlurmdSpoolDir=//p' "$SLURM_CONF")
mkdir -p "${spool%%\%n}$1"
sleep 1 # slurmctld may ignore a node that boots within the second of its resume
# Of the script's process group nothing outlives it: slurmctld kills a slurmd that has not left it yet.
setsid env --default-signal slurmd -b -N "$1" -f "$SLURM_CONF" </dev/null >/dev/null 2>&1
`
	suspend = `#!/bin/sh
pids=$(sed -n 's/^SlurmdPidFile=//p' "$SLURM_CONF")
kill "$(cat "${pids%%\%n.pid}$1.pid")"
`
)

func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestARealSlurm drains a node with a job on it, keeps the reason by which the
// node is known as drained for this, and lets the job run on.
func TestARealSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("starts real daemons: slow end-to-end, run by make test")
	}
	c, err := sandbox.Start(t.Context(), sandbox.Options{CloudNodes: 1, SuspendTime: time.Hour, ResumeProgram: script(t, resume), SuspendProgram: script(t, suspend)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until := func(what string, cond func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !cond(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not within a minute: %s", what)
			}
		}
	}
	site := watched{slurm.New(slurm.Exec{Conf: c.Conf})}
	read := func() *slurm.Snapshot {
		t.Helper()
		snap, err := site.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	name := c.CloudNodes()[0]
	if inUse(read().Nodes[name].State) {
		t.Errorf("a node that is off is %s", read().Nodes[name].State)
	}
	if out, err := c.Command(t.Context(), "sbatch", "-p", "cloud", "-o", "/dev/null", "--wrap", "sleep 300").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	running := func() bool {
		for _, j := range read().Jobs {
			if j.State == "RUNNING" {
				return true
			}
		}
		return false
	}
	until("the job runs", running)
	w := newWorld(t, 0)
	w.up = []Node{{Name: name, Pool: "p", Provider: "east", Instance: "i-1", Since: time.Now().Add(-time.Hour)}}
	for range 2 { // the second is a burstd that has been started again
		m := New(limits, w, site, slog.New(slog.DiscardHandler))
		m.Hear(Beat{Instance: "i-1", Spool: 99, At: time.Now()})
		m.Hear(Beat{Instance: "i-1", Spool: 99, At: time.Now()})
		if err := m.round(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		snap := read()
		chosen, waiting := choose([]verdict{{w.up[0], "x"}}, append(w.up, Node{Name: "other", Pool: "p", Instance: "i-2"}), snap, nil)
		n := snap.Nodes[name]
		if len(chosen) > 0 || waiting != "" || n.State.Base == "IDLE" || !n.State.Has(slurm.Drain) || !strings.HasPrefix(n.Reason, prefix) {
			t.Errorf("%s, %q; chosen %+v, waiting %q", n.State, n.Reason, chosen, waiting)
		}
	}
	if !running() || len(w.notes) != 1 {
		t.Errorf("the job is gone, or noted: %q", w.notes)
	}
}
