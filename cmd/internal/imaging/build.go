package imaging

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// build is one under way.
type build struct {
	Config
	imager   cloud.Imager
	instance cloud.Instance
	asked    bool // the builder may be there
	begun    bool // the image may be there
	image    cloud.Image
	stage    Stage
	began    time.Time // the stage
	took     map[Stage]time.Duration
}

func (b *build) run(ctx context.Context) error {
	for _, s := range []struct {
		stage Stage
		do    func(context.Context) error
	}{{Launching, b.launch}, {Booting, b.boot}, {SettingUp, b.setUp}, {Imaging, b.make}} {
		b.enter(s.stage)
		if err := s.do(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) enter(s Stage) {
	now := time.Now()
	if b.stage != "" {
		b.took[b.stage] += now.Sub(b.began)
	}
	b.stage, b.began = s, now
	if s != "" {
		b.tell(-1, nil)
	}
}

func (b *build) tell(percent int, problem error) {
	if b.Report != nil {
		b.Report(Progress{Stage: b.stage, Instance: b.instance.ID, Image: b.image.ID, Percent: percent, Problem: problem})
	}
}

// again says whether a call that failed may be repeated, and waits before.
func (b *build) again(ctx context.Context, err error) bool {
	kind := cloud.KindOf(err)
	if kind != cloud.Transient && kind != cloud.Throttled || ctx.Err() != nil {
		return false
	}
	wait := b.Poll
	if e := (*cloud.Error)(nil); errors.As(err, &e) {
		wait = max(wait, e.RetryAfter)
	}
	b.tell(-1, err)
	return b.pause(ctx, wait) == nil
}

func (b *build) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d/2 + rand.N(d/2+1))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *build) launch(ctx context.Context) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for {
		if err := b.step("launch"); err != nil {
			return err
		}
		b.asked = true
		got, err := b.Provider.Launch(ctx, b.Request)
		if len(got) > 0 {
			b.instance = got[0]
			return b.step("launched")
		}
		if e := (*cloud.Error)(nil); errors.As(err, &e) && e.Settled {
			b.asked = false
			return fmt.Errorf("launching %s: %w", b.Request.Offering, err)
		}
		if !b.again(ctx, err) {
			return fmt.Errorf("launching %s: %w", b.Request.Offering, err)
		}
	}
}

func (b *build) prepare(ctx context.Context) error {
	p, ok := b.Provider.(cloud.Preparer)
	if !ok {
		return nil
	}
	for {
		one := []cloud.LaunchRequest{b.Request}
		err := p.Prepare(ctx, one)[0]
		if err == nil {
			b.Request = one[0]
			return nil
		}
		if !b.again(ctx, err) {
			return fmt.Errorf("preparing the launch: %w", err)
		}
	}
}

// look asks for the builder as the cloud has it; false: it does not show it.
func (b *build) look(ctx context.Context) (cloud.Instance, bool, error) {
	found, err := b.Provider.List(ctx, cloud.Filter{Cluster: b.Request.Cluster, Tokens: []string{b.Request.Token}})
	n := slices.IndexFunc(found, func(i cloud.Instance) bool { return i.ID == b.instance.ID })
	if err != nil || n < 0 {
		return cloud.Instance{}, false, err
	}
	return found[n], true, nil
}

// errEnded: somebody else has ended the builder.
var errEnded = errors.New("somebody has ended the instance, or the cloud has")

func (b *build) boot(ctx context.Context) error {
	for {
		i, shown, err := b.look(ctx)
		switch {
		case err != nil:
			if !b.again(ctx, err) {
				return fmt.Errorf("waiting for instance %s to run: %w", b.instance.ID, err)
			}
			continue
		case shown && i.State == cloud.Running && i.Addr != "":
			b.instance = i
			return nil
		case shown && (i.State == cloud.Terminated || i.State == cloud.Terminating):
			return fmt.Errorf("%w: %s", errEnded, b.instance.ID)
		}
		b.tell(-1, nil)
		if err := b.pause(ctx, b.Poll); err != nil {
			return fmt.Errorf("waiting for instance %s to run: %w", b.instance.ID, err)
		}
	}
}

// setUp watches the builder while it is set up: whoever ends it need not wait for us.
func (b *build) setUp(ctx context.Context) error {
	if err := b.step("setup"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- b.SetUp(ctx, b.instance) }()
	for {
		select {
		case err := <-done:
			if why := context.Cause(ctx); err != nil && errors.Is(why, errEnded) {
				return why
			}
			return err
		case <-time.After(3 * b.Poll):
		}
		b.tell(-1, nil)
		i, shown, err := b.look(ctx)
		if err == nil && shown && (i.State == cloud.Terminated || i.State == cloud.Terminating) {
			cancel(fmt.Errorf("%w: %s", errEnded, b.instance.ID))
		}
	}
}

// make has the cloud make the image, and waits until it is available.
func (b *build) make(ctx context.Context) error {
	r := cloud.ImageRequest{Token: b.Request.Token, Cluster: b.Request.Cluster, Pool: b.Request.Pool, Source: b.Request.Image, Instance: b.instance.ID}
	for b.image.ID == "" {
		if err := b.step("image"); err != nil {
			return err
		}
		b.begun = true
		made, err := b.imager.MakeImage(ctx, r)
		if err == nil {
			b.image = made
		} else if !b.again(ctx, err) {
			return fmt.Errorf("making an image of %s: %w", b.instance.ID, err)
		}
	}
	if err := b.step("imaged"); err != nil {
		return err
	}
	b.tell(-1, nil)
	missed := time.Time{}
	for {
		all, err := b.imager.Images(ctx, r.Cluster)
		n := slices.IndexFunc(all, func(i cloud.Image) bool { return i.ID == b.image.ID })
		switch {
		case err != nil:
			if !b.again(ctx, err) {
				return fmt.Errorf("waiting for image %s: %w", b.image.ID, err)
			}
			continue
		case n < 0:
			if missed.IsZero() {
				missed = time.Now()
			}
			if time.Since(missed) > b.Provider.Limits().Lag+time.Minute {
				b.begun = false
				return fmt.Errorf("the cloud does not show image %s, which it had begun", b.image.ID)
			}
		default:
			missed, b.image = time.Time{}, all[n]
			b.tell(b.image.Progress, nil)
			switch b.image.State {
			case cloud.ImageAvailable:
				return nil
			case cloud.ImageFailed:
				return fmt.Errorf("the cloud could not make image %s: %s", b.image.ID, cmp.Or(b.image.Why, "it does not say why"))
			}
		}
		if err := b.pause(ctx, b.Poll); err != nil {
			return fmt.Errorf("waiting for image %s, which is %s: %w", b.image.ID, b.image.State, err)
		}
	}
}
