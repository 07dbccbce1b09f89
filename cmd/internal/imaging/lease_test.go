package imaging

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// TestMain is, in a process that a test starts, a build that holds a builder until it is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("BURST_TEST_LEASES"); dir != "" {
		if _, err := Leases(dir).Take(os.Getenv("BURST_TEST_TOKEN")); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("held")
		select {}
	}
	os.Exit(m.Run())
}

// TestHeldUntilKilled: a kill -9 lets go of the builder at once.
func TestHeldUntilKilled(t *testing.T) {
	leases, token := LeasesIn(t.TempDir()), cloud.BuilderToken(time.Now().Add(time.Hour))
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "BURST_TEST_LEASES="+string(leases), "BURST_TEST_TOKEN="+token)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || strings.TrimSpace(line) != "held" {
		t.Fatalf("%q, %v", line, err)
	}
	for range 3 {
		if !leases.Held(token, time.Now()) {
			t.Error("it is not held while its process lives")
		}
	}
	if leases.Held(token, time.Now().Add(2*time.Hour)) {
		t.Error("it is held longer than its token says")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if leases.Held(token, time.Now()) {
		t.Error("it is held by a dead process")
	}
}

// TestUnfinished: of an image whose process has died it is known however old it is.
func TestUnfinished(t *testing.T) {
	leases, token := LeasesIn(t.TempDir()), cloud.BuilderToken(time.Now().Add(-48*time.Hour))
	is := func(what string, want bool) {
		t.Helper()
		if got, err := leases.Unfinished(token); got != want || err != nil {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	is("not taken", false)
	l, err := leases.Take(token)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.begin(); err != nil {
		t.Fatal(err)
	}
	is("under way", false)
	l.drop()
	is("its process has died", true)
	next, err := leases.Take(cloud.BuilderToken(time.Now().Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	next.drop()
	is("another has been taken since", true)
	if l.file, err = os.OpenFile(l.path, os.O_RDWR, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.settle(); err != nil {
		t.Fatal(err)
	}
	is("whole", false)
	l.drop()
}

func TestHeld(t *testing.T) {
	now := time.Now()
	leases, token := LeasesIn(t.TempDir()), cloud.BuilderToken(now.Add(time.Hour))
	for _, other := range []string{token, "", "ABCDEFGH", "image-", "image-x/../y", cloud.BuilderToken(now.Add(time.Hour))} {
		if leases.Held(other, now) {
			t.Errorf("%q is held by nobody", other)
		}
	}
	l, err := leases.Take(token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leases.Take(token); err == nil {
		t.Error("it is taken twice")
	}
	if !leases.Held(token, now) {
		t.Error("it is not held")
	}
	if err := l.end(); err != nil {
		t.Error(err)
	}
	l.drop()
	if leases.Held(token, now) {
		t.Error("it is held after its end")
	}
	for _, bad := range []string{"", "../x", "a b"} {
		if _, err := leases.Take(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	old := cloud.BuilderToken(now.Add(-48 * time.Hour))
	if err := os.WriteFile(filepath.Join(string(leases), old), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err = leases.Take(token); err != nil {
		t.Fatal(err)
	}
	l.drop()
	if _, err := os.Stat(filepath.Join(string(leases), old)); err == nil {
		t.Error("an old file is left")
	}
}
