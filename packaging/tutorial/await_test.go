package main

import (
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestAwait: a command is compared when its output has come to be the page's, not when a part of it has.
func TestAwait(t *testing.T) {
	for name, c := range map[string]struct {
		prints []string // one after another, the last again and again
		once   bool
		want   string
		after  time.Duration // at least
		fails  bool
	}{
		"at once":                         {prints: []string{"job 5 waits (Resources), stays"}, want: "job 5 waits (Resources), stays"},
		"what is waited for comes later":  {prints: []string{"", "job 5 waits (Resources), stays"}, want: "job 5 waits (Resources), stays", after: 300 * time.Millisecond},
		"the rest comes later":            {prints: []string{"job 5 waits (Priority), stays", "job 5 waits (Resources), stays"}, want: "job 5 waits (Resources), stays", after: 300 * time.Millisecond},
		"the rest does not come":          {prints: []string{"job 5 waits (Priority), stays", "job 5 runs, stays"}, want: "job 5 waits (Priority), stays", after: settle},
		"with once the first":             {prints: []string{"job 5 waits (Priority), stays", "job 5 waits (Resources), stays"}, once: true, want: "job 5 waits (Priority), stays"},
		"what is waited for does not":     {prints: []string{"job 5 runs"}, after: patience, fails: true},
		"there for a moment, and another": {prints: []string{"job 5 waits (Priority), stays", "job 5 runs"}, want: "job 5 waits (Priority), stays", after: settle},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, n := time.Now(), 0
				got, err := await(command{until: regexp.MustCompile("stays"), printed: []string{"job 5 waits (Resources), stays"}}, c.once, func() (string, int, error) {
					n++
					return c.prints[min(n, len(c.prints))-1] + "\n", 0, nil
				})
				if took := time.Since(begun); (err != nil) != c.fails || !c.fails && !slices.Equal(got, []string{c.want}) || took < c.after || took > c.after+time.Second {
					t.Errorf("%q, %v after %s", got, err, took)
				}
			})
		})
	}
}

// TestAwaitOnce: what is not waited for is done once, whatever it prints.
func TestAwaitOnce(t *testing.T) {
	n := 0
	got, err := await(command{printed: []string{"Submitted batch job 5"}}, false, func() (string, int, error) { n++; return "Submitted batch job 6\n", 0, nil })
	if n != 1 || err != nil || !slices.Equal(got, []string{"Submitted batch job 6"}) {
		t.Errorf("%d times, %q, %v", n, got, err)
	}
}
