package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
)

// JobCost is what a run of a job has cost, and what became of it.
type JobCost struct {
	history.Run // one that is open is Seen at the moment up to which it is counted
	Deeds
	Bought []Bought // what its instances were, the most used first; empty: none was of ours
	// Of its share of instances, as Usage counts it.
	Seconds, USD, Unpriced float64
	OnDemand, Unknown      float64
	Going                  bool // the ledger has more to come of it
}

// Bought is what an instance was: its offering, without the zone.
type Bought struct {
	Provider string
	Market   cloud.Market
	Type     string
	Seconds  float64 // of the run's share of instances
}

// JobCost reads what a job that has not ended has cost up to now; false: no run of it is open.
// What the ledger has booked last goes on until now.
func (s *Store) JobCost(ctx context.Context, job uint32, now time.Time) (c JobCost, known bool, err error) {
	runs, err := query(ctx, s.db, `SELECT `+runColumns+` FROM runs WHERE job = ? AND open`, scanRun, job)
	if err == nil && len(runs) > 0 {
		known = true
		c, err = s.costOf(ctx, runs[len(runs)-1], now)
	}
	if err != nil {
		return c, false, fmt.Errorf("reading what job %d has cost: %w", job, err)
	}
	return c, known, nil
}

// RunCost reads what a run that has ended has cost, so far as that is booked.
func (s *Store) RunCost(ctx context.Context, r history.Run) (JobCost, error) {
	c, err := s.costOf(ctx, r, r.Ended)
	if err != nil {
		return c, fmt.Errorf("reading what job %d has cost: %w", r.Job, err)
	}
	return c, nil
}

// RunsEnded reads the runs of jobs that had nodes of ours and ended in a time, oldest first. Of a job that was
// seen only when it had ended the types of its instances are not known.
func (s *Store) RunsEnded(ctx context.Context, from, to time.Time) ([]history.Run, error) {
	all, err := queryLong(ctx, s, `SELECT `+runColumns+` FROM runs WHERE NOT open AND ended > ? AND ended <= ? AND (types <> '' OR pool <> '') ORDER BY ended`, scanRun, fromTime(from), fromTime(to))
	if err != nil {
		return nil, fmt.Errorf("reading the history of runs: %w", err)
	}
	return all, nil
}

func (s *Store) costOf(ctx context.Context, r history.Run, until time.Time) (c JobCost, err error) {
	c.Run = r
	if r.Open {
		c.Seen = until
	}
	if c.Deeds, err = sumUp(ctx, s.db, r); err != nil {
		return c, err
	}
	since, err := before(ctx, s.db, r)
	if err != nil {
		return c, err
	}
	rows, err := query(ctx, s.db, `SELECT `+rowColumns+` FROM usage u WHERE `+itsRows("?1", "?2", "?3"), scanUsage, r.Job, since, fromTime(until))
	for _, row := range rows {
		if r.Open && row.Open && row.To.Before(until) {
			row.To = until
		}
		c.Going = c.Going || row.Open
		c.add(row)
	}
	slices.SortStableFunc(c.Bought, func(a, b Bought) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return c, err
}

func (c *JobCost) add(r ledger.Row) {
	seconds := r.Share * r.To.Sub(r.From).Seconds()
	c.Seconds += seconds
	if r.Price.Known() {
		c.USD += seconds * r.Price.USDPerHour / 3600
	} else {
		c.Unpriced += seconds
	}
	if usd, known := r.OnDemand(); known {
		c.OnDemand += seconds * usd / 3600
	} else {
		c.Unknown += seconds
	}
	of := Bought{Provider: r.Provider, Market: cmp.Or(r.Offering.Market, cloud.OnDemand), Type: r.Offering.Type}
	i := slices.IndexFunc(c.Bought, func(b Bought) bool {
		return b.Provider == of.Provider && b.Market == of.Market && b.Type == of.Type
	})
	if i < 0 {
		c.Bought = append(c.Bought, of)
		i = len(c.Bought) - 1
	}
	c.Bought[i].Seconds += seconds
}
