package methods

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/ft/ckpt"
)

func TestFakeMANARefuses(t *testing.T) {
	program := linked(t)
	ordinary, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		args  string
		env   string
		fails string
	}{
		{"an ordinary binary", "mpiexec -n 2 " + ordinary, "", "was not linked by mpicc_mana (it does not need libmpistub.so), and would crash"},
		{"a script", "mpiexec -n 2 SCRIPT", "", "mpiexec must start that itself, not a script around it"},
		{"no such program", "mpiexec -n 2 ./nothing", "", "nothing: no such file"},
		{"no ranks", "mpiexec PROGRAM", "", "the number of ranks is not known: write mpiexec -n NUMBER"},
		{"no mpiexec", "PROGRAM", "", "write mpiexec before"},
		{"below many tasks", "/bin/srun -n 2 mpiexec PROGRAM", "", "leave out the number of tasks before it"},
		{"hosts of its own", "mpiexec -hosts a,b -n 2 PROGRAM", "", "mpiexec's option -hosts is not for a step that changes its nodes"},
		{"on a login node", "mpiexec -n 2 PROGRAM", "SLURM_JOB_ID=7", "would run on this host, which is none of the job's"},
		{"another MPI's", "openmpi/mpiexec -n 2 PROGRAM", "", "openmpi/mpiexec is not MPICH's"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := fakeMANA(t, "")
			put(t, dir+"/script", "#!/bin/sh\n")
			if err := os.Mkdir(dir+"/openmpi", 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, dir+"/openmpi/mpiexec", "#!/bin/sh\necho 'mpiexec (OpenRTE) 4.1.4'\n")
			args := strings.Fields(strings.NewReplacer("PROGRAM", program, "SCRIPT", dir+"/script", "openmpi/", dir+"/openmpi/").Replace(c.args))
			at := max(0, slices.Index(args, "mpiexec"))
			m, err := New("mana", Options{})
			if err != nil {
				t.Fatal(err)
			}
			scratch := t.TempDir()
			step, err := m.Start(t.Context(), ckpt.Launch{Args: args, Program: at, Env: append(withTools(dir+"/bin"), c.env), Scratch: scratch})
			if err == nil || !strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, %v; want %q", step, err, c.fails)
			}
			if left, err := os.ReadDir(scratch); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestFakeMANAUsable(t *testing.T) {
	for without, fails := range map[string]string{
		"":                     "",
		"bin/mana_restart":     "mana: mana_restart is not on PATH: install MANA 1.4 or later",
		"bin/mpiexec":          "mana: no mpiexec of MPICH is on PATH",
		"bin/lower-half":       "bin/lower-half: no such file or directory: is MANA 1.4 or later wholly built there?",
		"lib/dmtcp/libmana.so": "is MANA 1.4 or later wholly built there?",
	} {
		dir := fakeMANA(t, "")
		// Another MPI may be on this host, and MPICH too.
		bash, err := exec.LookPath("bash")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(bash, dir+"/bin/bash"); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+"/bin")
		if without != "" {
			if err := os.Remove(filepath.Join(dir, without)); err != nil {
				t.Fatal(err)
			}
		}
		if err := Usable(t.Context(), "mana"); fmt.Sprint(err) != "<nil>" && (fails == "" || !strings.Contains(err.Error(), fails)) || (err == nil) != (fails == "") {
			t.Errorf("without %q: %v; want %q", without, err, fails)
		}
	}
}

func TestMpiexec(t *testing.T) {
	for _, c := range []struct {
		args, options, program string
		ranks                  int
		fails                  string
	}{
		{"mpiexec -n 4 ./a -n 5", "", "./a -n 5", 4, ""},
		{"mpiexec -np 4 -ppn 2 --genv A b ./a", "-ppn 2 --genv A b", "./a", 4, ""},
		{"mpirun -n=4 -bind-to=core -l ./a", "-bind-to=core -l", "./a", 4, ""},
		{"mpiexec ./a", "", "./a", 0, ""},
		{"mpiexec -n 0 ./a", "", "", 0, `"0" is no number of ranks`},
		{"mpiexec -n many ./a", "", "", 0, `"many" is no number of ranks`},
		{"mpiexec -n", "", "", 0, "has not the values that it needs"},
		{"mpiexec -l=x ./a", "", "", 0, "has not the values that it needs"},
		{"mpiexec -genv A", "", "", 0, "has not the values that it needs"},
		{"mpiexec -n 2", "", "", 0, "no program is given"},
		{"mpiexec -n 2 ./a : -n 2 ./b", "", "", 0, "one program for all ranks"},
		{"mpiexec -f hosts ./a", "", "", 0, "the ranks run on the job's"},
		{"mpiexec -launcher=ssh ./a", "", "", 0, "the ranks run on the job's"},
		{"mpiexec --mca btl tcp ./a", "", "", 0, "option --mca is not known to this method"},
	} {
		got, err := parseMpiexec(strings.Fields(c.args))
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %+v, %v; want %q", c.args, got, err, c.fails)
			}
			continue
		}
		if err != nil || strings.Join(got.options, " ") != c.options || strings.Join(got.program, " ") != c.program || got.ranks != c.ranks {
			t.Errorf("%s: %+v, %v", c.args, got, err)
		}
	}
	call := mpiexecCall{command: "mpiexec", options: []string{"-l"}}
	inJob := launch{Args: []string{"/usr/bin/srun", "mpiexec", "./a"}, Program: 1, Env: []string{"SLURM_JOB_ID=7"}}
	if got := strings.Join(call.line(inJob, 3, "./b", "x y"), "|"); got != "mpiexec|-launcher|slurm|-launcher-exec|/usr/bin/srun|-l|-n|3|./b|x y" {
		t.Error(got)
	}
}

// What a restart's ranks begin with: no descriptor below is free, and mpiexec's
// is above, under the number that the environment says.
func TestMANADescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", fillDescriptors, "mana", "20", "bash", "-c", `ls /proc/self/fd | sort -n | tr '\n' ' '; eval "echo heard >&$PMI_FD"; echo $PMI_FD "$0"`, "a  b")
	cmd.ExtraFiles = []*os.File{w}
	cmd.Env = append(os.Environ(), "PMI_FD=3")
	out, err := cmd.CombinedOutput()
	w.Close()
	if err != nil || !strings.HasPrefix(string(out), "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 ") || !strings.HasSuffix(string(out), "20 a  b\n") {
		t.Errorf("%v: %s", err, out)
	}
	heard := make([]byte, 10)
	if n, err := r.Read(heard); err != nil || string(heard[:n]) != "heard\n" {
		t.Errorf("mpiexec has heard %q, %v", heard[:n], err)
	}
}
