package nodeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/ft/session/sessiontest"
)

// steps is a hub as the listener's.
type steps struct {
	*session.Hub
	journal *sessiontest.Memory

	mu     sync.Mutex
	err    error // of every call
	caller Caller
}

func (s *steps) fails(c Caller) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caller = c
	return s.err
}

func (s *steps) Before(_ context.Context, c Caller, job uint32, attempt int) (any, error) {
	return map[string]any{"site": fmt.Sprint(job, " ", attempt)}, s.fails(c)
}

func (s *steps) Open(ctx context.Context, c Caller, h session.Hello) (session.Word, error) {
	if err := s.fails(c); err != nil {
		return session.Word{}, err
	}
	return s.Hub.Open(ctx, c.UID, h)
}

func (s *steps) Poll(ctx context.Context, c Caller, q session.Question) (session.Word, error) {
	return s.Hub.Poll(ctx, c.UID, q)
}

func (s *steps) Answer(ctx context.Context, c Caller, g session.Given) error {
	return s.Hub.Answer(ctx, c.UID, g)
}

func (s *steps) Close(ctx context.Context, c Caller, e session.End) (session.Closed, error) {
	return session.Closed{}, s.Hub.Close(ctx, c.UID, e)
}

// withJobs is a world that answers burst-sruns too.
func withJobs(t *testing.T, l Limits) (*world, *steps) {
	t.Helper()
	j := &steps{journal: sessiontest.NewMemory()}
	j.Hub = session.NewHub(session.HubConfig{}, j.journal, slog.New(slog.DiscardHandler))
	w := &world{T: t, site: &site{addr: "127.0.0.1"}, munge: &minted{}}
	w.Server = New(w.site, w.munge, l, slog.New(slog.DiscardHandler))
	w.ServeJobs(j)
	w.listen()
	return w, j
}

// say sends what a user's burst-srun says, and reads the answer, which must be
// burstd's to this very request.
func (w *world) say(uid int, path string, in, out any) response {
	w.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		w.Fatal(err)
	}
	credential := w.munge.mint(uid, payload("POST", path, string(body)))
	got := w.ask(request{"POST", path, string(body), credential})
	var said struct{ Answers string }
	if err := json.Unmarshal([]byte(got.body), &said); err != nil {
		w.Fatalf("%s: %v: %s", path, err, got.body)
	}
	c, err := w.munge.Decode(w.Context(), got.credential)
	if err != nil || c.UID != 999 || string(c.Payload) != digest([]byte(got.body)) || said.Answers != digest([]byte(credential)) {
		w.Errorf("%s: the answer %+v is signed by %+v, %v", path, got, c, err)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(got.body), out); err != nil {
			w.Errorf("%s: %v", path, err)
		}
	}
	return got
}

var (
	aKey   = session.Key{Job: 7, Attempt: 1, Step: "0"}
	aHello = session.Hello{Key: aKey, Token: "t", Dir: "/shared", Method: "signal"}
)

func TestASession(t *testing.T) {
	w, j := withJobs(t, Limits{})
	var before struct{ Site string }
	if got := w.say(1000, "/v1/job/before", map[string]int{"job": 7, "attempt": 1}, &before); got.status != 200 || before.Site != "7 1" {
		t.Errorf("before: %+v", got)
	}
	if got := w.say(1000, session.PathOpen, aHello, nil); got.status != 200 {
		t.Fatalf("open: %+v", got)
	}
	if j.caller.UID != 1000 || j.caller.Addr.String() != "127.0.0.1" {
		t.Errorf("the caller is %+v", j.caller)
	}
	heard := make(chan session.Word)
	go func() {
		var word session.Word
		w.say(1000, session.PathPoll, session.Question{Key: aKey, Token: "t", Wait: session.Poll}, &word)
		heard <- word
	}()
	by := time.Now().Add(time.Minute)
	asked, err := j.Ask(t.Context(), session.Order{Job: 7, Attempt: 1, Request: session.Request{ID: "r1", Kind: session.Stop, By: by, Why: "it goes"}})
	if err != nil {
		t.Fatal(err)
	}
	word := <-heard
	if r := word.Request; r == nil || r.ID != "r1" || r.Kind != session.Stop || r.Left <= 0 || r.Left > time.Minute || r.Why != "it goes" {
		t.Errorf("heard: %+v", word.Request)
	}
	given := session.Given{Key: aKey, Token: "t", Answer: session.Answer{ID: "r1", Generation: "/shared/gen-1", N: 1}}
	for range 2 { // the first answer was lost on the way
		if got := w.say(1000, session.PathAnswer, given, nil); got.status != 200 {
			t.Errorf("answer: %+v", got)
		}
	}
	if answers, err := asked.Wait(t.Context()); err != nil || answers["0"].N != 1 {
		t.Errorf("%+v, %v", answers, err)
	}
	if b, err := j.journal.Blessed(t.Context(), 7, "0"); err != nil || b.Answer.N != 1 {
		t.Errorf("blessed: %+v, %v", b, err)
	}
	if got := w.say(1000, session.PathClose, session.End{Key: aKey, Token: "t"}, nil); got.status != 200 {
		t.Errorf("close: %+v", got)
	}
	if n, _ := j.Count(); n != 0 {
		t.Errorf("%d are open", n)
	}
}

