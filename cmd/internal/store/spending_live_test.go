package store

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
)

// TestSpendingBeside: what anybody may ask for waits for nobody who writes, and has all that was written before.
func TestSpendingBeside(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	putRows(t, s, usageRow("i-1", 7, 0, 100))
	tx, err := s.db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	got, err := s.Spending(ctx, SpendingQuery{Periods: []price.Span{{From: at, To: at.Add(time.Hour)}}, Beside: true})
	if err != nil || len(got.Spent) != 1 || got.Spent[0].User != "u7" {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestSpendingOfOneThatLives: idle time in a period is for the job before it, though that was before the period.
func TestSpendingOfOneThatLives(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	idle := usageRow("i-1", 0, 100, 300)
	idle.Open = true
	putRows(t, s, usageRow("i-1", 8, 0, 50), usageRow("i-1", 7, 50, 100), idle)
	got, err := s.Spending(t.Context(), SpendingQuery{Periods: []price.Span{{From: at.Add(200 * time.Second), To: at.Add(time.Hour)}}})
	if err != nil || len(got.Spent) != 1 || got.Spent[0].User != "u7" || math.Abs(got.Spent[0].USD-0.1) > 1e-9 {
		t.Errorf("%+v, %v", got.Spent, err)
	}
}

// BenchmarkSpending is of 10 instances that live, with 10,000 rows each, in a month and from before it.
func BenchmarkSpending(b *testing.B) {
	for name, begins := range map[string]time.Duration{"within": 0, "before": 8000 * time.Minute} {
		b.Run(name, func(b *testing.B) {
			s, err := Open(b.Context(), filepath.Join(b.TempDir(), "burst.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			at := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
			if _, err := s.db.Exec(`WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 9999), i AS (SELECT n AS i FROM n LIMIT 10)
				INSERT INTO usage (`+rowColumns+`) SELECT 'i-' || i, 'east', 'p', 'm', '', 'spot', 'c1', n % 4 * (10000 * i + n), 1000, 'u' || n % 5, 'a', ?1 + n * 60000000, ?1 + (n + 1) * 60000000,
					1, 2, 0, 'table', NULL, n = 9999 FROM i CROSS JOIN n`, fromTime(at)); err != nil {
				b.Fatal(err)
			}
			from := at.Add(begins)
			q := SpendingQuery{Periods: []price.Span{{From: from, To: from.AddDate(0, 1, 0)}, {From: from.AddDate(0, 1, 0), To: from.AddDate(0, 2, 0)}}}
			for b.Loop() {
				if got, err := s.Spending(b.Context(), q); err != nil || len(got.Spent) == 0 {
					b.Fatal(fmt.Sprint(got.Spent), err)
				}
			}
		})
	}
}
