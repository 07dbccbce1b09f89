package cloudtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// builder is an instance that runs, and the request to make an image of it.
func (s *subject) builder() (cloud.Imager, cloud.ImageRequest, bool) {
	s.Helper()
	imager, ok := s.Provider.(cloud.Imager)
	if s.lacks(!ok, "Imager") {
		return nil, cloud.ImageRequest{}, false
	}
	r := s.request(1)
	r.Token = cloud.BuilderToken(time.Now().Add(time.Hour))
	got, err := s.Provider.Launch(s.ctx, r)
	if err != nil || len(got) != 1 {
		s.Fatalf("launching a builder: %v, %v", ids(got), err)
	}
	s.assign(ids(got))
	s.within(s.Provider.Limits().Lag, "a builder that runs", func() bool {
		all := s.list(cloud.Filter{Tokens: []string{r.Token}})
		return len(all) == 1 && all[0].State == cloud.Running
	})
	return imager, cloud.ImageRequest{Token: r.Token, Cluster: s.cluster, Pool: r.Pool, Source: "ssm:/site image/1", Instance: got[0].ID}, true
}

// images waits until the cluster has so many, all of them available.
func (s *subject) images(i cloud.Imager, count int) (all []cloud.Image) {
	s.Helper()
	s.within(s.Provider.Limits().Lag, fmt.Sprintf("%d images", count), func() bool {
		var err error
		if all, err = i.Images(s.ctx, s.cluster); err != nil {
			s.Fatalf("listing images: %v", err)
		}
		for _, one := range all {
			if one.State != cloud.ImageAvailable {
				return false
			}
		}
		return len(all) == count
	})
	return all
}

func testImage(s *subject) {
	i, r, ok := s.builder()
	if !ok {
		return
	}
	first, err := i.MakeImage(s.ctx, r)
	if err != nil || first.ID == "" || first.State != cloud.ImagePending && first.State != cloud.ImageAvailable {
		s.Fatalf("making an image: %+v, %v", first, err)
	}
	again, err := i.MakeImage(s.ctx, r)
	if err != nil || again.ID != first.ID {
		s.Errorf("again: %+v, %v, want %s", again, err, first.ID)
	}
	one := s.images(i, 1)[0]
	want := cloud.Image{ID: first.ID, Token: r.Token, Cluster: s.cluster, Pool: r.Pool, Source: r.Source, State: cloud.ImageAvailable,
		Progress: 100, Bytes: one.Bytes, Made: one.Made}
	if one != want || one.Bytes <= 0 || time.Since(one.Made).Abs() > time.Hour {
		s.Errorf("the image is %+v, want %+v", one, want)
	}
	s.terminate(r.Instance)
	s.gone(r.Instance)
	s.images(i, 1) // it outlives its instance

	other := s.cluster + "-other"
	if all, err := i.Images(s.ctx, other); err != nil || len(all) != 0 {
		s.Errorf("another cluster has %+v, %v", all, err)
	}
	last := "0"
	if strings.HasSuffix(first.ID, last) {
		last = "1"
	}
	for what, err := range map[string]error{
		"another cluster's": i.DeleteImage(s.ctx, other, first.ID),
		"unknown":           i.DeleteImage(s.ctx, s.cluster, first.ID[:len(first.ID)-1]+last),
		"no id":             i.DeleteImage(s.ctx, s.cluster, "nonsense"),
	} {
		if err == nil || cloud.KindOf(err) != cloud.Invalid {
			s.Errorf("deleting an image, %s: %v, want an error of kind invalid", what, err)
		}
	}
	s.images(i, 1)
	if err := i.DeleteImage(s.ctx, s.cluster, first.ID); err != nil {
		s.Fatalf("deleting the image: %v", err)
	}
	s.images(i, 0)
	if err := i.DeleteImage(s.ctx, s.cluster, first.ID); err == nil || cloud.KindOf(err) != cloud.Invalid {
		s.Errorf("deleting what is gone: %v, want an error of kind invalid", err)
	}
	r.Token, r.Instance = cloud.BuilderToken(time.Now()), "i-0123456789abcdef0"
	if _, err := i.MakeImage(s.ctx, r); err == nil || cloud.KindOf(err) != cloud.Invalid {
		s.Errorf("an image of no instance: %v, want an error of kind invalid", err)
	}
}

func testImageLost(s *subject) {
	i, r, ok := s.builder()
	if !ok || s.lacks(s.LoseImage == nil, "LoseImage") {
		return
	}
	s.LoseImage()
	if _, err := i.MakeImage(s.ctx, r); err == nil || cloud.KindOf(err) != cloud.Transient {
		s.Errorf("an image whose answer is lost: %v, want a transient error", err)
	}
	var found cloud.Image
	s.within(s.Provider.Limits().Lag, "the image whose answer was lost", func() bool {
		var err error
		found, err = i.MakeImage(s.ctx, r)
		return err == nil
	})
	if all := s.images(i, 1); all[0].ID != found.ID {
		s.Errorf("there is %s, and the repeat returned %s", all[0].ID, found.ID)
	}
	if err := i.DeleteImage(s.ctx, s.cluster, found.ID); err != nil {
		s.Errorf("deleting the image: %v", err)
	}
}

// testImageCut: what is left of a removal that was cut off is shown, and can be removed.
func testImageCut(s *subject) {
	i, r, ok := s.builder()
	if !ok || s.lacks(s.CutDelete == nil, "CutDelete") {
		return
	}
	first, err := i.MakeImage(s.ctx, r)
	if err != nil {
		s.Fatalf("making an image: %v", err)
	}
	s.images(i, 1)
	s.CutDelete()
	if err := i.DeleteImage(s.ctx, s.cluster, first.ID); err == nil {
		s.Fatal("a removal that is cut off has gone well")
	}
	left, err := i.Images(s.ctx, s.cluster)
	if err != nil || len(left) != 1 || left[0].State != cloud.ImageRemains || left[0].Token != r.Token || left[0].ID == first.ID {
		s.Fatalf("left is %+v, %v", left, err)
	}
	if err := i.DeleteImage(s.ctx, s.cluster+"-other", left[0].ID); cloud.KindOf(err) != cloud.Invalid {
		s.Errorf("another cluster's remains: %v, want an error of kind invalid", err)
	}
	if err := i.DeleteImage(s.ctx, s.cluster, left[0].ID); err != nil {
		s.Errorf("deleting the remains: %v", err)
	}
	s.images(i, 0)
}
