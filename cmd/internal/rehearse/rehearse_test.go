package rehearse

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm/directive"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
		t.Fatal(err)
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct {
		name, script, exported string
		want                   []string
	}{
		{"plain", "", "", nil},
		{"an array", "#SBATCH --array=3-9%2\n", "", []string{"--array=3"}},
		{"an array of one", "#SBATCH -a 17\n", "", []string{"--array=17"}},
		{"some variables", "#SBATCH --export=HOME,X=1\n", "", []string{"--export=HOME,X=1," + EnvName}},
		{"all and some", "#SBATCH --export=ALL,X=1\n", "", []string{"--export=ALL,X=1," + EnvName}},
		{"none", "#SBATCH --export=NONE\n", "", []string{"--export=" + EnvName, "--get-user-env"}},
		{"none by SBATCH_EXPORT", "#SBATCH --export=ALL\n", "none", []string{"--export=" + EnvName, "--get-user-env"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "job.sh")
			write(t, file, "#!/bin/sh\n"+c.script+"true\n")
			o := Options{Script: file, Args: []string{"-x"}, Partition: "p", Sbatch: []string{"-N2"}}
			s, err := readScript(o)
			if err != nil {
				t.Fatal(err)
			}
			args := arguments(o, s, room{dir: "/r", work: "/r/50%", own: true}, func(string) string { return c.exported })
			fixed := []string{"--parsable", "--hold", "--requeue", "--open-mode=append", "--mail-type=NONE", "--chdir=/r/50%", "--output=/r/50%%/job.out", "--error=/r/50%%/job.err", "--partition=p"}
			if want := slices.Concat(fixed, c.want, []string{"-N2", file, "-x"}); !slices.Equal(args, want) {
				t.Errorf("got  %q\nwant %q", args, want)
			}
		})
	}
}

func TestScriptsThatCannotBeRehearsed(t *testing.T) {
	for name, text := range map[string]string{
		"a heterogeneous job":         "#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N1\n",
		"--wait":                      "#SBATCH -W\n",
		`#BURST ckpt`:                 "#BURST ckpt=dmtpc\n",
		"signal needs a signal":       "#BURST ckpt=signal\n",
		"is no file of at most 4 MiB": strings.Repeat("#", maxScript+1),
	} {
		file := filepath.Join(t.TempDir(), "job.sh")
		write(t, file, "#!/bin/sh\n"+text)
		_, err := readScript(Options{Script: file, Site: &directive.Defaults{}})
		if wrong := new(UsageError); !errors.As(err, &wrong) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheSiteMayNameTheSignal: the job that has it from burst.toml is no wrong one, and
// where burst.toml is not to be read nobody can say so.
func TestTheSiteMayNameTheSignal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.sh")
	write(t, file, "#!/bin/sh\n#BURST ckpt=signal files=heat.ckpt\n")
	site := directive.Layer{Source: directive.Source{Kind: directive.Site}, Settings: []directive.Setting{{Key: "signal", Value: "USR1"}}}
	for name, s := range map[string]*directive.Defaults{"known": {Layers: []directive.Layer{site}}, "not known": nil} {
		if _, err := readScript(Options{Script: file, Site: s}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRoom: the rehearsal has copies of what the user names, and of the folder as
// it was when the job was killed.
func TestRoom(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "in/a", "a")
	write(t, "program", "p")
	write(t, "burst-checkpoints/job-1/x", "")
	write(t, "burst-rehearsals/old/x", "")
	o := Options{Script: "j.sh", Dir: "burst-rehearsals", Copy: []string{"in", "./program"}}
	r, err := makeRoom(o)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.work, "in/a"), "changed")
	if text, err := os.ReadFile("in/a"); err != nil || string(text) != "a" {
		t.Errorf("the user's file has %q, %v", text, err)
	}
	if st, err := os.Stat(filepath.Join(r.work, "program")); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", st, err)
	}
	if err := r.keep(); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.work, "in/a"), "later")
	write(t, filepath.Join(r.work, "b"), "later")
	if err := r.restore(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(r.work, "in/a")); err != nil || string(text) != "changed" {
		t.Errorf("it was %q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(r.work, "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what the first restart made is there: %v", err)
	}

	o.Copy = []string{"."}
	if r, err = makeRoom(o); err != nil {
		t.Fatal(err)
	}
	var names []string
	entries, err := os.ReadDir(r.work)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if err != nil || !slices.Equal(names, []string{"in", "program"}) {
		t.Errorf("a copy of . has %v, %v", names, err)
	}

	if err := errors.Join(os.Symlink("../program", "in/file"), os.Remove("in/a")); err != nil {
		t.Fatal(err)
	}
	if r, err = makeRoom(Options{Script: "j.sh", Dir: "burst-rehearsals", Copy: []string{"in"}}); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.work, "in/file"), "changed")
	if text, err := os.ReadFile("program"); err != nil || string(text) != "p" {
		t.Errorf("through a link, the user's file has become %q, %v", text, err)
	}
	if err := os.Symlink("/", "in/link"); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir("burst-rehearsals")
	if err != nil {
		t.Fatal(err)
	}
	_, err = makeRoom(o)
	after, rerr := os.ReadDir("burst-rehearsals")
	if err == nil || !strings.Contains(err.Error(), "in/link is a link to no plain file") || rerr != nil || len(after) != len(before) {
		t.Errorf("%v; %d folders, and %d before, %v", err, len(after), len(before), rerr)
	}
}

