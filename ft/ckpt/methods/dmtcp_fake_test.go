package methods

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// A toolset of shell scripts that answers as a test wants, for faults that a real
// DMTCP cannot be brought to show. dmtcp_command runs the test's own lines with
// these at hand: begins and wrote N are the coordinator's notes, image NAME makes
// an image in the step's folder.
const fakePrelude = `
begins() { echo "starting checkpoint; incrementing generation" >>$work/coordinator.log; }
wrote() { echo "# Number of processes in the computation = $1" >$work/scripts/r.sh
  for i in "$images"/*; do echo "$i" | sed s/.temp$// >>$work/scripts/r.sh; done
  echo "Wrote restart script; (restartScriptPath = $work/scripts/r.sh)" >>$work/coordinator.log; }
image() { printf '` + imageMagic + ` and more' >"$images/$1"; }
`

// fakeDMTCP makes the tools and returns their folder.
func fakeDMTCP(t *testing.T, command string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) { put(t, filepath.Join(dir, name), "#!/bin/sh\nfake="+dir+"\n"+text) }
	const skipOptions = `
[ "$1" != --version ] || { echo "dmtcp_launch (DMTCP) 4.2.0"; exit; }
while case $1 in --ckptdir) echo "$2" >$fake/images; shift 2;; -h|-p|--tmpdir) shift 2;; -*) shift;; *) false;; esac; do :; done
echo $$ >$fake/pid
`
	write("dmtcp_launch", skipOptions+`exec "$@"`)
	write("dmtcp_restart", skipOptions+`. $fake/restart`)
	write("restart", "exec sleep 1000")
	write("dmtcp_coordinator", `
while [ $# -gt 0 ]; do [ "$1" != --port-file ] || port=$2; shift; done
dirname $port >$fake/work
. $fake/coordinator`)
	write("coordinator", "echo 'Updating process Information after exec()'; echo 4321 >$port; . $fake/until")
	write("until", "while [ ! -s $fake/pid ] || { read pid <$fake/pid; kill -0 $pid; }; do sleep 0.1; done 2>/dev/null")
	write("dmtcp_command", "read work <$fake/work; read images <$fake/images; for what; do :; done\n"+fakePrelude+command)
	return dir
}

// withTools is this process's environment with the tools of a folder on PATH.
func withTools(dir string) []string { return append(os.Environ(), "PATH="+dir+":/usr/bin:/bin") }

