package cloudtest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// testPages lists more instances than fit one page.
func testPages(s *subject) {
	if s.lacks(s.PageSize == 0, "PageSize") {
		return
	}
	var want []string
	for len(want) < s.PageSize*2+1 {
		_, ids := s.launch(min(s.PageSize+1, s.Provider.Limits().MaxLaunch))
		want = append(want, ids...)
	}
	slices.Sort(want)
	s.within(s.Provider.Limits().Lag, "all pages", func() bool {
		return slices.Equal(ids(s.list(cloud.Filter{})), want)
	})
	if s.lacks(s.FailPage == nil, "FailPage") {
		return
	}
	s.FailPage()
	if part, err := s.Provider.List(s.ctx, cloud.Filter{Cluster: s.cluster}); err == nil || len(part) != 0 {
		s.Errorf("a list whose second page fails: %d instances, error %v, want an error alone", len(part), err)
	}
}

func testFilter(s *subject) {
	first, a := s.launch(2)
	second, b := s.launch(2)
	other := s.request(1)
	other.Cluster += "-other"
	foreign, err := s.Provider.Launch(s.ctx, other)
	if err != nil {
		s.Fatalf("launching for another cluster: %v", err)
	}
	s.Cleanup(func() {
		if err := s.Provider.Terminate(s.ctx, ids(foreign)); err != nil {
			s.Errorf("ending the other cluster's instance: %v", err)
		}
	})
	s.settled(first.Token, 2)
	s.settled(second.Token, 2)
	all := slices.Sorted(slices.Values(append(slices.Clone(a), b...)))
	tests := map[string]struct {
		f    cloud.Filter
		want []string
	}{
		"all":                     {cloud.Filter{}, all},
		"a token":                 {cloud.Filter{Tokens: []string{first.Token}}, a},
		"two tokens":              {cloud.Filter{Tokens: []string{first.Token, second.Token}}, all},
		"a token unknown":         {cloud.Filter{Tokens: []string{"t-unknown"}}, nil},
		"a token of others":       {cloud.Filter{Tokens: []string{other.Token}}, nil},
		"an id":                   {cloud.Filter{IDs: b[:1]}, b[:1]},
		"an id of others":         {cloud.Filter{IDs: ids(foreign)}, nil},
		"an id that is gone":      {cloud.Filter{IDs: []string{"i-0123456789abcdef0"}}, nil},
		"known and unknown ids":   {cloud.Filter{IDs: []string{"i-0123456789abcdef0", a[0]}}, a[:1]},
		"id of another's token":   {cloud.Filter{Tokens: []string{first.Token}, IDs: b[:1]}, nil},
		"id and token that agree": {cloud.Filter{Tokens: []string{second.Token}, IDs: b[:1]}, b[:1]},
	}
	for name, tt := range tests {
		if got := ids(s.list(tt.f)); !slices.Equal(got, tt.want) {
			s.Errorf("%s: listed %v, want %v", name, got, tt.want)
		}
	}
}

func testTerminate(s *subject) {
	r, launched := s.launch(3)
	s.settled(r.Token, 3)
	for range 3 { // repeated, and with strangers among them
		s.terminate(launched[0], "i-0123456789abcdef0", launched[1])
	}
	s.gone(launched[:2]...)
	s.terminate(launched[:2]...)
	s.terminate("i-0123456789abcdef0")
	s.terminate()
	if found := s.settled(r.Token, 1); !slices.Equal(found, launched[2:]) {
		s.Errorf("left are %v, want %v", found, launched[2:])
	}
	for _, i := range s.list(cloud.Filter{IDs: launched[:2]}) {
		if i.State != cloud.Terminated || (!i.Ended.IsZero() && i.Ended.Before(i.Launched)) {
			s.Errorf("a terminated instance is %+v", i)
		}
	}
}

// testTerminateAtOnce ends instances that may not be listed yet, nor have begun to boot.
func testTerminateAtOnce(s *subject) {
	r := s.request(2)
	launched, err := s.Provider.Launch(s.ctx, r)
	if err != nil {
		s.Fatalf("launching: %v", err)
	}
	s.terminate(ids(launched)...)
	s.within(s.Provider.Limits().Lag, "end of what was just launched", func() bool {
		again, err := s.Provider.Launch(s.ctx, r)
		return len(again) == 0 && err != nil
	})
	s.settled(r.Token, 0)
}

