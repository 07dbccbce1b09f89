package srun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/step"
)

// TestALaterAttemptFindsItsCheckpoints, whatever it hears now, or does not begin.
func TestALaterAttemptFindsItsCheckpoints(t *testing.T) {
	const anew = "the beginning"
	for _, c := range []struct {
		name   string
		script string // beside the default
		given  func(a *requeued) (from string)
		code   int
		says   string
		most   time.Duration
		path   bool // PATH leads nowhere
	}{
		{"the site's folder is another now", "", func(a *requeued) string {
			g := a.left(a.dir("old"), "signal")
			a.burstd = a.knows("dir="+a.dir("new"), g)
			return g
		}, 0, "is in ", time.Minute, false},
		{"the site has a folder now, and burstd was away before", "", func(a *requeued) string {
			a.burstd = a.knows("dir=" + a.dir("new"))
			return a.left(a.dir("work/burst-checkpoints"), "signal")
		}, 0, "it is used", time.Minute, false},
		{"burstd stays away, and may know the folder", "", func(a *requeued) string {
			a.left(a.dir("site"), "signal")
			a.burstd = away(0, nil)
			return ""
		}, cli.Failed, "not begun anew", 11 * time.Minute, false},
		{"burstd is away for a while", "", func(a *requeued) string {
			g := a.left(a.dir("site"), "signal")
			a.burstd = away(4*time.Minute, a.knows("dir="+a.dir("site"), g))
			return g
		}, 0, "is waited for up to 10m", 5 * time.Minute, false},
		{"burstd is away for longer than is waited", "", func(a *requeued) string {
			a.env = append(a.env, "BURST_WAIT=1m")
			a.burstd = away(4*time.Minute, a.knows("dir="+a.dir("site"), a.left(a.dir("site"), "signal")))
			return ""
		}, cli.Failed, "not begun anew", 2 * time.Minute, false},
		{"burstd is away, and what is here is of this job", "", func(a *requeued) string {
			a.burstd = away(0, nil)
			return a.left(a.dir("work/burst-checkpoints"), "signal")
		}, 0, "restarts from", time.Minute, false},
		{"burstd is away, and the user names the folder", "#BURST dir=mine\n", func(a *requeued) string {
			a.burstd = away(0, nil)
			return anew
		}, 0, "nothing of an earlier one is in ", time.Minute, false},
		{"burstd is away, and the user asks for nothing", "none", func(a *requeued) string {
			a.burstd = away(0, nil)
			return ""
		}, cli.Failed, "whether the site asks for checkpoints", 11 * time.Minute, false},
		{"burstd is away, and the user wants none", "none #BURST ckpt=none", func(a *requeued) string {
			a.left(a.dir("work/burst-checkpoints"), "signal")
			a.burstd = away(0, nil)
			return "direct"
		}, cli.Failed, "", time.Minute, false},
		{"the site asks for no method any more", "none #BURST signal=USR1", func(a *requeued) string {
			g := a.left(a.dir("old"), "signal")
			a.burstd = a.knows("", g)
			return g
		}, 0, "goes on under ckpt=signal", time.Minute, false},
		{"the site asks for another method now", "none #BURST signal=USR1", func(a *requeued) string {
			g := a.left(a.dir("old"), "signal")
			a.burstd = a.knows("ckpt=criu", g)
			return g
		}, 0, "goes on under ckpt=signal", time.Minute, false},
		{"the user asks for another method now", "none #BURST ckpt=scr", func(a *requeued) string {
			a.burstd = a.knows("", a.left(a.dir("old"), "signal"))
			return ""
		}, cli.Failed, "step is not begun anew while", time.Minute, false},
		{"the site wants no checkpoints any more", "", func(a *requeued) string {
			g := a.left(a.dir("old"), "signal")
			a.burstd = a.knows("strategy=none", g)
			return g
		}, 0, "without further checkpoints", time.Minute, false},
		{"the site asks for no method any more, and there is no checkpoint", "none", func(a *requeued) string {
			a.left(a.dir("work/burst-checkpoints"), "")
			a.burstd = a.knows("")
			return "direct"
		}, cli.Failed, "no method of checkpoints", time.Minute, false},
		{"what is on record is not mounted here", "none", func(a *requeued) string {
			a.burstd = a.knows("", a.dir("scratch/job-17/step-0/attempt-0/gen-1"))
			return ""
		}, cli.Failed, "is the file system mounted here", 2 * time.Minute, false},
		{"what is on record is shown after a while", "", func(a *requeued) string {
			a.burstd = a.knows("", a.dir("scratch/job-17/step-0/attempt-0/gen-1"))
			var g string
			time.AfterFunc(30*time.Second, func() { g = a.left(a.dir("scratch"), "signal") })
			return a.dir("scratch/job-17/step-0/attempt-0/gen-1") + g
		}, 0, "they are waited for", time.Minute, false},
		{"another step's generation has the number", "#BURST dir=mine\n", func(a *requeued) string {
			other := a.left(a.dir("other"), "signal")
			a.burstd = a.knowsTo(9, "", other)
			return a.left(a.dir("work/mine"), "signal")
		}, 0, "restarts from", time.Minute, false},
		{"no burstd is known, and checkpoints are on its word", "#BURST strategy=preemptive\n", func(a *requeued) string {
			return a.left(a.dir("work/burst-checkpoints"), "signal")
		}, 0, "not known here where burstd is", time.Minute, false},
		{"no burstd is known, and there is no checkpoint", "#BURST strategy=preemptive\n", func(a *requeued) string {
			a.left(a.dir("work/burst-checkpoints"), "")
			return "direct"
		}, cli.Failed, "not known here where burstd is", time.Minute, false},
		{"no burstd is known, where it has been", "", func(a *requeued) string {
			ctld := a.slurm()
			ctld.config = map[string]string{"ResumeProgram": "/usr/bin/burst-resume"}
			a.ctld = ctld
			return ""
		}, cli.Failed, "does not know where burstd is", time.Minute, false},
		{"no burstd is known, and there is none", "", func(a *requeued) string { return anew }, 0, "", time.Minute, false},
		{"no burstd is known, and the site may have asked", "none", func(a *requeued) string { return "direct" }, cli.Failed, "begins anew without them", time.Minute, false},
		{"no burstd is known, and the site has asked", "none #BURST signal=USR1", func(a *requeued) string {
			return a.left(a.dir("work/burst-checkpoints"), "signal")
		}, 0, "goes on under ckpt=signal", time.Minute, false},
		{"a method that cannot work here", "none #BURST ckpt=dmtcp", func(a *requeued) string {
			a.burstd = a.knows("")
			a.left(a.dir("work/burst-checkpoints"), "dmtcp")
			return ""
		}, cli.Failed, "is not begun anew while", time.Minute, true},
		{"an attempt that Slurm has ended", "", func(a *requeued) string {
			ctld := a.slurm()
			ctld.job.Restarts = 2
			a.ctld = ctld
			return ""
		}, CutOff, "this is 1: it is over", time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newRequeued(t)
			if rest, ok := strings.CutPrefix(c.script, "none"); ok {
				a.script = "#!/bin/sh\n" + strings.TrimSpace(rest) + "\n"
			} else {
				a.script += c.script
			}
			if c.path {
				t.Setenv("PATH", "")
			}
			synctest.Test(t, func(t *testing.T) {
				a.T, a.ctld = t, a.slurm()
				from := c.given(a)
				began := time.Now()
				code := a.run()
				if took := time.Since(began); took > c.most {
					t.Errorf("it took %v", took)
				}
				if code != c.code || !strings.Contains(a.said.String(), c.says) {
					t.Errorf("exit code %d, said %s", code, a.said.String())
				}
				if code == cli.Failed && from == "" && !strings.Contains(a.said.String(), "to begin anew, without checkpoints: scontrol requeuehold 17 && scontrol update jobid=17 comment='burst: ckpt=none' && scontrol release 17") {
					t.Errorf("it says no way out: %s", a.said.String())
				}
				if direct := from == "direct"; direct != a.direct {
					t.Errorf("srun has taken its place: %v; said %s", a.direct, a.said.String())
				} else if got := a.starts(); !direct && got != from {
					t.Errorf("it began from %q, want %q; said %s", got, from, a.said.String())
				}
			})
		})
	}
}

