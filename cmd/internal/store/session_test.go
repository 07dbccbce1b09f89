package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/ft/session/sessiontest"
)

func TestSessions(t *testing.T) {
	sessiontest.Suite(t, func(t *testing.T) func() sessiontest.Journal {
		path := filepath.Join(t.TempDir(), "burst.db")
		var last *Store
		return func() sessiontest.Journal {
			if last != nil {
				if err := last.Close(); err != nil {
					t.Error(err)
				}
			}
			last = open(t, path)
			return last
		}
	})
}

func TestOldGenerationsAreForgotten(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	now := time.Now()
	for job := range uint32(2) {
		k := session.Key{Job: job + 1, Step: "0"}
		err := s.CommitSession(t.Context(), session.Change{
			Opened:  []session.Session{{UID: 1, Hello: session.Hello{Key: k, Token: "t", Dir: "/d"}}},
			Answers: []session.Given{{Key: k, Token: "t", Answer: session.Answer{Generation: "/d/gen-1", N: 1}}},
			Orders:  []session.Order{{Job: k.Job, Request: session.Request{ID: "r", Kind: session.Stop, By: now}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.CommitSession(t.Context(), session.Change{Closed: []session.End{{Key: session.Key{Job: 1, Step: "0"}, Token: "t"}}}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name          string
		before        time.Time
		blessed, asks [2]bool
	}{
		{"they are young", now.Add(-time.Hour), [2]bool{true, true}, [2]bool{true, true}},
		{"they are old", now.Add(time.Hour), [2]bool{false, true}, [2]bool{false, false}}, // job 2 runs
	} {
		if err := s.Prune(t.Context(), tt.before); err != nil {
			t.Fatal(err)
		}
		for job := range uint32(2) {
			b, err := s.BlessedOf(t.Context(), job+1)
			o, oerr := s.OrderOf(t.Context(), job+1, 0)
			if err != nil || oerr != nil || len(b) > 0 != tt.blessed[job] || o.Request.ID != "" != tt.asks[job] {
				t.Errorf("%s: job %d has %+v, %+v, %v, %v", tt.name, job+1, b, o, err, oerr)
			}
		}
	}
}

const killed = "BURST_TEST_STORE_KILLED"

// TestKilled: a journal whose process was killed at any moment has all that was
// said to be written, and each change as a whole.
func TestKilled(t *testing.T) {
	if path := os.Getenv(killed); path != "" {
		writeUntilKilled(t, path)
		return
	}
	path := filepath.Join(t.TempDir(), "burst.db")
	said := 0
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), killed+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for want := said + 20*(round+1); said < want && lines.Scan(); {
			if _, err := fmt.Sscanf(lines.Text(), "written %d", &said); err != nil && strings.HasPrefix(lines.Text(), "written") {
				t.Fatal(err)
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what was said before the end counts
			fmt.Sscanf(lines.Text(), "written %d", &said)
		}
		_ = cmd.Wait() // it was killed
		s := open(t, path)
		b, err := s.Blessed(t.Context(), 7, "0")
		o, oerr := s.OrderOf(t.Context(), 7, 0)
		if err != nil || oerr != nil || b.Answer.N < said || o.Request.ID != fmt.Sprint(b.Answer.N) {
			t.Fatalf("said to be written was %d; the journal has %+v, %+v, %v, %v", said, b, o, err, oerr)
		}
		said = b.Answer.N
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if said < 100 {
		t.Errorf("only %d changes were written", said)
	}
}

func writeUntilKilled(t *testing.T, path string) {
	s, err := Open(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	k := session.Key{Job: 7, Step: "0"}
	b, err := s.Blessed(t.Context(), 7, "0")
	if err != nil {
		t.Fatal(err)
	}
	for n := b.Answer.N + 1; ; n++ {
		err := s.CommitSession(t.Context(), session.Change{
			Answers: []session.Given{{Key: k, Answer: session.Answer{Generation: fmt.Sprint("/d/gen-", n), N: n}}},
			Orders:  []session.Order{{Job: 7, Request: session.Request{ID: fmt.Sprint(n)}}}})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("written", n)
	}
}
