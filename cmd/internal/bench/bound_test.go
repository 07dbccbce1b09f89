package bench

import (
	"slices"
	"testing"
	"time"
)

func TestBound(t *testing.T) {
	limits := awsLimits
	runOnly := limits
	runOnly.fleet = time.Hour
	for _, tt := range []struct {
		name   string
		limits ec2Limits
		groups []int
		want   time.Duration
	}{
		{"one job of 1,000: one RunInstances", limits, []int{1000}, 2 * time.Second},
		{"20 pools of 50: fleets all at once", limits, slices.Repeat([]int{50}, 20), 3300 * time.Millisecond},
		{"20 pools of 50 by RunInstances: 5 at once, 15 at 2 a second", runOnly, slices.Repeat([]int{50}, 20), 9500 * time.Millisecond},
		{"1,100: the bucket's 1,000, and a fleet", limits, []int{1100}, 3300 * time.Millisecond},
		{"1,100 by RunInstances: 100 more at 2 a second", runOnly, []int{1100}, 52 * time.Second},
		{"55 fleets: the bucket's 50, 5 in the next second", ec2Limits{runRequests: bucket{0, 0.001}, runInstances: limits.runInstances,
			fleetRequests: limits.fleetRequests, run: limits.run, fleet: limits.fleet, describe: limits.describe}, slices.Repeat([]int{1}, 55), 4300 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.limits.bound(tt.groups); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
