package slurm

import (
	"maps"
	"os"
	"testing"
	"time"
)

func TestResumeTimeouts(t *testing.T) {
	out := []byte(`PartitionName=cloud Nodes=c[1-3] ResumeTimeout=900 SuspendTime=300
PartitionName=more Nodes=c3,c4 ResumeTimeout=1200
PartitionName=all Nodes=c[1-5] ResumeTimeout=GLOBAL
PartitionName=older Nodes=c6
PartitionName=none Nodes=(null) ResumeTimeout=30
PartitionName=wait Nodes=c7,c1 ResumeTimeout=INFINITE
`)
	minutes := func(n time.Duration) time.Duration { return n * time.Minute }
	want := map[string]time.Duration{"c2": minutes(15), "c3": minutes(20), "c4": minutes(20), "c5": minutes(1), "c6": minutes(1)}
	if got := ResumeTimeouts(map[string]string{"ResumeTimeout": "60 sec"}, parsePartitions(out)); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	delete(want, "c5")
	delete(want, "c6")
	if got := ResumeTimeouts(nil, parsePartitions(out)); !maps.Equal(got, want) {
		t.Errorf("without the cluster's: got %v, want %v", got, want)
	}
}

// TestResumeTimeoutsOfRealOnes: a partition without one of its own shows none, or GLOBAL, as versions go.
func TestResumeTimeoutsOfRealOnes(t *testing.T) {
	for _, version := range []string{"22.05", "24.11"} {
		config, err := os.ReadFile("testdata/" + version + "/config.txt")
		if err != nil {
			t.Fatal(err)
		}
		partitions, err := os.ReadFile("testdata/" + version + "/partitions.txt")
		if err != nil {
			t.Fatal(err)
		}
		settings := parseConfig(config)
		settings["ResumeTimeout"] = "61 sec" // to tell it from the partitions'
		got := ResumeTimeouts(settings, parsePartitions(partitions))
		if got["c1"] != time.Minute || got["x3"] != time.Minute || got["onprem"] != 61*time.Second || len(got) != 8 {
			t.Errorf("%s: %v", version, got)
		}
	}
}
