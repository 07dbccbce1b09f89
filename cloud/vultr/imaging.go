package vultr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.Imager = (*Provider)(nil)

const (
	opImage       = "image"
	opImages      = "images"
	opDeleteImage = "delete-image"
)

// tagImage marks snapshots of ours; its value is the image that they were made from.
const tagImage = "burst:image"

// maxDescription is what is sure to be kept of a description: Vultr says of none that it is too long.
const maxDescription = 255

// A snapshot has no tags, but a description: ours is our tags with one blank between, what it
// is found again by before what people read, of which is left out what has no room.
func describe(r cloud.ImageRequest) string {
	text := ""
	for _, t := range [][2]string{{tagToken, r.Token}, {tagCluster, r.Cluster}, {tagPool, r.Pool}} {
		text += writeTags(map[string]string{t[0]: t[1]})[0] + " "
	}
	source := r.Source
	for {
		whole := text + writeTags(map[string]string{tagImage: source})[0]
		if len(whole) <= maxDescription || source == "" {
			return whole
		}
		_, last := utf8.DecodeLastRuneInString(source)
		source = source[:len(source)-last]
	}
}

// imageAs reads a snapshot; false: it is none of ours, or Vultr shows it as deleted.
func imageAs(s govultr.Snapshot) (cloud.Image, bool) {
	tags := readTags(strings.Fields(s.Description))
	source, made := tags[tagImage]
	if !made || tags[tagCluster] == "" || tags[tagToken] == "" || s.Status == "deleted" {
		return cloud.Image{}, false
	}
	one := cloud.Image{ID: bySnapshot + s.ID, Token: tags[tagToken], Cluster: tags[tagCluster], Pool: tags[tagPool], Source: source,
		State: cloud.ImageFailed, Progress: -1, Bytes: s.Size, Made: when(s.DateCreated)}
	switch s.Status {
	case "complete":
		one.State, one.Progress = cloud.ImageAvailable, 100
	case "pending":
		one.State = cloud.ImagePending
	default:
		one.Why = "Vultr says that it is " + s.Status
	}
	return one, true
}

// MakeImage implements cloud.Imager. The instance has to be stopped, so that its file systems do
// not change under the snapshot: it is waited for to stop by itself, and what does not is
// halted. Vultr knows no tokens: a snapshot is
// looked for by its description before it is asked for, and for a Lag after an answer
// to that was lost. What a process that has died has asked for, another one's
// MakeImage may ask for again: then both are shown.
func (p *Provider) MakeImage(ctx context.Context, r cloud.ImageRequest) (cloud.Image, error) {
	if r.Token == "" || r.Cluster == "" || r.Instance == "" {
		return cloud.Image{}, invalid(opImage, "an image needs a token, a cluster and an instance")
	}
	done, err := p.turns.take(ctx, r.Token)
	if err != nil {
		return cloud.Image{}, transient(opImage, err)
	}
	defer done()
	for {
		all, err := p.Images(ctx, r.Cluster)
		if err != nil {
			return cloud.Image{}, err
		}
		if n := slices.IndexFunc(all, func(i cloud.Image) bool { return i.Token == r.Token }); n >= 0 {
			return all[n], nil
		}
		asked, ok := p.snapped.Get(r.Token, p.c.Lag)
		if !ok {
			break
		}
		select {
		case <-time.After(min(time.Until(asked.Add(p.c.Lag)), max(p.c.Lag/20, time.Millisecond))):
		case <-ctx.Done():
			return cloud.Image{}, transient(opImage, fmt.Errorf("waiting to see what became of the snapshot of %s: %w", r.Instance, ctx.Err()))
		}
	}
	return p.snap(ctx, r)
}

// haltTime is how long an instance may take to stop, until the caller is to ask again.
const haltTime = 5 * time.Minute

