package imaging

import (
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
	lease    *lease
	instance cloud.Instance
	asked    bool      // the builder may be there
	account  string    // where it was asked for; empty: not known
	unseen   time.Time // since when lists lack the builder; zero: the last has shown it
	begun    bool      // the image may be there
	open     bool      // the answer to a call that asked for it was lost
	removed  bool      // it was shown, and removed
	gone     time.Time // when the cloud says that the builder ended; zero: it does not say
	cut      error     // why the word that the builder is ready did not come; nil: it has
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
		if err := b.allowed(ctx); err != nil {
			return err
		}
		if err := b.step("launch"); err != nil {
			return err
		}
		if !b.asked {
			b.account, _ = b.whose(ctx)
		} else if err := b.astray(ctx); err != nil { // it would be bought once more
			if !b.again(ctx, err) {
				return fmt.Errorf("launching %s: %w", b.Request.Offering, err)
			}
			continue
		}
		b.asked = true
		got, err := b.Provider.Launch(ctx, b.Request)
		if len(got) > 0 {
			b.instance = got[0]
			if err := b.step("launched"); err != nil {
				return err
			}
			// Whoever has forbidden it meanwhile may have listed the cloud before it was there.
			return b.allowed(ctx)
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

func (b *build) allowed(ctx context.Context) error {
	if b.Allowed == nil {
		return nil
	}
	return b.Allowed(ctx)
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
	if err == nil && n < 0 {
		err = b.astray(ctx)
	}
	if err != nil || n < 0 {
		return cloud.Instance{}, false, err
	}
	return found[n], true, nil
}

// errEnded: somebody else has ended the builder.
var errEnded = errors.New("somebody has ended the instance, or the cloud has")

// absentFor is how long lists lack an instance that is gone. A cloud that forgets at
// once what is destroyed (Vultr) shows its end in no other way, and one list that lacks
// it may be wrong.
const absentFor = 5 * time.Minute

// absent says whether complete lists have lacked the builder for so long that it is gone.
func (b *build) absent(shown bool) bool {
	if shown {
		b.unseen = time.Time{}
		return false
	}
	if b.unseen.IsZero() {
		b.unseen = time.Now()
	}
	return time.Since(b.unseen) >= max(absentFor, b.Provider.Limits().Lag)
}

// ended says whether somebody has ended the builder, which is needed no longer only once
// its image is there.
func (b *build) ended(i cloud.Instance, shown bool) bool {
	return b.absent(shown) || shown && (i.State == cloud.Terminated || i.State == cloud.Terminating)
}

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
		case b.ended(i, shown):
			return fmt.Errorf("%w: %s", errEnded, b.instance.ID)
		}
		b.tell(-1, nil)
		if err := b.pause(ctx, b.Poll); err != nil {
			return fmt.Errorf("waiting for instance %s to run: %w", b.instance.ID, err)
		}
	}
}
