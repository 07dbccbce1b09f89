package step

import (
	"slices"
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name, line  string
		at          int
		set         Settings
		want, start string
	}{
		{"nothing", "srun -n 2 ./a b", 3, nil, "srun -n 2 ./a b", "./a"},
		{"options come before the user's, in their order", "srun -n 2 ./a", 3, Settings{{Option: "--mpi=pmix"}, {Option: "--cpu-bind=cores"}}, "srun --mpi=pmix --cpu-bind=cores -n 2 ./a", "./a"},
		{"words before the program", "srun ./a b", 1, Settings{{Before: []string{"apptainer", "exec", "i.sif"}}}, "srun apptainer exec i.sif ./a b", "apptainer"},
		{"what is put last stands first", "srun ./a", 1, Settings{{Before: []string{"in"}}, {Before: []string{"out"}}}, "srun out in ./a", "out"},
		{"a launcher takes srun's place", "srun -n 2 ./a", 3, Settings{{Option: "--mpi=none"}, {Launcher: []string{"mpirun", "-n", "2"}}, {Before: []string{"w"}}}, "mpirun -n 2 w ./a", "w"},
		{"what is kept puts nothing", "srun ./a", 1, Settings{{Kept: "OMP_NUM_THREADS=3"}}, "srun ./a", "./a"},
	} {
		args := strings.Fields(c.line)
		got, at := c.set.Line(args, c.at)
		if strings.Join(got, " ") != c.want || got[at] != c.start {
			t.Errorf("%s: %q, program at %d; want %q", c.name, got, at, c.want)
		}
		if strings.Join(args, " ") != c.line {
			t.Errorf("%s: the given line was changed: %q", c.name, args)
		}
	}
	environ := []string{"A=1", "B=2"}
	got := Settings{{Variable: "B=3"}, {Variable: "C=x=y"}, {Option: "--x"}}.Environ(environ)
	if !slices.Equal(got, []string{"A=1", "B=3", "C=x=y"}) || environ[1] != "B=2" {
		t.Errorf("environment %q, given %q", got, environ)
	}
}