// halt returns when Vultr shows the instance as stopped. Vultr's halt is a power cut, and its answer
// says only that it will come: it is asked for what has not shut itself down after 3 Lags, unless that is
// what is waited for.
func (p *Provider) halt(ctx context.Context, r cloud.ImageRequest) error {
	id := r.Instance
	byItself := time.Now().Add(3 * p.c.Lag)
	ctx, cancel := context.WithTimeoutCause(ctx, haltTime, fmt.Errorf("instance %s is not stopped after %s", id, haltTime))
	defer cancel()
	asked := false
	for {
		power, status := "", ""
		err := call(ctx, opImage, "looking whether "+id+" is stopped", func(ctx context.Context) error {
			i, _, err := p.api.Instance.Get(ctx, id)
			if err == nil && (i == nil || i.ID == "") {
				err = errors.New("it has no id")
			}
			if err == nil {
				power, status = i.PowerStatus, i.Status
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case r.OwnStop && status != "active":
			return invalid(opImage, "instance %s is %s: %w", id, status, cloud.ErrNotItsEnd)
		case power == "stopped":
			return nil
		case r.OwnStop && !time.Now().Before(byItself):
			return invalid(opImage, "instance %s runs: %w", id, cloud.ErrNotItsEnd)
		case !asked && !time.Now().Before(byItself):
			if err := call(ctx, opImage, "halting "+id, func(ctx context.Context) error { return p.api.Instance.Halt(ctx, id) }); err != nil {
				return err
			}
			asked = true
		}
		select {
		case <-time.After(max(p.c.Lag/20, time.Millisecond)):
		case <-ctx.Done():
			return transient(opImage, context.Cause(ctx))
		}
	}
}

func (p *Provider) snap(ctx context.Context, r cloud.ImageRequest) (cloud.Image, error) {
	if err := p.halt(ctx, r); err != nil {
		return cloud.Image{}, err
	}
	p.snapped.Put(r.Token, time.Now())
	var made cloud.Image
	err := call(ctx, opImage, "making a snapshot of "+r.Instance, func(ctx context.Context) error {
		s, _, err := p.api.Snapshot.Create(ctx, &govultr.SnapshotReq{InstanceID: r.Instance, Description: describe(r)})
		if err == nil && (s == nil || s.ID == "") {
			err = errors.New("it has no id")
		}
		if err == nil {
			made, _ = imageAs(govultr.Snapshot{ID: s.ID, DateCreated: s.DateCreated, Description: describe(r), Size: s.Size, Status: "pending"})
		}
		return err
	})
	switch {
	case err == nil:
	case unsent(err), refused(err):
		p.snapped.Drop(r.Token)
	default:
		p.snapped.Put(r.Token, time.Now()) // it may have left only now
	}
	return made, err
}

// Images implements cloud.Imager.
func (p *Provider) Images(ctx context.Context, cluster string) ([]cloud.Image, error) {
	if cluster == "" {
		return nil, invalid(opImages, "no cluster")
	}
	snapshots, err := p.allSnapshots(ctx, opImages)
	if err != nil {
		return nil, err
	}
	var all []cloud.Image
	for _, s := range snapshots {
		if one, ok := imageAs(s); ok && one.Cluster == cluster {
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b cloud.Image) int { return cmp.Or(a.Made.Compare(b.Made), strings.Compare(a.ID, b.ID)) })
	return all, nil
}

// DeleteImage implements cloud.Imager.
func (p *Provider) DeleteImage(ctx context.Context, cluster, id string) error {
	all, err := p.Images(ctx, cluster)
	if err != nil {
		var e *cloud.Error
		if errors.As(err, &e) {
			err = &cloud.Error{Kind: e.Kind, Op: opDeleteImage, Code: e.Code, RetryAfter: e.RetryAfter, Err: e.Err}
		}
		return err
	}
	if !slices.ContainsFunc(all, func(i cloud.Image) bool { return i.ID == id }) {
		return invalid(opDeleteImage, "cluster %s has no image %s at Vultr", cluster, id)
	}
	bare := strings.TrimPrefix(id, bySnapshot)
	err = call(ctx, opDeleteImage, "deleting snapshot "+bare, func(ctx context.Context) error { return p.api.Snapshot.Delete(ctx, bare) })
	p.know.snapshots.Drop(bare)
	if notFound(err) {
		return nil
	}
	return err
}
