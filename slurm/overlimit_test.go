package slurm

import (
	"testing"
	"time"
)

func TestOverLimits(t *testing.T) {
	parts := []map[string]string{{"PartitionName": "main", "OverTimeLimit": "NONE"}, {"PartitionName": "cloud", "OverTimeLimit": "10"},
		{"PartitionName": "long", "OverTimeLimit": "UNLIMITED"}, {"PartitionName": "strict", "OverTimeLimit": "0"}}
	for _, tt := range []struct {
		cluster, of string
		want        time.Duration
		endless     bool
	}{
		{"0 min", "main", 30 * time.Second, false},
		{"5 min", "main", 5*time.Minute + 30*time.Second, false},
		{"5 min", "main,cloud", 10*time.Minute + 30*time.Second, false},
		{"5 min", "strict", 30 * time.Second, false},
		{"0 min", "main,long", 30 * time.Second, true},
		{"UNLIMITED", "main", 30 * time.Second, true},
		{"UNLIMITED", "cloud", 10*time.Minute + 30*time.Second, false},
		{"", "gone", 30 * time.Second, false},
	} {
		d, endless := OverLimitsOf(map[string]string{"KillWait": "30 sec", "OverTimeLimit": tt.cluster}, parts).Of(tt.of)
		if d != tt.want || endless != tt.endless {
			t.Errorf("%s, %s: %s %v, want %s %v", tt.cluster, tt.of, d, endless, tt.want, tt.endless)
		}
	}
}
