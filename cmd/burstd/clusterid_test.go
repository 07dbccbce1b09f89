package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/store"
)

// TestClusterID: the id is to be had before burstd has ever run, and is the one that burstd has then; all of it is
// SlurmUser's, whoever asks.
func TestClusterID(t *testing.T) {
	if path := os.Getenv("BURST_TEST_CLUSTER"); path != "" {
		if err := printClusterID(t.Context(), path); err != nil {
			t.Fatal(err)
		}
		return
	}
	dir, err := os.MkdirTemp("", "b") // whose folder any user may look into
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	who, err := user.Current()
	if os.Getuid() == 0 {
		who, err = user.Lookup("nobody")
	}
	if err != nil {
		t.Fatal(err)
	}
	state, path := filepath.Join(dir, "state"), filepath.Join(dir, "burst.toml")
	if err := os.WriteFile(path, []byte("cluster = \"c\"\n[slurm]\nuser = \""+who.Username+"\"\n[daemon]\nstate = \""+state+"\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		if err := os.Mkdir(state, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	ask := func() string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestClusterID$")
		cmd.Dir, cmd.Env = "/", append(os.Environ(), "BURST_TEST_CLUSTER="+path)
		out, err := cmd.CombinedOutput()
		id, _, _ := strings.Cut(string(out), "\n")
		if err != nil || !regexp.MustCompile(`^[0-9a-f]{16}$`).MatchString(id) {
			t.Fatalf("%v\n%s", err, out)
		}
		return id
	}
	id := ask()
	if again := ask(); again != id {
		t.Errorf("asked again it is %s, and was %s", again, id)
	}
	for _, name := range []string{"", "burst.db", "cluster-id", "burstd.lock"} {
		info, err := os.Stat(filepath.Join(state, name))
		if err != nil {
			t.Fatal(err)
		}
		if uid := info.Sys().(*syscall.Stat_t).Uid; who.Uid != fmt.Sprint(uid) || info.Mode()&0o027 != 0 && name != "" {
			t.Errorf("%q is uid %d's, mode %v", name, uid, info.Mode())
		}
	}
	ep := endpoint.Config{State: state}
	if all, err := store.ReadUnended(t.Context(), ep.DB()); err != nil || len(all) > 0 {
		t.Errorf("packages could not be removed: %v, %v", all, err)
	}
	st, err := store.Open(t.Context(), ep.DB())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if of, err := st.ClusterID(t.Context()); err != nil || of != id {
		t.Errorf("burstd has %q, %v; want %s", of, err, id)
	}
}

// TestClusterIDLocked: what a burstd makes at its first start, none makes beside it.
func TestClusterIDLocked(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "burst.toml")
	if err := os.WriteFile(path, []byte("[daemon]\nstate = \""+dir+"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "burstd.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if err := printClusterID(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another burstd has") {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "cluster-id")); err == nil {
		t.Error("an id was made")
	}
}
