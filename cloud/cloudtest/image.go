package cloudtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// made is an image with the times at which it changes.
type made struct {
	cloud.Image // State and Progress are filled by at
	ready       time.Time
	listed      time.Time
	failed      string // why it will never be ready
}

func (m *made) at(now time.Time) cloud.Image {
	i := m.Image
	switch {
	case m.failed != "":
		i.State, i.Why = cloud.ImageFailed, m.failed
	case !now.Before(m.ready):
		i.State, i.Progress, i.Bytes = cloud.ImageAvailable, 100, 8<<30
	default:
		i.State = cloud.ImagePending
		i.Progress = int(100 * now.Sub(m.Made) / m.ready.Sub(m.Made))
	}
	return i
}

var _ cloud.Imager = (*Fake)(nil)

// MakeImage implements cloud.Imager.
func (f *Fake) MakeImage(ctx context.Context, r cloud.ImageRequest) (cloud.Image, error) {
	lost, err := f.begin(ctx, MakeImage)
	if err != nil {
		return cloud.Image{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	n := slices.IndexFunc(f.images, func(m *made) bool { return m.Cluster == r.Cluster && m.Token == r.Token })
	if n < 0 {
		m := f.machines[r.Instance]
		if r.Token == "" || r.Cluster == "" || m == nil || m.Cluster != r.Cluster || m.at(now).State != cloud.Running {
			return cloud.Image{}, fail(MakeImage, cloud.Invalid, fmt.Sprintf("token %q, cluster %q, and instance %q, which must run", r.Token, r.Cluster, r.Instance))
		}
		n = len(f.images)
		f.imaged++
		f.images = append(f.images, &made{ready: now.Add(f.options.Image), listed: now.Add(f.options.Lag), Image: cloud.Image{
			ID: fmt.Sprintf("image-%04d", f.imaged), Token: r.Token, Cluster: r.Cluster, Pool: r.Pool, Source: r.Source, Made: now,
		}})
	}
	if lost != nil {
		return cloud.Image{}, lost
	}
	return f.images[n].at(now), nil
}

// Images implements cloud.Imager.
func (f *Fake) Images(ctx context.Context, cluster string) ([]cloud.Image, error) {
	lost, err := f.begin(ctx, Images)
	if err != nil || lost != nil {
		return nil, firstOf(err, lost)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	var all []cloud.Image
	for _, m := range f.images {
		if m.Cluster == cluster && !now.Before(m.listed) {
			all = append(all, m.at(now))
		}
	}
	return all, nil
}

// DeleteImage implements cloud.Imager.
func (f *Fake) DeleteImage(ctx context.Context, cluster, id string) error {
	lost, err := f.begin(ctx, DeleteImage)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := slices.IndexFunc(f.images, func(m *made) bool { return m.Cluster == cluster && m.ID == id })
	if n < 0 {
		return fail(DeleteImage, cloud.Invalid, "the cluster has no image "+id)
	}
	f.images = slices.Delete(f.images, n, n+1)
	return lost
}

// FailImages lets the images that are being made never become available.
func (f *Fake) FailImages(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.images {
		if m.at(time.Now()).State == cloud.ImagePending {
			m.failed = why
		}
	}
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}
