package srun

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/directive"
)

// refusing is a burstd, or what stands in its place, that answers with an error.
func refusing(err error) transport {
	return func(context.Context, string, any, any) error { return err }
}

// TestALaterAttemptDoesNotPassOverWork: what it knows of its own is not all that there is.
func TestALaterAttemptDoesNotPassOverWork(t *testing.T) {
	bySignal := []directive.Setting{{Key: "ckpt", Value: "signal"}, {Key: "signal", Value: "USR1"}, {Key: "interval", Value: "7m"}}
	for _, c := range []struct {
		name   string
		script string
		given  func(a *requeued) (from string)
		code   int
		says   string
		most   time.Duration
	}{
		{"the site has asked for it with settings, and burstd is away", "", func(a *requeued) string {
			a.settings, a.burstd = bySignal, away(0, nil)
			return a.left(a.dir("work/burst-checkpoints"), "signal")
		}, 0, "every 7m", time.Minute},
		{"the site asks for nothing in this pool", "", func(a *requeued) string {
			a.settings = bySignal
			g := a.left(a.dir("old"), "signal")
			a.burstd = a.knows("", g)
			return g
		}, 0, "goes on under ckpt=signal", time.Minute},
		{"with what settings is not known before burstd answers", "", func(a *requeued) string {
			g := a.left(a.dir("work/burst-checkpoints"), "signal")
			a.burstd = away(4*time.Minute, a.knows("ckpt=signal signal=USR1", g))
			return g
		}, 0, "is waited for up to 10m", 5 * time.Minute},
		{"with what settings is never known", "", func(a *requeued) string {
			a.left(a.dir("work/burst-checkpoints"), "signal")
			a.burstd = away(0, nil)
			return ""
		}, cli.Failed, "not begun anew", 11 * time.Minute},
		{"with what settings burstd does not know", "", func(a *requeued) string {
			a.burstd = a.knows("", a.left(a.dir("old"), "signal"))
			return ""
		}, cli.Failed, "how is not known", time.Minute},
		{"a key on top of the site's method", "#BURST keep=4\n", func(a *requeued) string {
			g := a.left(a.dir("old"), "signal")
			a.burstd = a.knows("ckpt=signal signal=USR1", g)
			return g
		}, 0, "restarts from", time.Minute},
		{"such a key, and burstd is away for a while", "#BURST keep=4\n", func(a *requeued) string {
			g := a.left(a.dir("old"), "signal")
			a.burstd = away(4*time.Minute, a.knows("ckpt=signal signal=USR1", g))
			return g
		}, 0, "without what the site says", 5 * time.Minute},
		{"such a key, and burstd stays away", "#BURST keep=4\n", func(a *requeued) string {
			a.burstd = away(0, nil)
			return ""
		}, cli.Failed, "without what the site says", 11 * time.Minute},
		{"such a key, and the settings are recorded", "#BURST keep=4\n", func(a *requeued) string {
			a.settings, a.burstd = bySignal, away(0, nil)
			return a.left(a.dir("work/burst-checkpoints"), "signal")
		}, 0, "every 7m", time.Minute},
		{"the user's method needs what another pool says", "#BURST ckpt=signal\n", func(a *requeued) string {
			a.settings = bySignal
			g := a.left(a.dir("old"), "signal")
			a.burstd = a.knows("", g)
			return g
		}, 0, "the step goes on with them", time.Minute},
		{"such a key, and there is no method", "#BURST keep=4\n", func(a *requeued) string {
			a.burstd = a.knows("")
			return ""
		}, cli.Usage, "needs a method", time.Minute},
		{"burstd has a generation that is not shown yet", "#BURST signal=USR1\n", func(a *requeued) string {
			a.left(a.dir("old"), "")
			g := a.dir("old/job-17/step-0/attempt-0/gen-1")
			a.burstd = a.knows("", g)
			time.AfterFunc(30*time.Second, func() { a.left(a.dir("old"), "signal") })
			return g
		}, 0, "it is waited for", time.Minute},
		{"burstd has a generation that is never shown", "", func(a *requeued) string {
			a.left(a.dir("old"), "")
			a.burstd = a.knows("", a.dir("old/job-17/step-0/attempt-0/gen-1"))
			return ""
		}, cli.Failed, "is the folder's file system mounted here", 2 * time.Minute},
		{"the generation is damaged", "", func(a *requeued) string {
			g := a.left(a.dir("old"), "signal")
			if err := os.WriteFile(filepath.Join(g, "note.txt"), nil, 0o600); err != nil {
				a.Fatal(err)
			}
			a.burstd = a.knows("", g)
			return "direct"
		}, cli.Failed, "(damaged) is not used", time.Minute},
		{"Burst's default folder is none", "", func(a *requeued) string {
			a.put("work/burst-checkpoints")
			a.burstd = a.knows("")
			return "direct"
		}, cli.Failed, "no method", time.Minute},
		{"the job's folder there is none", "", func(a *requeued) string {
			a.put("work/burst-checkpoints/job-17")
			a.burstd = a.knows("")
			return "direct"
		}, cli.Failed, "no method", time.Minute},
		{"the folder that is named is none", "#BURST ckpt=signal signal=USR1 dir=mine\n", func(a *requeued) string {
			a.put("work/mine")
			a.burstd = a.knows("")
			return ""
		}, cli.Failed, "mine", time.Minute},
		{"the site asks for checkpoints of no job", "", func(a *requeued) string {
			a.env = append(a.env, "BURST_URLS=http://x:1", "BURST_CHECKPOINTS=none")
			a.burstd = away(0, nil)
			return "direct"
		}, cli.Failed, "no method", 20 * time.Second},
		{"burstd refuses", "", func(a *requeued) string {
			a.burstd = refusing(&refusal{url: "http://x:1", status: 403})
			return ""
		}, cli.Failed, "error: burstd refuses to say what it knows", 10 * time.Second},
		{"somebody else answers", "", func(a *requeued) string {
			a.burstd = refusing(unbelievedError{errors.New("it is signed by uid 7")})
			return ""
		}, cli.Failed, "error: what answers in burstd's place is not believed (it is signed by uid 7)", 11 * time.Minute},
		{"BURST_WAIT is no time", "#BURST ckpt=signal signal=USR1\n", func(a *requeued) string {
			a.env = append(a.env, "BURST_WAIT=10")
			g := a.left(a.dir("site"), "signal")
			a.burstd = away(4*time.Minute, a.knows("dir="+a.dir("site"), g))
			return g
		}, 0, "warning: BURST_WAIT=", 5 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newRequeued(t)
			a.script = "#!/bin/sh\n" + c.script
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
				if direct := from == "direct"; direct != a.direct {
					t.Errorf("srun has taken its place: %v; said %s", a.direct, a.said.String())
				} else if got := a.starts(); !direct && got != from {
					t.Errorf("it began from %q, want %q; said %s", got, from, a.said.String())
				}
			})
		})
	}
}