// TestStepsOfAnAttemptStayTogether: burstd goes away between two of them.
func TestStepsOfAnAttemptStayTogether(t *testing.T) {
	for attempt := range 2 {
		a := newRequeued(t)
		a.env = append(a.env, fmt.Sprintf("SLURM_RESTART_COUNT=%d", attempt))
		synctest.Test(t, func(t *testing.T) {
			a.T = t
			ctld := a.slurm()
			ctld.job.Restarts = attempt
			a.ctld, a.burstd = ctld, a.knows("dir="+a.dir("site"))
			for i := range 3 {
				if code := a.run("-n1", a.dir("bin/sim"), fmt.Sprint(i)); code != 0 {
					t.Errorf("exit code %d", code)
				}
				a.burstd = away(0, nil)
			}
			if n := strings.Count(a.said.String(), ", in "+a.dir("site")+"\n"); n != 3 {
				t.Errorf("%d of 3 steps are in the site's folder: %s", n, a.said.String())
			}
		})
	}
}

// TestWhatCannotBeUnderstoodIsNotBegunAnew: srun's options are learnt from srun, which
// may not answer here.
func TestWhatCannotBeUnderstoodIsNotBegunAnew(t *testing.T) {
	a := newRequeued(t)
	a.ctld, a.burstd = a.slurm(), a.knows("")
	if code := a.run("--plugins-own", a.dir("bin/sim")); code != cli.Failed || !a.direct {
		t.Errorf("without a checkpoint: exit code %d, said %s", code, a.said.String())
	}
	a.direct = false
	a.left(a.dir("work/burst-checkpoints"), "signal")
	if code := a.run("--plugins-own", a.dir("bin/sim")); code != cli.Failed || a.direct || !strings.Contains(a.said.String(), "is not begun anew while") {
		t.Errorf("exit code %d, said %s", code, a.said.String())
	}
	k := known{facts: facts{job: step.Job{ID: 17}}, seen: seen{script: a.script}}
	if err := k.book(a.dir("work/burst-checkpoints")).Change(t.Context(), func(r *steprecord.Record) error {
		r.Steps[0].Done = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if a.run("--plugins-own", a.dir("bin/sim")); !a.direct {
		t.Errorf("a step that is done stands in the way: %s", a.said.String())
	}
}

// flaky is a slurmctld that does not tell of jobs for a while.
type flaky struct {
	slurmctld
	until time.Time
}

func (f flaky) Job(ctx context.Context, id uint32) (slurm.Job, error) {
	if time.Now().Before(f.until) {
		return slurm.Job{}, errors.New("Unable to contact slurm controller")
	}
	return f.slurmctld.Job(ctx, id)
}

// TestTheJobsCommentIsNeeded: it may be all that names the folder.
func TestTheJobsCommentIsNeeded(t *testing.T) {
	for _, c := range []struct {
		name    string
		attempt int
		away    time.Duration
		code    int
		says    string
	}{
		{"a first attempt says what it has not read", 0, time.Hour, 0, "the job's comment cannot be read"},
		{"a first attempt asks again for a moment", 0, 4 * time.Second, 0, "/named"},
		{"a later one waits for it", 1, 5 * time.Minute, 0, "is waited for up to 10m"},
		{"and does not begin without it", 1, time.Hour, cli.Failed, "not begun anew without what the job asks for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newRequeued(t)
			a.env = append(a.env, fmt.Sprintf("SLURM_RESTART_COUNT=%d", c.attempt))
			synctest.Test(t, func(t *testing.T) {
				a.T = t
				ctld := a.slurm()
				ctld.job.Comment, ctld.job.Restarts = "burst: dir="+a.dir("named"), c.attempt
				a.ctld = flaky{ctld, time.Now().Add(c.away)}
				from := "the beginning"
				if c.attempt > 0 {
					from = a.left(a.dir("named"), "signal")
				}
				if c.code != 0 {
					from = ""
				}
				if code := a.run(); code != c.code || !strings.Contains(a.said.String(), c.says) {
					t.Errorf("exit code %d, said %s", code, a.said.String())
				}
				if got := a.starts(); got != from {
					t.Errorf("it began from %q, want %q", got, from)
				}
			})
		})
	}
}

func TestWaitOf(t *testing.T) {
	for text, want := range map[string]time.Duration{"": defaultWait, "90s": 90 * time.Second, "0s": 0, "-1s": -1, "10": -1, "25h": -1, "x": -1} {
		d, err := waitOf(func(string) string { return text })
		if (err != nil) != (want < 0) || err == nil && d != want {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
}
