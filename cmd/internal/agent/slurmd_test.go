package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestSlurmds(t *testing.T) {
	dir := t.TempDir()
	proc(t, dir, map[string]string{
		"stat": bootStat, "self/stat": stat(7, 1, "slurmd", 1), "uptime": "1 1",
		"10/stat": stat(10, 1, "slurmd", 500),
		"11/stat": stat(11, 10, "slurmd", 900), // about to become a slurmstepd
		"12/stat": stat(12, 10, "slurmstepd", 901),
		"13/stat": strings.Replace(stat(13, 1, "slurmd", 100), ") S ", ") Z ", 1),
		"14/stat": stat(14, 1, "a) S 1 (slurmd", 3),
		"15/stat": stat(15, 1, "slurmctld", 3),
		"16/stat": "",
		"17/stat": "17 (slurmd) S 1 1",
	})
	if err := os.Mkdir(filepath.Join(dir, "18"), 0o755); err != nil { // it has ended meanwhile
		t.Fatal(err)
	}
	got, err := slurmds(dir)
	if err != nil || len(got) != 1 || got[0].pid != 10 || got[0].start != 500 {
		t.Errorf("slurmds = %+v, %v", got, err)
	}
	if _, err := slurmds(filepath.Join(dir, "none")); err == nil {
		t.Error("a /proc that is not there is no error")
	}
}

// TestHiddenProcesses: of a /proc that hides other users' processes nobody
// can say that slurmd does not run.
func TestHiddenProcesses(t *testing.T) {
	dir := t.TempDir()
	proc(t, dir, map[string]string{"stat": bootStat, "7/stat": stat(7, 1, "burst-agent", 3)})
	if got, err := slurmds(dir); err != nil || len(got) != 0 {
		t.Fatalf("no slurmd runs: %v, %v", got, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "1")); err != nil {
		t.Fatal(err)
	}
	if _, err := slurmds(dir); err == nil || !strings.Contains(err.Error(), "hidepid") {
		t.Errorf("all but our own are hidden: %v", err)
	}
}

// TestReconfigured: a slurmd that makes a new process of itself has not been
// restarted, as one has whose supervisor, systemd or another, starts the next.
func TestReconfigured(t *testing.T) {
	for _, tt := range []struct {
		name     string
		sessions []string // of slurmds that follow each other, with the pids 100, 101, …; "": its own
		want     int
	}{
		{"restarted by systemd", []string{"", "", ""}, 3},
		{"reconfigured twice", []string{"", "100", "100"}, 1},
		{"reconfigured, then restarted", []string{"", "100", ""}, 2},
		{"restarted, then reconfigured twice", []string{"", "", "101", "101"}, 2},
		{"restarted by a shell", []string{"50", "50", "50"}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			proc(t, dir, map[string]string{"stat": bootStat})
			s := &starts{proc: dir}
			boot, err := parseBoot([]byte(bootStat))
			if err != nil {
				t.Fatal(err)
			}
			for i, session := range tt.sessions {
				pid := 100 + i
				if session == "" {
					session = strconv.Itoa(pid)
				}
				if err := os.RemoveAll(filepath.Join(dir, strconv.Itoa(pid-1))); err != nil {
					t.Fatal(err)
				}
				text := strings.Replace(stat(pid, 1, "slurmd", 100*i), " S 1 1 1 ", " S 1 1 "+session+" ", 1)
				proc(t, dir, map[string]string{strconv.Itoa(pid) + "/stat": text})
				if err := s.look(boot.Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
			if times, up := s.within(boot.Add(time.Minute)); len(times) != tt.want || !up {
				t.Errorf("%d starts, want %d", len(times), tt.want)
			}
		})
	}
}

func TestStartsWithoutBoot(t *testing.T) {
	dir := t.TempDir()
	s := &starts{proc: dir}
	for _, text := range []string{"", "cpu 1\n", "btime soon\n"} {
		proc(t, dir, map[string]string{"stat": text})
		if err := s.look(time.Now()); err == nil {
			t.Errorf("%q tells when the host booted", text)
		}
	}
}

// TestOurselves reads the kernel's own words.
func TestOurselves(t *testing.T) {
	p, err := readProcess("/proc", os.Getpid())
	if err != nil || p.pid != os.Getpid() || p.parent != os.Getppid() || p.start == 0 {
		t.Errorf("readProcess = %+v, %v", p, err)
	}
	if full, err := used(t.TempDir()); err != nil || full < 0 || full > 100 {
		t.Errorf("used = %g, %v", full, err)
	}
	if full, err := used("/none"); full != -1 || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("used = %g, %v", full, err)
	}
}

func FuzzStat(f *testing.F) {
	f.Add([]byte(stat(10, 1, "slurmd", 500)))
	f.Add([]byte("1 ( S"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parseStat(text)
		if err == nil && !bytes.Contains(text, []byte("("+p.name+")")) {
			t.Errorf("%q has the name %q", text, p.name)
		}
		if at, err := parseBoot(text); err == nil && !bytes.Contains(text, []byte("btime ")) {
			t.Errorf("%q has the boot %s", text, at)
		}
	})
}
