package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// TestProgress is kept as it was said last, and grows older; a checkpoint that burstd
// hears of counts at once.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newHub()
		k := key(7, 1, "0")
		if _, err := h.Open(t.Context(), 1000, session.Hello{Key: k, Token: "t", Began: time.Now(), Method: "scr", Dir: "/d"}); err != nil {
			t.Fatal(err)
		}
		see := func(what string, want session.Progress) {
			t.Helper()
			for _, all := range [][]session.Seen{h.Sessions(7, 1), h.Oldest(9)} {
				if len(all) != 1 || all[0].Method != "scr" || all[0].Progress != want {
					t.Errorf("%s: %+v, want %+v", what, all, want)
				}
			}
		}
		see("before it says anything", session.Progress{Done: -1, Iteration: -1})
		say := func(p session.Progress) {
			t.Helper()
			if _, err := h.Poll(t.Context(), 1000, session.Question{Key: k, Token: "t", Progress: &p}); err != nil {
				t.Fatal(err)
			}
		}
		say(session.Progress{Done: -1, Iteration: 40, Of: 90, Generation: 3, Since: time.Minute})
		time.Sleep(20 * time.Second)
		see("later", session.Progress{Done: -1, Iteration: 40, Of: 90, Generation: 3, Since: 80 * time.Second})
		a := session.Answer{Generation: "/d/gen-4", N: 4, Took: 2 * time.Second}
		if err := h.Answer(t.Context(), 1000, session.Given{Key: k, Token: "t", Answer: a}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		see("after a checkpoint", session.Progress{Done: -1, Iteration: 40, Of: 90, Generation: 4, Attempt: 1, Since: 5 * time.Second})
		say(session.Progress{Done: -1, Iteration: -1})
		time.Sleep(time.Hour)
		see("it says nothing more", session.Progress{Done: -1, Iteration: -1})
	})
}

func TestOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, _ := newHub()
		for job, p := range []session.Progress{{Generation: 1, Since: time.Minute}, {}, {Generation: 9, Since: time.Hour}, {Generation: 2, Since: time.Second}, {}} {
			k := key(uint32(job+1), 0, "0")
			if _, err := h.Open(t.Context(), 1000, session.Hello{Key: k, Token: "t", Began: time.Now()}); err != nil {
				t.Fatal(err)
			}
			p.Done, p.Iteration = -1, -1
			if _, err := h.Poll(t.Context(), 1000, session.Question{Key: k, Token: "t", Progress: &p}); err != nil {
				t.Fatal(err)
			}
		}
		for most, want := range map[int]string{0: "", 3: "2 5 3", 9: "2 5 3 1 4"} {
			var got []string
			for _, s := range h.Oldest(most) {
				got = append(got, fmt.Sprint(s.Job))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("at most %d: %v, want %s", most, got, want)
			}
		}
	})
}

func TestProgressThatCannotBe(t *testing.T) {
	h, _ := newHub()
	k := key(7, 0, "0")
	if _, err := h.Open(t.Context(), 1000, session.Hello{Key: k, Token: "t", Began: time.Now()}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []session.Progress{{Of: -1}, {Generation: -1}, {Generation: 1 << 40}, {Attempt: -1}, {Attempt: 1 << 40}, {Since: -1}, {Since: 1 << 62}} {
		if _, err := h.Poll(t.Context(), 1000, session.Question{Key: k, Token: "t", Progress: &p}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%+v: %v", p, err)
		}
	}
}
