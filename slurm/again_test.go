package slurm

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
)

// A change that slurmctld wants asked again is asked again, a bounded number of times, and no other.
func TestChangeIsAskedAgain(t *testing.T) {
	const again, gone = "Resource temporarily unavailable for job 7\n", "Job is no longer pending execution for job 7\n"
	for _, test := range []struct {
		name  string
		says  func(n int) string // to the nth; "": done
		asked int
		want  error
	}{
		{"done", func(int) string { return "" }, 1, nil},
		{"done at the fourth", func(n int) string { return map[bool]string{true: again}[n < 4] }, 4, nil},
		{"some tasks only", func(n int) string {
			return map[bool]string{true: "7_1: Resource temporarily unavailable\n7_2: " + gone, false: "7_2: " + gone}[n < 2]
		}, 2, ErrNotPending},
		{"never", func(int) string { return again }, mostAgain, errAgain},
		{"too late", func(int) string { return gone }, 1, ErrNotPending},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := 0
				f := &fake{answer: func([]string) (string, string, error) {
					n++
					if says := test.says(n); says != "" {
						return "", says, exitError(1)
					}
					return "", "", nil
				}}
				err := New(f).SetPartitions(t.Context(), Job{ID: 7}, Move{Partitions: []string{"cloud"}})
				if !errors.Is(err, test.want) || test.want == nil && err != nil || n != test.asked {
					t.Errorf("asked %d times, want %d: %v", n, test.asked, err)
				}
				if Refused(err) || err != nil && !strings.Contains(err.Error(), "job 7") {
					t.Errorf("the error is %v", err)
				}
			})
		})
	}
}
