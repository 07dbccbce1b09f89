package methods

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// fakeMANA is a MANA and an MPICH of shell scripts for PATH, as fakeDMTCP is: image
// RANK makes an image, and what is launched or restored is one process that sleeps.
func fakeMANA(t *testing.T, command string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"bin/mana_launch":  "exit 1",
		"bin/mana_restart": "exit 1",
		"bin/mpiexec": `
case $1 in --version) echo "HYDRA build details:"; exit;; esac
echo "$@" >$fake/args
while case $1 in -n|-launcher|-launcher-exec|-ppn) shift 2;; *) false;; esac; do :; done
exec "$@"`,
		"bin/dmtcp_launch": `
case $1 in --version) echo "dmtcp_launch (DMTCP) 4.2.0"; exit;; esac
while case $1 in --with-plugin|-h|-p) shift 2;; --ckptdir) echo "$2" >$fake/images; shift 2;; -*) shift;; *) false;; esac; do :; done
exec "$@"`,
		"bin/lower-half": `
while case $1 in -h|-p|--restartdir) shift 2;; --ckptdir) echo "$2" >$fake/images; shift 2;; -*) shift;; *) false;; esac; do :; done
echo $$ >$fake/pid
exec sleep 1000`,
		"bin/dmtcp_coordinator": `
while [ $# -gt 0 ]; do [ "$1" != --port-file ] || port=$2; shift; done
dirname $port >$fake/work
rm -f $fake/pid
echo 'Updating process Information after exec()'; echo 4321 >$port
while [ ! -s $fake/pid ] || { read pid <$fake/pid; kill -0 $pid; }; do sleep 0.1; done 2>/dev/null`,
		"bin/dmtcp_command": `read work <$fake/work; read images <$fake/images; for what; do :; done
case $what in -s) [ ! -s $fake/pid ] || printf 'NUM_PEERS=2\nRUNNING=yes\n';; esac
` + fakePrelude + `
image() { mkdir -p $images/ckpt_rank_$1; printf '` + imageMagic + `' >$images/ckpt_rank_$1/ckpt_a_$1$2; }
` + command,
		"lib/dmtcp/libmana.so": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, path, "#!/bin/sh\nfake="+dir+"\n"+text)
	}
	return dir
}

// linked is a program that needs MANA's library.
func linked(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("NOT TESTED: no cc is here (make deps installs gcc)")
	}
	dir := t.TempDir()
	put(t, dir+"/a.c", "int main(void) { return 0; }")
	for _, args := range [][]string{
		{"-shared", "-o", dir + "/" + manaStub, "-x", "c", "/dev/null"},
		{"-o", dir + "/linked", dir + "/a.c", "-L" + dir, "-Wl,--no-as-needed", "-lmpistub"},
	} {
		if out, err := exec.CommandContext(t.Context(), "cc", args...).CombinedOutput(); err != nil {
			t.Fatalf("cc %v: %v\n%s", args, err, out)
		}
	}
	return dir + "/linked"
}

func startMANA(t *testing.T, tools string, from *ckpt.Generation, args ...string) (ckpt.Step, error) {
	t.Helper()
	m, err := New("mana", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Start(t.Context(), ckpt.Launch{Args: args, Env: withTools(tools + "/bin"), Scratch: t.TempDir(), From: from})
}

func TestFakeMANACheckpoint(t *testing.T) {
	t.Parallel()
	program := linked(t)
	const good = `begins; image 0 .dmtcp; image 1 .dmtcp; wrote 2`
	for _, c := range []struct {
		name, checkpoint string
		fails            string
	}{
		{"good", good, ""},
		{"of one rank", `begins; image 0 .dmtcp; wrote 1`, "1 processes have written images, and the step has 2 ranks"},
		{"a rank's is missing", `begins; image 0 .dmtcp; wrote 2`, "has images of 1 ranks, and should of 2: was MPI_Init over"},
		{"of another rank", `begins; image 0 .dmtcp; image 2 .dmtcp; wrote 2`, "ckpt_rank_1: no such file"},
		{"one is not complete", `begins; image 0 .dmtcp; image 1 .dmtcp.temp; wrote 2`, "ckpt_a_1.dmtcp.temp is not complete"},
		{"both are of one rank", `begins; image 0 .dmtcp; image 0 b.dmtcp; image 1 .txt; wrote 2`, "ckpt_rank_0 has 2 images"},
		{"one is empty", `begins; image 0 .dmtcp; image 1 .dmtcp; : >$images/ckpt_rank_1/ckpt_a_1.dmtcp; wrote 2`, "is no image of DMTCP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := fakeMANA(t, `case $what in -c) `+c.checkpoint+`;; -k) kill $(cat $fake/pid);; esac`)
			step, err := startMANA(t, dir, nil, "mpiexec", "-n", "2", program)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				step.Signal(syscall.SIGKILL)
				step.Wait()
			})
			into := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), longEnough)
			defer cancel()
			made, err := step.Checkpoint(ctx, into, true)
			if c.fails != "" {
				if err == nil || !strings.Contains(err.Error(), c.fails) || !strings.HasPrefix(err.Error(), "mana: ") {
					t.Fatalf("%+v, %v; want %q", made, err, c.fails)
				}
				if !step.(*dmtcpStep).process.running() {
					t.Error("the step does not go on")
				}
				return
			}
			if err != nil || made.Ranks != 2 || made.Tool != "mana, dmtcp 4.2.0" || made.Extra[extraFloor] != "0" {
				t.Fatalf("%+v, %v", made, err)
			}
			if err := rankImages(into, 2); err != nil {
				t.Error(err)
			}
			if code, err := step.Wait(); code != endedByUs || err != nil {
				t.Errorf("ended with %d, %v", code, err)
			}
		})
	}
}

