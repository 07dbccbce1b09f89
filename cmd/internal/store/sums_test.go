package store

import (
	"testing"
	"time"
)

// TestStepsBesideEachOther take no more of their job's time than they had of its nodes.
func TestStepsBesideEachOther(t *testing.T) {
	step := func(begin, end int64, ranks, writing, lost float64) endedStep {
		return endedStep{at: end * 1e6, ran: (end - begin) * 1e6, ranks: ranks, writing: writing * 1e6, lost: lost * 1e6}
	}
	for name, test := range map[string]struct {
		steps         []endedStep
		writing, lost time.Duration
	}{
		"none":                     {},
		"one":                      {[]endedStep{step(0, 1000, 4, 100, 50)}, 100 * time.Second, 50 * time.Second},
		"one after the other":      {[]endedStep{step(0, 400, 4, 40, 10), step(400, 1000, 4, 60, 30)}, 100 * time.Second, 40 * time.Second},
		"with a pause":             {[]endedStep{step(0, 100, 1, 10, 1), step(200, 300, 2, 20, 2)}, 30 * time.Second, 3 * time.Second},
		"four at once":             {[]endedStep{step(0, 1000, 1, 100, 50), step(0, 1000, 1, 100, 50), step(0, 1000, 1, 100, 50), step(0, 1000, 1, 100, 50)}, 100 * time.Second, 50 * time.Second},
		"one of four writes":       {[]endedStep{step(0, 1000, 1, 100, 40), step(0, 1000, 1, 0, 0), step(0, 1000, 1, 0, 0), step(0, 1000, 1, 0, 0)}, 25 * time.Second, 10 * time.Second},
		"a large beside a small":   {[]endedStep{step(0, 1000, 3, 100, 0), step(0, 1000, 1, 0, 0)}, 75 * time.Second, 0},
		"half of the time at once": {[]endedStep{step(0, 200, 1, 20, 0), step(100, 300, 1, 20, 0)}, 30 * time.Second, 0},
		"a moment":                 {[]endedStep{{at: 5e6, ran: 1, ranks: 1, writing: 7e6}}, 7 * time.Second, 0},
	} {
		writing, lost := ofTheJob(test.steps)
		if writing != test.writing || lost != test.lost {
			t.Errorf("%s: %v and %v, want %v and %v", name, writing, lost, test.writing, test.lost)
		}
	}
}
