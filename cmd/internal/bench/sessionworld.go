package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/srun"
)

const sessionConfig = `cluster = "bench"
[slurm]
conf = %[1]q
bin = %[2]q
user = %[3]q
[daemon]
socket = %[4]q
spool = %[5]q
state = %[6]q
metrics = %[7]q
listen = %[8]q
[provider.here]
kind = "local"
dir = %[9]q
slurmd = "/bin/false"
[pool.p]
provider = "here"
nodes = "c1"
partition = "cloud"
instance_types = ["small"]
cpus = 1
real_memory = 100
ports = "17001-17001"
`

// sessionWorld is a real burstd and munged, and a Slurm that shows jobs.
type sessionWorld struct {
	bigWorld
	munged *munged
	link   srun.Link
}

func newSessionWorld(ctx context.Context, env Env, jobs int) (w *sessionWorld, err error) {
	w = &sessionWorld{bigWorld: bigWorld{dir: env.Dir, ended: make(chan error, 1), stop: func() {}}}
	path := func(name string) string { return filepath.Join(w.dir, name) }
	if w.munged, err = startMunged(ctx, w.dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	sctx, cancel := context.WithCancel(ctx)
	answered, err := serveShims(sctx, path("slurm.sock"), manyJobs{jobs, w.munged.socket})
	if err != nil {
		cancel()
		return nil, err
	}
	w.stop = func() { cancel(); answered() }
	me, err := user.Current()
	if err != nil {
		return nil, err
	}
	var listen string
	for _, addr := range []*string{&w.metrics, &listen} {
		if *addr, err = freeAddr(); err != nil {
			return nil, err
		}
	}
	text := fmt.Sprintf(sessionConfig, path("slurm.conf"), path("bin"), me.Username, path("b.sock"), path("spool"), path("state"), w.metrics, listen, path("local"))
	for name, text := range map[string]string{"burst.toml": text, "slurm.conf": "ClusterName=bench\n"} {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	if err := os.Mkdir(path("state"), 0o700); err != nil {
		return nil, err
	}
	if err := writeShims(path("bin"), filepath.Join(env.Programs, "burst"), path("slurm.sock")); err != nil {
		return nil, err
	}
	log, err := os.Create(path("burstd.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	w.cmd = exec.Command(filepath.Join(env.Programs, "burstd"), "--config", path("burst.toml"))
	w.cmd.Stdout, w.cmd.Stderr = log, log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	w.api = api.NewClient(path("b.sock"))
	w.link = srun.Link{URLs: []string{"http://" + listen}, UID: os.Getuid(), Munge: munge.New(munge.Options{Socket: w.munged.socket})}
	return w, w.await(ctx)
}

func (w *sessionWorld) close() error {
	err := w.bigWorld.close()
	w.munged.stop()
	return err
}

// sessions is how many burstd says are open.
func (w *sessionWorld) sessions(ctx context.Context) (int, error) {
	text, err := w.metricsText(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(text) {
		if n, ok := strings.CutPrefix(line, "burst_sessions "); ok {
			return strconv.Atoi(strings.TrimSpace(n))
		}
	}
	return 0, errors.New("burstd's metrics have no burst_sessions")
}

// manyJobs is a Slurm that runs jobs of one task, from 1 on, of this user.
type manyJobs struct {
	jobs   int
	socket string // of munged
}

// Run implements slurm.Runner.
func (m manyJobs) Run(_ context.Context, name string, args ...string) (stdout, stderr []byte, err error) {
	switch call := name + " " + strings.Join(args, " "); {
	case call == "scontrol show config":
		return []byte("AuthInfo = socket=" + m.socket + "\nSLURM_VERSION = 22.05.8\n"), nil, nil
	case strings.HasPrefix(call, "scontrol -o show nodes"):
		return []byte("NodeName=on1 CPUAlloc=1 CPUTot=1 NodeAddr=on1 NodeHostName=on1 State=ALLOCATED RealMemory=500 Partitions=on\n"), nil, nil
	case name == "squeue":
		for _, a := range args {
			if strings.HasPrefix(a, "JobID:") {
				return m.print(strings.Split(a, ",")), nil, nil
			}
		}
	}
	return nil, nil, nil
}

// print writes the fields that it is asked for, each with the mark after it.
func (m manyJobs) print(format []string) []byte {
	var out []byte
	for job := range m.jobs {
		values := map[string]string{"JobID": strconv.Itoa(job + 1), "ArrayJobID": strconv.Itoa(job + 1), "ArrayTaskID": "N/A", "HetJobID": "0",
			"UserID": strconv.Itoa(os.Getuid()), "UserName": "bench", "Partition": "on", "State": "RUNNING", "Requeue": "1", "BatchFlag": "1",
			"RestartCnt": "0", "exit_code": "0", "NumNodes": "1", "NodeList": "on1", "BatchHost": "on1", "Name": "bench",
			"SubmitTime": "N/A", "EligibleTime": "N/A", "StartTime": "N/A", "EndTime": "N/A"}
		for _, f := range format {
			name, mark, _ := strings.Cut(f, ":")
			out = append(append(out, values[name]...), mark...)
		}
		out = append(out, '\n')
	}
	return out
}
