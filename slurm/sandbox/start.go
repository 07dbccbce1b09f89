package sandbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm/slurmd"
)

const (
	mungeSocket = "munge.socket"
	// A unix socket's path has at most 107 bytes. slurmstepd's sockets are the
	// longest: spool/c1000/c1000_<job>.<step> in the folder of sockets.
	longestRun = 107 - len("/spool/c1000/c1000_4294967295.4294967295")
)

// The keys of slurm.conf that name programs.
var programKeys = []string{"ResumeProgram", "SuspendProgram", "ResumeFailProgram", gateKey}

const gateKey = "PrologSlurmctld"

// Start runs a cluster and returns when its controller answers and its
// on-prem nodes are idle. ctx bounds the start only. After an error nothing
// is left but, with Keep, the folder. What a dead sandbox left in the same
// folder is ended first.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("starting a sandbox: %w", err)
	}
	dir, err := makeDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("starting a sandbox: %w", err)
	}
	c := &Cluster{Dir: dir, Conf: filepath.Join(dir, "slurm.conf"), o: o}
	if c.lock, err = lockDir(dir); err != nil {
		return nil, fmt.Errorf("starting a sandbox: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.StartTimeout,
		fmt.Errorf("not within %s", o.StartTimeout))
	defer cancel()
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a sandbox in %s: %w", dir, err), c.Close())
	}
	return c, nil
}

// makeDir returns the absolute folder, free of symbolic links, so that it is
// the same string wherever a process shows it.
func makeDir(dir string) (string, error) {
	var err error
	if dir == "" {
		dir, err = os.MkdirTemp("", "burst-sandbox-")
	} else {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return "", err
	}
	if strings.ContainsAny(dir, " \t\n#=,\"'%\\") {
		return "", fmt.Errorf("folder %q: slurm.conf cannot hold such a name", dir)
	}
	return dir, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := reap(c.Dir); err != nil {
		return err
	}
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.startMunged(ctx); err != nil {
		return err
	}
	if err := c.StartController(ctx); err != nil {
		return err
	}
	return c.startNodes(ctx)
}

// prepare writes all files. The mark is on disk before anything carries it.
func (c *Cluster) prepare() error {
	id := make([]byte, 8)
	rand.Read(id) // never fails
	r := record{ID: hex.EncodeToString(id), Run: c.Dir}
	if len(c.Dir) > longestRun {
		r.Run = shortRun(r.ID)
	}
	if err := writeRecord(c.Dir, r); err != nil {
		return err
	}
	c.Mark, c.run = r.mark(), r.Run
	c.env = environment(c.o, c.Conf, c.Mark)

	for _, d := range []string{c.run, c.Dir + "/state", c.Dir + "/log", c.Dir + "/bin", c.run + "/spool"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	for _, node := range append(c.OnPremNodes(), c.CloudNodes()...) {
		if err := makeTmp(c.run, node); err != nil {
			return err
		}
	}
	key := make([]byte, 128)
	rand.Read(key)
	if err := os.WriteFile(c.Dir+"/munge.key", key, 0o600); err != nil {
		return err
	}
	l, err := c.layout()
	if err != nil {
		return err
	}
	if err := os.WriteFile(c.Dir+"/cgroup.conf", []byte(cgroupText(c.version())), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(c.Conf, []byte(l.text()), 0o644); err != nil {
		return err
	}
	if l.pmix = c.hasPMIx(); !l.pmix {
		return nil
	}
	if err := os.WriteFile(c.Dir+"/mpi.conf", []byte(mpiText), 0o644); err != nil {
		return err
	}
	return os.WriteFile(c.Conf, []byte(l.text()), 0o644)
}

// makeTmp makes a node's own /tmp, for jobs of any user.
func makeTmp(run, node string) error {
	dir := filepath.Join(run, "tmp", node)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o777|fs.ModeSticky)
}

func (c *Cluster) layout() (layout, error) {
	l := layout{Options: c.o, dir: c.Dir, run: c.run}
	host, err := os.Hostname()
	if err != nil {
		return l, err
	}
	l.host, _, _ = strings.Cut(host, ".")
	u, err := user.Current()
	if err != nil {
		return l, fmt.Errorf("naming the user who is to run Slurm: %w", err)
	}
	l.user = u.Username
	n := 1 + c.o.OnPrem
	if !c.o.NetNS {
		n += c.o.CloudNodes
	}
	if c.ports, err = takePorts(n); err != nil {
		return l, err
	}
	l.port = c.ports.first
	l.programs, err = c.writePrograms()
	return l, err
}

// writePrograms writes the scripts that slurmctld calls.
func (c *Cluster) writePrograms() (map[string]string, error) {
	targets := map[string]string{
		"ResumeProgram": c.o.ResumeProgram, "SuspendProgram": c.o.SuspendProgram,
		"ResumeFailProgram": c.o.ResumeFailProgram, gateKey: c.o.Gate,
	}
	scripts := map[string]string{}
	for _, key := range programKeys {
		if targets[key] == "" {
			continue
		}
		export := "export " + c.Mark
		if c.o.BurstConfig != "" {
			export += " BURST_CONFIG=" + quote(c.o.BurstConfig)
		}
		text := fmt.Sprintf("#!/bin/sh\n%s\nexec %s \"$@\"\n", export, quote(targets[key]))
		scripts[key] = filepath.Join(c.Dir, "bin", key)
		if err := os.WriteFile(scripts[key], []byte(text), 0o755); err != nil {
			return nil, err
		}
	}
	return scripts, nil
}

// quote makes s one word for sh.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// hasPMIx asks srun, which knows where its plugins are. An srun that cannot
// say has none.
func (c *Cluster) hasPMIx() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := c.Command(ctx, "srun", "--mpi=list").CombinedOutput()
	return err == nil && strings.Contains(string(out), "pmix")
}

