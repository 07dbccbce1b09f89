package srun

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/step"
)

func vars(text string) func(string) string {
	return func(name string) string {
		for _, kv := range strings.Fields(text) {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}
}

// realSrun is what srun says of itself.
func realSrun(_ context.Context, option string) (string, error) {
	if option == "--version" {
		return "slurm-wlm 22.05.8\n", nil
	}
	return "      --container-image=IMAGE   the image\n", nil
}

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, args, env string
		want            string // srun's arguments | --ckpt | --once
		wrong           bool
	}{
		{"srun's alone", "-n4 ./a", "", "-n4 ./a||", false},
		{"own", "--ckpt=dmtcp --once prep -n4 ./a", "", "-n4 ./a|dmtcp|prep", false},
		{"own among srun's", "-n4 --once prep --mpi=none ./a --once x", "", "-n4 --mpi=none ./a --once x||prep", false},
		{"of the environment", "./a", "BURST_CKPT=dmtcp BURST_ONCE=x", "./a|dmtcp|x", false},
		{"over the environment", "--ckpt none --once=y ./a", "BURST_CKPT=dmtcp BURST_ONCE=x", "./a|none|y", false},
		{"a plugin's option", "--container-image x ./a", "", "--container-image x ./a||", false},
		{"nobody's option", "--no-such x ./a", "", "", true},
		{"twice", "--ckpt dmtcp --ckpt interval=5m ./a", "", "./a|dmtcp interval=5m|", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := read(t.Context(), strings.Fields(c.args), vars(c.env), realSrun)
			if (err != nil) != c.wrong {
				t.Fatal(err)
			}
			if got := strings.Join(r.call.Args, " ") + "|" + strings.Join(r.ckpt, " ") + "|" + r.once; err == nil && got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestReadWithoutSrun(t *testing.T) {
	fail := func(context.Context, string) (string, error) { return "", errors.New("no srun") }
	if _, err := read(t.Context(), []string{"-n4", "./a"}, vars(""), fail); err != nil {
		t.Errorf("srun is asked for nothing: %v", err)
	}
	if _, err := read(t.Context(), []string{"--plugins-own", "./a"}, vars(""), fail); err == nil || !strings.Contains(err.Error(), "no srun") {
		t.Error(err)
	}
}

func TestStripped(t *testing.T) {
	for in, want := range map[string]string{
		"--ckpt dmtcp --no-such x ./a --once y": "--no-such x ./a --once y",
		"--explain --once=p --no-such ./a":      "--no-such ./a",
		"-- ./a --ckpt x":                       "-- ./a --ckpt x",
		"./a --explain":                         "./a --explain",
		"--ckpt":                                "--ckpt",
	} {
		if got := strings.Join(stripped(strings.Fields(in)), " "); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{"prep": true, "p-1.x_y+z": true, "7": false, "": false, "a/b": false, "..": false, "a b": false, strings.Repeat("x", 61): false} {
		if err := checkName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

const inBatch = "SLURM_JOB_ID=17 SLURM_TASK_PID=9"

func TestBefore(t *testing.T) {
	for _, c := range []struct {
		name, args, env string
		direct          bool
		why             string
	}{
		{"a step of a batch job", "-n4 ./a", inBatch, false, ""},
		{"outside", "./a", "", true, ""},
		{"outside, but asked for", "--ckpt dmtcp ./a", "", true, "outside of a job"},
		{"salloc", "./a", "SLURM_JOB_ID=17", true, "never requeued"},
		{"in a step", "./a", inBatch + " SLURM_STEP_ID=0", true, ""},
		{"in a protected step", "./a", inBatch + " BURST_STEP=17/0", true, ""},
		{"in a job that a protected step has submitted", "./a", inBatch + " BURST_STEP=16/0", false, ""},
		{"mpirun's own helper", "-N1 -n1 --nodelist=n2 /opt/ompi/bin/orted -mca ess slurm", inBatch, true, ""},
		{"PRRTE's", "-N1 -n1 prted --prtemca ess slurm", inBatch, true, ""},
		{"Hydra's", "-N2 -n2 --nodelist=n1,n2 /usr/bin/hydra_pmi_proxy --control-port n1:4000", inBatch, true, ""},
		{"Intel MPI's, under salloc", "-N2 -n2 hydra_bstrap_proxy", "SLURM_JOB_ID=17", true, ""},
		{"a program that is named like it", "-n1 ./orted-check", inBatch, false, ""},
		{"turned off", "./a", inBatch + " BURST_SRUN_OFF=1", true, ""},
		{"another job's", "--jobid=18 ./a", inBatch, true, "another job"},
		{"a terminal", "--pty bash", inBatch, true, "--pty"},
		{"a question", "--version", inBatch, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := vars(c.env)
			r, err := read(t.Context(), strings.Fields(c.args), env, realSrun)
			if err != nil {
				t.Fatal(err)
			}
			j, err := step.ReadJob(env)
			if err != nil {
				t.Fatal(err)
			}
			check(t, before(facts{request: r, job: j}, env), c.direct, c.why)
		})
	}
}

func check(t *testing.T, got plan, direct bool, why string) {
	t.Helper()
	if got.Direct != direct || !strings.Contains(got.Why, why) || why == "" && got.Why != "" {
		t.Errorf("%+v, want direct %v, %q", got, direct, why)
	}
}

func TestAfter(t *testing.T) {
	for _, c := range []struct {
		name, args, ckpt string
		burstd           bool
		usable           error
		direct           bool
		why              string
	}{
		{"protected", "./a", "ckpt=dmtcp", true, nil, false, ""},
		{"nothing asked for", "./a", "", true, nil, true, "no method"},
		{"none asked for", "./a", "ckpt=none", true, nil, true, ""},
		{"a step that is done once", "--once x ./a", "", true, nil, true, ""},
		{"periodic without burstd", "./a", "ckpt=dmtcp strategy=periodic", false, nil, false, ""},
		{"on notice without burstd", "./a", "ckpt=dmtcp strategy=preemptive", false, nil, true, "where burstd is"},
		{"never", "./a", "ckpt=dmtcp strategy=none", true, nil, true, ""},
		{"several programs", "./a : ./b", "ckpt=dmtcp", true, nil, true, "several programs"},
		{"several programs that know themselves", "./a : ./b", "ckpt=signal signal=USR1", true, nil, false, ""},
		{"not here", "./a", "ckpt=dmtcp", true, errors.New("not on PATH"), true, "not on PATH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := read(t.Context(), strings.Fields(c.args), vars(""), realSrun)
			if err != nil {
				t.Fatal(err)
			}
			m, err := directive.Said{Script: "#BURST " + c.ckpt}.Merge()
			if err != nil {
				t.Fatal(err)
			}
			check(t, after(facts{request: r, merged: m, burstd: c.burstd, usable: c.usable}, vars("")), c.direct, c.why)
		})
	}
}

func TestClaim(t *testing.T) {
	e := func(args string) steprecord.Step {
		words := strings.Fields(args)
		return steprecord.Step{Args: words, Program: words[0]}
	}
	// Each attempt's starts in their order, and the steps that they are.
	for _, c := range []struct {
		name     string
		attempts [][2]string // starts, steps
	}{
		{"in their order", [][2]string{{"a;b;c", "0 1 2"}, {"a;b;c", "0 1 2"}}},
		{"the same command again", [][2]string{{"a x;a x;a x", "0 1 2"}, {"a x;a x", "0 1"}, {"a x;a x;a x;a x", "0 1 2 3"}}},
		{"in parallel", [][2]string{{"a 1;a 2;b", "0 1 2"}, {"b;a 2;a 1", "2 1 0"}}},
		{"arguments that change", [][2]string{{"a 10:01;b", "0 1"}, {"a 10:05;b", "0 1"}}},
		{"another program is another step", [][2]string{{"a", "0"}, {"b;a", "1 0"}}},
		{"named", [][2]string{{"@prep a;b;@sim c", "prep 0 sim"}, {"@prep a;b;@sim c x", "prep 0 sim"}}},
		{"a name is not taken for its command", [][2]string{{"@prep a", "prep"}, {"a", "0"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r steprecord.Record
			for attempt, a := range c.attempts {
				r.Attempt = attempt
				var got []string
				for _, start := range strings.Split(a[0], ";") {
					once := ""
					if start[0] == '@' {
						once, start, _ = strings.Cut(start[1:], " ")
					}
					i, _ := r.Claim(e(start), once)
					got = append(got, r.Steps[i].Name)
				}
				if want := strings.Fields(a[1]); !slices.Equal(got, want) {
					t.Errorf("attempt %d: %v, want %v", attempt, got, want)
				}
			}
		})
	}
}

// TestClaimsOfOthers: a step gets its own checkpoints or none.
func TestClaimsOfOthers(t *testing.T) {
	start := func(args, dir string) steprecord.Step {
		return steprecord.Step{Args: strings.Fields(args), Program: "sim", Dir: dir}
	}
	for _, c := range []struct {
		name  string
		first []steprecord.Step // of attempt 0; those that are Done have ended
		again steprecord.Step
		want  string // the step that it is in attempt 1
	}{
		{"the script passes over what is done", []steprecord.Step{{Args: []string{"sim", "1"}, Program: "sim", Done: true}, start("sim 2", "")}, start("sim 2", ""), "1"},
		{"a new one after what is done", []steprecord.Step{{Args: []string{"sim", "1"}, Program: "sim", Done: true}, {Args: []string{"sim", "2"}, Program: "sim", Done: true}}, start("sim 3", ""), "2"},
		{"of several it may be", []steprecord.Step{start("sim 10:01", ""), start("sim 10:02", "")}, start("sim 10:05", ""), "2"},
		{"of the one that it may be", []steprecord.Step{{Args: []string{"sim", "10:00"}, Program: "sim", Done: true}, start("sim 10:01", "")}, start("sim 10:05", ""), "1"},
		{"the same in another folder", []steprecord.Step{start("sim", "/run1"), start("sim", "/run2")}, start("sim", "/run2"), "1"},
		{"a third folder", []steprecord.Step{start("sim", "/run1"), start("sim", "/run2")}, start("sim", "/run3"), "2"},
	} {
		var r steprecord.Record
		for _, e := range c.first {
			i, _ := r.Claim(e, "")
			r.Steps[i].Done = e.Done
		}
		r.Attempt = 1
		if i, _ := r.Claim(c.again, ""); r.Steps[i].Name != c.want {
			t.Errorf("%s: it is step %s, want %s", c.name, r.Steps[i].Name, c.want)
		}
	}
}
