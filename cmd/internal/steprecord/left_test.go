package steprecord

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/slurm"
)

// A step of --once that an earlier job of the same id has done is not done by this one,
// the first attempt of which was never here.
func TestRecordsOfAnEarlierJob(t *testing.T) {
	dir := t.TempDir()
	first := time.Unix(1000, 0)
	b := Book{Dir: dir, Cluster: "c", Job: "17", Script: "s", Identity: ckpt.Identity{Origin: ckpt.Origin{Submitted: first}, First: first}}
	err := b.Change(t.Context(), func(r *Record) error {
		r.Steps = []Step{{Name: "post", Done: true}}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name  string
		first time.Time // of the job that asks
		want  int
	}{{"its own", first, 1}, {"not known", time.Time{}, 1}, {"a later job", first.Add(time.Second), 0}} {
		next := b
		next.Attempt, next.Identity = 1, ckpt.Identity{Origin: ckpt.Origin{Submitted: first.Add(time.Hour)}, First: test.first}
		r, _, err := next.Peek()
		if err != nil || len(r.Steps) != test.want {
			t.Errorf("%s: %+v, %v", test.name, r.Steps, err)
		}
	}
}

const (
	ctl1 = "ctl1(10.0.0.1):6817"
	long = 10 * time.Hour // ago: what is swept
)

// leaves has a job of cluster c leave generations and a record in dir.
func leaves(t *testing.T, dir, job string, steps ...Step) {
	t.Helper()
	leavesRecord(t, Book{Dir: dir, Cluster: "c", Ctld: ctl1, Job: job, Script: "s"}, long, steps...)
}

func leavesRecord(t *testing.T, b Book, ago time.Duration, steps ...Step) {
	t.Helper()
	for i := range steps {
		steps[i].Name = fmt.Sprint(i)
		f, err := ckpt.Open(t.Context(), ckpt.Options{Dir: b.Dir, Cluster: b.Cluster, Job: b.Job, Step: steps[i].Name, Reserve: 1})
		if err != nil {
			t.Fatal(err)
		}
		makeGenerations(t, f, 1)
		f.Close()
	}
	records := [][]Step{{{Name: "0"}}, steps} // the last one counts
	for b.Attempt = range records {
		err := b.Change(t.Context(), func(r *Record) error {
			r.Steps, r.Began = records[b.Attempt], time.Now().Add(-ago)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func makeGenerations(t *testing.T, f *ckpt.Folder, n int) {
	t.Helper()
	for range n {
		p, err := f.Begin(t.Context(), 0)
		if err == nil {
			err = os.WriteFile(filepath.Join(p.Dir, "count"), []byte("1s"), 0o600)
		}
		if err == nil {
			_, err = p.Commit(t.Context(), ckpt.About{Method: "signal"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCtld(t *testing.T) {
	for _, test := range []struct{ host, port, want string }{
		{"ctl1(10.0.0.1)", "6817", ctl1},
		{"", "6817", ""},
		{"ctl1", "", ""},
	} {
		if got := Ctld(map[string]string{"SlurmctldHost[0]": test.host, "SlurmctldPort": test.port, "ClusterName": "c"}); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
}

// The records of an earlier job of the same id do not speak for the one that is there,
// and what it has left, or wanted to keep, is not forgotten for it.
func TestJudged(t *testing.T) {
	at := time.Unix(1e9, 0)
	rec := func(attempt int, began time.Duration, script string, steps ...Step) Record {
		return Record{Cluster: "c", Ctld: ctl1, Script: script, Attempt: attempt, Began: at.Add(began), Steps: steps}
	}
	done, cut, kept := Step{Done: true}, Step{}, Step{Done: true, KeepAfter: true}
	for _, test := range []struct {
		name string
		all  []Record
		want Left
	}{
		{"one attempt", []Record{rec(0, 0, "s", done)}, Left{Well: true}},
		{"an evicted job", []Record{rec(0, 0, "s", cut), rec(1, 1, "s", done)}, Left{Well: true}},
		{"it failed in the end", []Record{rec(1, 1, "s", cut), rec(0, 0, "s", done)}, Left{}},
		{"begun, and an earlier one had ended well", []Record{rec(3, 0, "old", done), rec(0, 1, "s", cut)}, Left{}},
		{"the same, of the same script", []Record{rec(3, 0, "s", done), rec(0, 1, "s", cut)}, Left{}},
		{"ended well, and an earlier one had not", []Record{rec(3, 0, "s", cut), rec(0, 1, "s", done)}, Left{}},
		{"the same, at a lower attempt", []Record{rec(0, 0, "old", cut), rec(1, 1, "s", done)}, Left{}},
		{"an earlier one is to be kept", []Record{rec(3, 0, "s", kept), rec(0, 1, "s", done)}, Left{Well: true, Kept: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if l := judged(test.all); l.Well != test.want.Well || l.Kept != test.want.Kept || l.Ctld != ctl1 || l.Last.Before(at) {
				t.Errorf("%+v", l)
			}
		})
	}
	two := []Record{rec(0, 0, "s", done), rec(1, 1, "s", done)}
	for _, c := range []struct{ ctld, want string }{{"", ctl1}, {"ctl2:6817", ""}} {
		two[0].Ctld = c.ctld
		if l := judged(two); l.Ctld != c.want {
			t.Errorf("of %q and %q: %q", c.ctld, ctl1, l.Ctld)
		}
	}
}

// The first attempt of a new job puts away the record of an earlier job's: its
// generations are not swept for the new one's good end.
func TestAnEarlierJobsRecordIsPutAway(t *testing.T) {
	dir := t.TempDir()
	b := Book{Dir: dir, Cluster: "c", Ctld: ctl1, Job: "17", Script: "old"}
	did(t, b, "./a", "", false)
	b.Script = "s"
	did(t, b, "./b", "post", true)
	did(t, b, "./c", "more", true)
	l, err := leftOf(dir, "17", false)
	old, _ := filepath.Glob(filepath.Join(dir, "job-17", "old-*-steps-0.json"))
	if err != nil || l.Well || len(old) != 1 {
		t.Errorf("%+v, %v; put away: %q", l, err, old)
	}
}

// What others have put where a record is looked for is not read, nor waited for.
func TestRecordsOfOthers(t *testing.T) {
	const stranger = 54321
	for _, c := range []struct {
		name string
		root bool // only root can make it
		make func(job string) error
		says string
		any  bool // root may see it
	}{
		{"a pipe", false, func(job string) error { return syscall.Mkfifo(filepath.Join(job, "steps-0.json"), 0o600) }, "is no record", false},
		{"a huge file", false, func(job string) error {
			name := filepath.Join(job, "steps-0.json")
			return errors.Join(os.WriteFile(name, []byte("{}"), 0o600), os.Truncate(name, 1<<40))
		}, "is no record", false},
		{"a link", false, func(job string) error { return os.Symlink("/etc/passwd", filepath.Join(job, "steps-0.json")) }, "is no record", false},
		{"a folder that others may write to", false, func(job string) error {
			return errors.Join(os.WriteFile(filepath.Join(job, "steps-0.json"), []byte("{}"), 0o600), os.Chmod(job, 0o777))
		}, "others may write", false},
		{"another user's file", true, func(job string) error {
			name := filepath.Join(job, "steps-0.json")
			return errors.Join(os.WriteFile(name, []byte("{}"), 0o600), os.Chown(name, stranger, -1))
		}, "belongs to user", false},
		{"another user's folder", true, func(job string) error {
			name := filepath.Join(job, "steps-0.json")
			return errors.Join(os.WriteFile(name, []byte("{}"), 0o600), os.Chown(name, stranger, -1), os.Chown(job, stranger, -1))
		}, "belongs to user", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("only root gives files away")
			}
			dir := t.TempDir()
			job := filepath.Join(dir, "job-17")
			if err := errors.Join(os.Mkdir(job, 0o700), c.make(job)); err != nil {
				t.Fatal(err)
			}
			if r, there, err := (Book{Dir: dir, Job: "17"}).Peek(); err == nil || there || !strings.Contains(err.Error(), c.says) {
				t.Errorf("peek: %+v, %v, %v", r, there, err)
			}
			if _, err := leftOf(dir, "17", false); err == nil {
				t.Error("it counts as what this user's job has left")
			}
			if _, err := leftOf(dir, "17", true); (err == nil) != c.any {
				t.Errorf("root: %v", err)
			}
			if all, err := LookIn(t.Context(), dir, Looking{}); len(all) != 0 || c.any && err != nil {
				t.Errorf("%+v, %v", all, err)
			}
		})
	}
}

// What is broken is passed over, and told.
func TestLeftInABrokenFolder(t *testing.T) {
	dir := t.TempDir()
	leaves(t, dir, "10", Step{Done: true})
	leaves(t, dir, "11", Step{Done: true})
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "job-11", "steps-1.json"), []byte("{"), 0o600), os.Mkdir(filepath.Join(dir, "job-12"), 0o700),
		os.WriteFile(filepath.Join(dir, "job-13"), nil, 0o600), os.Mkdir(filepath.Join(dir, "job-15"), 0o700), syscall.Mkfifo(filepath.Join(dir, "job-15", "steps-0.json"), 0o600), os.Symlink(filepath.Join(dir, "job-10"), filepath.Join(dir, "job-14"))); err != nil {
		t.Fatal(err)
	}
	all, err := LeftIn(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "job-11") || !strings.Contains(err.Error(), "steps-0.json is no record") || len(all) != 1 || all[0].Job != "10" || !all[0].Well {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestLeftInIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		leaves(t, dir, fmt.Sprint(i+1))
	}
	for most, want := range map[int]int{0: 5, 3: 3, 9: 5} {
		if all, err := LookIn(t.Context(), dir, Looking{Most: most}); err != nil || len(all) != want {
			t.Errorf("of at most %d: %d, %v", most, len(all), err)
		}
	}
}

// An id that is given again while others are swept is not taken from the new job.
func TestRemoveAsksAgain(t *testing.T) {
	begun := Step{Name: "0", Began: time.Now()}
	for name, meanwhile := range map[string]func(dir string) []slurm.Job{
		"Slurm knows it now": func(string) []slurm.Job { return []slurm.Job{{ID: 10}} },
		"a step has begun there": func(dir string) []slurm.Job {
			b := Book{Dir: dir, Cluster: "c", Job: "10", Script: "s", Attempt: 1}
			if err := b.Change(t.Context(), func(r *Record) error { r.Steps = []Step{begun}; return nil }); err != nil {
				t.Fatal(err)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			leaves(t, dir, "10", Step{Done: true})
			l, err := leftOf(dir, "10", false)
			if err != nil {
				t.Fatal(err)
			}
			jobs := meanwhile(dir)
			err = l.Remove(t.Context(), dir, func(context.Context, uint32) ([]slurm.Job, error) { return jobs, nil })
			if _, serr := os.Stat(filepath.Join(dir, "job-10")); err == nil || serr != nil || !strings.Contains(err.Error(), "stay") {
				t.Errorf("%v, %v", err, serr)
			}
		})
	}
}
