package imaging

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
)

var small = cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}

// bench is a cloud, and a build on it.
type bench struct {
	*cloudtest.Fake
	Config
	stages []Stage
}

func newBench(t *testing.T) *bench {
	b := &bench{Fake: cloudtest.NewFake(cloudtest.Options{Boot: 30 * time.Second, AddrDelay: 10 * time.Second, Lag: 5 * time.Second, Shutdown: 20 * time.Second,
		Image: 3 * time.Minute, Prepare: true})}
	b.Config = Config{Provider: b.Fake, Leases: LeasesIn(t.TempDir()), Within: time.Hour,
		Request: cloud.LaunchRequest{Cluster: "c", Pool: "p", Image: "ssm:/base", Offering: small},
		SetUp: func(ctx context.Context, i cloud.Instance, _ func()) error {
			if i.Addr == "" || i.State != cloud.Running {
				t.Errorf("the builder that is set up is %+v", i)
			}
			return sleep(ctx, 5*time.Minute)
		},
		Report: func(p Progress) {
			if len(b.stages) == 0 || b.stages[len(b.stages)-1] != p.Stage {
				b.stages = append(b.stages, p.Stage)
			}
		},
	}
	return b
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// live are the builders that cost money, by whether somebody holds them.
func (b *bench) live() (held, free []string) {
	for _, i := range b.Instances() {
		switch {
		case !i.State.Live():
		case b.Leases.Held(i.Token, time.Now()):
			held = append(held, i.ID)
		default:
			free = append(free, i.ID)
		}
	}
	return held, free
}

func (b *bench) images(t *testing.T) []cloud.Image {
	t.Helper()
	all, err := b.Fake.Images(context.Background(), "c")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// nothing checks that no builder and no image is left, nor a lease.
func (b *bench) nothing(t *testing.T, images int) {
	t.Helper()
	if held, free := b.live(); len(held)+len(free) > 0 {
		t.Errorf("builders are left: %v, %v", held, free)
	}
	if all := b.images(t); len(all) != images {
		t.Errorf("images are %+v, want %d", all, images)
	}
	if left, err := os.ReadDir(string(b.Leases)); err != nil || len(left) > 0 {
		t.Errorf("leases are left: %v, %v", left, err)
	}
}

func TestBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		r, err := Build(t.Context(), b.Config)
		if err != nil {
			t.Fatal(err)
		}
		all := b.images(t)
		if len(all) != 1 || all[0] != r.Image || r.Image.State != cloud.ImageAvailable || r.Image.Pool != "p" || r.Image.Source != "ssm:/base" {
			t.Errorf("made is %+v, there are %+v", r.Image, all)
		}
		if _, ours := cloud.BuilderUntil(r.Token); !ours || !r.Gone || r.Instance != "i-00000001" || !r.Ended.Equal(b.Instances()[0].Ended) || r.Ended.IsZero() {
			t.Errorf("the builder is %+v, the cloud has %+v", r, b.Instances())
		}
		if want := []Stage{Launching, Booting, SettingUp, Imaging, Ending}; !slices.Equal(b.stages, want) {
			t.Errorf("stages are %v, want %v", b.stages, want)
		}
		if r.Took[SettingUp] != 5*time.Minute || r.Took[Imaging] < 3*time.Minute {
			t.Errorf("it took %v", r.Took)
		}
		b.nothing(t, 1)
		if n := len(b.Instances()); n != 1 {
			t.Errorf("%d instances were launched", n)
		}
	})
}

