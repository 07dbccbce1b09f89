// Package imaging makes machine images of a pool's nodes: it launches one
// instance of the pool's first type (the builder), has the bootstrap make it ready, has
// the cloud make an image of it, and ends it.
//
// Who ends the builder when this process dies? burstd: it ends every instance of
// the cluster that is nobody's. A builder is somebody's for as long as
//
//   - a file of the launch token's name in burstd's state folder is locked. The
//     file is there, and locked, before the builder is asked for; the kernel drops the
//     lock when its process dies, however it dies, or the host does; and
//   - the time that is part of its launch token has not come. The token is a tag of
//     the instance from birth, so that a process that hangs holds it no longer than that.
//
// So no kill -9 of one of the two leaves a builder without the other: the command
// ends its own whether burstd is there or not, and a burstd that starts later finds
// what a dead command has left in the cloud's own list, with no record of it anywhere. Only
// if both are gone it lives on, until a burstd starts, as every node does. The build is
// not burstd's own work because nothing is lost with it: it is begun again. What an
// image was begun of stays known the same way: images have the cluster's tags from
// birth, and are listed with their states.
//
//	taken ──> asked for ──> runs ──> set up ──> image begun ──> image available ──> builder gone ──> dropped
//	  │           │           │         │             │
//	  └───────────┴───────────┴─────────┴─────────────┴── error, interrupt ──> (image removed) ──> builder gone ──> dropped
//	                                                  └── kill -9 ──> burstd ends the builder; the image is listed
package imaging

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Stage is how far a build has come.
type Stage string

const (
	Launching Stage = "launch" // the builder is asked for
	Booting   Stage = "boot"   // it has no address yet, or does not run
	SettingUp Stage = "setup"  // the bootstrap runs on it
	Imaging   Stage = "image"  // the cloud makes the image
	Ending    Stage = "end"    // the builder is ended
)

// Progress tells of a build.
type Progress struct {
	Stage    Stage
	Instance string // empty: not known yet
	Image    string // the same
	Percent  int    // of Imaging; -1: the cloud does not say
	Problem  error  // why a call is repeated
}

// Config is a build.
type Config struct {
	Provider cloud.Provider
	Request  cloud.LaunchRequest // all but its token
	Leases   Leases
	Within   time.Duration // so long the builder may live
	// Allowed says why nothing may be launched now; nil: it may. It is asked before the builder is asked
	// for, and again when it is there.
	Allowed func(ctx context.Context) error
	// SetUp returns when the builder is ready for its image to be made. It calls cleaning once the
	// builder is cleaned, after which it shuts itself down, and lets nobody in who could ask whether it is done.
	SetUp  func(ctx context.Context, i cloud.Instance, cleaning func()) error
	Report func(Progress) // nil: nobody is told

	Poll time.Duration // between two looks at the cloud; 5 s
	// Step, unless nil, is told of each thing before it is done; an error stands for
	// the death of this process there.
	Step func(name string) error
}

// Result is what a build has come to.
type Result struct {
	Image    cloud.Image
	Instance string // the builder; empty: none is known
	Token    string // of its launch
	Gone     bool   // the cloud has confirmed the builder's end
	Offering cloud.Offering
	Launched time.Time // the builder
	Ended    time.Time // when the cloud says that it ended, else when it was gone, or given up
	Guessed  bool      // the cloud did not say
	Took     map[Stage]time.Duration
}

// ErrNoImager is wrapped when a provider makes no images.
var ErrNoImager = errors.New("it makes no images")

// Least and Most are the bounds of Config.Within.
const (
	Least = 10 * time.Minute
	Most  = 12 * time.Hour
)

// margin is how long before its token's time a builder is ended by its own process.
const margin = 2 * time.Minute

// endTime is how long the end of a builder is waited for, and before that the one of
// an image that was begun.
const endTime = 5 * time.Minute

// Build makes an image. With an error nothing is left, unless it says so; what is
// left of builders burstd ends.
func Build(ctx context.Context, c Config) (Result, error) {
	imager, ok := c.Provider.(cloud.Imager)
	if !ok {
		return Result{}, ErrNoImager
	}
	if c.Poll == 0 {
		c.Poll = 5 * time.Second
	}
	until := time.Now().Add(c.Within)
	token := cloud.BuilderToken(until)
	if err := c.step("lease"); err != nil {
		return Result{}, err
	}
	lease, err := c.Leases.Take(token)
	if err != nil {
		return Result{}, err
	}
	defer lease.drop()
	b := &build{Config: c, imager: imager, lease: lease, took: map[Stage]time.Duration{}, began: time.Now()}
	b.Request.Token, b.Request.Count = token, 1
	limited, cancel := context.WithDeadlineCause(ctx, until.Add(-margin), fmt.Errorf("it was not done within %s", c.Within-margin))
	defer cancel()
	err = b.run(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = errors.Join(context.Cause(limited), err)
	}
	if dead(err) {
		return b.result(), err
	}
	image, builder := b.end(context.WithoutCancel(ctx), err != nil)
	r := b.result()
	r.Ended, r.Gone = b.gone, builder == nil
	if !r.Ended.After(r.Launched) { // it does not say, or to the second of a builder that was soon gone
		r.Ended, r.Guessed = time.Now(), true
		if !r.Ended.After(r.Launched) { // this host's clock is behind the cloud's
			r.Ended = r.Launched.Add(time.Second)
		}
	}
	if left := errors.Join(image, builder); dead(left) {
		return r, left
	}
	switch {
	case builder == nil:
		builder = lease.end()
	case image == nil:
		image = lease.settle()
	}
	return r, errors.Join(err, image, builder)
}

func (b *build) result() Result {
	return Result{Image: b.image, Instance: b.instance.ID, Token: b.Request.Token, Offering: b.instance.Offering, Launched: b.instance.Launched, Took: b.took}
}

// ErrDied is what Step returns to stand for the death of the process.
var ErrDied = errors.New("the process has died")

func dead(err error) bool { return errors.Is(err, ErrDied) }

func (c *Config) step(name string) error {
	if c.Step == nil {
		return nil
	}
	return c.Step(name)
}
