package recent

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Answers[int]
		is := func(what, key string, age time.Duration, want int, known bool) {
			t.Helper()
			if v, ok := a.Get(key, age); v != want || ok != known {
				t.Errorf("%s: %d, %t; want %d, %t", what, v, ok, want, known)
			}
		}
		is("nothing is kept yet", "a", time.Hour, 0, false)
		a.Drop("a") // of nothing
		a.Put("a", 1)
		time.Sleep(time.Minute)
		a.Put("b", 2)
		is("as old as it may be", "a", time.Minute, 1, true)
		is("too old", "a", time.Minute-1, 0, false)
		is("another key is younger", "b", 0, 2, true)
		a.Put("a", 3)
		is("a newer answer", "a", 0, 3, true)
		a.Drop("a")
		is("dropped", "a", time.Hour, 0, false)
		is("the other is kept", "b", time.Hour, 2, true)
	})
}