// TestFaults: calls that fail or lose their answers are repeated; what fails for
// good leaves nothing.
func TestFaults(t *testing.T) {
	lost := func(op cloudtest.Op) func(b *bench) { return func(b *bench) { b.LoseAnswer(op) } }
	refused := func(op cloudtest.Op, kind cloud.Kind) func(b *bench) { return func(b *bench) { b.Fail(op, kind) } }
	for name, tt := range map[string]struct {
		with   func(b *bench)
		err    string // "": none
		images int
	}{
		"launch lost":                   {lost(cloudtest.Launch), "", 1},
		"launch throttled":              {refused(cloudtest.Launch, cloud.Throttled), "", 1},
		"launch refused":                {refused(cloudtest.Launch, cloud.Auth), "launching small/a/on-demand", 0},
		"no capacity":                   {func(b *bench) { b.SetCapacity(small, 0) }, "0 of 1", 0},
		"pool refused":                  {func(b *bench) { b.RefusePool("p", errors.New("no such image")) }, "no such image", 0},
		"never boots":                   {func(b *bench) { b.NeverBoot(1) }, "was not done within 58m", 0},
		"lists fail":                    {func(b *bench) { b.Inject(cloudtest.List, cloudtest.Fault{Err: transient, Times: 9}) }, "", 1},
		"image lost":                    {lost(cloudtest.MakeImage), "", 1},
		"image refused":                 {refused(cloudtest.MakeImage, cloud.Quota), "making an image of i-00000001", 0},
		"images not listed":             {func(b *bench) { b.Inject(cloudtest.Images, cloudtest.Fault{Err: transient, Times: 9}) }, "", 1},
		"termination fails":             {func(b *bench) { b.Inject(cloudtest.Terminate, cloudtest.Fault{Err: transient, Times: 5}) }, "", 1},
		"setup fails":                   {func(b *bench) { b.SetUp = failing }, "setup line 3: \"make\": exit 2", 0},
		"ended by somebody":             {func(b *bench) { b.Step = at("setup", func() { b.killLater(time.Minute) }) }, "somebody has ended the instance", 0},
		"ended in its boot":             {func(b *bench) { b.Step = at("launched", func() { b.killLater(0) }) }, "somebody has ended the instance", 0},
		"the cloud fails it":            {func(b *bench) { b.Step = at("imaged", func() { b.FailImages("no room") }) }, "no room", 0},
		"ended while its image is made": {func(b *bench) { b.Step = at("imaged", func() { b.killLater(time.Minute) }) }, "somebody has ended the instance, or the cloud has, while image image-0001", 0},
		"forgotten in its boot":         {func(b *bench) { b.forgetful(); b.Step = at("launched", func() { b.killLater(0) }) }, "somebody has ended the instance", 0},
		"forgotten in its setup": {func(b *bench) {
			b.forgetful()
			b.SetUp = func(ctx context.Context, _ cloud.Instance, _ func()) error { return sleep(ctx, 50*time.Minute) }
			b.Step = at("setup", func() { b.killLater(time.Minute) })
		}, "somebody has ended the instance", 0},
		"forgotten while its image is made": {func(b *bench) {
			b.slow(50 * time.Minute)
			b.Step = at("imaged", func() { b.killLater(time.Minute) })
		}, "somebody has ended the instance, or the cloud has, while image", 0},
		"forbidden before":            {func(b *bench) { b.Allowed = forbidden(1) }, "paused", 0},
		"forbidden while it is tried": {func(b *bench) { b.Fail(cloudtest.Launch, cloud.Throttled); b.Allowed = forbidden(2) }, "paused", 0},
		"forbidden while it is made":  {func(b *bench) { b.Allowed = forbidden(2) }, "paused", 0},
		"a removal is refused at first": {func(b *bench) {
			b.SetUp = nothing
			b.Step = at("imaged", func() { b.killLater(10 * time.Second) })
			b.Inject(cloudtest.DeleteImage, cloudtest.Fault{Err: &cloud.Error{Kind: cloud.Invalid, Op: "x", Err: errors.New("it is being made")}, Times: 9})
		}, "somebody has ended the instance", 0},
		"the image goes": {func(b *bench) {
			b.Step = at("imaged", func() {
				time.Sleep(10 * time.Second)
				all, _ := b.Fake.Images(context.Background(), "c")
				for _, i := range all {
					_ = b.DeleteImage(context.Background(), "c", i.ID)
				}
			})
		}, "does not show image", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, began := newBench(t), time.Now()
				tt.with(b)
				_, err := Build(t.Context(), b.Config)
				switch {
				case tt.err == "" && err != nil:
					t.Error(err)
				case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
					t.Errorf("error is %v, want one with %q", err, tt.err)
				}
				b.nothing(t, tt.images)
				if n := b.Fake.Calls(cloudtest.Launch); n > 2 {
					t.Errorf("%d launches were asked for", n)
				}
				if n := len(b.Instances()); n > 1 {
					t.Errorf("%d builders were launched", n)
				}
				if took := time.Since(began); strings.HasPrefix(name, "forgotten") && took > 15*time.Minute {
					t.Errorf("it was noticed after %s", took)
				}
			})
		})
	}
}

// forgetful has the cloud show nothing of what has ended.
func (b *bench) forgetful() { b.slow(3 * time.Minute) }

// slow is the same with an image that takes so long.
func (b *bench) slow(image time.Duration) {
	b.Fake = cloudtest.NewFake(cloudtest.Options{Boot: 30 * time.Second, Lag: 5 * time.Second, Keep: time.Nanosecond, Image: image})
	b.Provider = b.Fake
}

// forbidden says from the n-th time on that nothing may be launched.
func forbidden(n int) func(context.Context) error {
	return func(context.Context) error {
		if n--; n <= 0 {
			return errors.New("burstd is paused")
		}
		return nil
	}
}

func nothing(context.Context, cloud.Instance, func()) error { return nil }

// TestUnseen: of an image that no list shows, it is said that it may come, by its id or by
// its launch; and its builder is ended all the same.
func TestUnseen(t *testing.T) {
	for name, tt := range map[string]struct {
		with func(b *bench)
		want string
	}{
		"its id is known":    {func(*bench) {}, "image image-0001 was begun and no list shows it; should it come yet, burst image list has it, and burst image delete image-0001 removes it"},
		"its answer is lost": {func(b *bench) { b.Inject(cloudtest.MakeImage, cloudtest.Fault{Err: transient, Lost: true, Times: 1e6}) }, "no list shows one; should it come yet, burst image list has it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.Provider = blind{b.Fake}
				tt.with(b)
				_, err := Build(t.Context(), b.Config)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want one with %q", err, tt.want)
				}
				b.nothing(t, 1)
			})
		})
	}
}

