package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

func TestControlList(t *testing.T) {
	t.Parallel()
	cfg := configure(t)
	p := open(t, cfg)
	c := Control{cfg.Dir}
	a, b := start(t, p, "t1", "n1"), start(t, p, "t2", "n2")
	if err := c.Evict("n2", time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := p.Acknowledge(t.Context(), cloud.Notice{Instance: b, Kind: cloud.SpotInterruption}); err != nil {
		t.Fatal(err)
	}
	if err := p.Acknowledge(t.Context(), cloud.Notice{Instance: "../../etc"}); err != nil {
		t.Errorf("acknowledging an unknown instance: %v", err)
	}
	all, err := c.List()
	if err != nil || len(all) != 2 {
		t.Fatalf("listed %+v, %v", all, err)
	}
	if m := all[0]; m.ID != a || m.Node != "n1" || m.PID == 0 || m.Notice != nil || !m.Acked.IsZero() || m.State != cloud.Running {
		t.Errorf("the first is %+v", m)
	}
	if m := all[1]; m.ID != b || m.Node != "n2" || m.Notice == nil || time.Until(m.Notice.Deadline) < 50*time.Minute || m.Acked.IsZero() {
		t.Errorf("the second is %+v", m)
	}
	// Brought forward, for example because it was acknowledged.
	if err := c.Evict(b, 0); err != nil {
		t.Fatal(err)
	}
	awaitState(t, p, b, cloud.Terminated)
	// The node's next instance is the one that is meant.
	next := start(t, p, "t3", "n2")
	if err := c.Kill("n2"); err != nil {
		t.Fatal(err)
	}
	if s := state(t, p, next); s != cloud.Terminated {
		t.Errorf("killed, but it is %s", s)
	}
}

func TestControlErrors(t *testing.T) {
	t.Parallel()
	cfg := configure(t)
	p := open(t, cfg)
	c := Control{cfg.Dir}
	ended := start(t, p, "t", "n1")
	if err := c.Kill(ended); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		call func() error
		want string
	}{
		"evict unknown":  {func() error { return c.Evict("n9", 0) }, `evicting n9: no instance has the id or node name "n9"`},
		"kill unknown":   {func() error { return c.Kill("../x") }, `killing ../x: no instance`},
		"evict ended":    {func() error { return c.Evict("n1", 0) }, "evicting n1: the instance of n1 has ended"},
		"lead negative":  {func() error { return c.Evict("n1", -1) }, "negative"},
		"boot negative":  {func() error { return c.SetBoot(-1) }, "negative"},
		"empty pattern":  {func() error { return c.Refuse("", 0) }, "is not type, type/zone or type/zone/market"},
		"long pattern":   {func() error { return c.Refuse("a/b/c/d", 0) }, "is not type, type/zone or type/zone/market"},
		"broken pattern": {func() error { return c.Refuse("[", 0) }, "syntax error in pattern"},
		"no folder":      {func() error { return Control{cfg.Dir + "/none"}.Kill("n1") }, cfg.Dir + "/none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if err := tt.call(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	cfg := configure(t)
	open(t, cfg)
	c, s := Control{cfg.Dir}, store{cfg.Dir}
	for pattern, room := range map[string]int{"small/*/spot": 2, "small": 5, "large/b": 0, "huge": 0} {
		if err := c.Refuse(pattern, room); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Refuse("huge", -1); err != nil {
		t.Fatal(err)
	}
	onDemand := cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}
	for n, tt := range []struct {
		offering cloud.Offering
		ask      int
		all      bool
		want     int
	}{
		{small, 3, true, 0},
		{small, 3, false, 2},
		{small, 1, false, 0},
		{onDemand, 9, false, 3}, // 5, of which spot took 2
		{onDemand, 1, false, 0},
		{cloud.Offering{Type: "large", Zone: "b", Market: cloud.Spot}, 1, false, 0},
		{cloud.Offering{Type: "large", Zone: "a", Market: cloud.Spot}, 9, true, 9},
		{cloud.Offering{Type: "huge"}, 9, true, 9},
	} {
		if got, err := s.take(tt.offering, tt.ask, tt.all); err != nil || got != tt.want {
			t.Errorf("ask %d: %d of %s granted, %v, want %d", n, got, tt.offering, err, tt.want)
		}
	}
	if all, err := c.Refusals(); err != nil || len(all) != 3 {
		t.Errorf("in force are %v, %v, want 3", all, err)
	}
}

// TestCorruptFiles: an error that names the file, never a panic or a wrong answer.
func TestCorruptFiles(t *testing.T) {
	t.Parallel()
	cfg := configure(t)
	p := open(t, cfg)
	c := Control{cfg.Dir}
	id := start(t, p, "t", "n1")
	launch := func() error { _, err := p.Launch(t.Context(), request("t-new", 1)); return err }
	replay := func() error { _, err := p.Launch(t.Context(), request("t", 1)); return err }
	list := func() error { _, err := p.List(t.Context(), cloud.Filter{Cluster: "c"}); return err }
	look := func() error { _, err := c.List(); return err }
	notices := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		return p.Notices(ctx, func(context.Context, cloud.Notice) error { return errors.New("not this one") })
	}
	inFolder := func(name string) string { return p.store.path(id, name) }
	for _, tt := range []struct {
		path, text string
		call       func() error
	}{
		{inFolder(instanceFile), "{", list},
		{inFolder(instanceFile), "", list},
		{inFolder(instanceFile), `{"id":"i-0000000000","token":"t","cluster":"c"}`, list},
		{inFolder(machineFile), "[1]", list},
		{inFolder(endedFile), `{"time":"yesterday"}`, list},
		{inFolder(nodeFile), "", look},
		{inFolder(ackFile), "x", look},
		{p.store.launchPath("t"), "{", replay},
		{p.store.refusalsPath(), "{}", launch},
		{p.store.refusalsPath(), `[{"pattern":"[","room":1}]`, launch},
		{p.store.bootPath(), "5", launch},
		{p.store.bootPath(), `"soon"`, launch},
		{p.store.noticePath(cloud.Notice{Instance: id}), `{"instance":`, notices},
		{p.store.noticePath(cloud.Notice{Instance: id}), `{"instance":"i-0000000000","kind":"rebalance"}`, notices},
	} {
		before, readErr := os.ReadFile(tt.path)
		write(t, tt.path, tt.text)
		if err := tt.call(); err == nil || !strings.Contains(err.Error(), tt.path) {
			t.Errorf("%s holding %q: error is %v", filepath.Base(tt.path), tt.text, err)
		}
		if readErr == nil {
			write(t, tt.path, string(before))
		} else if err := os.Remove(tt.path); err != nil {
			t.Fatal(err)
		}
	}
	if err := list(); err != nil {
		t.Errorf("repaired, but: %v", err)
	}
}

func TestAssignErrors(t *testing.T) {
	t.Parallel()
	p := open(t, configure(t))
	id := start(t, p, "t", "n1")
	for name, nodes := range map[string]map[string]string{
		"another node": {id: "n2"},
		"no name":      {id: ""},
		"a path":       {id: "../n1"},
	} {
		if err := p.Assign(t.Context(), nodes); cloud.KindOf(err) != cloud.Invalid || err == nil {
			t.Errorf("%s: error is %v, want one of kind invalid", name, err)
		}
	}
}

func TestTokenOfAnotherRequest(t *testing.T) {
	t.Parallel()
	p := open(t, configure(t))
	r := request("t", 1)
	r.Tags = map[string]string{} // read back as nil
	for range 2 {
		if _, err := p.Launch(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	r.Count = 2
	if got, err := p.Launch(t.Context(), r); cloud.KindOf(err) != cloud.Invalid || len(got) != 0 {
		t.Errorf("got %v, %v, want an error of kind invalid", got, err)
	}
}

// TestNoticeIsPrompt: the folder is watched, so a notice takes milliseconds.
func TestNoticeIsPrompt(t *testing.T) {
	t.Parallel()
	cfg := configure(t)
	p := open(t, cfg)
	id := start(t, p, "t", "n1")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var got cloud.Notice
	done := make(chan error, 1)
	go func() {
		done <- p.Notices(ctx, func(_ context.Context, n cloud.Notice) error {
			got = n
			cancel()
			return nil
		})
	}()
	if err := (Control{cfg.Dir}).Evict("n1", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	after := got.Received.Sub(got.Deadline.Add(-time.Minute))
	t.Logf("told after %s", after)
	if got.Instance != id || got.Source != "local" || after > 2*time.Second {
		t.Errorf("the notice is %+v", got)
	}
}

// A source that is late gives the interruption before the end that came of it.
func TestNoticesInOrder(t *testing.T) {
	t.Parallel()
	cfg := configure(t)
	p := open(t, cfg)
	id := start(t, p, "t", "n1")
	if err := p.Evict(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	awaitState(t, p, id, cloud.Terminated)
	await(t, "the notice of its end", func() bool {
		_, err := os.Stat(p.store.noticePath(cloud.Notice{Instance: id, Kind: cloud.StateChange}))
		return err == nil
	})
	var got []cloud.NoticeKind
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := p.Notices(ctx, func(_ context.Context, n cloud.Notice) error {
		if got = append(got, n.Kind); len(got) == 2 {
			cancel()
		}
		return nil
	})
	if want := []cloud.NoticeKind{cloud.SpotInterruption, cloud.StateChange}; !errors.Is(err, context.Canceled) || !slices.Equal(got, want) {
		t.Errorf("the notices are %v (%v), want %v", got, err, want)
	}
}
