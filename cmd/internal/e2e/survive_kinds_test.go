package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// arrayTask: of two tasks of an array one is evicted. It is requeued alone, with a
// folder of its own; of its steps the first is not run again, and the last not before
// its turn.
func arrayTask(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=both interval=5s", args: []string{"-N1", "-n1", "-prest", "--array=1-2"},
		before: `mkdir -p $SLURM_ARRAY_TASK_ID; cd $SLURM_ARRAY_TASK_ID; rm -f heat.ckpt
$burst --once prepare echo prepared || exit`,
		after: `$burst --once report echo reported || exit`})
	tasks := map[string]*heatRun{}
	r.wait(120*time.Second, "both tasks run", func() bool {
		for _, j := range r.jobs() {
			if j.ArrayID == r.id && j.State == "RUNNING" {
				one := *r
				one.id, one.folder = j.ID, "job-"+id10(r.id)+"_"+j.ArrayTask
				tasks[j.ArrayTask] = &one
			}
		}
		return len(tasks) == 2
	})
	evicted, other := tasks["1"], tasks["2"]
	if evicted == nil || other == nil {
		t.Fatalf("tasks %v", tasks)
	}
	evicted.computes(0, 50)
	other.computes(0, 50)
	evicted.evict(evicted.on()[0], enough)
	r.wait(120*time.Second, "it goes on", func() bool { return len(evicted.restarts()) == 1 })
	if n := evicted.restarts()[0]; n < 50 {
		t.Errorf("from iteration %d", n)
	}
	evicted.ends(1)
	other.ends(0)
	for task, r := range tasks {
		out := r.output(r.id)
		if strings.Count(out, "\nprepared\n") != 1 || strings.Count(out, "\nreported\n") != 1 {
			t.Errorf("the steps of task %s before and after heat did not run once each:\n%s", task, out)
		}
	}
	if !strings.Contains(evicted.output(evicted.id), "step prepare is done since attempt 0") {
		t.Error("the task is not told that its first step was done")
	}
	if made := other.generations("attempt-1"); len(made) > 0 || strings.Contains(other.output(other.id), "burstd asks for") {
		t.Errorf("the other task was disturbed: %v", made)
	}
	if len(evicted.generations("attempt-1")) != 1 {
		t.Errorf("the evicted task's folder has %v", evicted.generations("*"))
	}
}

// heterogeneous: a node of the second component is evicted, twice. At first the steps of
// both checkpoint, and the job is requeued as one. Then the second's fails: heat writes
// another file than is waited for. What the first has saved counts for nothing: both go
// on from where they did before.
func heterogeneous(t *testing.T, h *heats) {
	r := h.run(t, heatJob{burst: "strategy=both", args: []string{"-N1", "-n1", "-prest", ":", "--exclusive", "-N1", "-n1", "-prest"},
		before: `rm -f other.ckpt third.ckpt
$burst --het-group=1 --ckpt files=other.ckpt --mpi=pmix sh -c 'file=other.ckpt
[ ${SLURM_RESTART_COUNT:-0} != 1 ] || { cp other.ckpt third.ckpt; file=third.ckpt; }
exec "$@" --checkpoint $file --restart auto' sh $heat &`,
		srun: "--het-group=0", after: `wait $! || code=$?`})
	second := func() (j slurm.Job) {
		r.wait(180*time.Second, "both components run", func() bool {
			for _, one := range r.jobs() {
				if one.HetID == r.id && one.ID != r.id {
					j = one
				}
			}
			return j.State == "RUNNING"
		})
		return j
	}
	node := expand(t, second().Nodes)[0]
	r.computes(0, 50)
	r.says("heat: iteration ", 4) // of both
	r.evict(node, enough)
	r.wait(180*time.Second, "both go on", func() bool { return len(r.restarts()) == 2 })
	for _, n := range r.restarts() {
		if n < 10 {
			t.Errorf("from iterations %v", r.restarts())
		}
	}
	node = expand(t, second().Nodes)[0]
	r.computes(2, 50)
	r.evict(node, 20*time.Second)
	r.wait(180*time.Second, "both go on again", func() bool { return len(r.restarts()) == 4 })
	first, again := slices.Sorted(slices.Values(r.restarts()[:2])), slices.Sorted(slices.Values(r.restarts()[2:]))
	if !slices.Equal(first, again) {
		t.Errorf("from iterations %v, and after one part had failed %v", first, again)
	}
	r.ends(2)
	if sums := checksum.FindAllString(r.output(r.id), -1); len(sums) != 2 {
		t.Errorf("checksums %v", sums)
	}
	of := func(attempt string) []string {
		return glob(filepath.Join(r.dir, "kept", r.folder), "step-*/"+attempt+"/gen-*[0-9]/manifest.json")
	}
	if len(of("attempt-0")) != 2 || len(of("attempt-1")) > 1 {
		t.Errorf("generations %v and %v", of("attempt-0"), of("attempt-1"))
	}
	if out := r.output(r.id); strings.Count(out, "the checkpoints of attempt 1 are not used") != 1 || strings.Contains(out, "every auto") {
		t.Errorf("the user is told:\n%s", out)
	}
	r.wait(60*time.Second, "both evictions are closed", func() bool { return len(r.site.evictions(r.id)) > 1 })
	notes := strings.Join(r.site.evictions(r.id), "\n")
	if strings.Count(notes, "checkpoint of 2 steps of ") != 1 || !strings.Contains(notes, "it goes on from") {
		t.Errorf("of the evictions the history has %q", notes)
	}
}

