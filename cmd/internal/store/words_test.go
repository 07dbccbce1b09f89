package store

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestWordsAreReadByIndexes: there may be millions of steps, and what the sessions of
// 10,000 jobs have said is long.
func TestWordsAreReadByIndexes(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	plan, err := query(t.Context(), s.db, "EXPLAIN QUERY PLAN "+words, func(scan scanner) (text string, err error) {
		var none int
		return text, scan(&none, &none, &none, &text)
	}, 1)
	text := strings.Join(plan, "; ")
	if err != nil || !strings.Contains(text, "SEARCH steps_done USING INDEX steps_done_at (at>?)") || !strings.Contains(text, "SCAN sessions USING COVERING INDEX") {
		t.Error(text, err)
	}
}
