package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// look logs how a job that has failed the test is now, before the site's other jobs
// have gone on: what Slurm says of it and its nodes, the end of its output, and where
// its processes are.
func (r *heatRun) look() {
	ctx := context.Background() // the test's has ended
	job, _ := r.Cluster.Command(ctx, "squeue", "--noheader", "--job="+id10(r.id), "--format=%i %T %r %N %V %S").CombinedOutput()
	nodes, _ := r.Cluster.Command(ctx, "sinfo", "--noheader", "--Node", "--long").CombinedOutput()
	steps, _ := r.Cluster.Command(ctx, "scontrol", "show", "step", id10(r.id)).CombinedOutput()
	out := strings.Split(r.output(r.id), "\n")
	r.t.Logf("job %d: %s\nnodes:\n%s\nsteps:\n%s\noutput:\n%s", r.id, job, nodes, steps, strings.Join(out[max(0, len(out)-40):], "\n"))
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		line, _ := os.ReadFile(p + "/cmdline")
		env, _ := os.ReadFile(p + "/environ")
		if !bytes.Contains(env, []byte("\x00SLURM_JOB_ID="+id10(r.id)+"\x00")) && !bytes.Contains(line, []byte("["+id10(r.id)+".")) { // slurmstepd: [1.0]
			continue
		}
		where, _ := os.ReadFile(p + "/wchan")
		r.t.Logf("%s in %s: %s", filepath.Base(p), where, bytes.ReplaceAll(line, []byte{0}, []byte(" ")))
	}
}

// generations are the complete ones on disk, as attempt-0/gen-1, with what else matches.
func (r *heatRun) generations(pattern string) (all []string) {
	step := filepath.Join(r.dir, "kept", r.folder, "step-0")
	for _, f := range glob(step, pattern) {
		name, _ := filepath.Rel(step, f) // it is below
		all = append(all, name)
	}
	return all
}

// from is the generation that the last restart took.
func (r *heatRun) from() (n, attempt int) {
	r.t.Helper()
	all := fromWhich.FindAllStringSubmatch(r.output(r.id), -1)
	if len(all) == 0 {
		r.t.Fatalf("no restart from a generation:\n%s", r.output(r.id))
	}
	last := all[len(all)-1]
	n, _ = strconv.Atoi(last[1])
	attempt, _ = strconv.Atoi(last[2])
	return n, attempt
}

// newest is the number of the newest whole generation of an attempt.
func (r *heatRun) newest(attempt int) int {
	r.t.Helper()
	most := 0
	for _, f := range r.generations(fmt.Sprintf("attempt-%d/gen-*[0-9]/manifest.json", attempt)) {
		name := filepath.Base(filepath.Dir(f))
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "gen-")); err == nil {
			most = max(most, n)
		}
	}
	if most == 0 {
		r.t.Fatalf("attempt %d has no generation: %v", attempt, r.generations("attempt-*/*"))
	}
	return most
}

// writes waits until a checkpoint has just begun to be written.
func (r *heatRun) writes(attempt int) {
	r.t.Helper()
	pattern := fmt.Sprintf("attempt-%d/gen-*.part", attempt)
	was := r.generations(pattern)
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if now := r.generations(pattern); len(now) > 0 && !slices.Equal(now, was) {
			return
		}
		if time.Now().After(end) {
			r.t.Fatal("no checkpoint was begun")
		}
	}
}

func (r *heatRun) touch(name string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// processes are those of the job that run the program, or have it run by a shell.
func (r *heatRun) processes(program string) (pids []int) {
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		line, _ := os.ReadFile(p + "/cmdline") // gone meanwhile: nothing of ours
		env, _ := os.ReadFile(p + "/environ")
		words := strings.Split(string(line), "\x00")
		if filepath.Base(words[0]) == "sh" && len(words) > 1 {
			words = words[1:]
		}
		base, _, _ := strings.Cut(filepath.Base(words[0]), " ") // DMTCP's coordinator writes its port there
		if base != program || !slices.Contains(strings.Split(string(env), "\x00"), "SLURM_JOB_ID="+id10(r.id)) {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(p))
		pids = append(pids, pid)
	}
	return pids
}

// process is the only one of the job that runs the program.
func (r *heatRun) process(program string) int {
	r.t.Helper()
	all := r.processes(program)
	if len(all) != 1 {
		r.t.Fatalf("%d processes of %s in job %d", len(all), program, r.id)
	}
	return all[0]
}

func (r *heatRun) scontrol(args ...string) {
	r.t.Helper()
	if out, err := r.Cluster.Command(r.t.Context(), "scontrol", args...).CombinedOutput(); err != nil {
		r.t.Fatalf("scontrol %v: %v: %s", args, err, out)
	}
}
