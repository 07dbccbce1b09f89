package store

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// TestCostNamesTasks of arrays as users know them, where it is sure which one had the id.
func TestCostNamesTasks(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "burst.db"))
	write := func(id uint32, submitted time.Duration, array uint32, task string, ended time.Duration) {
		r := run(id, 0)
		r.Submitted, r.ArrayID, r.ArrayTask = at.Add(submitted), array, task
		if r.Started, r.Begun = r.Submitted, r.Submitted; ended > 0 {
			r.Open, r.Ended, r.State = false, at.Add(ended), "COMPLETED"
		}
		writeRuns(t, s, r)
	}
	write(7, 0, 5, "2", time.Hour)
	write(8, 0, 0, "", time.Hour)
	write(9, 0, 5, "3", 0)
	write(10, 0, 5, "4", 30*time.Second) // its id is given again
	write(10, time.Minute, 6, "4", time.Hour)
	for _, job := range []uint32{7, 8, 9, 10, 11} { // of 11 there is no run
		putRows(t, s, usageRow(fmt.Sprint("i-", job), job, 0, 600))
	}
	for _, tt := range []struct {
		q    UsageQuery
		want map[uint32]string
	}{
		{UsageQuery{By: "job", UID: -1}, map[uint32]string{7: "5_2", 8: "0_", 9: "5_3", 10: "0_", 11: "0_"}},
		{UsageQuery{By: "job", UID: 1007}, map[uint32]string{7: "5_2"}},
		{UsageQuery{By: "job", UID: -1, Since: at.Add(time.Minute)}, map[uint32]string{7: "5_2", 8: "0_", 9: "5_3", 10: "6_4", 11: "0_"}},
		{UsageQuery{By: "job", UID: -1, Until: at.Add(time.Minute)}, map[uint32]string{7: "5_2", 8: "0_", 9: "5_3", 10: "5_4", 11: "0_"}},
		{UsageQuery{By: "user", UID: -1}, map[uint32]string{0: "0_"}},
	} {
		all, err := s.Usage(t.Context(), tt.q)
		if err != nil || len(all) == 0 {
			t.Fatal(all, err)
		}
		for _, u := range all {
			if got := fmt.Sprintf("%d_%s", u.ArrayID, u.ArrayTask); got != tt.want[u.Job] {
				t.Errorf("%+v: job %d is %s, want %s", tt.q, u.Job, got, tt.want[u.Job])
			}
		}
		if tt.q.By == "job" && len(all) != len(tt.want) {
			t.Errorf("%+v: %+v", tt.q, all)
		}
	}
}
