package session_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"path"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/ft/session/sessiontest"
)

func newHub() (*session.Hub, *sessiontest.Memory) {
	m := sessiontest.NewMemory()
	return session.NewHub(session.HubConfig{}, m, slog.New(slog.NewTextHandler(io.Discard, nil))), m
}

// TestASummaryThatCannotBe leaves the session open.
func TestASummaryThatCannotBe(t *testing.T) {
	for name, s := range map[string]session.Summary{
		"a label of two lines":  {Label: "a\nb"},
		"a long method":         {Method: strings.Repeat("x", 65)},
		"a time below 0":        {Ran: -1},
		"years of writing":      {Writing: 1 << 62},
		"work that was won":     {Lost: -time.Hour},
		"an exit code below 0":  {Exit: -1},
		"tasks without end":     {Ranks: 1 << 40},
		"checkpoints below 0":   {Checkpoints: -1},
		"restarts without end":  {Restarts: 1 << 33},
		"unknown below 0":       {LostUnknown: -2},
		"an iteration below -1": {Iteration: -2},
	} {
		t.Run(name, func(t *testing.T) {
			h, m := newHub()
			hello := session.Hello{Key: key(7, 0, "0"), Token: "t", Began: time.Now()}
			if _, err := h.Open(t.Context(), 1000, hello); err != nil {
				t.Fatal(err)
			}
			end := session.End{Key: hello.Key, Token: "t", Summary: &s}
			if err := h.Close(t.Context(), 1000, end); !errors.Is(err, session.ErrInvalid) {
				t.Errorf("%v", err)
			}
			done, err := m.StepsDone(t.Context(), 7)
			if n, _ := h.Count(); err != nil || n != 1 || len(done) != 0 {
				t.Errorf("%d sessions, %+v, %v", n, done, err)
			}
		})
	}
}

// TestWhatCannotBe is refused, and leaves nothing behind.
func TestWhatCannotBe(t *testing.T) {
	good := session.Hello{Key: key(7, 0, "0"), Token: "t", Began: time.Now(), Host: "c1", Method: "dmtcp", Strategy: "both", Dir: "/shared"}
	for name, change := range map[string]func(h *session.Hello, a *session.Answer){
		"job 0":                     func(h *session.Hello, _ *session.Answer) { h.Job = 0 },
		"an attempt below 0":        func(h *session.Hello, _ *session.Answer) { h.Attempt = -1 },
		"an attempt of no end":      func(h *session.Hello, _ *session.Answer) { h.Attempt = 1 << 40 },
		"no step":                   func(h *session.Hello, _ *session.Answer) { h.Step = "" },
		"a step with a slash":       func(h *session.Hello, _ *session.Answer) { h.Step = "../0" },
		"a step of two lines":       func(h *session.Hello, _ *session.Answer) { h.Step = "0\n1" },
		"a long step":               func(h *session.Hello, _ *session.Answer) { h.Step = strings.Repeat("x", 65) },
		"no token":                  func(h *session.Hello, _ *session.Answer) { h.Token = "" },
		"a token that is no text":   func(h *session.Hello, _ *session.Answer) { h.Token = "\xff" },
		"a method with a blank":     func(h *session.Hello, _ *session.Answer) { h.Method = "a b" },
		"a strategy with colours":   func(h *session.Hello, _ *session.Answer) { h.Strategy = "\x1b[31m" },
		"a label with a slash":      func(h *session.Hello, _ *session.Answer) { h.Label = "a/b" },
		"a long host":               func(h *session.Hello, _ *session.Answer) { h.Host = strings.Repeat("x", 256) },
		"a relative folder":         func(h *session.Hello, _ *session.Answer) { h.Dir = "shared" },
		"a folder that is not tidy": func(h *session.Hello, _ *session.Answer) { h.Dir = "/shared/../etc" },
		"a long folder":             func(h *session.Hello, _ *session.Answer) { h.Dir = "/" + strings.Repeat("x", 5000) },
		"a folder of two lines":     func(h *session.Hello, _ *session.Answer) { h.Dir = "/shared\n/etc" },
		"an interval below 0":       func(h *session.Hello, _ *session.Answer) { h.Interval = -1 },
		"a cost of years":           func(h *session.Hello, _ *session.Answer) { h.Cost = 1 << 62 },
		"a generation elsewhere":    func(_ *session.Hello, a *session.Answer) { a.Generation = "/etc" },
		"a generation beside":       func(_ *session.Hello, a *session.Answer) { a.Generation = "/shared-not/gen-1" },
		"the folder itself":         func(_ *session.Hello, a *session.Answer) { a.Generation = "/shared" },
		"no folder for it":          func(h *session.Hello, _ *session.Answer) { h.Dir = "" },
		"no number":                 func(_ *session.Hello, a *session.Answer) { a.N = 0 },
		"bytes below 0":             func(_ *session.Hello, a *session.Answer) { a.Bytes = -1 },
		"an iteration below -1":     func(_ *session.Hello, a *session.Answer) { a.Iteration = -2 },
		"a time below 0":            func(_ *session.Hello, a *session.Answer) { a.Took = -1 },
		"an answer to nothing":      func(_ *session.Hello, a *session.Answer) { a.ID, a.Generation = "", "" },
		"a long error":              func(_ *session.Hello, a *session.Answer) { a.Error = strings.Repeat("x", 5000) },
		"an ID of two lines":        func(_ *session.Hello, a *session.Answer) { a.ID = "r\n1" },
	} {
		t.Run(name, func(t *testing.T) {
			h, m := newHub()
			hello, answer := good, session.Answer{ID: "r1", Generation: "/shared/gen-1", N: 1}
			change(&hello, &answer)
			hello.Last = answer
			_, err := h.Open(t.Context(), user, hello)
			if open, oerr := m.OpenSessions(t.Context()); !errors.Is(err, session.ErrInvalid) || oerr != nil || len(open) > 0 {
				t.Errorf("%v; %d are open, %v", err, len(open), oerr)
			}
			if strings.ContainsFunc(err.Error(), unicode.IsControl) || len(err.Error()) > 300 {
				t.Errorf("the error is no line: %.1000q", err)
			}
		})
	}
	h, _ := newHub()
	if _, err := h.Open(t.Context(), user, good); err != nil {
		t.Error(err)
	}
	for _, p := range []session.Progress{{Done: 1.5}, {Done: -0.5}, {Iteration: -2}} {
		if _, err := h.Poll(t.Context(), user, session.Question{Key: good.Key, Token: "t", Progress: &p}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("progress %+v: %v", p, err)
		}
	}
}

