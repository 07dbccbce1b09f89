package vultr_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// TestBuilderType: a snapshot is made on the plan with the smallest disk, as Vultr launches no
// smaller ones of it.
func TestBuilderType(t *testing.T) {
	t.Parallel()
	p := over(t, fakeCloud(t, vultrtest.Options{}))
	for _, tt := range []struct {
		name  string
		types []string
		want  string // the plan, or a part of the error
	}{
		{"one", []string{vultrtest.Plan}, vultrtest.Plan},
		{"the smaller is the second", []string{vultrtest.Plan, vultrtest.Plan2}, vultrtest.Plan2},
		{"the smaller is the first", []string{vultrtest.Plan2, vultrtest.Plan}, vultrtest.Plan2},
		{"not bare metal", []string{vultrtest.Metal, vultrtest.Plan}, vultrtest.Plan},
		{"not of another region", []string{vultrtest.GPUPlan, vultrtest.Plan}, vultrtest.Plan},
		{"of another region alone", []string{vultrtest.Metal, vultrtest.GPUPlan}, "lists it for ewr"},
		{"bare metal alone", []string{vultrtest.Metal}, "makes no snapshots of bare metal"},
		{"unknown", []string{vultrtest.Plan, "vhp-none"}, "has no plan \"vhp-none\"; it has vhp-8c-16gb-amd"},
	} {
		kind := cloud.Invalid
		if tt.name == "of another region alone" {
			kind = cloud.Capacity
		}
		got, err := p.BuilderType(t.Context(), cloud.BuilderNeeds{Types: tt.types})
		if err == nil && got != tt.want || err != nil && (cloud.KindOf(err) != kind || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
}

// TestSnapshotOfAShutDown: an instance that shuts itself down is not unplugged.
func TestSnapshotOfAShutDown(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{Halt: lag})
	p := over(t, c)
	got, err := p.Launch(t.Context(), ask("t-1", 1))
	if err != nil {
		t.Fatal(err)
	}
	c.Off(got[0].ID)
	if _, err := p.MakeImage(t.Context(), cloud.ImageRequest{Token: "t-1", Cluster: "c-1", Pool: "pool", Instance: got[0].ID}); err != nil {
		t.Error(err)
	}
	if all := c.Snapshots(); len(all) != 1 || len(c.Torn()) > 0 || len(c.Unplugged()) > 0 {
		t.Errorf("snapshots are %v, of a running instance %v, of an unplugged one %v", all, c.Torn(), c.Unplugged())
	}
}

// TestSnapshotWhenStopped: Vultr's answer to a halt does not mean that the instance is stopped: its
// snapshot waits for that, also where the halt's answer was lost; and if it never comes, there is none.
func TestSnapshotWhenStopped(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		halt  time.Duration
		fault *vultrtest.Fault
		made  int
	}{
		"soon":         {150 * time.Millisecond, nil, 1},
		"halt is lost": {150 * time.Millisecond, &vultrtest.Fault{Lost: true, Skip: 1}, 1},
		"never":        {time.Hour, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCloud(t, vultrtest.Options{Halt: tt.halt})
			p := over(t, c)
			if tt.fault != nil {
				c.Fail("POST instances", *tt.fault)
			}
			got, err := p.Launch(t.Context(), ask("t-1", 1))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			if tt.made == 0 {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), time.Second)
			}
			defer cancel()
			r := cloud.ImageRequest{Token: "t-1", Cluster: "c-1", Pool: "pool", Instance: got[0].ID}
			_, err = p.MakeImage(ctx, r)
			open := func() bool { // so close together the looks may meet our own limit
				kind := cloud.KindOf(err)
				return err != nil && (kind == cloud.Transient || kind == cloud.Throttled)
			}
			for open() && ctx.Err() == nil {
				_, err = p.MakeImage(ctx, r)
			}
			if (err == nil) != (tt.made > 0) || err != nil && !open() {
				t.Error(err)
			}
			if all := c.Snapshots(); len(all) != tt.made || len(c.Torn()) > 0 || len(c.Unplugged()) != tt.made {
				t.Errorf("snapshots are %v, of a running instance %v, of an unplugged one %v; want %d", all, c.Torn(), c.Unplugged(), tt.made)
			}
		})
	}
}

// TestSnapshotOfWhatShutItselfDown: where only that shows that all was done on an instance, none is made of one
// that runs, that is suspended, or that Vultr has to stop.
func TestSnapshotOfWhatShutItselfDown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		off, suspended bool
		why            string // "": one is made
	}{
		"off":       {off: true},
		"runs":      {why: "has not shut itself down"},
		"suspended": {off: true, suspended: true, why: "is suspended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fakeCloud(t, vultrtest.Options{})
			p := over(t, c)
			got, err := p.Launch(t.Context(), ask("t-1", 1))
			if err != nil {
				t.Fatal(err)
			}
			if tt.off {
				c.Off(got[0].ID)
			}
			if tt.suspended {
				c.Suspend(got[0].ID)
			}
			r := cloud.ImageRequest{Token: "t-1", Cluster: "c-1", Pool: "pool", Instance: got[0].ID, OwnStop: true}
			_, err = p.MakeImage(t.Context(), r)
			for kind := cloud.KindOf(err); err != nil && (kind == cloud.Transient || kind == cloud.Throttled) && t.Context().Err() == nil; kind = cloud.KindOf(err) {
				_, err = p.MakeImage(t.Context(), r)
			}
			if (err == nil) != (tt.why == "") || err != nil && (cloud.KindOf(err) != cloud.Invalid || !strings.Contains(err.Error(), tt.why)) {
				t.Errorf("%v, want %q", err, tt.why)
			}
			halts := slices.ContainsFunc(c.Calls(), func(call vultrtest.Call) bool { return strings.Contains(call.Path, "/halt") })
			if made := len(c.Snapshots()) == 1; made != (tt.why == "") || halts {
				t.Errorf("a snapshot is made: %v, the instance was halted: %v", made, halts)
			}
		})
	}
}