// startFake starts a step below the fake tools, which the test's end ends.
func startFake(t *testing.T, tools string) (ckpt.Step, string) {
	t.Helper()
	scratch := t.TempDir()
	step, err := startDMTCP(t.Context(), tools, scratch, nil)
	if err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(longEnough); ; time.Sleep(5 * time.Millisecond) {
		if st, err := os.Stat(tools + "/pid"); err == nil && st.Size() > 0 {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("the program is not launched")
		}
	}
	t.Cleanup(func() {
		step.Signal(syscall.SIGKILL)
		step.Wait()
		if left, err := filepath.Glob(scratch + "/dmtcp-*/images"); err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return step, scratch
}

func startDMTCP(ctx context.Context, tools, scratch string, from *ckpt.Generation) (ckpt.Step, error) {
	m, err := New("dmtcp", Options{})
	if err != nil {
		return nil, err
	}
	return m.Start(ctx, ckpt.Launch{Args: []string{"sleep", "1000"}, Env: withTools(tools), Scratch: scratch, From: from})
}

func TestFakeDMTCPCheckpoint(t *testing.T) {
	t.Parallel()
	const late = time.Second
	for _, c := range []struct {
		name, command string
		stop          bool
		fails         string // of the checkpoint
		ends          bool   // the step, by it
	}{
		{"good", `case $what in -c) begins; image ckpt_a_1-2-3.dmtcp; wrote 1;; esac`, false, "", false},
		{"good, and stop", `case $what in -c) begins; image ckpt_a_1-2-3.dmtcp; wrote 1;; -k) kill $(cat $fake/pid);; esac`, true, "", true},
		{"-k does nothing", `case $what in -c) begins; image ckpt_a_1-2-3.dmtcp; wrote 1;; esac`, true, "", true},
		{"an image is missing", `case $what in -c) begins; image ckpt_a_1-2-3.dmtcp; wrote 2;; esac`, true, "1 images are there of 2 processes", false},
		{"no image", `case $what in -c) begins; wrote 1;; esac`, true, "0 images are there of 1 processes", false},
		{"one too many", `case $what in -c) begins; image ckpt_a_1-2-3.dmtcp; image ckpt_b_1-2-4.dmtcp; wrote 1;; esac`, true, "2 images are there of 1", false},
		{"one is not complete", `case $what in -c) begins; image ckpt_a_1-2-3.dmtcp.temp; wrote 1;; esac`, true, "is not complete", false},
		{"one is empty", `case $what in -c) begins; : >$images/ckpt_a_1-2-3.dmtcp; wrote 1;; esac`, true, "is no image of DMTCP", false},
		{"not written in time", `case $what in -c) begins; image ckpt_a_1-2-3.dmtcp;; esac`, true, "not complete in time; the step goes on", false},
		{"an earlier one's end", `case $what in -c) image ckpt_a_1-2-3.dmtcp; wrote 1; begins;; esac`, true, "not complete in time", false},
		{"the log says no path", `case $what in -c) begins; echo "Wrote restart script" >>$work/coordinator.log;; esac`, true, "not complete in time", false},
		{"the script is not there", `case $what in -c) begins; image ckpt_a_1-2-3.dmtcp; wrote 1; rm $work/scripts/r.sh;; esac`, true, "restart script", false},
		{"always busy", `case $what in -c) echo "computation not in running state"; exit 2;; esac`, true, "did not begin a checkpoint in time (computation not in running state)", false},
		{"does not answer", `exec sleep 1000`, true, "was not done in time", false},
		{"the coordinator is killed", `case $what in -c) begins; read pid <$fake/coordinator.pid; kill -9 $pid;; esac`, true, "the coordinator has ended (code 137)", false},
		{"no room", `case $what in -l) echo "1, a[1:$(cat $fake/big)]@$(hostname), x"; esac`, true, "no checkpoint is begun, which would end the step", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && (c.name == "-k does nothing" || strings.Contains(c.fails, "in time") && c.name != "not written in time") {
				t.Skip("waits: run by make test")
			}
			t.Parallel()
			dir := fakeDMTCP(t, c.command)
			put(t, dir+"/coordinator", `echo $$ >$fake/coordinator.pid; echo "Updating worker identity after exec"; echo 4321 >$port; . $fake/until`)
			put(t, dir+"/big", fmt.Sprint(os.Getpid()))
			if c.name == "no room" {
				defer mapMuch(t)()
			}
			step, scratch := startFake(t, dir)
			into := t.TempDir()
			limit := longEnough
			if c.fails != "" {
				limit = late
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			made, err := step.Checkpoint(ctx, into, c.stop)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) {
					t.Fatalf("%+v, %v; want %q", made, err, c.fails)
				}
				if !step.(*dmtcpStep).process.running() {
					t.Error("the step does not go on")
				}
				return
			}
			if err != nil || made.Ranks != 1 || made.Tool != "dmtcp 4.2.0" {
				t.Fatalf("%+v, %v", made, err)
			}
			if names, err := imageNames(into); err != nil || len(names) != 1 {
				t.Errorf("images %v, %v", names, err)
			}
			if left, err := filepath.Glob(scratch + "/dmtcp-*/images/*"); err != nil || len(left) > 0 {
				t.Errorf("images stay in the way of the next: %v, %v", left, err)
			}
			if c.ends {
				if code, err := step.Wait(); code != endedByUs || err != nil {
					t.Errorf("ended with %d, %v", code, err)
				}
			}
		})
	}
}

