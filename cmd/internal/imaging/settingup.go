package imaging

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// ErrUnknown is wrapped when nobody can tell whether all was done on the builder.
var ErrUnknown = errors.New("whether the instance is clean is not known, so no image is made of it")

// errOff: the builder runs no more.
var errOff = errors.New("the cloud shows that it runs no more")

// offFor is how long the builder is shown as off until it has shut itself down without our having heard of
// its cleaning: one that only restarts, as a setup command may have it, runs again before.
const offFor = 2 * time.Minute

// setUp watches the builder while it is set up: whoever ends it need not wait for us. One that is
// cleaned lets nobody in any more. If the connection to it is lost then, that it shuts itself down is its
// word that it is ready, which MakeImage waits for; without HardStop there is no such word. Where the connection
// was lost before, that it is off tells nothing: it may have ended well, or been halted.
func (b *build) setUp(ctx context.Context) error {
	if err := b.step("setup"); err != nil {
		return err
	}
	whole, hard := ctx, b.Provider.Limits().HardStop
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var cleaning atomic.Bool
	var off time.Time // since when it is shown as off; zero: it is not
	done := make(chan error, 1)
	go func() { done <- b.SetUp(ctx, b.instance, func() { cleaning.Store(true) }) }()
	for {
		select {
		case err := <-done:
			why := context.Cause(ctx)
			switch {
			case err == nil:
				return nil
			case errors.Is(why, errEnded):
				return why
			case whole.Err() != nil || errors.As(err, new(*SetupError)):
				return err
			case !cleaning.Load() && errors.Is(why, errOff):
				return fmt.Errorf("%w: %s is off, and nothing was heard of the end of its setup", ErrUnknown, b.instance.ID)
			case !cleaning.Load():
				return err
			case !hard:
				return lost(b.instance.ID, err)
			case errors.Is(why, errOff):
				err = why
			}
			b.cut = err
			return nil
		case <-time.After(3 * b.Poll):
		}
		b.tell(-1, nil)
		i, shown, err := b.look(ctx)
		switch {
		case err != nil:
		case hard && shown && (i.State == cloud.Pending || i.State == cloud.Terminating):
			if b.unseen = (time.Time{}); off.IsZero() {
				off = time.Now()
			}
			if cleaning.Load() || time.Since(off) >= offFor {
				cancel(errOff)
			}
		case b.ended(i, shown):
			cancel(fmt.Errorf("%w: %s", errEnded, b.instance.ID))
		case shown:
			off = time.Time{}
		}
	}
}

// lost is the error of a builder of which nobody can tell whether it is clean.
func lost(id string, err error) error {
	return fmt.Errorf("%w: the connection to %s was lost while it was cleaned: %w", ErrUnknown, id, err)
}
