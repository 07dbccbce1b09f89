// Package slurmd starts and stops a slurmd on this host, for the sandbox's
// own nodes and for the instances of cloud/local.
//
// A slurmd's steps are not in its process group: slurmstepd daemonizes into a
// session of its own. What must end with a slurmd is therefore found by
// walking /proc (KillTree), below a root that adopts orphans (a subreaper), or
// by an entry of the environment that slurmd and its steps carry (KillMarked).
package slurmd

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// LogFile is the name of slurmd's log in Options.Dir.
const LogFile = "slurmd.log"

const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Options say which slurmd to start.
type Options struct {
	Node  string   // NodeName to be (-N)
	Conf  string   // slurm.conf (-f)
	Dir   string   // folder of its own for the log; made if missing
	Path  string   // slurmd; "" is looked up in PATH, /usr/sbin and /usr/local/sbin
	Boot  bool     // report a fresh boot (-b): a node that Slurm is powering up must. Its spool folder is emptied
	Env   []string // NAME=value, added to a small clean environment
	NetNS string   // network namespace to run in; "" is the caller's
}

// Command prepares a slurmd in the foreground (-D), in a session of its own,
// with stdin, stdout and stderr on /dev/null. The folders it needs are made:
// Dir, and what slurm.conf names as SlurmdSpoolDir and for SlurmdPidFile.
// Start it with Start.
func Command(o Options) (*exec.Cmd, error) {
	if o.Node == "" || o.Conf == "" || o.Dir == "" {
		return nil, errors.New("slurmd: node, slurm.conf or folder is missing")
	}
	path, err := find(o.Path)
	if err != nil {
		return nil, err
	}
	for _, p := range []*string{&o.Conf, &o.Dir} {
		if *p, err = filepath.Abs(*p); err != nil {
			return nil, fmt.Errorf("slurmd: %w", err)
		}
	}
	folders, own, err := foldersOf(o.Conf, o.Node)
	if err != nil {
		return nil, err
	}
	if o.Boot && own != "" {
		// A socket that a killed step left there would fail the same job's next attempt.
		if err := os.RemoveAll(own); err != nil {
			return nil, fmt.Errorf("emptying the spool folder of node %s: %w", o.Node, err)
		}
	}
	for _, d := range append(folders, o.Dir) {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("making a folder for slurmd on node %s: %w", o.Node, err)
		}
	}
	args := []string{path, "-D", "-N", o.Node, "-f", o.Conf, "-L", filepath.Join(o.Dir, LogFile)}
	if o.Boot {
		args = append(args, "-b")
	}
	if o.NetNS != "" {
		ip, err := find("ip")
		if err != nil {
			return nil, err
		}
		args = append([]string{ip, "netns", "exec", o.NetNS}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = o.Dir
	cmd.Env = []string{"PATH=" + searchPath, "SLURM_CONF=" + o.Conf}
	if libs, ok := os.LookupEnv("LD_LIBRARY_PATH"); ok {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+libs)
	}
	cmd.Env = append(cmd.Env, o.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// BootDelay is how long a slurmd with Options.Boot must wait if its node was
// resumed no later than now: into the next second. slurmctld takes the time of
// a node's boot to be its own, in whole seconds, less the uptime that slurmd -b
// reports, which counts a second if one ends between slurmd's start and its
// registration. A boot before the second in which the node was resumed
// slurmctld ignores, and nothing asks the node again until ResumeTimeout.
func BootDelay(now time.Time) time.Duration {
	const lag = 10 * time.Millisecond // of time(2) behind the clock: a tick of the slowest kernel
	return now.Truncate(time.Second).Add(time.Second + lag).Sub(now)
}

// Start starts cmd with no signal blocked. Whatever a ResumeProgram starts
// inherits a blocked SIGTERM, and a slurmd so started could not be stopped.
func Start(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var none, old unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, &old); err != nil {
		return fmt.Errorf("resetting the signal mask for %s: %w", cmd.Path, err)
	}
	err := cmd.Start()
	if e := unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil); e != nil && err == nil {
		err = fmt.Errorf("restoring the signal mask after %s: %w", cmd.Path, e)
	}
	return err
}

// find resolves a program: a path as it is, a name also in the folders of
// daemons, which an ordinary user's PATH lacks.
func find(name string) (string, error) {
	if name == "" {
		name = "slurmd"
	}
	path, err := exec.LookPath(name)
	if err == nil || strings.Contains(name, "/") {
		if err != nil {
			return "", fmt.Errorf("finding slurmd: %w", err)
		}
		return filepath.Abs(path)
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is neither in PATH nor in /usr/sbin or /usr/local/sbin: %w", name, exec.ErrNotFound)
}

// foldersOf reads which folders slurmd wants to exist for node, and which of
// them is its spool folder, if no other node has the same. Included files are
// not read: slurmd itself complains if a folder is missing.
func foldersOf(conf, node string) (folders []string, spool string, err error) {
	f, err := os.Open(conf)
	if err != nil {
		return nil, "", fmt.Errorf("reading slurm.conf: %w", err)
	}
	defer f.Close()
	host, _, _ := strings.Cut(hostname(), ".")
	fill := strings.NewReplacer("%n", node, "%h", host)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20) // a NodeName line may be long
	for lines.Scan() {
		key, value, _ := strings.Cut(strings.TrimSpace(lines.Text()), "=")
		value, _, _ = strings.Cut(value, "#")
		own := strings.Contains(value, "%n")
		value = fill.Replace(strings.TrimSpace(value))
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "slurmdspooldir":
			folders = append(folders, value)
			if own {
				spool = value
			}
		case "slurmdpidfile":
			folders = append(folders, filepath.Dir(value))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", conf, err)
	}
	return folders, spool, nil
}

func hostname() string {
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}