// FuzzWords: whatever a user's process says, a hub takes nothing that could
// break a log, a table or a path, and holds one session for it at most.
func FuzzWords(f *testing.F) {
	hello := session.Hello{Key: key(7, 1, "0"), Token: "t", Host: "c1", Method: "dmtcp", Strategy: "both", Dir: "/shared/7",
		Last: session.Answer{ID: "i-1/spot/7", Generation: "/shared/7/gen-1", N: 1, Error: "x\n\x1b[2J"}}
	given := session.Given{Key: hello.Key, Token: "t", Answer: session.Answer{Generation: "/shared/7/gen-2", N: 2, Bytes: 1, Took: 1, Iteration: 5}}
	question := session.Question{Key: hello.Key, Token: "t", Have: "r", Progress: &session.Progress{Done: 0.5}}
	seed := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		return string(text)
	}
	f.Add(seed(hello), seed(question), seed(given))
	f.Add(seed(hello), `{"job":7,"attempt":1,"step":"0","token":"t","wait":9223372036854775807}`, `{"job":7,"attempt":1,"step":"0","token":"u"}`)
	f.Add(`{"job":1,"step":"a","token":"b","dir":"/","began":"0001-01-01T00:00:00Z"}`, `{}`, `{"job":1,"step":"a","token":"b","answer":{"generation":"/x","n":1}}`)
	f.Add(`{"job":1,"step":"\u202e","token":"b"}`, `[]`, `null`)
	f.Fuzz(func(t *testing.T, hello, question, given string) {
		h, m := newHub()
		var words struct {
			hello    session.Hello
			question session.Question
			given    session.Given
		}
		for text, into := range map[string]any{hello: &words.hello, question: &words.question, given: &words.given} {
			if json.Unmarshal([]byte(text), into) != nil {
				return
			}
		}
		_, err := h.Open(t.Context(), user, words.hello)
		known(t, err)
		words.question.Wait = 0
		_, err = h.Poll(t.Context(), user, words.question)
		known(t, err)
		known(t, h.Answer(t.Context(), user, words.given))
		open, err := m.OpenSessions(t.Context())
		if n, _ := h.Count(); err != nil || len(open) > 1 || n != len(open) {
			t.Fatalf("%d and %d are open, %v", n, len(open), err)
		}
		for _, s := range open {
			for _, word := range []string{s.Step, s.Token, s.Method, s.Strategy, s.Host, s.Last.ID, s.Last.Error, s.Dir} {
				if strings.ContainsFunc(word, unicode.IsControl) || len(word) > 4096 {
					t.Errorf("%q is taken", word)
				}
			}
			b, err := m.Blessed(t.Context(), s.Job, s.Step)
			if err != nil {
				t.Fatal(err)
			}
			if g := b.Answer.Generation; g != "" && (!strings.HasPrefix(g, strings.TrimSuffix(s.Dir, "/")+"/") || path.Clean(g) != g || b.Answer.N < 1) {
				t.Errorf("%q is blessed below %q", g, s.Dir)
			}
		}
		known(t, h.Close(t.Context(), user, session.End{Key: words.hello.Key, Token: words.hello.Token}))
		if n, _ := h.Count(); n != 0 {
			t.Errorf("%d are left", n)
		}
	})
}

// known: no error but those that a burst-srun understands.
func known(t *testing.T, err error) {
	t.Helper()
	for _, one := range []error{session.ErrInvalid, session.ErrUnknown, session.ErrReplaced, session.ErrNotYours} {
		if err == nil || errors.Is(err, one) {
			return
		}
	}
	t.Error(err)
}
