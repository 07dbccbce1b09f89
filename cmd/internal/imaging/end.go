package imaging

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// end removes an image that is of no use, and ends the builder; each has its own time, as
// a cloud that does not let go of the one must not keep the other alive. The errors say what
// is left of them.
func (b *build) end(ctx context.Context, failed bool) (image, builder error) {
	b.enter(Ending)
	defer b.enter("")
	timed := func(do func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, endTime)
		defer cancel()
		return do(ctx)
	}
	if failed && b.begun {
		if image = timed(b.discard); dead(image) {
			return image, nil
		}
	}
	if b.asked {
		builder = timed(b.terminate)
	}
	if b.removed && image == nil && !dead(builder) {
		image = timed(b.discard)
	}
	return image, builder
}

// discard removes the image that was begun. The second time, when the builder is gone, it
// looks for a Lag: what is under way in the cloud when an image is removed, as EBS's snapshots, may be
// shown only later.
func (b *build) discard(ctx context.Context) error {
	if err := b.step("discard"); err != nil {
		return err
	}
	until := time.Now().Add(b.Provider.Limits().Lag)
	found, late := b.removed, b.removed
	for {
		all, err := b.imager.Images(ctx, b.Request.Cluster)
		mine := slices.DeleteFunc(all, func(i cloud.Image) bool { return i.Token != b.Request.Token })
		if err == nil && len(mine) == 0 && !time.Now().Before(until) {
			b.removed = found
			return b.unfound(found)
		}
		pending := false
		for _, i := range mine {
			found, b.image = true, i
			if err = b.imager.DeleteImage(ctx, i.Cluster, i.ID); err == nil {
				if !late {
					until = time.Now() // a Lag is waited for when the builder is gone
				}
				continue
			}
			// A cloud may refuse to remove what it still makes.
			pending = i.State == cloud.ImagePending && cloud.KindOf(err) == cloud.Invalid
			break
		}
		if err != nil && (pending && b.pause(ctx, b.Poll) != nil || !pending && !b.again(ctx, err)) {
			return b.remains(err)
		}
		if err == nil {
			if err := b.pause(ctx, b.Poll); err != nil {
				return b.remains(err)
			}
		}
	}
}

// unfound judges an end at which no list shows the image: it was removed, or it
// never was, or it may come yet.
func (b *build) unfound(found bool) error {
	id := b.image.ID
	b.image = cloud.Image{}
	switch {
	case found || id == "" && !b.open:
		return nil
	case id != "":
		return fmt.Errorf("image %s was begun and no list shows it; should it come yet, burst image list has it, and burst image delete %[1]s removes it", id)
	}
	return fmt.Errorf("whether an image of launch %s was begun is not known, and no list shows one; should it come yet, burst image list has it", b.Request.Token)
}

// remains says what to do about an image that could not be removed.
func (b *build) remains(err error) error {
	if b.image.ID == "" {
		return fmt.Errorf("whether an image of launch %s was begun is not known, burst image list tells: %w", b.Request.Token, err)
	}
	return fmt.Errorf("image %s, which was begun, is left; burst image delete %[1]s removes it: %w", b.image.ID, err)
}

// terminate ends what there is of the token, and waits until the cloud has none of it.
func (b *build) terminate(ctx context.Context) error {
	until := time.Now().Add(b.Provider.Limits().Lag)
	known := b.instance.ID != "" // else the answer to its launch was lost
	left := func(err error) error {
		if away := b.astray(context.WithoutCancel(ctx)); away != nil {
			return fmt.Errorf("instance %s of launch %s is perhaps left, in account %s; burstd ends it when it has that account's key: %w", b.instance.ID, b.Request.Token, b.account, away)
		}
		return fmt.Errorf("instance %s of launch %s is perhaps left; burstd ends it: %w", b.instance.ID, b.Request.Token, err)
	}
	for {
		if err := b.step("terminate"); err != nil {
			return err
		}
		found, err := b.Provider.List(ctx, cloud.Filter{Cluster: b.Request.Cluster, Tokens: []string{b.Request.Token}})
		var ids []string
		ended := false
		for _, i := range found {
			if b.instance.ID == "" {
				b.instance = i
			}
			if i.State.Live() {
				ids = append(ids, i.ID)
			} else if i.ID == b.instance.ID {
				ended = true
				if b.gone = i.Ended; known {
					until = time.Now() // its one instance
				}
			}
		}
		if err == nil && len(ids) == 0 && !time.Now().Before(until) {
			if !ended {
				err = b.astray(ctx)
			}
			if err == nil {
				return b.step("gone")
			}
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