// A restart is of as many ranks as there are images, below descriptors that its
// own next restart is to be above.
func TestFakeMANARestart(t *testing.T) {
	t.Parallel()
	program := linked(t)
	dir := fakeMANA(t, `case $what in -c) begins; image 0 .dmtcp; image 1 .dmtcp; wrote 2;; -k) kill $(cat $fake/pid);; esac`)
	from := &ckpt.Generation{}
	for _, floor := range []string{"0", "100", "200"} {
		if floor == "0" {
			from = nil
		}
		step, err := startMANA(t, dir, from, "mpiexec", "-ppn", "1", "-n", "2", program)
		if err != nil {
			t.Fatal(err)
		}
		into := t.TempDir()
		made, err := step.Checkpoint(t.Context(), into, true)
		if err != nil || made.Extra[extraFloor] != floor {
			t.Errorf("%+v, %v; want %s", made, err, floor)
		}
		args, err := os.ReadFile(dir + "/args")
		if err != nil {
			t.Fatal(err)
		}
		if from != nil && (!strings.HasPrefix(string(args), "-ppn 1 -n 2 bash -c ") || !strings.Contains(string(args), " mana "+floor+" "+dir+"/bin/../bin/lower-half --restore ") ||
			!strings.Contains(string(args), " --restartdir "+from.Dir)) {
			t.Errorf("restart by mpiexec %s", args)
		}
		if code, err := step.Wait(); code != endedByUs || err != nil {
			t.Errorf("ended with %d, %v", code, err)
		}
		from = &ckpt.Generation{Dir: into, Manifest: ckpt.Manifest{Method: "mana", Ranks: made.Ranks, Extra: made.Extra}}
	}
	if err := os.RemoveAll(from.Dir + "/ckpt_rank_1"); err != nil {
		t.Fatal(err)
	}
	if step, err := startMANA(t, dir, from, "mpiexec", "-n", "2", program); err == nil || !strings.Contains(err.Error(), "has images of 1 ranks, and should of 2") {
		t.Errorf("an image is missing: %v, %v", step, err)
	}
}

// Ranks that crash during a checkpoint are lost; that they fail by themselves
// after one that was late is their own affair. A restart that ends at once is none.
func TestFakeMANACrash(t *testing.T) {
	t.Parallel()
	program := linked(t)
	for name, lost := range map[string]bool{"begins; kill -ABRT $(cat $fake/pid)": true, "begins; image 0 .dmtcp; image 2 .dmtcp; wrote 2; kill -ABRT $(cat $fake/pid)": false} {
		dir := fakeMANA(t, `case $what in -c) `+name+`;; esac`)
		step, err := startMANA(t, dir, nil, "mpiexec", "-n", "2", program)
		if err != nil {
			t.Fatal(err)
		}
		if made, err := step.Checkpoint(t.Context(), t.TempDir(), false); err == nil {
			t.Errorf("%s: %+v", name, made)
		}
		if code, err := step.Wait(); errors.Is(err, ErrLost) != lost || code != 128+int(syscall.SIGABRT) {
			t.Errorf("%s: ended with %d, %v", name, code, err)
		}
	}
	dir := fakeMANA(t, "")
	put(t, dir+"/bin/lower-half", "#!/bin/sh\nexit 6\n")
	from := &ckpt.Generation{Dir: t.TempDir(), Manifest: ckpt.Manifest{Ranks: 1, Extra: map[string]string{extraFloor: "0"}}}
	if err := os.Mkdir(from.Dir+"/ckpt_rank_0", 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, from.Dir+"/ckpt_rank_0/ckpt_a.dmtcp", imageMagic)
	if step, err := startMANA(t, dir, from, "mpiexec", "-n", "2", program); err == nil || !strings.Contains(err.Error(), "the restart failed with code 6") {
		t.Errorf("%v, %v", step, err)
	}
}

func TestMANAFloor(t *testing.T) {
	for was, want := range map[string]int{"0": 100, "100": 200, "600": 700, "700": 100, "": 0, "-1": 0, "x": 0, "900": 0} {
		got, err := nextFloor(&ckpt.Generation{Manifest: ckpt.Manifest{Extra: map[string]string{extraFloor: was}}})
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("after %q: %d, %v; want %d", was, got, err, want)
		}
	}
}