// blind is a cloud that shows no images.
type blind struct{ *cloudtest.Fake }

func (blind) Images(context.Context, string) ([]cloud.Image, error) { return nil, nil }

// TestStuckRemoval: an image that the cloud does not remove keeps no builder alive.
func TestStuckRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.Inject(cloudtest.DeleteImage, cloudtest.Fault{Err: transient, Times: 1e6})
		ctx, cancel := context.WithCancel(t.Context())
		b.Step = at("imaged", cancel)
		began := time.Now()
		_, err := Build(ctx, b.Config)
		if want := "image image-0001, which was begun, is left; burst image delete image-0001 removes it"; err == nil || !strings.Contains(err.Error(), want) || time.Since(began) > 20*time.Minute {
			t.Errorf("after %s: %v, want one with %q", time.Since(began), err, want)
		}
		b.nothing(t, 1)
	})
}

var transient = &cloud.Error{Kind: cloud.Transient, Op: "x", Err: errors.New("injected")}

func failing(context.Context, cloud.Instance, func()) error {
	return &SetupError{Why: `setup line 3: "make": exit 2`, Tail: "no rule"}
}

// at does something when a step comes for the first time.
func at(step string, do func()) func(string) error {
	done := false
	return func(name string) error {
		if name == step && !done {
			done = true
			do()
		}
		return nil
	}
}

func (b *bench) killLater(d time.Duration) {
	go func() {
		time.Sleep(d)
		b.Kill("i-00000001")
	}()
}

// steps are all that Build tells of in a build that goes well, and in one that fails.
var steps = []string{"lease", "launch", "launched", "setup", "image", "imaged", "discard", "terminate", "gone"}

// TestKilled: whatever the process is killed at, a builder that lives is nobody's, and
// an image that was begun is listed.
func TestKilled(t *testing.T) {
	for _, step := range steps {
		for _, lost := range []bool{false, true} { // the answer of the call after the step, which the dead process never saw
			t.Run(fmt.Sprint(step, lost), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t)
					seen := false
					b.Step = func(name string) error {
						if name == "imaged" && step == "discard" {
							b.FailImages("no room")
						}
						if name != step {
							return nil
						}
						seen = true
						if held, free := b.live(); len(free) > 0 || len(held) == 0 && name == "setup" {
							t.Errorf("before the death: held %v, free %v", held, free)
						}
						if lost {
							b.carryOut(name)
						}
						return ErrDied
					}
					if _, err := Build(t.Context(), b.Config); !errors.Is(err, ErrDied) || !seen {
						t.Fatalf("%v, seen %v", err, seen)
					}
					time.Sleep(time.Minute)
					held, free := b.live()
					want := 1
					if step == "lease" || step == "launch" && !lost || step == "gone" || step == "terminate" && lost {
						want = 0
					}
					if len(held) > 0 || len(free) != want {
						t.Errorf("held by a dead process: %v; free: %v, want %d", held, free, want)
					}
					begun := step == "imaged" || step == "discard" && !lost || step == "terminate" || step == "gone" || step == "image" && lost
					all := b.images(t)
					if (len(all) == 1) != begun {
						t.Errorf("images are %+v, begun: %v", all, begun)
					}
					for _, i := range all {
						unfinished, err := b.Leases.Unfinished(i.Token)
						if want := step == "image" || step == "imaged" || step == "discard"; unfinished != want || err != nil {
							t.Errorf("its image is not finished: %v (%v), want %v", unfinished, err, want)
						}
					}
				})
			})
		}
	}
}

// carryOut does what a dead process had asked for a moment before.
func (b *bench) carryOut(step string) {
	ctx := context.Background()
	entries, _ := os.ReadDir(string(b.Leases))
	if len(entries) == 0 {
		return
	}
	r := b.Config.Request
	r.Token, r.Count = entries[0].Name(), 1
	switch step {
	case "launch":
		_, _ = b.Launch(ctx, r)
	case "image":
		_, _ = b.MakeImage(ctx, cloud.ImageRequest{Token: r.Token, Cluster: "c", Pool: "p", Instance: "i-00000001"})
	case "discard":
		_ = b.DeleteImage(ctx, "c", "image-0001")
	case "terminate":
		_ = b.Terminate(ctx, []string{"i-00000001"})
	}
}

// TestInterrupted: an interrupt at any time ends the builder, and removes what has
// been begun of the image.
func TestInterrupted(t *testing.T) {
	for after := time.Duration(0); after < 9*time.Minute; after += 17 * time.Second {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			_, err := Build(ctx, b.Config)
			want := 0
			if err == nil {
				want = 1
			}
			b.nothing(t, want)
			if err == nil && after < 8*time.Minute {
				t.Errorf("done after %s?", after)
			}
		})
	}
}

func TestNoImager(t *testing.T) {
	b := newBench(t)
	b.Provider = struct{ cloud.Provider }{b.Fake}
	if _, err := Build(t.Context(), b.Config); !errors.Is(err, ErrNoImager) {
		t.Error(err)
	}
}