// version asks slurmctld; what cannot be read is a version of its own.
func (c *Cluster) version() string {
	out, err := exec.Command(c.program("slurmctld"), "-V").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func (c *Cluster) startMunged(ctx context.Context) error {
	log, socket := c.Dir+"/log/munged.log", filepath.Join(c.run, mungeSocket)
	// --force: munged dislikes folders that only their owner may enter, as a
	// user's temporary folders are.
	cmd := c.daemonCommand("munged", "--foreground", "--force",
		"--socket="+socket, "--key-file="+c.Dir+"/munge.key", "--pid-file="+c.run+"/munged.pid",
		"--log-file="+log, "--seed-file="+c.Dir+"/munge.seed")
	// munged keeps the reservation of our ports, also when it outlives us.
	for _, l := range c.ports.locks {
		f, err := l.File()
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	d, err := c.spawnLogged("munged", log, cmd)
	if err != nil {
		return err
	}
	return d.await(ctx, "munged listens", func() bool {
		_, err := os.Stat(socket)
		return err == nil
	})
}

// startNodes starts all on-prem slurmds at once and waits until they are idle.
func (c *Cluster) startNodes(ctx context.Context) error {
	started := map[string]*daemon{}
	for _, node := range c.OnPremNodes() {
		dir := filepath.Join(c.Dir, "log", node)
		cmd, err := slurmd.Command(slurmd.Options{
			Node: node, Conf: c.Conf, Dir: dir, Path: c.program("slurmd"), Env: []string{c.Mark},
		})
		if err != nil {
			return err
		}
		started[node], err = c.spawn("slurmd of "+node, filepath.Join(dir, slurmd.LogFile), cmd)
		if err != nil {
			return err
		}
	}
	for node, d := range started {
		err := d.await(ctx, "node "+node+" is idle", func() bool {
			out, err := c.Command(ctx, "sinfo", "-h", "-n", node, "-p", "onprem", "-o", "%T").Output()
			return err == nil && strings.TrimSpace(string(out)) == "idle"
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// daemonCommand prepares a daemon of the cluster.
func (c *Cluster) daemonCommand(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(c.program(name), args...)
	cmd.Env = c.Env()
	cmd.Dir = filepath.Join(c.Dir, "log")
	return cmd
}

// spawnLogged starts a daemon whose output goes to the end of log, where it
// may write by itself too.
func (c *Cluster) spawnLogged(name, log string, cmd *exec.Cmd) (*daemon, error) {
	f, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stdout, cmd.Stderr = f, f
	return c.spawn(name, log, cmd)
}

// exists says whether path is there; what cannot be read counts as there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
