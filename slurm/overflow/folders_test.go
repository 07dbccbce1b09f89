package overflow

import (
	"testing"

	"github.com/burst-hpc/burst/slurm"
)

// TestFolders: a job goes where its folders are, as far as it is known, and nowhere else: without its output it would end at once.
func TestFolders(t *testing.T) {
	const lacks = "stays: nodes of pool c6i do not have "
	for name, tt := range map[string]struct {
		shared []Shared // of partition cloud
		job    func(*slurm.Waiting)
		lacks  string // "": it goes
	}{
		"nodes on this host":    {},
		"a mount":               {shared: []Shared{{"c6i", []string{"/home"}}}},
		"all that the site has": {shared: []Shared{{"c6i", []string{"/"}}}},
		"nothing is said":       {shared: []Shared{{"c6i", nil}}, lacks: "/home/ada, its working directory, as far as burst.toml says (mounts, file_systems)"},
		"another folder":        {shared: []Shared{{"c6i", []string{"/home2", "/hom"}}}, lacks: "/home/ada, its working directory"},
		"one of two pools":      {shared: []Shared{{"c5", []string{"/home"}}, {"c6i", []string{"/projects"}}}, lacks: "/home/ada, its working directory"},
		"the output elsewhere":  {shared: []Shared{{"c6i", []string{"/home"}}}, job: func(w *slurm.Waiting) { w.Stdout = "/projects/ada/slurm-%j.out" }, lacks: "/projects/ada/slurm-%j.out, its output"},
		"the error output":      {shared: []Shared{{"c6i", []string{"/home"}}}, job: func(w *slurm.Waiting) { w.Stderr = "/home/../projects/x" }, lacks: "/projects/x, its error output"},
		"the input":             {shared: []Shared{{"c6i", []string{"/home"}}}, job: func(w *slurm.Waiting) { w.Stdin = "/projects/in" }, lacks: "/projects/in, its input"},
		"what every node has": {shared: []Shared{{"c6i", nil}}, job: func(w *slurm.Waiting) {
			w.WorkDir, w.Stdin, w.Stdout, w.Stderr = "/tmp", "/dev/null", "/var/tmp/x", "/dev/null"
		}},
		"the root":                  {shared: []Shared{{"c6i", nil}}, job: func(w *slurm.Waiting) { w.WorkDir, w.Stdout = "/", "/dev/null" }},
		"a name in the working one": {shared: []Shared{{"c6i", []string{"/home"}}}, job: func(w *slurm.Waiting) { w.Stdin = "in.dat" }},
	} {
		w := waits(tt.job)
		s := with([]Rule{small(nil)}, w)
		if tt.shared != nil {
			s.Shared = map[string][]Shared{"cloud": tt.shared}
		}
		got := Decide(s)
		if len(got) != 1 {
			t.Fatalf("%s: %+v", name, got)
		}
		switch dec := got[0]; {
		case tt.lacks == "" && dec.Action != Add:
			t.Errorf("%s: %s %q", name, dec.Action, dec.Why)
		case tt.lacks != "" && (dec.Action != Leave || len(dec.Why) < len(lacks+tt.lacks) || dec.Why[:len(lacks+tt.lacks)] != lacks+tt.lacks || "stays: "+dec.Kept != dec.Why):
			t.Errorf("%s: %s %q, its user is told %q; want %q", name, dec.Action, dec.Why, dec.Kept, lacks+tt.lacks)
		}
		// One that was moved before that was known, and still waits, comes back.
		w.Partition = "main,cloud"
		s.Waiting, s.Records = []slurm.Waiting{w}, []Record{record(w, InPlace)}
		if got := Decide(s); (got[0].Action == Take) != (tt.lacks != "") {
			t.Errorf("%s, moved: %s %q", name, got[0].Action, got[0].Why)
		}
	}
	// Where one partition of two has it, the job goes there.
	s := with([]Rule{small(func(r *Rule) { r.To = []string{"cloud", "cloud2"} })}, waits(nil))
	s.Partitions["cloud2"] = s.Partitions["cloud"]
	s.Shared = map[string][]Shared{"cloud": {{"c6i", nil}}, "cloud2": {{"c7i", []string{"/home"}}}}
	if got := Decide(s); got[0].Action != Add || len(got[0].To) != 1 || got[0].To[0] != "cloud2" {
		t.Errorf("%+v", got)
	}
}
