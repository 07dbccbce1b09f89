package imaging

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// make has the cloud make the image, and waits until it is available.
func (b *build) make(ctx context.Context) error {
	r := cloud.ImageRequest{Token: b.Request.Token, Cluster: b.Request.Cluster, Pool: b.Request.Pool, Source: b.Request.Image, Instance: b.instance.ID, OwnStop: b.cut != nil}
	if err := b.lease.begin(); err != nil {
		return err
	}
	for b.image.ID == "" {
		if err := b.step("image"); err != nil {
			return err
		}
		b.begun = true
		made, err := b.imager.MakeImage(ctx, r)
		b.open = b.open || err != nil && cloud.KindOf(err) == cloud.Transient
		if err == nil {
			b.image = made
		} else if b.cut != nil && errors.Is(err, cloud.ErrNotItsEnd) {
			return lost(b.instance.ID, errors.Join(b.cut, err))
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
				return fmt.Errorf("the cloud does not show image %s, which it had begun", b.image.ID)
			}
		default:
			missed, b.image = time.Time{}, all[n]
			b.tell(b.image.Progress, nil)
			switch b.image.State {
			case cloud.ImageAvailable:
				return b.lease.settle()
			case cloud.ImageFailed:
				return fmt.Errorf("the cloud could not make image %s: %s", b.image.ID, cmp.Or(b.image.Why, "it does not say why"))
			}
		}
		if err := b.still(ctx); err != nil {
			return err
		}
		if err := b.pause(ctx, b.Poll); err != nil {
			return fmt.Errorf("waiting for image %s, which is %s: %w", b.image.ID, b.image.State, err)
		}
	}
}

// still is an error once the builder is gone before its image is there: of what has been
// read of its disk by then nobody knows whether it is whole. It may be stopped meanwhile, which some
// clouds do, and of which Vultr's provider says after a while that it is ending.
func (b *build) still(ctx context.Context) error {
	i, shown, err := b.look(ctx)
	if err == nil && (b.absent(shown) || shown && i.State == cloud.Terminated) {
		return fmt.Errorf("%w, while image %s was made of it: %s", errEnded, b.image.ID, b.instance.ID)
	}
	return nil // what cannot be told now, the next look tells
}