// testKinds fails each call with each kind of error, once.
func testKinds(s *subject) {
	if s.lacks(s.Fail == nil, "Fail") {
		return
	}
	r, launched := s.launch(1)
	s.settled(r.Token, 1)
	for _, kind := range Kinds {
		failing := s.request(1)
		for op, call := range map[Op]func() error{
			Launch: func() error { _, err := s.Provider.Launch(s.ctx, failing); return err },
			List: func() error {
				found, err := s.Provider.List(s.ctx, cloud.Filter{Cluster: s.cluster})
				if err != nil && len(found) > 0 {
					s.Errorf("list fails with %s but returns instances", kind)
				}
				return err
			},
			Terminate: func() error { return s.Provider.Terminate(s.ctx, launched) },
		} {
			s.Fail(op, kind)
			err := call()
			if err == nil || cloud.KindOf(err) != kind {
				s.Errorf("%s: error is %v, want kind %s", op, err, kind)
			}
			if ce := (*cloud.Error)(nil); !errors.As(err, &ce) || ce.Op != string(op) {
				s.Errorf("%s: error %v does not name the call", op, err)
			}
		}
		s.settled(failing.Token, 0)
	}
	s.settled(r.Token, 1)
}

func testCancelled(s *subject) {
	r, launched := s.launch(1)
	s.settled(r.Token, 1)
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	cut := s.request(2)
	for what, call := range map[string]func() error{
		"launch":    func() error { _, err := s.Provider.Launch(ctx, cut); return err },
		"list":      func() error { _, err := s.Provider.List(ctx, cloud.Filter{Cluster: s.cluster}); return err },
		"terminate": func() error { return s.Provider.Terminate(ctx, launched) },
	} {
		begun := time.Now()
		err := call()
		if !errors.Is(err, context.Canceled) || cloud.KindOf(err) != cloud.Transient {
			s.Errorf("%s: error is %v, want a transient one that is context.Canceled", what, err)
		}
		if d := time.Since(begun); d > 5*time.Second {
			s.Errorf("%s returned only after %s", what, d)
		}
	}
	if again, err := s.Provider.Launch(s.ctx, cut); err != nil || len(again) != 2 {
		s.Errorf("launch after it was cancelled: %v, %v, want 2 instances", ids(again), err)
	}
	s.settled(cut.Token, 2)
}

// testNotices refuses a notice until the source is opened again.
func testNotices(s *subject) {
	source, ok := s.Provider.(cloud.NoticeSource)
	if s.lacks(!ok, "NoticeSource") || s.lacks(s.Announce == nil, "Announce") {
		return
	}
	r, launched := s.launch(2)
	s.settled(r.Token, 2)
	refused := 0
	s.watch(source, func(cancel func(), n cloud.Notice) error {
		if refused++; refused == 3 {
			cancel()
		}
		return errors.New("the journal is full")
	}, func() { s.Announce(launched[0]) })
	if s.Reopen != nil {
		source = s.Reopen().(cloud.NoticeSource)
	}
	var got []cloud.Notice
	s.watch(source, func(cancel func(), n cloud.Notice) error {
		if got = append(got, n); len(got) == 1 {
			s.Announce(launched[1])
		} else {
			cancel()
		}
		return nil
	}, func() {})
	for i, n := range got {
		if i > 1 || n.Instance != launched[i] || n.Kind != cloud.SpotInterruption || n.Source == "" ||
			n.Received.IsZero() || time.Until(n.Deadline) > time.Minute {
			s.Errorf("notice %d is %+v", i, n)
		}
	}
	if a, ok := s.Provider.(cloud.Acknowledger); ok && len(got) > 0 {
		for range 2 {
			if err := a.Acknowledge(s.ctx, got[0]); err != nil {
				s.Errorf("acknowledging: %v", err)
			}
		}
	}
}

// watch runs Notices until handle cancels it.
func (s *subject) watch(source cloud.NoticeSource, handle func(cancel func(), n cloud.Notice) error, begun func()) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, s.h.Timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- source.Notices(ctx, func(_ context.Context, n cloud.Notice) error { return handle(cancel, n) })
	}()
	begun()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		s.Fatalf("watching for notices: %v", err)
	}
}

func testAssign(s *subject) {
	a, ok := s.Provider.(cloud.Assigner)
	if s.lacks(!ok, "Assigner") {
		return
	}
	r, launched := s.launch(1)
	for range 2 { // launch has assigned it once already
		if err := a.Assign(s.ctx, map[string]string{launched[0]: "node-1", "i-0123456789abcdef0": "node-2"}); err != nil {
			s.Errorf("assigning again, and an unknown instance: %v", err)
		}
	}
	s.settled(r.Token, 1)
}
