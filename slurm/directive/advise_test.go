package directive

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAdvise(t *testing.T) {
	good := Job{Requeue: Yes, Append: Yes, Protected: Yes, Nodes: 1}
	with := func(change func(j *Job)) Job { j := good; change(&j); return j }
	tests := []struct {
		name, said string
		job        Job
		want       []string // level about: the begin of the text
	}{
		{"all is well", "ckpt=dmtcp dir=/scratch", good, nil},
		{"a signal alone", "signal=USR1 grace=1m", good, nil},
		{"nothing asked", "", good, []string{"note ckpt: no method and no signal"}},
		{"nothing known", "ckpt=scr dir=/s", Job{}, []string{"warning requeue: neither --requeue nor --no-requeue is set", "warning open-mode: each new start overwrites its output, unless"}},
		{"no requeue", "ckpt=scr dir=/s", with(func(j *Job) { j.Requeue, j.Append = No, No }), []string{"warning requeue: it cannot be requeued"}},
		{"overwritten", "ckpt=scr dir=/s", with(func(j *Job) { j.Append = No }), []string{"warning open-mode: each new start overwrites its output: add"}},
		{"salloc", "signal=USR1", Job{Interactive: true}, []string{"warning requeue: a job of salloc or srun has no script to start again: it gets its signal, but no checkpoint"}},
		{"salloc that asks nothing", "", Job{Interactive: true}, []string{"warning requeue: a job of salloc or srun has no script to start again: it is never requeued"}},
		{"no burst-srun", "ckpt=scr dir=/s", with(func(j *Job) { j.Protected = No }), []string{"warning ckpt: nothing in the script calls burst-srun"}},
		{"no burst-srun needed", "signal=USR1", with(func(j *Job) { j.Protected = No }), nil},
		{"one node's method on two", "ckpt=dmtcp dir=/s", with(func(j *Job) { j.Nodes = 2 }), []string{"warning ckpt: dmtcp checkpoints what runs on one node, and the job asks for 2"}},
		{"a TaskProlog may have burst-srun called", "ckpt=scr dir=/s", with(func(j *Job) { j.Protected, j.TaskProlog = No, "/etc/slurm/task.sh" }), []string{"note ckpt: nothing in the script calls burst-srun, which makes the checkpoints: srun is burst-srun if the site's TaskProlog, /etc/slurm/task.sh, makes it so"}},
		{"one task's method for several", "ckpt=dmtcp dir=/s", with(func(j *Job) { j.Tasks = 8 }), []string{"warning ckpt: dmtcp checkpoints one task below srun, and the job has 8: write burst-srun mpirun before the program, or ask for one task with --cpus-per-task=8"}},
		{"several below mpirun", "ckpt=dmtcp dir=/s", with(func(j *Job) { j.Tasks, j.Launches = 8, true }), nil},
		{"blcr for several", "ckpt=command preset=blcr dir=/s", with(func(j *Job) { j.Tasks = 8 }), []string{"warning ckpt: blcr checkpoints one task, and the job has 8: ask for one with --cpus-per-task=8"}},
		{"criu for several", "ckpt=criu dir=/s", with(func(j *Job) { j.Tasks, j.Launches = 8, true }), []string{"warning ckpt: criu checkpoints one task, and the job has 8: ask for one with --cpus-per-task=8"}},
		{"one task", "ckpt=dmtcp dir=/s", with(func(j *Job) { j.Tasks = 1 }), nil},
		{"the node's own folder", "ckpt=scr dir=/tmp/../tmp/x", good, []string{"warning dir: /tmp/../tmp/x is as a rule a node's own"}},
		{"not the node's own folder", "ckpt=scr dir=/tmpfs/x", good, nil},
		{"the default folder", "ckpt=scr", good, []string{"note dir: burst-checkpoints is in the job's working directory"}},
		{"no strategy", "ckpt=scr dir=/s strategy=none", good, []string{"note strategy: none"}},
		{"long grace", "signal=USR1 grace=2m", good, []string{"warning grace: 2m is more than EC2's notice of 2m leaves: the job is requeued 5s before"}},
		{"another margin", "signal=USR1 grace=1m50s", with(func(j *Job) { j.Margin = 20 * time.Second }), []string{"warning grace: 1m50s is more than EC2's notice of 2m leaves: the job is requeued 20s before"}},
		{"KillWait", "signal=USR1 grace=1m40s", with(func(j *Job) { j.KillWait = 30 * time.Second }), []string{"warning grace: 1m40s and then KillWait=30s are more than EC2's notice of 2m leaves: a step that does not end by itself within the 1m40s may"}},
		{"sbatch's signal", "", with(func(j *Job) { j.Signal = "B:USR1@60" }), []string{"note ckpt: no method", "warning signal: sbatch's --signal=B:USR1@60 is for the time limit"}},
		{"power down", "signal=USR1 after=power_down", good, []string{"note after: when the job has ended for 15 s, burstd has Slurm power down"}},
		{"an array with a budget", "signal=USR1 budget=20", with(func(j *Job) { j.Array = true }), []string{"note array: each task", "note budget: each task of the array has 20 USD to itself: a hundred tasks may cost 2000 USD"}},
		{"array and parts", "signal=USR1", with(func(j *Job) { j.Array, j.Het = true, true }), []string{"note array: each task", "note hetjob: the parts"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Said{Script: "#BURST " + tt.said}.Merge()
			if err != nil {
				t.Fatal(err)
			}
			got := Advise(m, tt.job)
			ok := len(got) == len(tt.want)
			for i, a := range got {
				line := fmt.Sprintf("%s %s: %s", a.Level, a.About, a.Text)
				ok = ok && strings.HasPrefix(line, tt.want[i]) && !strings.Contains(line, "%!")
			}
			if !ok {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestOverlooked(t *testing.T) {
	script := "#!/bin/sh\n#BURST signal=USR1\n#burst keep=2\n ##BURST keep=2\n#BURST: keep=3\n#BURSTING\n\nset -e\n#BURST\tkeep=4\n# about #BURST lines\n"
	var got []string
	for _, a := range Overlooked(script) {
		got = append(got, a.About)
	}
	if want := []string{"line 3", "line 5", "line 9"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAdviseOfTheSitesSignal: who does not get it is told so, and what becomes of the job.
func TestAdviseOfTheSitesSignal(t *testing.T) {
	for _, tt := range []struct {
		said string
		job  Job
		want string // what is told of; several by +
	}{
		{"retries=1", Job{Requeue: Yes, Append: Yes}, ""},
		{"retries=1", Job{Requeue: No}, "requeue: it cannot be requeued+signal: the site's USR1 is not sent to a job that cannot be requeued: if the program expects it, add #BURST signal=USR1"},
		{"retries=1", Job{Interactive: true}, "requeue: a job of salloc or srun has no script to start again: it is never requeued+signal: the site's USR1 is not sent"},
		{"signal=USR2", Job{Requeue: No}, "requeue: it cannot be requeued"},
		{"ckpt=none", Job{Requeue: Yes, Append: Yes}, "ckpt: no method and no signal+signal: the site's USR1 is not sent: ckpt=none needs none"},
	} {
		m, err := Merge(layer(t, "script "+tt.said), layer(t, "site signal=USR1"))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if tt.want != "" {
			want = strings.Split(tt.want, "+")
		}
		got := Advise(m, tt.job)
		ok := len(got) == len(want)
		for i, a := range got {
			ok = ok && strings.HasPrefix(a.About+": "+a.Text, want[i])
		}
		if !ok {
			t.Errorf("%s, %+v: %q, want %q", tt.said, tt.job, got, want)
		}
	}
}
