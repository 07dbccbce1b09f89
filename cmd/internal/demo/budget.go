package demo

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

const (
	bookTime = 15 * time.Second // what burstd may take to book the last instances
	cent     = 0.01
)

// Budget is how the cap of the day stands at the end, in USD, as `burst budget --json` has it.
type Budget struct {
	Cap       float64 `json:"cap_usd"`
	Spent     float64 `json:"spent_usd"`
	Committed float64 `json:"committed_usd"`
	Left      float64 `json:"left_usd"`
	Held      float64 `json:"committed_at_first_usd"` // when heat began to compute
	Whole     bool    `json:"whole"`                  // the day began before the demo: all that it spent counts
}

// budget reads the cap of the day.
func (s *show) budget(ctx context.Context) (api.BudgetRow, error) {
	all, err := s.site.API.Budget(ctx, -1)
	if err != nil {
		return api.BudgetRow{}, err
	}
	for _, row := range all {
		if row.Of == "cluster" && row.Period == "day" {
			return row, nil
		}
	}
	return api.BudgetRow{}, errors.New("burstd has no budget of the day")
}

// readHeld reads once, when heat computes, what the jobs in the cloud can cost.
func (s *show) readHeld(ctx context.Context) error {
	if s.held > 0 || s.books.attempts == 0 || s.books.done {
		return nil
	}
	row, err := s.budget(ctx)
	if err != nil {
		return err
	}
	if s.held = row.Committed; s.held <= 0 {
		return nil
	}
	s.line.add(entry{at: time.Now(), who: "burst", what: fmt.Sprintf(
		"of the day's budget of $%.4f, $%.4f are committed: to the jobs' time limits", row.Cap, row.Committed)}, true)
	return nil
}

// settle waits until burstd has booked what the instances have cost, and puts the budget into r.
func (s *show) settle(ctx context.Context, r *Report) error {
	until := time.Now().Add(bookTime)
	var fails error
	err := s.until(ctx, "the costs are booked", func() bool {
		var row api.BudgetRow
		if row, fails = s.budget(ctx); fails != nil {
			return true
		}
		r.Budget = Budget{row.Cap, row.Spent, row.Committed, row.Left, s.held, row.From.Before(s.began)}
		return r.Budget.wrong(r.SpotUSD) == "" || time.Now().After(until)
	})
	return errors.Join(err, fails)
}

// wrong says what is not as it must be once instances that cost so much are gone; empty: nothing.
func (b Budget) wrong(usd float64) string {
	switch {
	case b.Cap <= 0:
		return "there is no budget of the day"
	case b.Held <= 0:
		return "nothing was committed while the job ran"
	case b.Committed != 0:
		return fmt.Sprintf("$%.4f are committed, and no instance is left", b.Committed)
	case b.Whole && math.Abs(b.Spent-usd) > cent/100:
		return fmt.Sprintf("burstd has booked $%.4f, and the instances cost $%.4f", b.Spent, usd)
	case b.Spent > b.Cap:
		return fmt.Sprintf("$%.4f were spent, of a budget of $%.4f", b.Spent, b.Cap)
	}
	return ""
}