func TestASessionIsRefused(t *testing.T) {
	w, j := withJobs(t, Limits{})
	w.say(1000, session.PathOpen, aHello, nil)
	question := session.Question{Key: aKey, Token: "t"}
	later := aHello
	later.Token, later.Began = "u", time.Now()
	for _, tt := range []struct {
		name   string
		err    error // of the backend
		uid    int
		path   string
		in     any
		status int
		kind   string
		again  bool
	}{
		{"it is not known", nil, 1000, session.PathPoll, session.Question{Key: session.Key{Job: 8, Step: "0"}, Token: "t"}, 404, "unknown", false},
		{"another user's", nil, 1001, session.PathPoll, question, 403, "not-yours", false},
		{"root's", nil, 0, session.PathPoll, question, 403, "not-yours", false},
		{"no JSON", nil, 1000, session.PathOpen, "x", 400, "invalid", false},
		{"no job", nil, 1000, "/v1/job/before", map[string]int{}, 400, "invalid", false},
		{"no step", nil, 1000, session.PathClose, session.End{Key: session.Key{Job: 7}}, 400, "invalid", false},
		{"too many", fmt.Errorf("%w: 3", session.ErrFull), 1000, session.PathOpen, aHello, 503, "full", true},
		{"it does not run", ErrNotRunning, 1000, session.PathOpen, aHello, 409, "", true},
		{"the journal fails", errDisk, 1000, session.PathOpen, aHello, 500, "", true},
		{"burstd is slow", context.DeadlineExceeded, 1000, session.PathOpen, aHello, 503, "", true},
		{"a later one", nil, 1000, session.PathOpen, later, 200, "", false},
		{"it was replaced", nil, 1000, session.PathPoll, question, 410, "replaced", false},
		{"so was its answer", nil, 1000, session.PathAnswer, session.Given{Key: aKey, Token: "t"}, 410, "replaced", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j.mu.Lock()
			j.err = tt.err
			j.mu.Unlock()
			var said struct{ Error, Kind string }
			got := w.say(tt.uid, tt.path, tt.in, &said)
			if got.status != tt.status || said.Kind != tt.kind || (got.retry != "") != tt.again || strings.Contains(said.Error, "disk") || (said.Error == "") != (tt.status == 200) {
				t.Errorf("%+v, want %d, %q", got, tt.status, tt.kind)
			}
		})
	}
}

// TestWhoSaysWhat: nothing is said to, or taken from, one whose credential is not this request's.
func TestWhoSaysWhat(t *testing.T) {
	w, j := withJobs(t, Limits{})
	body := `{"job":7,"attempt":1,"step":"0","token":"t","dir":"/shared"}`
	used := w.munge.mint(1000, payload("POST", session.PathOpen, body))
	for _, tt := range []struct {
		name    string
		request request
		status  int
	}{
		{"the first", request{"POST", session.PathOpen, body, used}, 200},
		{"the same again", request{"POST", session.PathOpen, body, used}, 401},
		{"no credential", request{"POST", session.PathOpen, body, ""}, 401},
		{"a forged one", request{"POST", session.PathOpen, body, "forged"}, 401},
		{"of another body", request{"POST", session.PathOpen, body + " ", w.munge.mint(1000, payload("POST", session.PathOpen, body))}, 401},
		{"of another path", request{"POST", session.PathOpen, body, w.munge.mint(1000, payload("POST", session.PathPoll, body))}, 401},
		{"too much", request{"POST", session.PathOpen, strings.Repeat(" ", maxJob+1), "own"}, 413},
		{"a node's question by a user", request{"POST", whoami, me, w.munge.mint(1000, payload("POST", whoami, me))}, 403},
		{"an order", request{"POST", "/v1/job/ask", body, "own"}, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := w.ask(tt.request); got.status != tt.status || (got.credential != "") != (tt.status == 200) {
				t.Errorf("%+v, want %d", got, tt.status)
			}
		})
	}
	if n, _ := j.Count(); n != 1 {
		t.Errorf("%d are open", n)
	}
	w, _ = withJobs(t, Limits{})
	w.munge.err = munge.ErrAway
	if got := w.ask(request{"POST", session.PathOpen, body, "own"}); got.status != 503 || got.retry == "" {
		t.Errorf("munged is away: %+v", got)
	}
}
