package imaging

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// end ends the builder, and removes an image that is of no use. An error says what is left.
func (b *build) end(ctx context.Context, failed bool) error {
	b.enter(Ending)
	defer b.enter("")
	var errs []error
	if failed && b.begun {
		errs = append(errs, b.discard(ctx))
	}
	if b.asked {
		errs = append(errs, b.terminate(ctx))
	}
	return errors.Join(errs...)
}

// discard removes the image that was begun.
func (b *build) discard(ctx context.Context) error {
	if err := b.step("discard"); err != nil {
		return err
	}
	until := time.Now().Add(b.Provider.Limits().Lag)
	for {
		all, err := b.imager.Images(ctx, b.Request.Cluster)
		mine := slices.DeleteFunc(all, func(i cloud.Image) bool { return i.Token != b.Request.Token })
		if err == nil && len(mine) == 0 && !time.Now().Before(until) {
			b.image = cloud.Image{}
			return nil
		}
		for _, i := range mine {
			if err = b.imager.DeleteImage(ctx, i.Cluster, i.ID); err == nil {
				until = time.Now() // what is shown is all that there is
			}
		}
		if err != nil && !b.again(ctx, err) {
			return fmt.Errorf("the image that was begun is left, burst image list shows it: %w", err)
		}
		if err == nil {
			if err := b.pause(ctx, b.Poll); err != nil {
				return fmt.Errorf("whether an image was begun is not known, burst image list tells: %w", err)
			}
		}
	}
}

// terminate ends what there is of the token, and waits until the cloud has none of it.
func (b *build) terminate(ctx context.Context) error {
	until := time.Now().Add(b.Provider.Limits().Lag)
	left := func(err error) error {
		return fmt.Errorf("instance %s of launch %s is perhaps left; burstd ends it: %w", b.instance.ID, b.Request.Token, err)
	}
	for {
		if err := b.step("terminate"); err != nil {
			return err
		}
		found, err := b.Provider.List(ctx, cloud.Filter{Cluster: b.Request.Cluster, Tokens: []string{b.Request.Token}})
		var ids []string
		for _, i := range found {
			if i.State.Live() {
				ids = append(ids, i.ID)
			} else if i.ID == b.instance.ID {
				until = time.Now() // its one instance
			}
		}
		if err == nil && len(ids) == 0 && !time.Now().Before(until) {
			return b.step("gone")
		}
		if len(ids) == 0 && b.instance.ID != "" {
			ids = []string{b.instance.ID} // not shown yet
		}
		if err == nil && len(ids) > 0 {
			err = b.Provider.Terminate(ctx, ids)
		}
		if err != nil && !b.again(ctx, err) {
			return left(err)
		}
		if err == nil {
			if err := b.pause(ctx, b.Poll); err != nil {
				return left(err)
			}
		}
	}
}
