package heat

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What a killed ulfm-run leaves behind ends soon: it must not write the checkpoint's
// file beside those that take its place.
func (s survivor) testRunKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := s.command(t, dir, 4, "--pace", "1000", "--stall", "60")
	o := finish(t, cmd, func() {
		until(t, "its ranks are there", func() bool { return len(s.ranks(t)) == 4 })
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		until(t, "no rank is left", func() bool { return len(s.ranks(t)) == 0 })
		until(t, "nor a folder", func() bool {
			left, err := filepath.Glob(filepath.Join(dir, "ulfm-run.*"))
			return err == nil && len(left) == 0
		})
	})
	if o.code != -1 {
		t.Errorf("exit code %d", o.code)
	}
}

// A rank that does nothing any more ends the attempt, with a word, in bounded time,
// and the next one comes to the end.
func (s survivor) testStuck(t *testing.T) {
	dir := t.TempDir()
	begun := time.Now()
	o := finish(t, s.command(t, dir, 4, "--pace", "15", "--trace", "--stall", "2"), func() {
		s.started(t, dir)
		pids := s.ranks(t)
		if err := syscall.Kill(pids["2"], syscall.SIGSTOP); pids["2"] == 0 || err != nil {
			t.Errorf("stopping rank 2 of %v: %v", pids, err)
		}
	})
	s.came(t, o, 0)
	if !strings.Contains(o.stderr, "nothing has moved for 2 s") || !strings.Contains(o.stderr, "ulfm-run: attempt 1 came to nothing") {
		t.Errorf("it said nothing of the stuck rank:\n%s", o.stderr)
	}
	if took := time.Since(begun); took > 45*time.Second {
		t.Errorf("it ended after %s", took)
	}
	until(t, "no rank is left", func() bool { return len(s.ranks(t)) == 0 })
}

// A new rank that dies before it has joined leaves the others in MPI_Comm_spawn,
// which nothing ends but the watchdog. The next attempt goes on from the checkpoint.
func (s survivor) testNewDies(t *testing.T) {
	dir := t.TempDir()
	run, err := filepath.Abs("ulfm/ulfm-run")
	if err != nil {
		t.Fatal(err)
	}
	launcher := filepath.Join(dir, "launcher")
	script := fmt.Sprintf("#!/bin/sh\nmkdir %s/one 2>/dev/null && exit 0\nexec %s \"$@\"\n", dir, run)
	if err := os.WriteFile(launcher, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	o := finish(t, s.command(t, dir, 4, "--pace", "15", "--trace", "--stall", "3", "--launcher", launcher,
		"--checkpoint", filepath.Join(dir, "heat.ckpt"), "--every", "5", "--restart", "auto"), func() {
		s.started(t, dir)
		writePlan(t, dir, "plan 100\nnode elsewhere\n")
	})
	s.came(t, o, 0)
	if !strings.Contains(o.stderr, "nothing has moved for 3 s (spawn") || !strings.Contains(o.stdout, "heat: restarted from iteration ") {
		t.Errorf("it did not go on from the checkpoint:\n%s%s", o.stdout, o.stderr)
	}
	if took := time.Since(begun); took > 45*time.Second {
		t.Errorf("it ended after %s", took)
	}
	until(t, "no rank is left", func() bool { return len(s.ranks(t)) == 0 })
}

// An mpirun that has no rank any more and does not end, nor hears SIGTERM, is killed,
// and the program started again.
func (s survivor) testHung(t *testing.T) {
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nmkdir %[1]s/one 2>/dev/null || exec %[2]s/bin/mpirun \"$@\"\ntrap '' TERM\nsleep 1\necho $$ >%[1]s/pid\nexec sleep 1000\n", dir, s.mpi)
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "mpirun"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.mpi, "bin", "ompi_info"), filepath.Join(dir, "bin", "ompi_info")); err != nil {
		t.Fatal(err)
	}
	hung := s
	hung.mpi = dir
	o := finish(t, hung.command(t, dir, 4), nil)
	s.came(t, o, 0)
	if !strings.Contains(o.stderr, "ulfm-run: mpirun hangs") {
		t.Errorf("it said nothing of the hung mpirun:\n%s", o.stderr)
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the hung mpirun, process %d, is still there: %v", pid, err)
	}
}

// A node whose ranks say nothing any more, and end no connection, is left as soon as Slurm says
// that it is down, or no node of the job any more, long before the stall: the copies in memory
// are not lost with it. Its srun knows nothing of it.
func (s survivor) testSilent(t *testing.T) {
	for how, after := range map[string]string{"down": "h1,h2", "left": "h1"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			bin := filepath.Join(dir, "bin")
			if err := os.Mkdir(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"scancel": "",
				"srun":    `while [ "${1#--}" != "$1" ]; do shift; done; setsid "$@" & wait`,
				"scontrol": `gone=; [ ! -e "$TMPDIR/gone" ] || gone=yes
					case $* in
					*"show job"*) echo "JobId=7 JobState=RUNNING NodeList=h[1-2] " ;;
					*hostnames*) [ -n "$gone" ] && tr , '\n' <<<` + after + ` || printf 'h1\nh2\n' ;;
					*"show node"*)
						for node in ${4//,/ }; do
							state=MIXED
							[ $node$gone != h2yes ] || state=DOWN+CLOUD+NOT_RESPONDING
							echo "NodeName=$node NodeAddr=127.0.0.1 State=$state"
						done ;;
					esac`,
			} {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+text+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cmd := s.command(t, dir, 4, "--pace", "15", "--trace")
			cmd.Args = slices.Insert(cmd.Args, 1, "--no-replace")
			cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "SLURM_JOB_ID=7", "SLURMD_NODENAME=h1")
			o := finish(t, cmd, func() {
				s.started(t, dir)
				pids := s.ranksWith(t, "HEAT_PLACE=h2\x00")
				t.Cleanup(func() {
					for _, pid := range pids {
						_ = syscall.Kill(pid, syscall.SIGKILL) // ended already, perhaps
					}
				})
				for rank, pid := range pids {
					if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
						t.Errorf("stopping rank %s: %v", rank, err)
					}
				}
				if err := os.WriteFile(filepath.Join(dir, "gone"), nil, 0o600); err != nil || len(pids) != 2 {
					t.Errorf("%v; ranks on h2: %v", err, pids)
				}
				until(t, "they go on without h2", func() bool { return s.says(dir, "heat: lost 2 ranks") })
			})
			s.came(t, o, 20)
		})
	}
}
