package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/rig"
	"github.com/burst-hpc/burst/packaging/progtest"
)

// pageJobs submits the scripts of docs/jobs.md as they stand there, with programs of
// the names that they call.
type pageJobs struct {
	*heats
	scripts map[string]string // by their job's name
}

// TestTheFiveJobs runs the five scripts of docs/jobs.md. Slurm takes each as it is; then it
// runs, on fewer nodes and tasks, and what can be evicted is, once.
func TestTheFiveJobs(t *testing.T) {
	t.Parallel() // its jobs wait more than they compute
	scripts := map[string]string{}
	for _, b := range progtest.Blocks(t) {
		if b.File == "docs/jobs.md" && b.Script() {
			_, rest, _ := strings.Cut(b.Text, "--job-name=")
			scripts[strings.Fields(rest)[0]] = b.Text
		}
	}
	if len(scripts) != 5 {
		t.Fatalf("docs/jobs.md has %d scripts, not five", len(scripts))
	}
	listen := freeAddress(t)
	s := start(t, rig.Options{Nodes: 8, CPUs: 8, Gate: true, SuspendTime: 5 * time.Second, SlurmExtra: quick, DaemonToml: fmt.Sprintf("listen = %q", listen)})
	j := &pageJobs{buildHeat(t, s, listen), scripts}
	var wg sync.WaitGroup
	for name, run := range map[string]func(*testing.T){"mpi": j.mpi, "as-it-is": j.asItIs, "sweep": j.sweep, "boxed": j.boxed} {
		wg.Go(func() { t.Run(name, run) })
	}
	wg.Wait()
	t.Run("urgent", func(t *testing.T) { urgent(t, scripts) })
}

// submit has sbatch take a script as it is, without running it, and then submits it with
// options of sbatch's and arguments of the program's. The job's folder has the program.
func (j *pageJobs) submit(t *testing.T, name, program string, env []string, options, args []string) (r *heatRun, dir string) {
	t.Helper()
	s := &site{j.Site, t, j.bin}
	dir, err := os.MkdirTemp(s.Work, name+"-")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "job.sh")
	if err := os.WriteFile(script, []byte(j.scripts[name]), 0o755); err != nil {
		t.Fatal(err)
	}
	if called := map[string]string{"mpi": "application", "as-it-is": "simulate", "sweep": "task", "urgent": "application"}[name]; called != "" {
		text, err := os.ReadFile(program)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, called), text, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sbatch := func(words ...string) (string, error) {
		cmd := s.Cluster.Command(t.Context(), "sbatch", words...)
		cmd.Dir = dir
		if cmd.Env == nil {
			cmd.Env = os.Environ()
		}
		cmd.Env = append(cmd.Env, append([]string{"PATH=" + j.bin + ":" + os.Getenv("PATH"), "BURST_URLS=http://" + j.listen, "BURST_MUNGE_SOCKET=" + mungeSocket(s.Cluster.Conf),
			"OMPI_MCA_mpi_yield_when_idle=1", "OMPI_MCA_btl_tcp_if_include=lo", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}, env...)...)
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("sbatch %v: %w: %s", words, err, errOut.String())
		}
		return strings.TrimSpace(out.String()), nil
	}
	var refused error
	defer func() {
		if refused != nil {
			t.Log(refused)
		}
	}()
	s.wait(60*time.Second, "Slurm takes the script as it is", func() bool { // not while its nodes are being powered down
		_, refused = sbatch("--test-only", script)
		return refused == nil
	})
	out, err := sbatch(slices.Concat([]string{"--parsable", "--output=" + filepath.Join(s.Work, "slurm-%j.out")}, options, []string{script}, args)...)
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.ParseUint(out, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	r = &heatRun{site: s, h: j.heats, id: uint32(id), dir: dir, folder: "job-" + strconv.FormatUint(id, 10), o: heatJob{cells: 64, iterations: 1500}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", r.output(r.id))
		}
	})
	return r, dir
}