// jobs are all jobs that Slurm knows.
func (s *site) jobs() []slurm.Job {
	s.t.Helper()
	all, err := s.Slurm().Jobs(s.t.Context())
	if err != nil {
		s.t.Log(err)
	}
	return all
}

// allocation: the user of salloc is told that nothing is protected; on a notice the
// step gets its signal, the user reads of the end, and nothing is requeued. Without --kill-command salloc waits for its command for
// ever, and srun does not always end when its only node has failed.
func allocation(t *testing.T, h *heats) {
	s := &site{h.Site, t, h.bin}
	cmd := s.Cluster.Command(t.Context(), "salloc", "--kill-command", "-prest", "-N1", "--exclusive", "--comment=burst: signal=USR1 grace=5s",
		filepath.Join(s.bin, "burst-srun"), "sh", "-c", `trap "echo signal" USR1; echo started; while :; do sleep 0.1; done`)
	text, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir()) // where burst-srun notes what it has told a job of that id
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Work, text, text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	said := func() string {
		all, _ := os.ReadFile(text.Name()) // it is ours
		return string(all)
	}
	s.wait(60*time.Second, "the step runs", func() bool { return strings.Contains(said(), "started") })
	m := regexp.MustCompile(`Granted job allocation (\d+)`).FindStringSubmatch(said())
	if m == nil || !strings.Contains(said(), "never requeued") {
		t.Fatalf("salloc:\n%s", said())
	}
	n, err := strconv.ParseUint(m[1], 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	id := uint32(n)
	if err := s.Control.Evict(expand(t, s.job(id).Nodes)[0], 10*time.Second); err != nil {
		t.Fatal(err)
	}
	s.wait(9*time.Second, "it gets its signal, and its user is told", func() bool {
		return strings.Contains(said(), "signal\n") && strings.Contains(s.job(id).AdminComment, "cannot be requeued")
	})
	if j := s.job(id); j.State != "RUNNING" {
		t.Errorf("it was ended before the end of the lead time: %s", j.State)
	}
	s.wait(90*time.Second, "it ends with its node", func() bool { return s.job(id).State != "RUNNING" && s.job(id).State != "COMPLETING" })
	if j := s.job(id); j.Restarts != 0 || j.State == "PENDING" {
		t.Errorf("state %s, restarts %d", j.State, j.Restarts)
	}
	select {
	case err := <-ended:
		t.Logf("%v\n%s", err, said())
	case <-time.After(60 * time.Second):
		t.Errorf("salloc has not ended:\n%s", said())
	}
}