func TestTold(t *testing.T) {
	dir := t.TempDir()
	env := func(string) string { return dir }
	if got, err := Told(env, 7); got != nil || err != nil {
		t.Errorf("of a rehearsal that is over: %v, %v", got, err)
	}
	trial := Trial{Dir: dir, Job: 7, For: time.Second, Within: time.Minute, Method: "dmtcp"}
	if err := trial.tell(); err != nil {
		t.Fatal(err)
	}
	if got, err := Told(env, 7); err != nil || got == nil || *got != trial {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := Told(env, 8); got != nil || err != nil {
		t.Errorf("a job that it submits: %v, %v", got, err)
	}
	if got, err := Told(func(string) string { return "" }, 7); got != nil || err != nil {
		t.Errorf("of no rehearsal: %v, %v", got, err)
	}
	for _, r := range []Report{{Job: 7, Step: "0"}, {Job: 7, Attempt: 1, Step: "0"}, {Job: 7, Attempt: 1, Step: "prepare"}, {Job: 6, Attempt: 1, Step: "2"}} {
		if err := trial.Report(r); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := trial.reports(1); err != nil || len(got) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := trial.Report(Report{Job: 7, Step: "../x"}); err == nil {
		t.Error("a report got out of its folder")
	}
	write(t, filepath.Join(dir, trialName), "{")
	if _, err := Told(env, 7); err == nil {
		t.Error("what cannot be read was believed")
	}
}

func TestVerdicts(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "bin", "heat")
	write(t, program, "v1")
	r := Result{Verdict: Trusted, At: time.Unix(100, 0).UTC(), Method: "signal", Sum: sumOfText("script"), Program: Identify("heat", filepath.Dir(program)), Checkpoint: &Checkpoint{Bytes: 3}, Verify: "true"}
	if err := r.keep(dir); err != nil {
		t.Fatal(err)
	}
	if v := Of(dir, "signal", "heat", filepath.Dir(program)); v == nil || v.Verdict != Trusted || v.Checkpoint.Bytes != 3 {
		t.Errorf("%+v", v)
	}
	if v := OfScript(dir, "signal", "script"); v == nil || OfScript(dir, "signal", "other") != nil || OfScript(dir, "dmtcp", "script") != nil {
		t.Errorf("%+v", v)
	}
	again := r
	again.Verdict, again.Verify, again.Reason = Unverified, "", unjudged
	if err := again.keep(dir); err != nil {
		t.Fatal(err)
	}
	if v := Of(dir, "signal", "heat", filepath.Dir(program)); v == nil || v.Verdict != Trusted {
		t.Errorf("nobody judged it, and it is %+v", v)
	}
	again.Reason = "the step left"
	if err := again.keep(dir); err != nil {
		t.Fatal(err)
	}
	if v := Of(dir, "signal", "heat", filepath.Dir(program)); v == nil || v.Verdict != Unverified {
		t.Errorf("its strategy does not do for it, and it is %+v", v)
	}
	write(t, program, "v2")
	if v := Of(dir, "signal", program, ""); v != nil {
		t.Errorf("a program that was built anew is %+v", v)
	}
	write(t, filepath.Join(dir, verdicts, "bad.json"), "[")
	if all, err := Known(dir); len(all) != 1 || err == nil {
		t.Errorf("%+v, %v", all, err)
	}
	if err := (Result{Method: "signal"}).keep(dir); err == nil {
		t.Error("a verdict on no program was kept")
	}
}
