package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// question asks in the name of a new job's step, and returns when it waits;
// the answer goes to done.
func (w *world) question(ctx context.Context, j *steps, job uint32, done func(*http.Response, error)) {
	w.Helper()
	k := session.Key{Job: job, Step: "0"}
	w.say(1000, session.PathOpen, session.Hello{Key: k, Token: "t"}, nil)
	body := fmt.Sprintf(`{"job":%d,"step":"0","token":"t","wait":%d}`, job, session.Poll)
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+w.addr+session.PathPoll, strings.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", "MUNGE "+w.munge.mint(1000, payload("POST", session.PathPoll, body)))
	go func() { done((&http.Client{Transport: &http.Transport{}}).Do(req)) }()
	w.until("a question waits", func() bool { return j.waits(job) })
}

func (w *world) until(what string, holds func() bool) {
	w.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("not within 20 s: %s", what)
		}
	}
}

// waits says whether a question of the job's step waits.
func (s *steps) waits(job uint32) bool {
	all := s.Sessions(job, 0)
	return len(all) == 1 && all[0].Waits
}

// TestWaitingQuestionsHoldNobodyElse: far more than there may be connections wait
// for an answer, and a node is answered at once. Those whose client goes are over.
func TestWaitingQuestionsHoldNobodyElse(t *testing.T) {
	const many = 60
	w, j := withJobs(t, Limits{Conns: 2, PerAddr: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Add(many)
	for n := range uint32(many) {
		w.question(ctx, j, n+1, func(_ *http.Response, err error) {
			defer wg.Done()
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a question was answered: %v", err)
			}
		})
	}
	if got := w.ask(request{"POST", whoami, me, "own"}); got.status != 200 {
		t.Errorf("whoami: %+v", got)
	}
	cancel()
	wg.Wait()
	for n := range uint32(many) {
		w.until("burstd sees that the client has gone", func() bool { return !j.waits(n + 1) })
	}
}

// TestAStopEndsWaitingQuestions without an answer: the client is to ask the next
// burstd at once.
func TestAStopEndsWaitingQuestions(t *testing.T) {
	w, j := withJobs(t, Limits{})
	ended := make(chan error, 1)
	w.question(t.Context(), j, 1, func(resp *http.Response, err error) {
		if err == nil {
			text, _ := io.ReadAll(resp.Body)
			err = fmt.Errorf("%d %s", resp.StatusCode, text)
		}
		ended <- err
	})
	begun := time.Now()
	w.stop()
	if err := <-ended; !errors.Is(err, io.EOF) || time.Since(begun) > 10*time.Second {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
	if j.waits(1) {
		t.Error("the question still waits")
	}
}
