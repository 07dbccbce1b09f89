package store

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
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

// TestManyStepsBesideEachOther are summed up, more than are kept: still they take no more of their job's time than they had.
func TestManyStepsBesideEachOther(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	const steps, beside, long = 4 * jobRows, 4, 100 * time.Second
	begin := time.UnixMicro(at.UnixMicro())
	err := s.tx(t.Context(), func(tx *sql.Tx) error {
		w := writer{ctx: t.Context(), tx: tx}
		for i := range steps {
			end := begin.Add(time.Duration(i/beside+1) * long)
			k := session.Key{Job: 7, Step: fmt.Sprint(i)}
			w.putSession(session.Change{Opened: []session.Session{{UID: 1, Hello: session.Hello{Key: k, Token: "t", Began: end.Add(-long), Dir: "/d"}}}}, end)
			w.putSession(session.Change{Closed: []session.End{{Key: k, Token: "t", Summary: &session.Summary{Ran: long, Ranks: 2, Writing: 40 * time.Second,
				Lost: 10 * time.Second, Iteration: -1}}}}, end)
		}
		return w.err
	})
	if err != nil {
		t.Fatal(err)
	}
	r := run(7, 0)
	r.Open, r.Submitted, r.Started, r.Begun, r.Ended = false, begin, begin, begin, begin.Add(steps/beside*long)
	writeRuns(t, s, r)
	d, err := sumUp(t.Context(), s.db, r)
	if want := steps / beside * 40 * time.Second; err != nil || (d.Writing-want).Abs() > want/20 {
		t.Errorf("writing %v of %v, want %v: %v", d.Writing, r.Time(), want, err)
	}
	if want := steps / beside * 10 * time.Second; (d.Lost - want).Abs() > want/20 {
		t.Errorf("lost %v of %v, want %v", d.Lost, r.Time(), want)
	}
}
