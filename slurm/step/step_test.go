package step

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNature(t *testing.T) {
	job := map[string]string{"SLURM_JOB_ID": "17"}
	for _, c := range []struct {
		args string
		env  map[string]string
		want Nature
	}{
		{"-n4 ./a", job, Step},
		{"--jobid=17 ./a", job, Step},
		{"--jobid=18 ./a", job, Foreign},
		{"-Z -w n1 ./a", job, Foreign},
		{"-M other ./a", job, Foreign},
		{"--pty bash", job, Terminal},
		{"--help", job, Query},
		{"-V", job, Query},
		{"--mpi=list", job, Query},
		{"--test-only ./a", job, Query},
		{"-n4", job, Query},
		{"./a", map[string]string{"SLURM_JOB_ID": "17", "SLURM_MPI_TYPE": "list"}, Query},
		{"--mpi=none ./a", map[string]string{"SLURM_JOB_ID": "17", "SLURM_MPI_TYPE": "list"}, Step},
		{"./a : --pty ./b", job, Terminal},
	} {
		call, err := Parse(strings.Fields(c.args), Options(""))
		if err != nil {
			t.Fatal(err)
		}
		if got := call.Nature(vars(c.env)); got != c.want {
			t.Errorf("%s: %v, want %v", c.args, got, c.want)
		}
	}
}

func TestCall(t *testing.T) {
	for _, c := range []struct {
		args, env  string // NAME=value
		truncates  string
		whole      bool
		name, want string
	}{
		{"-n4 ./a", "", "", true, "ntasks", "4"},
		{"-n4 --ntasks=5 ./a", "SLURM_NTASKS=3", "", true, "ntasks", "5"},
		{"./a", "SLURM_NTASKS=3", "", true, "ntasks", "3"},
		{"-o out.txt ./a", "", "out.txt", true, "output", "out.txt"},
		{"-o out.txt --open-mode=append ./a", "", "", true, "open-mode", "append"},
		{"-o out.txt ./a", "SLURM_OPEN_MODE=a", "", true, "open-mode", "a"},
		{"-o all -e 0 ./a", "", "", true, "error", "0"},
		{"./a", "SRUN_ERROR=err.%t", "err.%t", true, "error", "err.%t"},
		{"--multi-prog conf", "", "", false, "multi-prog", ""},
		{"./a : ./b", "", "", false, "mpi", ""},
	} {
		name, value, _ := strings.Cut(c.env, "=")
		env := vars(map[string]string{name: value})
		call, err := Parse(strings.Fields(c.args), Options(""))
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := call.Value(c.name, env); got != c.want {
			t.Errorf("%s: %s is %q, want %q", c.args, c.name, got, c.want)
		}
		if got := call.Truncates(env); got != c.truncates {
			t.Errorf("%s: truncates %q, want %q", c.args, got, c.truncates)
		}
		if got := call.Whole(env); got != c.whole {
			t.Errorf("%s: whole %v", c.args, got)
		}
	}
}

func TestReadJob(t *testing.T) {
	for _, c := range []struct {
		name, env string
		want      Job
		folder    string
		wrong     bool
	}{
		{"outside", "", Job{Place: Outside}, "0", false},
		{"a script", "SLURM_JOB_ID=17 SLURM_TASK_PID=99 SLURM_JOB_NUM_NODES=2 SLURM_JOB_NAME=x", Job{Place: Batch, ID: 17, Shell: 99, Nodes: 2, Name: "x"}, "17", false},
		{"a second attempt", "SLURM_JOB_ID=17 SLURM_TASK_PID=99 SLURM_RESTART_COUNT=1", Job{Place: Batch, ID: 17, Shell: 99, Attempt: 1}, "17", false},
		{"a task of an array", "SLURM_JOB_ID=18 SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=3 SLURM_TASK_PID=9", Job{Place: Batch, ID: 18, Array: 17, Task: "3", Shell: 9}, "17_3", false},
		{"heterogeneous", "SLURM_JOB_ID=17 SLURM_HET_SIZE=2 SLURM_TASK_PID=9", Job{Place: Batch, ID: 17, Components: 2, Shell: 9}, "17", false},
		{"salloc", "SLURM_JOB_ID=17", Job{Place: Interactive, ID: 17}, "17", false},
		{"salloc's step", "SLURM_JOB_ID=17 SLURM_TASK_PID=9 SLURM_STEP_ID=4294967290", Job{Place: Interactive, ID: 17, Shell: 9}, "17", false},
		{"salloc's step, of Slurm 26.05", "SLURM_JOB_ID=17 SLURM_TASK_PID=9 SLURM_STEP_ID=-6", Job{Place: Interactive, ID: 17, Shell: 9}, "17", false},
		{"the batch script, of Slurm 26.05", "SLURM_JOB_ID=17 SLURM_TASK_PID=9 SLURM_STEP_ID=-5", Job{Place: Batch, ID: 17, Shell: 9}, "17", false},
		{"a step", "SLURM_JOB_ID=17 SLURM_TASK_PID=9 SLURM_STEP_ID=0", Job{Place: InStep, ID: 17, Shell: 9}, "17", false},
		{"no job's id", "SLURM_JOB_ID=x", Job{}, "", true},
		{"job 0", "SLURM_JOB_ID=0", Job{}, "", true},
		{"a restart that is none", "SLURM_JOB_ID=17 SLURM_RESTART_COUNT=-1", Job{}, "", true},
		{"a task that is a path", "SLURM_JOB_ID=17 SLURM_ARRAY_JOB_ID=17 SLURM_ARRAY_TASK_ID=../x", Job{}, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := map[string]string{}
			for _, kv := range strings.Fields(c.env) {
				name, value, _ := strings.Cut(kv, "=")
				set[name] = value
			}
			got, err := ReadJob(vars(set))
			if (err != nil) != c.wrong {
				t.Fatal(err)
			}
			if err == nil && (got != c.want || got.Folder() != c.folder) {
				t.Errorf("%+v (%s), want %+v (%s)", got, got.Folder(), c.want, c.folder)
			}
		})
	}
}

func TestFindSrun(t *testing.T) {
	dir := t.TempDir()
	put := func(name string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	put("ours/burst-srun", 0o755)
	put("plain/srun", 0o644)
	put("real/srun", 0o755)
	for link, to := range map[string]string{"shim/srun": "../ours/burst-srun", "again/srun": "../shim/srun"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "folder/srun"), 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.Stat(filepath.Join(dir, "ours/burst-srun"))
	if err != nil {
		t.Fatal(err)
	}
	path := func(names ...string) string {
		for i, n := range names {
			names[i] = filepath.Join(dir, n)
		}
		return strings.Join(append(names, "relative"), ":")
	}
	got, err := FindSrun(path("shim", "again", "plain", "folder", "missing", "real"), self)
	if err != nil || got != filepath.Join(dir, "real/srun") {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := FindSrun(path("shim", "plain"), self); err != ErrNoSrun {
		t.Errorf("%s, %v", got, err)
	}
}
