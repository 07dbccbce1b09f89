package sandbox

import (
	"strconv"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// TestTimeLimits: what Slurm says of limits is read as what they are, of jobs that wait and
// that run; one that has none of its own has its partition's when it runs.
func TestTimeLimits(t *testing.T) {
	slow(t)
	dir := t.TempDir() + "/s"
	c := start(t, Options{Dir: dir, OnPrem: 1, Extra: "PartitionName=short Nodes=o1 MaxTime=30 DefaultTime=20\n", BurstConfig: dir + "/slurm.conf"})
	client := slurm.New(slurm.Exec{Conf: c.Conf})
	want := map[uint32]time.Duration{}
	for _, l := range []struct {
		args  []string
		limit time.Duration
	}{
		{[]string{"--time=30"}, 30 * time.Minute}, {[]string{"--time=2-03:04:00"}, 51*time.Hour + 4*time.Minute}, {[]string{"--time=4:00:00"}, 4 * time.Hour},
		{[]string{"--time=0"}, 0}, {[]string{"--time=1"}, time.Minute}, {[]string{"-p", "short"}, 20 * time.Minute}, {nil, 0},
	} {
		for _, held := range [][]string{nil, {"--hold"}} {
			id, err := strconv.ParseUint(run(t, c, "sbatch", append(append([]string{"--parsable", "-o", "/dev/null", "--wrap", "sleep 5"}, l.args...), held...)...), 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			want[uint32(id)] = l.limit
		}
	}
	snap, err := client.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for id, limit := range want {
		if j := snap.Jobs[id]; j.TimeLimit != limit {
			t.Errorf("job %d, %s: %s, want %s; Slurm says %s", id, j.State, j.TimeLimit, limit, run(t, c, "squeue", "-h", "-j", strconv.Itoa(int(id)), "-O", "TimeLimit:"))
		}
	}
}
