package nodeapi

import (
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/munge/mungetest"
)

// part of the bootstrap, in place of its last lines: a node that knows its
// instance id asks which node it is, and reports that it is ready.
const part = `
INSTANCE=$ME
trap '[ $? = 0 ] || printf "FAILED: %s\n" "$WHY" >&3' EXIT
step_whoami
step_ready
trap - EXIT
step_fetch
`

// TestTheBootstrapIsAnswered runs what user data really says, with real MUNGE, against the real listener.
func TestTheBootstrapIsAnswered(t *testing.T) {
	if testing.Short() {
		t.Skip("runs munged and the bootstrap: slow end-to-end, run by make test")
	}
	socket, foreign := mungetest.Start(t), mungetest.Start(t)
	for _, tt := range []struct {
		name, instance, socket string
		slurm                  string // the node's
		backend                error
		want                   string
		reports                int
	}{
		{"a node of ours", "i-1", socket, "22.05.8", nil, "this is node c1 of cluster f00d", 2},
		{"a newer slurmd", "i-1", socket, "23.02.1", nil, "FAILED: slurmd 23.02.1 is newer than slurmctld 22.05.8", 1},
		{"not assigned for long", "i-1", socket, "22.05.8", ErrNotYet,
			`FAILED: burstd did not say which node i-1 is: URL answers 409: {"error":"the instance is not known yet"}`, 0},
		{"another's instance", "i-2", socket, "22.05.8", nil, "FAILED: burstd did not say which node i-2 is: URL answers 403", 1},
		{"another MUNGE key", "i-1", foreign, "22.05.8", nil,
			`FAILED: burstd did not say which node i-1 is: URL answers 401: {"error":"no credential under this host's MUNGE key"}`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &world{T: t, site: &site{addr: "127.0.0.1", err: tt.backend}}
			w.Server = New(w.site, munge.New(munge.Options{Socket: socket}), Limits{Rate: 1000, Burst: 1000}, slog.New(slog.DiscardHandler))
			w.root = os.Getuid() // whoever runs the test
			w.listen()
			n := node{t, t.TempDir()}
			n.command("munge", `exec /usr/bin/munge --socket=`+tt.socket+` "$@"`)
			n.command("unmunge", `exec /usr/bin/unmunge --socket=`+tt.socket+` "$@"`)
			n.command("slurmd", "echo slurm "+tt.slurm)
			// Waits pass at once, by the node's own clock.
			n.command("sleep", `read u _ <$BURST_UPTIME; echo $((u + ${1%%.*} + 1)) >$BURST_UPTIME`)
			n.write("uptime", "20\n", 0o644)
			said := n.boot(tt.instance, bootstrap.Config{URLs: []string{"http://" + w.addr}, DaemonUID: os.Getuid(), ConfServers: []string{"ctl"},
				MungeKey: "image", Slurmd: filepath.Join(n.dir, "slurmd"), KeepHostname: true})
			if !strings.Contains(said, strings.ReplaceAll(tt.want, "URL", "http://"+w.addr)) || len(w.site.reports) < tt.reports {
				t.Errorf("%d reports; %s", len(w.site.reports), said)
			}
			if ready := strings.Contains(said, "burst-bootstrap: ready\n"); ready == strings.HasPrefix(tt.want, "FAILED") {
				t.Errorf("ready: %v; %s", ready, said)
			}
		})
	}
}

// TestTheBootstrapFetchesTheAgent over the real listener, and believes real MUNGE.
func TestTheBootstrapFetchesTheAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("runs munged and the bootstrap: slow end-to-end, run by make test")
	}
	program, err := os.ReadFile("/bin/true") // of this architecture
	if err != nil {
		t.Fatal(err)
	}
	socket := mungetest.Start(t)
	w := &world{T: t, site: &site{addr: "127.0.0.1"}}
	w.Server = New(w.site, munge.New(munge.Options{Socket: socket}), Limits{Rate: 1000, Burst: 1000}, slog.New(slog.DiscardHandler))
	w.root = os.Getuid() // whoever runs the test
	w.files.dirs = []string{t.TempDir()}
	if err := os.WriteFile(filepath.Join(w.files.dirs[0], "burst-agent"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	w.listen()
	n := node{t, t.TempDir()}
	n.command("munge", `exec /usr/bin/munge --socket=`+socket+` "$@"`)
	n.command("unmunge", `exec /usr/bin/unmunge --socket=`+socket+` "$@"`)
	n.command("slurmd", "echo slurm 22.05.8")
	n.write("uptime", "20\n", 0o644)
	said := n.boot("i-1", bootstrap.Config{URLs: []string{"http://" + w.addr}, DaemonUID: os.Getuid(), ConfServers: []string{"ctl"},
		MungeKey: "image", Slurmd: filepath.Join(n.dir, "slurmd"), KeepHostname: true})
	got, err := os.ReadFile(filepath.Join(n.dir, "root/usr/local/sbin/burst-agent"))
	if err != nil || string(got) != string(program) || !strings.Contains(said, "burst-agent was fetched from burstd") {
		t.Errorf("%d bytes, %v: %s", len(got), err, said)
	}
}

// node is a folder in which a bootstrap runs.
type node struct {
	*testing.T
	dir string
}

func (n node) write(name, text string, mode os.FileMode) {
	n.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), mode); err != nil {
		n.Fatal(err)
	}
}

func (n node) command(name, script string) { n.write(name, "#!/bin/sh\n"+script+"\n", 0o755) }

// boot returns what the console shows.
func (n node) boot(instance string, c bootstrap.Config) string {
	n.Helper()
	script, err := bootstrap.Script(c)
	if err != nil {
		n.Fatal(err)
	}
	functions, _, ok := strings.Cut(script, "\nif ! flock ")
	if !ok {
		n.Fatal("the bootstrap's last part does not begin with flock any more")
	}
	n.write("part-001", functions+part, 0o644)
	cmd := exec.CommandContext(n.Context(), "bash", filepath.Join(n.dir, "part-001"))
	cmd.Env = []string{"BURST_PATH=" + n.dir + ":" + os.Getenv("PATH"), "PATH=" + os.Getenv("PATH"), "ME=" + instance,
		"BURST_ROOT=" + filepath.Join(n.dir, "root"), "BURST_UPTIME=" + filepath.Join(n.dir, "uptime"), "HOME=" + n.dir}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		n.Fatal(err)
	}
	return string(out)
}
