package imaging

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
)

// plug is a cloud whose builder shuts itself down, as lists and MakeImage then know.
type plug struct {
	*cloudtest.Fake
	state cloud.State // of a builder that is off
	off   time.Time   // zero: it never is
	on    time.Time   // again; zero: never
	hard  bool
	own   bool // what MakeImage was told
}

func (p *plug) Limits() cloud.Limits {
	l := p.Fake.Limits()
	l.HardStop = p.hard
	return l
}

func (p *plug) isOff() bool {
	return !p.off.IsZero() && !time.Now().Before(p.off) && (p.on.IsZero() || time.Now().Before(p.on))
}

func (p *plug) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	all, err := p.Fake.List(ctx, f)
	for n := range all {
		if all[n].State == cloud.Running && p.isOff() {
			all[n].State = p.state
		}
	}
	return all, err
}

func (p *plug) MakeImage(ctx context.Context, r cloud.ImageRequest) (cloud.Image, error) {
	p.own = r.OwnStop
	if r.OwnStop && !p.isOff() {
		return cloud.Image{}, &cloud.Error{Kind: cloud.Invalid, Op: "image", Err: cloud.ErrNotItsEnd}
	}
	return p.Fake.MakeImage(ctx, r)
}

// TestCutAtTheEnd: the connection to the builder is lost while it is cleaned, and nobody gets in
// any more. If it shuts itself down all was done; else that is not known, and is said so.
func TestCutAtTheEnd(t *testing.T) {
	cut := errors.New("the connection broke off")
	for name, tt := range map[string]struct {
		state  cloud.State
		off    time.Duration // after the setup began; 0: never
		setUp  func(ctx context.Context, i cloud.Instance, cleaning func()) error
		soft   bool
		err    string        // "": none
		on     time.Duration // after it was off; 0: never
		within time.Duration // of the whole; 0: any time
	}{
		"it is off, and young":  {state: cloud.Pending, off: 2 * time.Minute, setUp: cleansAndHangs, within: 10 * time.Minute},
		"it is off, and old":    {state: cloud.Terminating, off: 2 * time.Minute, setUp: cleansAndHangs, within: 10 * time.Minute},
		"given up, and off":     {state: cloud.Pending, off: time.Minute, setUp: cleansAnd(cut), within: 10 * time.Minute},
		"given up, and on":      {setUp: cleansAnd(cut), err: "is not known"},
		"unheard, and old":      {state: cloud.Terminating, off: 30 * time.Second, setUp: hangs, err: "is not known", within: 10 * time.Minute},
		"unheard, and young":    {state: cloud.Pending, off: 30 * time.Second, setUp: hangs, err: "is not known", within: 10 * time.Minute},
		"unheard, and fails":    {state: cloud.Pending, off: 4 * time.Minute, setUp: failingAfter(5 * time.Minute), err: "setup line 3"},
		"it restarts":           {state: cloud.Pending, off: 30 * time.Second, on: 90 * time.Second, setUp: failingAfter(10 * time.Minute), err: "setup line 3"},
		"it reboots in between": {state: cloud.Pending, off: 30 * time.Second, setUp: failing, err: "setup line 3"},
		"its cleaning fails":    {setUp: cleansAnd(&SetupError{Why: "step clean: exit 1"}), err: "step clean: exit 1"},
		"no such word":          {soft: true, setUp: cleansAnd(cut), err: "is not known, so no image is made of it: the connection to i-00000001 was lost while it was cleaned: the connection broke off"},
		"ended, no such word":   {soft: true, state: cloud.Terminating, off: 2 * time.Minute, setUp: cleansAndHangs, err: "somebody has ended the instance"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				p := &plug{Fake: b.Fake, state: tt.state, hard: !tt.soft}
				b.Provider = p
				b.SetUp = tt.setUp
				b.Step = at("setup", func() {
					if tt.off > 0 {
						p.off = time.Now().Add(tt.off)
					}
					if tt.on > 0 {
						p.on = p.off.Add(tt.on)
					}
				})
				began := time.Now()
				_, err := Build(t.Context(), b.Config)
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				if errors.Is(err, ErrUnknown) != strings.Contains(tt.err, "not known") {
					t.Errorf("%v is ErrUnknown: %v", err, errors.Is(err, ErrUnknown))
				}
				if tt.err == "" && !p.own || tt.within > 0 && time.Since(began) > tt.within {
					t.Errorf("after %s; its own end was waited for: %v", time.Since(began), p.own)
				}
				if tt.err == "" {
					b.nothing(t, 1)
				} else {
					b.nothing(t, 0)
				}
			})
		})
	}
}

func failingAfter(d time.Duration) func(context.Context, cloud.Instance, func()) error {
	return func(ctx context.Context, i cloud.Instance, cleaning func()) error {
		if err := sleep(ctx, d); err != nil {
			return err
		}
		return failing(ctx, i, cleaning)
	}
}

func hangs(ctx context.Context, _ cloud.Instance, _ func()) error { return sleep(ctx, 50*time.Minute) }

func cleansAndHangs(ctx context.Context, i cloud.Instance, cleaning func()) error {
	cleaning()
	return hangs(ctx, i, cleaning)
}

func cleansAnd(err error) func(context.Context, cloud.Instance, func()) error {
	return func(ctx context.Context, _ cloud.Instance, cleaning func()) error {
		cleaning()
		if serr := sleep(ctx, time.Minute); serr != nil {
			return serr
		}
		return err
	}
}

// TestCutAndRefused: an image that is refused for a reason of its own is not called unclean.
func TestCutAndRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		p := &plug{Fake: b.Fake, state: cloud.Pending, hard: true}
		b.Provider, b.SetUp = p, cleansAndHangs
		b.Step = at("setup", func() { p.off = time.Now().Add(time.Minute) })
		b.Fail(cloudtest.MakeImage, cloud.Invalid)
		_, err := Build(t.Context(), b.Config)
		if err == nil || errors.Is(err, ErrUnknown) || !p.own || !strings.Contains(err.Error(), "making an image of i-00000001") {
			t.Errorf("%v; its own end was waited for: %v", err, p.own)
		}
		b.nothing(t, 0)
	})
}
