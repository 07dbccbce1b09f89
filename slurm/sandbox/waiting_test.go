package sandbox

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// TestWaiting is what slurm/overflow relies on: what squeue says of a job that waits, that one change gives it other
// partitions and takes away the start that it was given, and that all tasks of an array which wait stay one when all are told.
func TestWaiting(t *testing.T) {
	slow(t)
	c := start(t, Options{Dir: t.TempDir() + "/s", OnPrem: 1, Extra: "PartitionName=usual Nodes=o1 MaxTime=1-0 DefaultTime=10\n" +
		"PartitionName=short Nodes=o1 MaxTime=2-0\nPartitionName=long Nodes=o1\nPartitionName=whole Nodes=o1 OverSubscribe=EXCLUSIVE\n"})
	client := slurm.New(slurm.Exec{Conf: c.Conf})
	submit := func(args ...string) uint32 {
		t.Helper()
		id, err := strconv.ParseUint(run(t, c, "sbatch", append([]string{"--parsable", "-o", "/dev/null", "--wrap", "sleep 60"}, args...)...), 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(id)
	}
	waiting := func(id uint32) slurm.Waiting {
		t.Helper()
		all, err := client.Waiting(t.Context())
		i := slices.IndexFunc(all, func(w slurm.Waiting) bool { return w.ID == id })
		if err != nil || i < 0 {
			t.Fatalf("job %d does not wait: %v", id, err)
		}
		return all[i]
	}
	move := func(id uint32, m slurm.Move) {
		t.Helper()
		if err := client.SetPartitions(t.Context(), waiting(id).Job, m); err != nil {
			t.Fatal(err)
		}
	}
	blocker := submit("-n2", "-t1:00:00")
	eventually(t, 20*time.Second, "the node is in use", func() bool { return jobState(t, c, strconv.Itoa(int(blocker))) == "RUNNING" })
	for args, want := range map[string]struct {
		limit time.Duration
		whole bool
	}{
		"-p usual":            {10 * time.Minute, false},
		"-p short":            {48 * time.Hour, false},
		"-p short -t 20":      {20 * time.Minute, false},
		"-p long":             {0, false},
		"-p long --exclusive": {0, true},
		"-p whole":            {0, true},
	} {
		if w := waiting(submit(strings.Fields(args)...)); w.TimeLimit != want.limit || w.Whole != want.whole || w.MaxNodes != 1 {
			t.Errorf("%s: a limit of %s, up to %d nodes, whole: %v", args, w.TimeLimit, w.MaxNodes, w.Whole)
		}
	}
	kept, none := submit("-p", "usual"), submit("-p", "short")
	for _, id := range []uint32{kept, none} {
		move(id, slurm.Move{Partitions: []string{"long"}})
	}
	if a, b := waiting(kept).TimeLimit, waiting(none).TimeLimit; a != 10*time.Minute || b != 0 {
		t.Errorf("with DefaultTime %s, without %s", a, b)
	}

	array := submit("-p", "short", "--array=1-3")
	move(array, slurm.Move{Partitions: []string{"long"}, Tasks: []int{1, 2, 3}})
	if text := run(t, c, "scontrol", "show", "job", strconv.Itoa(int(array))); strings.Count(text, "ArrayJobId=") != 1 || !strings.Contains(text, "Partition=long ") {
		t.Errorf("all tasks of an array that wait, named one by one, are not one job any more: %s", text)
	}

	id := submit("-p", "short")
	later := time.Now().Add(time.Hour)
	if err := client.UpdateJob(t.Context(), id, slurm.JobUpdate{Start: &later}); err != nil {
		t.Fatal(err)
	}
	move(id, slurm.Move{Partitions: []string{"short", "long"}})
	if w := waiting(id); w.Partition != "short,long" || w.Eligible.Sub(later).Abs() > 2*time.Second {
		t.Errorf("in %s, eligible in %s", w.Partition, time.Until(w.Eligible))
	}
	move(id, slurm.Move{Partitions: []string{"short"}, Begin: true, Told: "burst: it was given back"})
	if w := waiting(id); w.Partition != "short" || time.Until(w.Eligible) > 2*time.Second || w.AdminComment != "burst: it was given back" {
		t.Errorf("in %s, eligible in %s, told %q", w.Partition, time.Until(w.Eligible), w.AdminComment)
	}

	array, text := submit("-p", "short", "--array=1-4%2"), "burst: not moved"
	if err := client.UpdateJob(t.Context(), array, slurm.JobUpdate{AdminComment: &text}); err != nil {
		t.Fatal(err)
	}
	all, err := client.JobsOf(t.Context(), array)
	if err != nil || len(all) != 1 || all[0].ArrayTask != "1-4%2" || all[0].AdminComment != text {
		t.Errorf("%+v, %v", all, err)
	}
}