// put makes a file where a folder may be looked for.
func (a *requeued) put(name string) {
	if err := os.MkdirAll(filepath.Dir(a.dir(name)), 0o700); err != nil {
		a.Fatal(err)
	}
	if err := os.WriteFile(a.dir(name), nil, 0o600); err != nil {
		a.Fatal(err)
	}
}

// TestPatiently: a network file system may be away for a moment.
func TestPatiently(t *testing.T) {
	for _, c := range []struct {
		err   error
		fails time.Duration
		ok    bool
		tries bool
	}{
		{fmt.Errorf("x: %w", syscall.ESTALE), time.Minute, true, true},
		{syscall.EIO, time.Minute, true, true},
		{syscall.EIO, time.Hour, false, true},
		{syscall.EACCES, time.Minute, false, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, tries := time.Now(), 0
			p := &program{stderr: &words{}}
			err := p.patiently(t.Context(), known{wait: 10 * time.Minute}, func() error {
				if tries++; time.Since(began) < c.fails {
					return c.err
				}
				return nil
			})
			if (err == nil) != c.ok || (tries > 1) != c.tries || time.Since(began) > 11*time.Minute {
				t.Errorf("%v: %v after %d tries, %v", c.err, err, tries, time.Since(began))
			}
		})
	}
}

// TestAFirstAttemptDoesNotWaitAgain for a burstd that was away a moment ago.
func TestAFirstAttemptDoesNotWaitAgain(t *testing.T) {
	a := newRequeued(t)
	a.script = "#!/bin/sh\n#BURST keep=4\n"
	a.env = append(a.env, "SLURM_RESTART_COUNT=0")
	synctest.Test(t, func(t *testing.T) {
		a.T = t
		ctld := a.slurm()
		ctld.job.Restarts = 0
		a.ctld = ctld
		a.burstd = func(ctx context.Context, _ string, _, _ any) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		for i, want := range []time.Duration{beforeTime, glanceTime, glanceTime, beforeTime} {
			if i == 3 {
				time.Sleep(stillAway)
			}
			a.direct = false
			began := time.Now()
			if a.run(); !a.direct || !strings.Contains(a.said.String(), "keep") || !strings.Contains(a.said.String(), "the step is not protected") {
				t.Errorf("it does not run, unprotected: %s", a.said.String())
			}
			if took := time.Since(began); took != want {
				t.Errorf("step %d waits for %v, want %v", i, took, want)
			}
		}
	})
}
