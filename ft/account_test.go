package ft

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// TestWhatIsLost in time and, of a program that counts them, in iterations.
func TestWhatIsLost(t *testing.T) {
	began := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	at := func(m int) time.Time { return began.Add(time.Duration(m) * time.Minute) }
	for _, tt := range []struct {
		name       string
		started    time.Time
		p          Protection
		lost       time.Duration
		iterations int64
		says       string
	}{
		{"since its last checkpoint", began, Protection{Saved: at(20), SavedIteration: 400, Iteration: 520}, 10 * time.Minute, 120,
			"why: it goes on from its last checkpoint, 10m0s ago (120 iterations)"},
		{"its program does not count", began, Protection{Saved: at(20), SavedIteration: -1, Iteration: -1}, 10 * time.Minute, -1,
			"why: it goes on from its last checkpoint, 10m0s ago"},
		{"its output has not been read since", began, Protection{Saved: at(20), SavedIteration: 400, Iteration: 390}, 10 * time.Minute, 0,
			"why: it goes on from its last checkpoint, 10m0s ago (0 iterations)"},
		{"no checkpoint in this attempt", at(25), Protection{Saved: at(20), SavedIteration: 400, Iteration: 450}, 5 * time.Minute, 50,
			"why: it goes on from its beginning, 5m0s ago (50 iterations)"},
		{"nothing is known", time.Time{}, Protection{SavedIteration: -1, Iteration: 9}, -1, -1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := Eviction{Started: tt.started, Lost: -1, LostIterations: -1}
			if says := e.lose(tt.p, at(30), "why"); says != tt.says || e.Lost != tt.lost || e.LostIterations != tt.iterations {
				t.Errorf("%q, %s, %d iterations", says, e.Lost, e.LostIterations)
			}
		})
	}
	for iteration, want := range map[int64]bool{-1: false, 0: true, 40: true} {
		if counts(map[string]session.Answer{"0": {Iteration: iteration}}) != want {
			t.Errorf("at iteration %d it is not said whether it counts", iteration)
		}
	}
}