// field waits for the end of a job that computes heat's field after so many restarts.
func (r *heatRun) field(restarts int) {
	r.t.Helper()
	r.completes(r.id)
	out, want := r.output(r.id), r.h.undisturbed(r.t, r.o.cells, r.o.iterations)
	if !strings.Contains(out, want) {
		r.t.Errorf("the field is not %s:\n%s", want, out)
	}
	if j := r.job(r.id); j.Restarts != restarts || len(r.restarts()) != restarts {
		r.t.Errorf("%d restarts, from iterations %v, want %d", j.Restarts, r.restarts(), restarts)
	}
}

var heatArgs = strings.Fields("-n 64 -i 1500 --pace 20 --progress 1")

func (j *pageJobs) mpi(t *testing.T) {
	r, _ := j.submit(t, "mpi", j.withLibburst(t), nil, []string{"--nodes=2", "--ntasks-per-node=1"}, slices.Concat(heatArgs, []string{"--checkpoint", "heat.ckpt", "--restart", "auto"}))
	r.evictions(1, 1)
	r.field(1)
}

func (j *pageJobs) asItIs(t *testing.T) {
	_, noDMTCP := exec.LookPath("dmtcp_launch")
	r, _ := j.submit(t, "as-it-is", j.program, nil, []string{"--exclusive", "--cpus-per-task=2"}, heatArgs)
	if noDMTCP == nil {
		r.computes(0, 50)
		r.evict(r.on()[0], enough)
		r.completes(r.id)
		if out := r.output(r.id); !strings.Contains(out, r.h.undisturbed(t, 64, 1500)) || !fromWhich.MatchString(out) {
			t.Errorf("it did not go on from its image:\n%s", out)
		}
		return
	}
	r.field(0)
	if out := r.output(r.id); !strings.Contains(out, "the step is not protected") {
		t.Errorf("without DMTCP nothing says that it is not protected:\n%s", out)
	}
	t.Skip("NOT TESTED: an eviction of docs/jobs.md's second job: no DMTCP is here (docs/methods/dmtcp.md)")
}

// sweep: of four tasks the first has finished when their node goes; it is not done again,
// the others are. When the array is submitted again, none is.
func (j *pageJobs) sweep(t *testing.T) {
	program := filepath.Join(t.TempDir(), "task")
	task := "#!/bin/sh\necho run >>runs-$1\n[ $1 = 1 ] || until [ -e go ]; do sleep 0.1; done\necho \"$2 of $1\"\n"
	if err := os.WriteFile(program, []byte(task), 0o755); err != nil {
		t.Fatal(err)
	}
	r, dir := j.submit(t, "sweep", program, nil, []string{"--array=1-4%4"}, []string{"square"})
	exists := func(pattern string, n int) func() bool { return func() bool { return len(glob(dir, pattern)) == n } }
	r.wait(60*time.Second, "the first task is done, and the others run", func() bool { return exists("result-1", 1)() && exists("runs-*", 4)() })
	for _, node := range r.taskNodes() {
		r.evict(node, enough)
	}
	again := func(task int) int {
		text, _ := os.ReadFile(filepath.Join(dir, fmt.Sprint("runs-", task))) // counted below
		return strings.Count(string(text), "run")
	}
	r.wait(90*time.Second, "the others run again", func() bool { return again(2) >= 2 && again(3) >= 2 && again(4) >= 2 })
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.wait(60*time.Second, "all results are there", func() bool { return exists("result-?", 4)() && exists("result-*", 4)() })
	for n := 1; n <= 4; n++ {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("result-", n)))
		if want := fmt.Sprintf("square of %d\n", n); err != nil || string(text) != want {
			t.Errorf("task %d: %q, %v", n, text, err)
		}
	}
	if again(1) != 1 {
		t.Errorf("the first task ran %d times", again(1))
	}
	before := []int{again(1), again(2), again(3), again(4)}
	cmd := r.Cluster.Command(t.Context(), "sbatch", "--wait", "--array=1-4", "job.sh", "cube")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the array again: %v: %s", err, out)
	}
	if after := []int{again(1), again(2), again(3), again(4)}; !slices.Equal(before, after) {
		t.Errorf("tasks ran %v times, and %v when the array was submitted again", before, after)
	}
}