// mapMuch makes this process one whose image would be a tebibyte, in the test that
// names it as the step's.
func mapMuch(t *testing.T) func() {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "big"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	much, err := syscall.Mmap(int(f.Fd()), 0, 1<<44, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := syscall.Munmap(much); err != nil {
			t.Error(err)
		}
	}
}

// put writes a file that may be run at once: no process that is just being started holds
// it open for writing.
func put(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A checkpoint that was late has ended when the next one is asked for: that one
// does not take the other's images for its own.
func TestFakeDMTCPLateCheckpoint(t *testing.T) {
	t.Parallel()
	dir := fakeDMTCP(t, `
case $what in -c)
  if [ ! -e $fake/second ]; then begins; image ckpt_a_1-2-3.dmtcp; : >$fake/second
  elif [ ! -e $fake/third ]; then wrote 1; : >$fake/third; exit 2
  else begins; mv $images/* $fake; image ckpt_b_1-2-4.dmtcp; wrote 1; mv $fake/ckpt_a* $images; : >$images/ckpt_a_1-2-3.dmtcp.temp; fi;;
esac`)
	step, _ := startFake(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if made, err := step.Checkpoint(ctx, t.TempDir(), false); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%+v, %v", made, err)
	}
	into := t.TempDir()
	if _, err := step.Checkpoint(t.Context(), into, false); err != nil {
		t.Fatal(err)
	}
	if names, err := imageNames(into); err != nil || len(names) != 1 || names[0] != "ckpt_b_1-2-4.dmtcp" {
		t.Errorf("images %v, %v", names, err)
	}
	if _, err := os.Stat(dir + "/third"); err != nil {
		t.Error(err)
	}
	// The image of a process that has ended is gone, a half one may be at work.
	images := step.(*dmtcpStep).images
	if left, err := os.ReadDir(images); err != nil || len(left) != 1 || left[0].Name() != "ckpt_a_1-2-3.dmtcp.temp" {
		t.Errorf("in %s: %v, %v", images, left, err)
	}
}

func TestFakeDMTCPStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, coordinator, restart, command string
		fails                               string
	}{
		{"no coordinator", "echo 'bind: no more ports'; exit 99", "", "", "the coordinator ended at once: exit code 99: bind: no more ports"},
		{"never a port", "exec sleep 1000", "", "", "did not say its port"},
		{"half a port", "echo 99999999 >$port; exec sleep 1000", "", "", "did not say its port"},
		{"never runs again", "", "exec sleep 1000", `echo "NUM_PEERS=1"; echo "RUNNING=no"`, "did not run again in time"},
		{"a process is gone", "", "exec sleep 1000", `echo "client disconnected" >>$work/coordinator.log; echo NUM_PEERS=0`, "did not run again in time"},
		{"the coordinator goes", "echo 4321 >$port; sleep 0.5", "exec sleep 1000", `exit 2`, "is an image damaged?"},
		{"DMTCP's own failure", "", "exit 99", `exit 2`, "the restart failed with code 99"},
		{"a crash", "", "kill -SEGV $$", `exit 2`, "the restart failed with code 139"},
		{"none has joined", "", "exit 1", `exit 2`, "the restart failed with code 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && (c.name == "the coordinator goes" || strings.Contains(c.fails, "in time") || strings.Contains(c.fails, "its port")) {
				t.Skip("waits: run by make test")
			}
			t.Parallel()
			dir := fakeDMTCP(t, c.command)
			if c.coordinator != "" {
				put(t, dir+"/coordinator", c.coordinator)
			}
			var from *ckpt.Generation
			if c.restart != "" {
				put(t, dir+"/restart", c.restart)
				from = &ckpt.Generation{Dir: t.TempDir(), Manifest: ckpt.Manifest{Method: "dmtcp", Ranks: 1}}
				put(t, from.Dir+"/ckpt_a_1-2-3.dmtcp", imageMagic)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			scratch := t.TempDir()
			if strings.Contains(c.fails, "damaged") || strings.Contains(c.fails, "restart failed") {
				ctx = t.Context()
			}
			step, err := startDMTCP(ctx, dir, scratch, from)
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v, %v; want %q", step, err, c.fails)
			}
			if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// A rest of work that is done before it was seen to run is done.
func TestFakeDMTCPShortRest(t *testing.T) {
	t.Parallel()
	dir := fakeDMTCP(t, "exit 2")
	put(t, dir+"/coordinator", "echo 4321 >$port; echo 'Worker connected: identity=1'; . $fake/until")
	put(t, dir+"/restart", "exit 3")
	from := &ckpt.Generation{Dir: t.TempDir(), Manifest: ckpt.Manifest{Method: "dmtcp"}}
	put(t, from.Dir+"/ckpt_a_1-2-3.dmtcp", imageMagic)
	step, err := startDMTCP(t.Context(), dir, t.TempDir(), from)
	if err != nil {
		t.Fatal(err)
	}
	if code, err := step.Wait(); code != 3 || err != nil {
		t.Errorf("ended with %d, %v", code, err)
	}
}

func TestFakeDMTCPVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, coordinator, step string
		lost                    string
	}{
		{"killed by another", "echo 'Killing all connected peers...'; . $fake/until", "exit 0", "somebody has told the coordinator to end it"},
		{"DMTCP's own failure", "echo 'Updating process Information after exec()'; . $fake/until", "exit 99", "DMTCP failed (exit code 99)"},
		{"the coordinator was killed", "kill -9 $$", "sleep 0.5; exit 99", "the coordinator was killed (code 137)"},
		{"its own 99, before it was the program", ". $fake/until", "exit 99", ""},
		{"its own 3", "kill -9 $$", "exit 3", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := fakeDMTCP(t, "exit 2")
			put(t, dir+"/coordinator", "echo 4321 >$port; sleep 0.1; "+c.coordinator)
			m, err := New("dmtcp", Options{})
			if err != nil {
				t.Fatal(err)
			}
			step, err := m.Start(t.Context(), ckpt.Launch{Args: []string{"sh", "-c", "sleep 0.3; " + c.step}, Env: withTools(dir), Scratch: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			code, err := step.Wait()
			if errors.Is(err, ErrLost) != (c.lost != "") || err != nil && !strings.Contains(err.Error(), c.lost) {
				t.Errorf("%d, %v; want %q", code, err, c.lost)
			}
			if _, err := step.Checkpoint(t.Context(), t.TempDir(), true); !errors.Is(err, ckpt.ErrFinishing) {
				t.Errorf("a checkpoint of a step that has ended: %v", err)
			}
		})
	}
}

