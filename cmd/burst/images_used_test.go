package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestUsersOf: an image that only a pool's further source launches is in use, too.
func TestUsersOf(t *testing.T) {
	of := func(pool, provider, image string) config.Pool {
		return config.Pool{Power: power.Pool{Name: pool, Provider: provider, Image: image}}
	}
	big := of("big", "east", "ami-1")
	big.Then = []config.Pool{of("big", "lon", "snapshot:s-1")}
	cfg := &config.Config{Pools: []config.Pool{big, of("small", "east", "ami-1"), of("raw", "lon", "s-2")}}
	for id, want := range map[string][]string{"ami-1": {"big", "small"}, "snapshot:s-1": {"big"}, "snapshot:s-2": {"raw"}, "ami-2": {}} {
		if got := usersOf(cfg, id); !slices.Equal(got, want) {
			t.Errorf("%s is used by %v, want %v", id, got, want)
		}
	}
}

// TestImageListMarksTheUnfinished: the cloud has an image as available of which the command was killed.
func TestImageListMarksTheUnfinished(t *testing.T) {
	t.Parallel()
	fake := vultrFake(t)
	cfg := twoSources(t, fake, new(apitest.Backend))
	id := map[string]string{}
	for _, n := range []string{"A", "B"} {
		id[n] = fake.AddSnapshot("burst:cluster=f00d burst:image=os:2136 burst:pool=v burst:token=image-20260101T000000Z-"+n, "complete", time.Now())
	}
	builders := string(imaging.LeasesIn(cfg.Endpoint.State))
	if err := os.Mkdir(builders, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(builders, "image-20260101T000000Z-B"), []byte("an image is begun\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := allImages(t.Context(), cfg)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	var out bytes.Buffer
	if err := writeImages(&out, all, false); err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		row := regexp.MustCompile(`(?m)^` + i.ID + ` .*$`).FindString(out.String())
		if want := strings.HasSuffix(i.Token, "B"); i.Unfinished != want || strings.Contains(row, "available; its build was killed: delete it") != want || row == "" {
			t.Errorf("%s is %v: %q", i.Token, i.Unfinished, row)
		}
	}
	// A pool that is to be made of it works, and perhaps not well.
	for n, want := range map[string]bool{"A": false, "B": true} {
		cfg.Pools[0].Then[0].Power.Image = "snapshot:" + id[n]
		found := checkVultr(t.Context(), cfg, openedOf(cfg), "lon")
		text := "warning  pool v, image: snapshot:" + id[n] + " may not be whole: its build was killed\n"
		if len(found) != 1 || strings.Contains(found[0].text(), text) != want || wrongs(found) > 0 {
			t.Errorf("%s: %+v", n, found)
		}
	}
}
