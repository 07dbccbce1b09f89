package store

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestNewWordsAreReadByTheirTime: there may be millions of steps.
func TestNewWordsAreReadByTheirTime(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	plan, err := query(t.Context(), s.db, "EXPLAIN QUERY PLAN "+words, func(scan scanner) (text string, err error) {
		var none int
		return text, scan(&none, &none, &none, &text)
	}, 1)
	text := strings.Join(plan, "; ")
	if err != nil || !strings.Contains(text, "SEARCH steps_done USING INDEX steps_done_at (at>?)") {
		t.Error(text, err)
	}
}
