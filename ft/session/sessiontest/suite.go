package sessiontest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/burst-hpc/burst/ft/session"
)

// Suite is what a hub relies on of a journal. open opens the test's one, which
// is empty at first; open again, as after a restart, has what was committed.
func Suite(t *testing.T, open func(t *testing.T) func() Journal) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"sessions are put whole and closed", (*suite).sessions},
		{"of two burst-sruns of a step the later counts", (*suite).later},
		{"a later attempt closes the earlier ones", (*suite).attempts},
		{"one that was replaced closes nothing", (*suite).closing},
		{"the last order of an attempt counts", (*suite).orders},
		{"what steps have answered to it is kept", (*suite).answers},
		{"a blessed generation never goes back", (*suite).blessings},
		{"how a step went is kept once", (*suite).summaries},
		{"changes at once", (*suite).together},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &suite{T: t, reopen: open(t)}
			s.Journal = s.reopen()
			c.test(s)
		})
	}
}

type suite struct {
	*testing.T
	Journal
	reopen func() Journal
}

var began = time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)

// opened is a session with all its fields.
func opened(k session.Key, token string, at time.Time) session.Session {
	return session.Session{UID: 1000, Hello: session.Hello{Key: k, Token: token, Began: at, Host: "c1", Method: "dmtcp", Strategy: "both",
		Dir: "/shared/ü ckpt", Interval: time.Minute, Cost: 3 * time.Second,
		Last: session.Answer{ID: "r0", Generation: "/shared/ü ckpt/gen-1", N: 1, Bytes: 1 << 40, Took: time.Second, Iteration: -1}}}
}

func given(k session.Key, n int) session.Given {
	return session.Given{Key: k, Token: "t", Answer: session.Answer{ID: "r1", Generation: fmt.Sprintf("/shared/attempt-%d/gen-%d", k.Attempt, n), N: n,
		Bytes: 5 << 30, Took: 1500 * time.Millisecond, Iteration: 77, Stopped: true}}
}

func (s *suite) commit(c session.Change) {
	s.Helper()
	if err := s.CommitSession(s.Context(), c); err != nil {
		s.Fatal(err)
	}
}

// want holds the journal's open sessions against some, now and after it was opened again.
func (s *suite) want(sessions ...session.Session) {
	s.Helper()
	order := func(a, b session.Session) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Step, b.Step))
	}
	for _, when := range []string{"now", "later"} {
		got, err := s.OpenSessions(s.Context())
		if err != nil {
			s.Fatal(err)
		}
		slices.SortFunc(got, order)
		if diff := gocmp.Diff(sessions, got); diff != "" {
			s.Errorf("%s open sessions are (-want +got):\n%s", when, diff)
		}
		s.Journal = s.reopen()
	}
}

func (s *suite) sessions() {
	s.want()
	one, two := opened(session.Key{Job: 7, Step: "0"}, "a", began), opened(session.Key{Job: 7, Step: "solve"}, "b", began)
	other := opened(session.Key{Job: 4294967295, Attempt: 1 << 20, Step: "0"}, "a", began)
	other.Last = session.Answer{}
	s.commit(session.Change{Opened: []session.Session{one, two, other}})
	s.want(one, two, other)
	one.Host, one.UID, one.Last.N = "c2", 0, 2
	s.commit(session.Change{Opened: []session.Session{one}})
	s.want(one, two, other)
	s.commit(session.Change{Closed: []session.End{{Key: two.Key, Token: "b"}, {Key: other.Key, Token: "a"}, {Key: session.Key{Job: 99, Step: "0"}, Token: "a"}}})
	s.want(one)
	s.commit(session.Change{})
	s.want(one)
}

func (s *suite) later() {
	k := session.Key{Job: 7, Step: "0"}
	first, later, same := opened(k, "b", began), opened(k, "a", began.Add(time.Millisecond)), opened(k, "c", began.Add(time.Millisecond))
	s.commit(session.Change{Opened: []session.Session{later}})
	s.commit(session.Change{Opened: []session.Session{first}})
	s.want(later)
	s.commit(session.Change{Opened: []session.Session{same}})
	s.commit(session.Change{Opened: []session.Session{later}})
	s.want(same)
}

func (s *suite) attempts() {
	old, other := opened(session.Key{Job: 7, Step: "0"}, "a", began), opened(session.Key{Job: 8, Step: "0"}, "a", began)
	older := opened(session.Key{Job: 7, Step: "1"}, "a", began)
	next := opened(session.Key{Job: 7, Attempt: 2, Step: "0"}, "b", began.Add(-time.Hour))
	s.commit(session.Change{Opened: []session.Session{old, older, other}})
	s.commit(session.Change{Opened: []session.Session{next}})
	s.want(next, other)
}

func (s *suite) closing() {
	k := session.Key{Job: 7, Step: "0"}
	mine := opened(k, "mine", began)
	s.commit(session.Change{Opened: []session.Session{mine}})
	s.commit(session.Change{Closed: []session.End{{Key: k, Token: "another"}, {Key: session.Key{Job: 7, Attempt: 1, Step: "0"}, Token: "mine"}}})
	s.want(mine)
}

