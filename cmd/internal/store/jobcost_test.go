package store

import (
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
)

func TestJobCost(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	row := func(id string, from, to int, change func(*ledger.Row)) ledger.Row {
		r := usageRow(id, 7, 0, 0)
		r.From, r.To, r.Open = since.Add(time.Duration(from)*time.Minute), since.Add(time.Duration(to)*time.Minute), false
		r.USDPerHourOnDemand = 7.2
		if change != nil {
			change(&r)
		}
		return r
	}
	before := over(run(7, 0)) // an earlier job of the same id
	before.Submitted, before.Started, before.Ended = since.Add(-2*time.Hour), since.Add(-2*time.Hour), since.Add(-time.Hour)
	writeRuns(t, s, before, run(7, 0))
	putRows(t, s, row("i-old", -90, -70, nil),
		row("i-1", 1, 31, nil), // 1.8 USD, 3.6 on demand
		row("i-1", 31, 41, func(r *ledger.Row) { r.Share, r.Open = 0.5, true }),
		row("i-2", 1, 11, func(r *ledger.Row) { r.Offering.Market = cloud.OnDemand }), // 0.6 both
		row("i-3", 1, 2, func(r *ledger.Row) { r.Price, r.USDPerHourOnDemand = ledger.Price{}, 0 }))
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	// What is booked last goes on: 20 minutes of a half.
	c, known, err := s.JobCost(t.Context(), 7, since.Add(51*time.Minute))
	if err != nil || !known || !c.Going || c.Time() != 90*time.Second+21*time.Minute {
		t.Fatalf("%+v, %v, %v", c, known, err)
	}
	near("USD", c.USD, 1.8+0.6+0.6)
	near("on demand", c.OnDemand, 3.6+1.2+0.6)
	near("seconds", c.Seconds, 60*(30+10+10+1))
	near("unpriced", c.Unpriced, 60)
	near("unknown", c.Unknown, 60)
	if len(c.Bought) != 2 || c.Bought[0].Market != cloud.Spot || c.Bought[0].Type != spot.Type || c.Bought[1].Market != cloud.OnDemand {
		t.Errorf("%+v", c.Bought)
	}
	ended, err := s.RunCost(t.Context(), before)
	near("USD before", ended.USD, 1.2)
	if err != nil || ended.Going {
		t.Error(ended, err)
	}
	putRows(t, s, row("i-1", 31, 45, func(r *ledger.Row) { r.Share = 0.5 }))
	mine := over(run(7, 0))
	writeRuns(t, s, mine)
	if _, known, err := s.JobCost(t.Context(), 7, time.Now()); known || err != nil {
		t.Error("it has ended", err)
	}
	ended, err = s.RunCost(t.Context(), mine)
	near("USD at the end", ended.USD, 1.8+0.42+0.6)
	if err != nil || ended.Going {
		t.Error(ended, err)
	}
	bare, seenLate := over(run(8, 0)), over(run(9, 0)) // bare: no node of ours; seenLate: only when it had ended
	bare.Types, bare.Pool, seenLate.Types = "", "", ""
	writeRuns(t, s, bare, seenLate)
	runs, err := s.RunsEnded(t.Context(), since.Add(-time.Hour), since.Add(45*time.Minute))
	if err != nil || len(runs) != 2 || runs[0] != mine || runs[1] != seenLate {
		t.Errorf("%+v, %v", runs, err)
	}
	for _, span := range [][2]time.Duration{{45, 60}, {0, 44}} {
		if runs, err := s.RunsEnded(t.Context(), since.Add(span[0]*time.Minute), since.Add(span[1]*time.Minute)); err != nil || len(runs) > 0 {
			t.Errorf("%v: %+v, %v", span, runs, err)
		}
	}
	if c, err := s.RunCost(t.Context(), history.Run{Job: 99, Ended: since}); err != nil || len(c.Bought) > 0 {
		t.Error(c, err)
	}
}
