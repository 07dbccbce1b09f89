package slurm

import (
	"maps"
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