func (s *suite) summaries() {
	k, next := session.Key{Job: 7, Step: "solve"}, session.Key{Job: 7, Attempt: 3, Step: "solve"}
	said := func(checkpoints int) *session.Summary {
		return &session.Summary{Label: "heat", Method: "dmtcp", Exit: 3, Ranks: 64, Ran: time.Hour, Checkpoints: checkpoints, Writing: 1500 * time.Millisecond,
			Restarts: 2, Lost: time.Minute, LostUnknown: 1, Iteration: 2500}
	}
	for _, tt := range []struct {
		name   string
		commit session.Change
		want   *session.Done
	}{
		{"without a session", session.Change{Closed: []session.End{{Key: k, Token: "t", Summary: said(1)}}}, nil},
		{"of another burst-srun", session.Change{Opened: []session.Session{opened(k, "t", began)}, Closed: []session.End{{Key: k, Token: "u", Summary: said(1)}}}, nil},
		{"it does not say", session.Change{Closed: []session.End{{Key: k, Token: "t"}}}, nil},
		{"it says", session.Change{Opened: []session.Session{opened(k, "t", began)}, Closed: []session.End{{Key: k, Token: "t", Summary: said(2)}}}, &session.Done{Key: k, Summary: *said(2)}},
		{"again", session.Change{Closed: []session.End{{Key: k, Token: "t", Summary: said(9)}}}, &session.Done{Key: k, Summary: *said(2)}},
		{"a later attempt", session.Change{Opened: []session.Session{opened(next, "u", began)}, Closed: []session.End{{Key: next, Token: "u", Summary: said(4)}}}, &session.Done{Key: next, Summary: *said(4)}},
	} {
		s.commit(tt.commit)
		for range 2 {
			got, err := s.StepsDone(s.Context(), 7)
			if err != nil {
				s.Fatal(err)
			}
			var want []session.Done
			if tt.want != nil && len(got) == 1 {
				if got[0].At.IsZero() {
					s.Errorf("%s: it has no time", tt.name)
				}
				tt.want.At = got[0].At
			}
			if tt.want != nil {
				want = append(want, *tt.want)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				s.Errorf("%s: what is known of steps is (-want +got):\n%s", tt.name, diff)
			}
			s.Journal = s.reopen()
		}
	}
	if got, err := s.StepsDone(s.Context(), 8); err != nil || len(got) != 0 {
		s.Errorf("of another job: %+v, %v", got, err)
	}
}

func (s *suite) orders() {
	order := func(attempt int, id string, kind session.Kind) session.Order {
		return session.Order{Job: 7, Attempt: attempt, Request: session.Request{ID: id, Kind: kind, By: began.Add(time.Hour), Why: "spot-interruption of i-1"}}
	}
	none, first, next := order(0, "", ""), order(0, "i-1/spot/7", session.Stop), order(1, "r", session.Checkpoint)
	s.commit(session.Change{Orders: []session.Order{order(0, "r0", session.Checkpoint), next}})
	s.commit(session.Change{Orders: []session.Order{first}})
	for range 2 {
		for attempt, want := range []session.Order{first, next, {}} {
			got, err := s.OrderOf(s.Context(), 7, attempt)
			if err != nil {
				s.Fatal(err)
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				s.Errorf("of attempt %d (-want +got):\n%s", attempt, diff)
			}
		}
		s.Journal = s.reopen()
	}
	if got, err := s.OrderOf(s.Context(), 8, 0); err != nil || got.Request.ID != none.Request.ID {
		s.Errorf("of another job: %+v, %v", got, err)
	}
}

func (s *suite) answers() {
	key := func(attempt int, step string) session.Key { return session.Key{Job: 7, Attempt: attempt, Step: step} }
	order := func(attempt int, id string) session.Change {
		return session.Change{Orders: []session.Order{{Job: 7, Attempt: attempt, Request: session.Request{ID: id, Kind: session.Stop, By: began}}}}
	}
	failed := given(key(1, "b"), 0)
	failed.Answer = session.Answer{ID: "r1", Iteration: -1, Stopped: true, Error: "disk full"}
	good, other, periodic := given(key(1, "a"), 3), given(key(1, "c"), 3), given(key(1, "c"), 4)
	other.Answer.ID, periodic.Answer.ID = "r2", ""
	for _, tt := range []struct {
		name   string
		commit session.Change
		want   map[string]session.Answer
	}{
		{"before it was asked", session.Change{Answers: []session.Given{good}}, nil},
		{"it is asked", order(1, "r1"), nil},
		{"one step", session.Change{Answers: []session.Given{good}}, map[string]session.Answer{"a": good.Answer}},
		{"another request's, and none's", session.Change{Answers: []session.Given{other, periodic}}, map[string]session.Answer{"a": good.Answer}},
		{"two steps", session.Change{Answers: []session.Given{failed, good}}, map[string]session.Answer{"a": good.Answer, "b": failed.Answer}},
		{"asked again", order(1, "r1"), map[string]session.Answer{"a": good.Answer, "b": failed.Answer}},
		{"another attempt is asked", order(2, "r1"), map[string]session.Answer{"a": good.Answer, "b": failed.Answer}},
		{"something else is asked", order(1, "r2"), nil},
		{"and answered", session.Change{Answers: []session.Given{other}}, map[string]session.Answer{"c": other.Answer}},
		{"the next attempt begins", session.Change{Opened: []session.Session{opened(key(2, "a"), "t", began)}}, nil},
	} {
		s.commit(tt.commit)
		for range 2 {
			got, err := s.AnswersOf(s.Context(), 7, 1)
			if err != nil {
				s.Fatal(err)
			}
			if diff := gocmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				s.Errorf("%s: the answers are (-want +got):\n%s", tt.name, diff)
			}
			s.Journal = s.reopen()
		}
	}
	if o, err := s.OrderOf(s.Context(), 7, 1); err != nil || o.Request.ID != "" {
		s.Errorf("an attempt that is over was asked %+v, %v", o, err)
	}
}

