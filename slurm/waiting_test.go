package slurm

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// row is what squeue of 22.05 prints of a job.
func row(mark string, change map[string]string) string {
	have := map[string]string{"JobID": "13", "ArrayJobID": "13", "ArrayTaskID": "N/A", "UserID": "1000", "UserName": "ada", "Account": "phys", "Partition": "onprem", "State": "PENDING",
		"Reason": "Resources", "NumCPUs": "3", "NumNodes": "2-3", "MinCPUs": "1", "NumTasks": "3", "MinMemory": "100M", "QOS": "(null)", "TimeLimit": "1-02:04:00", "PriorityLong": "103",
		"Licenses": "matlab:1", "tres-alloc": "cpu=3,mem=300M,node=2,billing=3", "WorkDir": "/home/ada", "STDIN": "/dev/null", "STDOUT": "/home/ada/slurm-13.out", "STDERR": "/tmp/x.err",
		"SubmitTime": "1700000000", "EligibleTime": "1700000001", "StartTime": "N/A", "OverSubscribe": "OK", "Exclusive": ""}
	var b strings.Builder
	for _, f := range waitingFields {
		v := have[f.name]
		if c, ok := change[f.name]; ok {
			v = c
		}
		b.WriteString(v + mark)
	}
	return b.String() + "\n"
}

func TestParseWaiting(t *testing.T) {
	all, err := parseWaiting([]byte(row("mX", nil)+row("mX", map[string]string{"JobID": "14", "ArrayJobID": "14", "ArrayTaskID": "1-5:2,7%4", "TimeLimit": "UNLIMITED", "Licenses": "(null)"})), "mX")
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	w := all[0]
	if w.ID != 13 || w.ArrayID != 0 || w.TimeLimit != 26*time.Hour+4*time.Minute || w.Priority != 103 || w.Licenses != "matlab:1" || w.Total != 300 || w.Memory != 100 || w.CPUs != 3 ||
		w.NumNodes != 2 || w.WorkDir != "/home/ada" || w.Stderr != "/tmp/x.err" || w.QOS != "" || w.Eligible.Unix() != 1700000001 || w.Account != "phys" {
		t.Errorf("%+v", w)
	}
	if a := all[1]; a.ArrayID != 14 || !slices.Equal(a.ArrayTasks(), []int{1, 3, 5, 7}) || a.TimeLimit != 0 || a.Licenses != "" {
		t.Errorf("%+v: %v", a, a.ArrayTasks())
	}
	if all, err := parseWaiting([]byte(row("mX", map[string]string{"TimeLimit": "5 min"})), "mX"); err != nil || len(all) != 1 || all[0].TimeLimit != 0 {
		t.Errorf("one job's limit, which is not understood, fails the reading of all: %v", err)
	}
	if all, err := parseWaiting([]byte(row("mX", map[string]string{"State": "EXPEDITING"})), "mX"); err != nil || all[0].State != "PENDING" {
		t.Errorf("a job that is to start again before all others: %+v, %v", all, err)
	}
	if all, err := parseWaiting(nil, "mX"); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

// TestWhole: what squeue says of --exclusive, of 25.11 and before and of 26.05, and words of versions to come.
func TestWhole(t *testing.T) {
	for _, tt := range []struct {
		share, exclusive string // exclusive "": squeue does not know the field
		whole            bool
		unread           string
	}{
		{share: "OK"},
		{share: "YES"},
		{share: "USER"},
		{share: "MCS"},
		{share: "NO", whole: true},
		{share: "TOPO", whole: true},
		{share: "NODE", whole: true, unread: "OverSubscribe=NODE"},
		{share: "NO", exclusive: "NO"},
		{share: "OK", exclusive: "NO"},
		{share: "YES", exclusive: "NO"},
		{share: "LATER", exclusive: "NO"},
		{share: "NO", exclusive: "USER"},
		{share: "NO", exclusive: "MCS"},
		{share: "NO", exclusive: "NODE", whole: true},
		{share: "NO", exclusive: "TOPO", whole: true},
		{share: "OK", exclusive: "RACK", whole: true, unread: "Exclusive=RACK"},
	} {
		all, err := parseWaiting([]byte(row("mX", map[string]string{"OverSubscribe": tt.share, "Exclusive": tt.exclusive})), "mX")
		if err != nil || len(all) != 1 || all[0].Whole != tt.whole || all[0].Unread != tt.unread {
			t.Errorf("%+v: %+v, %v", tt, all, err)
		}
	}
}

// FuzzWaiting: whatever Slurm says, nothing falls over, and no task is below 0.
func FuzzWaiting(f *testing.F) {
	f.Add("1-02:04:00", "1-5:2,7%4")
	f.Add("UNLIMITED", "1,10,13,6...")
	f.Add("99999-1:1:1", "9-1,0-4000:1")
	f.Fuzz(func(t *testing.T, limit, tasks string) {
		if d, err := ParseLimit(limit); err == nil && d < 0 {
			t.Errorf("%q: %v", limit, d)
		}
		for _, n := range (Job{ArrayTask: tasks}).ArrayTasks() {
			if n < 0 {
				t.Errorf("%q: %d", tasks, n)
			}
		}
	})
}

func TestArrayTasks(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "5": {5}, "2-4,6%3": {2, 3, 4, 6}, "0-4:2": {0, 2, 4}, "1,10,13,6...": {1, 10, 13}, "x": nil, "1-99999999999": nil, "1-5:9223372036854775807": nil, "5-1": nil} {
		if got := (Job{ArrayTask: text}).ArrayTasks(); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestTaskList(t *testing.T) {
	var many []int
	for i := range 300 {
		many = append(many, i+1)
	}
	for want, tasks := range map[string][]int{"3": {3}, "1,2,3": {1, 2, 3}, "1-300": many, "1-300,400,500-501": append(many, 400, 500, 501)} {
		if got := taskList(tasks); got != want {
			t.Errorf("%v: %s, want %s", tasks, got, want)
		}
	}
}