// taskNodes are the nodes on which tasks of the array run.
func (r *heatRun) taskNodes() []string {
	r.t.Helper()
	out, err := r.Cluster.Command(r.t.Context(), "squeue", "--noheader", "--states=R", "--format=%N", "--jobs="+id10(r.id)).Output()
	if err != nil {
		r.t.Fatal(err)
	}
	nodes := strings.Fields(string(out))
	slices.Sort(nodes)
	if nodes = slices.Compact(nodes); len(nodes) == 0 {
		r.t.Fatal("no task runs")
	}
	return nodes
}

func (j *pageJobs) boxed(t *testing.T) {
	path := progtest.Containers(t)
	c := &contained{heats: &heats{site: &site{j.Site, t, j.bin}}, path: path, dir: filepath.Join(j.Work, "boxes")}
	sandbox := filepath.Join(c.dir, "application")
	image := rig.Image{Files: rig.OpenMPI(), Put: map[string]string{"/opt/application": j.program}}
	if err := image.Make(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	c.command("apptainer", "build", filepath.Join(c.dir, "application.sif"), sandbox)
	env := []string{"PATH=" + j.bin + ":" + path, "BURST_CONTAINER_CACHE=" + filepath.Join(j.Dir, "cache-%n"), "APPTAINER_CACHEDIR=" + filepath.Join(c.dir, "tool")}
	dir := filepath.Join(c.dir, "job")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(c.dir, "application.sif"), filepath.Join(dir, "application.sif")); err != nil {
		t.Fatal(err)
	}
	r, _ := j.submit(t, "boxed", "", env, []string{"--nodes=2", "--ntasks-per-node=1", "--chdir=" + dir}, slices.Concat(heatArgs, []string{"--restart", "auto"}))
	r.evictions(1, 1)
	r.field(1)
}

// urgent runs on a site whose nodes are on demand, in a partition of their own, and within
// its budget alone.
func urgent(t *testing.T, scripts map[string]string) {
	prices := filepath.Join(t.TempDir(), "prices.csv")
	if err := os.WriteFile(prices, []byte("type,zone,market,usd_per_hour,date\nlocal.small,,on-demand,0.5,2026-11-01\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	listen := freeAddress(t)
	s := start(t, rig.Options{Nodes: 2, CPUs: 8, Gate: true, Market: string(cloud.OnDemand), Prices: prices, SuspendTime: 20 * time.Second,
		SlurmExtra: quick + "PartitionName=urgent Nodes=c[1-2] SuspendTime=20 SuspendTimeout=3 ResumeTimeout=60\n",
		DaemonToml: fmt.Sprintf("listen = %q", listen), ExtraToml: "[budget]\nmonth = 1000.0\n"})
	j := &pageJobs{buildHeat(t, s, listen), scripts}
	less := map[string]string{"urgent": strings.Replace(scripts["urgent"], "budget=20", "budget=1", 1)}
	poor, _ := (&pageJobs{j.heats, less}).submit(t, "urgent", j.program, nil, []string{"--ntasks-per-node=1"}, heatArgs)
	s.wait(60*time.Second, "the job of less budget waits, and is told why", func() bool {
		job := s.job(poor.id)
		return job.State == "PENDING" && strings.Contains(job.AdminComment, "budget")
	})
	if n := len(s.machines()); n != 0 {
		t.Errorf("%d instances were launched over the job's budget", n)
	}
	r, _ := j.submit(t, "urgent", j.program, nil, []string{"--ntasks-per-node=1"}, heatArgs)
	r.field(0)
	all := s.machines()
	if len(all) != 2 {
		t.Errorf("%d instances, want two", len(all))
	}
	for _, m := range all {
		if m.Offering.Market != cloud.OnDemand {
			t.Errorf("%s is %s", m.ID, m.Offering)
		}
	}
	s.wait(45*time.Second, "its nodes go", func() bool { return s.live() == 0 })
}
