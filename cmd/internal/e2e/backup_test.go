package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/packaging/progtest"
)

// TestBackupAndRestore does what docs/backup.md says, by the lines that stand there: a backup while
// burstd runs and a job's nodes are up; then another job's nodes come, and one's go; the journal
// is destroyed, and the backup restored, there and on a host that has had no burstd. Both jobs end
// as if nothing had been, and nothing is left.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("sqlite3"); err != nil {
		t.Skip("NOT TESTED: a backup of the journal and its restore: no sqlite3 is here (make deps brings it)")
	}
	var backup, restore string
	for _, b := range progtest.Blocks(t) {
		switch {
		case b.File != "docs/backup.md" || b.Lang != "sh":
		case strings.Contains(b.Text, "VACUUM INTO"):
			backup = b.Text
		case strings.Contains(b.Text, "systemctl stop burstd"):
			restore = b.Text
		}
	}
	s := start(t, rig.Options{Nodes: 4, OnPrem: 1, Gate: true, SuspendTime: 2 * time.Second, SuspendTimeout: 2 * time.Second,
		ResumeTimeout: 20 * time.Second, SlurmExtra: quick})
	waits := func(name string) string {
		return strings.ReplaceAll("#!/bin/sh\n#SBATCH -N1 --requeue --open-mode=append --exclusive\necho started\nuntil [ -e NAME ]; do sleep 0.1; done\n", "NAME", name)
	}
	runs := func(id uint32) {
		s.wait(60*time.Second, "the job runs", func() bool { return s.output(id) == "started\n" })
	}
	allow := func(name string) {
		if err := os.WriteFile(filepath.Join(s.Work, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	long, short := s.submit(waits("long")), s.submit(waits("short"))
	runs(long)
	runs(short)
	key := filepath.Join(s.Dir, "etc", "burst", "vultr.key") // as a burst.toml names it
	if err := os.MkdirAll(filepath.Dir(key), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte("secret"), 0o400); err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(s.Dir, "state")
	if out, err := s.page(backup, state); err != nil || out != "ok\n" {
		t.Fatalf("%s: %v\n%s", backup, err, out)
	}
	saved := filepath.Join(s.Dir, "backups", "burst", "vultr.key")
	if info, err := os.Stat(saved); err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("the key in the backup: %v, %v", info, err)
	}
	later := s.submit(waits("later"))
	runs(later)
	gone := s.job(short).Nodes
	allow("short")
	s.completes(short)
	s.wait(60*time.Second, "the instance of a job that has ended is gone", func() bool {
		for _, m := range s.machines() {
			if m.Node == gone && m.State.Live() {
				return false
			}
		}
		return true
	})

	if err := s.KillBurstd(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "burst.db"), []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	last, err := os.ReadFile(filepath.Join(state, "burst.db-wal"))
	if err != nil || len(last) == 0 {
		t.Fatalf("the last transactions: %d bytes, %v", len(last), err)
	}
	const started = "systemctl stop burstd\nsystemctl start burstd\nburst status\n"
	if out, err := s.page(restore, state); err != nil || out != started {
		t.Fatalf("%s: %v\n%s", restore, err, out)
	}
	if kept, err := filepath.Glob(filepath.Join(state, "broken.*", "burst.db-wal")); err != nil || len(kept) != 1 {
		t.Errorf("the old journal's last transactions are kept as %v: %v", kept, err)
	} else if text, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(text, last) {
		t.Errorf("%d bytes of the last transactions are kept of %d: %v", len(text), len(last), err)
	}
	fresh := filepath.Join(s.Dir, "backups", "fresh") // a new host's state folder: nobody has made it
	if out, err := s.page(restore, fresh); err != nil || out != started {
		t.Errorf("on a new host: %v\n%s", err, out)
	}
	if all, err := store.ReadUnended(t.Context(), filepath.Join(fresh, "burst.db")); err != nil || len(all) != 2 {
		t.Errorf("the journal on a new host has %v: %v", all, err)
	}
	want, err := os.ReadFile(filepath.Join(state, "cluster-id"))
	if have, err2 := os.ReadFile(filepath.Join(fresh, "cluster-id")); err != nil || err2 != nil || !bytes.Equal(have, want) {
		t.Errorf("the cluster is %q on a new host, want %q: %v, %v", have, want, err, err2)
	}
	lacks := strings.ReplaceAll(restore, "/cluster-id /", "/no-cluster-id /")
	if out, err := s.page(lacks, fresh+"2"); err == nil || strings.Contains(out, "start burstd") {
		t.Errorf("a backup that lacks the cluster's id: %v\n%s", err, out)
	}
	if err := s.StartBurstd(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wait(60*time.Second, "burstd has the two instances that live, and their nodes", func() bool {
		st, err := s.API.Status(t.Context())
		return err == nil && st.Instances == 2 && st.Nodes["up"] == 2
	})
	allow("long")
	allow("later")
	for _, id := range []uint32{long, later} {
		s.completes(id)
		if j := s.job(id); j.Restarts != 0 {
			t.Errorf("job %d was restarted %d times", id, j.Restarts)
		}
	}
	s.wait(60*time.Second, "no instance lives and all nodes are off", func() bool { return s.live() == 0 && s.off() == s.nodes() })
	if n := len(s.machines()); n != 3 {
		t.Errorf("%d instances were launched, want 3", n)
	}
	s.once()
}

// page runs lines of a page in a shell, as one pastes them: after one that fails come the others.
// The folders are this site's, burstd's is state; systemctl and burst only say how they are called.
func (s *site) page(lines, state string) (string, error) {
	cmd := exec.CommandContext(s.t.Context(), "bash", "-c", "systemctl() { echo systemctl \"$@\"; }; burst() { echo burst \"$@\"; }\n"+strings.NewReplacer(
		"/var/lib/burst", state, "/var/backups/burst", filepath.Join(s.Dir, "backups"), "/etc/burst", filepath.Join(s.Dir, "etc", "burst"),
		"-o slurm -g slurm ", "", "2026-11-22", time.Now().Local().Format(time.DateOnly)).Replace(lines))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