func TestFakeDMTCPUsable(t *testing.T) {
	for _, c := range []struct{ name, version, without, fails string }{
		{"all is there", "echo 'dmtcp_launch (DMTCP) 4.2.0'", "", ""},
		{"too old", "echo 'dmtcp_launch (DMTCP) 3.2.0'", "", "dmtcp: version 3.2.0 is too old: 4.2 or later is needed"},
		{"does not run", "echo 'no libstdc++.so.6'; exit 127", "", "dmtcp: dmtcp_launch --version: exit code 127: no libstdc++.so.6"},
		{"no launcher", "", "dmtcp_launch", "dmtcp: dmtcp_launch is not on PATH: install DMTCP 4.2 or later, or load its module"},
		{"no restart", "", "dmtcp_restart", "dmtcp: dmtcp_restart is not on PATH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := fakeDMTCP(t, "")
			t.Setenv("PATH", dir+":/usr/bin:/bin")
			put(t, dir+"/dmtcp_launch", "#!/bin/sh\n"+c.version)
			if c.without != "" {
				t.Setenv("PATH", dir)
				if err := os.Remove(filepath.Join(dir, c.without)); err != nil {
					t.Fatal(err)
				}
			}
			err := Usable(t.Context(), "dmtcp")
			if (c.fails == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%v; want %q", err, c.fails)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}