func (s *suite) blessings() {
	key := func(attempt int) session.Key { return session.Key{Job: 7, Attempt: attempt, Step: "0"} }
	failed := given(key(0), 9)
	failed.Answer.Generation, failed.Answer.Error = "", "disk full"
	for _, tt := range []struct {
		name   string
		commit session.Change
		want   session.Given // zero: none
	}{
		{"none was made", session.Change{Answers: []session.Given{failed}}, session.Given{}},
		{"the first", session.Change{Answers: []session.Given{given(key(0), 1)}}, given(key(0), 1)},
		{"two at once", session.Change{Answers: []session.Given{given(key(0), 3), given(key(0), 2)}}, given(key(0), 3)},
		{"an earlier one, late", session.Change{Answers: []session.Given{given(key(0), 2)}}, given(key(0), 3)},
		{"again", session.Change{Answers: []session.Given{given(key(0), 3)}}, given(key(0), 3)},
		{"one that failed", session.Change{Answers: []session.Given{failed}}, given(key(0), 3)},
		{"of the next attempt, with a lower number", session.Change{Answers: []session.Given{given(key(2), 1)}}, given(key(2), 1)},
		{"of an attempt that was cut off", session.Change{Answers: []session.Given{given(key(0), 99), given(key(1), 99)}}, given(key(2), 1)},
		{"a later attempt has opened", session.Change{Opened: []session.Session{opened(key(4), "t", began)}}, given(key(2), 1)},
		{"of the one before it", session.Change{Answers: []session.Given{given(key(3), 5)}}, given(key(2), 1)},
		{"of that one", session.Change{Answers: []session.Given{given(key(4), 2)}}, given(key(4), 2)},
		{"it has closed", session.Change{Closed: []session.End{{Key: key(4), Token: "t"}}}, given(key(4), 2)},
		{"with its opening", session.Change{Opened: []session.Session{opened(key(4), "u", began)}, Answers: []session.Given{given(key(4), 3)}}, given(key(4), 3)},
	} {
		s.commit(tt.commit)
		for range 2 {
			got, err := s.Blessed(s.Context(), 7, "0")
			if err != nil {
				s.Fatal(err)
			}
			want := session.Blessed{Key: tt.want.Key, Answer: tt.want.Answer, At: got.At}
			want.Answer.ID, want.Answer.Stopped = "", false
			if diff := gocmp.Diff(want, got); diff != "" {
				s.Errorf("%s: blessed is (-want +got):\n%s", tt.name, diff)
			}
			if got.At.IsZero() != (tt.want.Answer.N == 0) {
				s.Errorf("%s: since %s", tt.name, got.At)
			}
			s.Journal = s.reopen()
		}
	}
	if got, err := s.Blessed(s.Context(), 7, "1"); err != nil || got != (session.Blessed{}) {
		s.Errorf("of another step: %+v, %v", got, err)
	}
}

func (s *suite) together() {
	const jobs = 50
	var wg sync.WaitGroup
	for job := range uint32(jobs) {
		wg.Go(func() {
			k := session.Key{Job: job + 1, Step: "0"}
			for _, c := range []session.Change{
				{Opened: []session.Session{opened(k, "t", began)}},
				{Orders: []session.Order{{Job: k.Job, Request: session.Request{ID: "r", Kind: session.Stop, By: began}}}},
				{Answers: []session.Given{given(k, 1)}, Closed: []session.End{{Key: k, Token: "t"}}},
			} {
				if err := s.CommitSession(s.Context(), c); err != nil {
					s.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s.want()
	for job := range uint32(jobs) {
		b, err := s.Blessed(s.Context(), job+1, "0")
		o, oerr := s.OrderOf(s.Context(), job+1, 0)
		if err != nil || oerr != nil || b.Answer.N != 1 || o.Request.ID != "r" {
			s.Fatalf("job %d: %+v, %+v, %v, %v", job+1, b, o, err, oerr)
		}
	}
}
