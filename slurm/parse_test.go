package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// captured returns a file of testdata: what a real Slurm printed to us.
func captured(t testing.TB, version, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", version, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// capturedJobs is what squeue printed, and (null), its word for no --constraint, nothing, for
// no --nodelist, and a time limit as the last fields of each job: the captures are older than these.
func capturedJobs(t testing.TB, version, name string) []byte {
	t.Helper()
	fields := strings.SplitAfter(string(captured(t, version, name)), captureMark)
	var b strings.Builder
	for i, f := range fields {
		if i > 0 && i%(len(jobFields)-3) == 0 {
			b.WriteString("(null)" + captureMark + captureMark + "UNLIMITED" + captureMark)
		}
		b.WriteString(f)
	}
	return []byte(b.String())
}

// captureMark is the mark under which testdata's jobs were read.
const captureMark = "MARK"

var versions = []string{"22.05", "24.11"}

func TestParseNodesCaptured(t *testing.T) {
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			nodes, err := parseNodes(captured(t, v, "nodes.txt"))
			if err != nil {
				t.Fatal(err)
			}
			by := map[string]Node{}
			for _, n := range nodes {
				by[n.Name] = n
			}
			if len(nodes) != 8 || len(by) != 8 {
				t.Fatalf("%d nodes, %d names; want 8", len(nodes), len(by))
			}
			c4 := by["c4"]
			if c4.CPUs != 2 || c4.AllocCPUs != 2 || c4.RealMemory != 1000 || c4.State.Base != "ALLOCATED" || !c4.State.Has("CLOUD") ||
				c4.Addr != "127.0.0.1" || c4.Hostname != "ctl1" || !reflect.DeepEqual(c4.Features, []string{"cloud", "spot"}) ||
				!reflect.DeepEqual(c4.Partitions, []string{"cloud"}) {
				t.Errorf("c4 = %+v", c4)
			}
			if c3 := by["c3"]; !c3.State.Has(PoweredDown) || c3.State.Base != "IDLE" {
				t.Errorf("c3 = %+v", c3)
			}
			if x1 := by["x1"]; x1.State.String() != "DOWN+CLOUD+POWERED_DOWN" || x1.Reason != "not answering: State=IDLE JobId=3 second" || !x1.BootTime.IsZero() || !x1.LastBusy.IsZero() {
				t.Errorf("x1 = %+v", x1)
			}
			if x2 := by["x2"]; x2.State.String() != "IDLE+CLOUD+DRAIN+POWERED_DOWN" || x2.Reason != "Comment=none [x@y] Extra=1" {
				t.Errorf("x2 = %+v", x2)
			}
			if site := by["onprem"]; !site.State.Has(Drain) || site.Reason != "disk" || site.Started.Unix() < 1795000000 {
				t.Errorf("onprem = %+v", site)
			}
		})
	}
}

func TestParseJobsCaptured(t *testing.T) {
	// The 22.05 job was requeued while its nodes booted: no hold, and it keeps
	// the name of its nodes. The 24.11 job was requeued while it ran.
	want := map[string]struct {
		begun, reason, stale string
		hold                 time.Duration
	}{
		"22.05": {"CONFIGURING", "", "c[1-2]", 0},
		"24.11": {"RUNNING", "BeginTime", "", 121 * time.Second},
	}
	for _, v := range versions {
		t.Run(v, func(t *testing.T) {
			jobs, err := parseJobs(capturedJobs(t, v, "jobs.txt"), captureMark)
			if err != nil {
				t.Fatal(err)
			}
			find := func(what string, match func(Job) bool) Job {
				t.Helper()
				for _, j := range jobs {
					if match(j) {
						return j
					}
				}
				t.Fatalf("no job %s", what)
				return Job{}
			}
			requeued := find("requeued", func(j Job) bool {
				return j.State == "PENDING" && j.Name == "my job = State=DOWN x"
			})
			if requeued.Restarts != 1 || !requeued.Requeue || !requeued.Batch || requeued.User != "root" ||
				requeued.Comment != `burst: signal=USR1 key="a b=c" JobId=9` || requeued.AdminComment != "burst: launched on spot, 0.20 $/h; State=FINE" ||
				requeued.NumNodes != 2 || requeued.Partition != "cloud" || requeued.Account != "" ||
				!requeued.End.IsZero() || requeued.ArrayID != 0 || requeued.HetID != 0 {
				t.Errorf("requeued job = %+v", requeued)
			}
			if hold := requeued.Eligible.Sub(requeued.Submitted); requeued.Reason != want[v].reason || hold != want[v].hold || requeued.Nodes != want[v].stale {
				t.Errorf("requeued job: reason %q, held %s, nodes %q; want %+v", requeued.Reason, hold, requeued.Nodes, want[v])
			}
			begun := find("begun", func(j Job) bool { return j.State == want[v].begun && j.Name == "j.sh" && j.Partition == "cloud" })
			if begun.Nodes == "" || begun.BatchHost != begun.Nodes || begun.Requeue || begun.Start.IsZero() {
				t.Errorf("begun job = %+v", begun)
			}
			rest := find("array's rest", func(j Job) bool { return j.State == "PENDING" && j.Name == "arr" })
			task := find("array's task", func(j Job) bool { return j.State == want[v].begun && j.Name == "arr" })
			if rest.ArrayID != rest.ID || rest.ArrayTask != "3,5,7%1" || task.ArrayID != rest.ID || task.ArrayTask != "1" {
				t.Errorf("array: %+v and %+v", rest, task)
			}
			part := find("part of a heterogeneous job", func(j Job) bool { return j.HetID != 0 && j.HetID != j.ID })
			if part.Name != "het" || part.HetID+1 != part.ID {
				t.Errorf("het job = %+v", part)
			}
			forged := find("with forged records", func(j Job) bool { return strings.HasPrefix(j.Name, "evil") && j.State == "PENDING" })
			if forged.Name != "evil\nJobId=1 JobName=z UserId=x(1) GroupId" || forged.Comment != "a\nJobId=4 JobState=RUNNING" {
				t.Errorf("forging job = %+v", forged)
			}
		})
	}
}

func TestParseExit(t *testing.T) {
	tests := []struct {
		v            string
		code, signal int
	}{{"0", 0, 0}, {"768", 3, 0}, {"9", 0, 9}, {"3:0", 3, 0}, {"0:9", 0, 9}, {"N/A", 0, 0}}
	for _, tt := range tests {
		var j Job
		if err := parseExit(&j, tt.v); err != nil || j.ExitCode != tt.code || j.ExitSignal != tt.signal {
			t.Errorf("parseExit(%q) = %d, %d, %v; want %d, %d", tt.v, j.ExitCode, j.ExitSignal, err, tt.code, tt.signal)
		}
	}
}

// Local times and seconds since 1970 are the same captures a moment apart.
func TestLocalTimes(t *testing.T) {
	defer func(l *time.Location) { time.Local = l }(time.Local)
	time.Local = time.UTC // the captured Slurm's zone
	for _, v := range versions {
		seconds, err := parseJobs(capturedJobs(t, v, "jobs.txt"), captureMark)
		if err != nil {
			t.Fatal(err)
		}
		local, err := parseJobs(capturedJobs(t, v, "jobs-local.txt"), captureMark)
		if err != nil {
			t.Fatal(err)
		}
		for i := range seconds {
			if a, b := seconds[i], local[i]; a.ID != b.ID || !a.Submitted.Equal(b.Submitted) || !a.Eligible.Equal(b.Eligible) {
				t.Errorf("Slurm %s: %+v is not %+v", v, a, b)
			}
		}
		nodes, err := parseNodes(captured(t, v, "nodes-local.txt"))
		if err != nil || len(nodes) != 8 || nodes[0].Started.IsZero() {
			t.Errorf("Slurm %s: nodes with local times: %v, %v", v, nodes, err)
		}
	}
}

func TestParseNodeState(t *testing.T) {
	tests := []struct{ v, want string }{
		{"IDLE", "IDLE"},
		{"IDLE+CLOUD+POWERED_DOWN", "IDLE+CLOUD+POWERED_DOWN"},
		{"DOWN*+CLOUD", "DOWN+NOT_RESPONDING+CLOUD"},
		{"idle~", "IDLE+POWERED_DOWN"},
		{"ALLOCATED#+CLOUD", "ALLOCATED+POWERING_UP+CLOUD"},
		{"IDLE%", "IDLE+POWERING_DOWN"},
		{"MIXED!", "MIXED+POWER_DOWN"},
		{"DOWN*+NOT_RESPONDING", "DOWN+NOT_RESPONDING"},
		{"IDLE#*", "IDLE+NOT_RESPONDING+POWERING_UP"},
		{"MIXED-", "MIXED+PLANNED"},
	}
	for _, tt := range tests {
		if got := parseNodeState(tt.v).String(); got != tt.want {
			t.Errorf("parseNodeState(%q) = %s, want %s", tt.v, got, tt.want)
		}
	}
}

func TestParseConfigCaptured(t *testing.T) {
	for _, v := range versions {
		config := parseConfig(captured(t, v, "config.txt"))
		for key, want := range map[string]string{"ReturnToService": "2", "AuthType": "auth/munge", "AccountingStorageParameters": "",
			"SlurmctldParameters": "idle_on_node_suspend,power_save_interval=1"} {
			if got, ok := config[key]; !ok || got != want {
				t.Errorf("Slurm %s: %s = %q, %v; want %q", v, key, got, ok, want)
			}
		}
		parts := parsePartitions(captured(t, v, "partitions.txt"))
		if len(parts) != 3 || parts[1]["PartitionName"] != "cloud" || parts[1]["Nodes"] != "c[1-4]" || parts[1]["SuspendTime"] != "600" || parts[1]["JobDefaults"] != "" {
			t.Errorf("Slurm %s: partitions %v", v, parts)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := string(capturedJobs(t, "22.05", "jobs.txt"))
	for name, out := range map[string]string{
		"cut off":    good[:len(good)/2],
		"other mark": strings.ReplaceAll(good, captureMark, "OTHER"),
		"words":      "slurm_load_jobs error: something",
		"no id":      strings.Replace(good, good[:strings.Index(good, captureMark)], "N/A", 1),
	} {
		if jobs, err := parseJobs([]byte(out), captureMark); err == nil {
			t.Errorf("jobs, %s: %d jobs and no error", name, len(jobs))
		}
	}
	for name, out := range map[string]string{
		"words":    "slurm_load_node error: something",
		"no state": "NodeName=c1 CPUTot=2\n",
		"no count": "NodeName=c1 CPUTot=many State=IDLE\n",
	} {
		if nodes, err := parseNodes([]byte(out)); err == nil {
			t.Errorf("nodes, %s: %v and no error", name, nodes)
		}
	}
	if nodes, err := parseNodes([]byte("No nodes in the system\n")); err != nil || nodes != nil {
		t.Errorf("no nodes: %v, %v", nodes, err)
	}
	if jobs, err := parseJobs(nil, captureMark); err != nil || jobs != nil {
		t.Errorf("no jobs: %v, %v", jobs, err)
	}
}

func FuzzParseNodes(f *testing.F) {
	for _, v := range versions {
		f.Add(captured(f, v, "nodes.txt"))
	}
	f.Add([]byte("NodeName=a State=*+~ Reason= [@1] Extra=\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		nodes, err := parseNodes(out)
		for _, n := range nodes {
			if n.Name == "" || n.State.Base == "" || err != nil {
				t.Errorf("node %+v, %v", n, err)
			}
		}
	})
}

func FuzzParseJobs(f *testing.F) {
	for _, v := range versions {
		f.Add(capturedJobs(f, v, "jobs.txt"))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		jobs, err := parseJobs(out, captureMark)
		for _, j := range jobs {
			if j.ID == 0 || err != nil {
				t.Errorf("job %+v, %v", j, err)
			}
		}
	})
}

func FuzzParseConfig(f *testing.F) {
	for _, v := range versions {
		f.Add(captured(f, v, "config.txt"))
		f.Add(captured(f, v, "partitions.txt"))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		for key, v := range parseConfig(out) {
			if strings.ContainsAny(key+v, "\n") {
				t.Errorf("%q = %q holds a line end", key, v)
			}
		}
		for _, p := range parsePartitions(out) {
			if _, ok := p["PartitionName"]; !ok {
				t.Errorf("partition without a name: %v", p)
			}
		}
	})
}

func BenchmarkParseNodes10k(b *testing.B) {
	line, _, _ := strings.Cut(string(captured(b, "22.05", "nodes.txt")), "\n")
	var out strings.Builder
	for i := range 10000 {
		fmt.Fprintf(&out, "%s\n", strings.Replace(line, "NodeName=c1", fmt.Sprintf("NodeName=c%05d", i), 1))
	}
	text := []byte(out.String())
	for b.Loop() {
		if nodes, err := parseNodes(text); err != nil || len(nodes) != 10000 {
			b.Fatal(len(nodes), err)
		}
	}
}

func TestParseLimit(t *testing.T) {
	for v, want := range map[string]time.Duration{
		"": 0, "UNLIMITED": 0, "Partition_Limit": 0, "INVALID": 0, "NOT_SET": 0, "N/A": 0,
		"0:30": 30 * time.Second, "2-03": 51 * time.Hour, "2982616-00:00:00": maxLimit, "99999-04:05:06": maxLimit, "1:00": time.Minute, "30:00": 30 * time.Minute, "4:00:00": 4 * time.Hour, "10:30:00": 10*time.Hour + 30*time.Minute,
		"2-00:00:00": 48 * time.Hour, "365-01:02:03": 365*24*time.Hour + time.Hour + 2*time.Minute + 3*time.Second,
	} {
		if got, err := ParseLimit(v); err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", v, got, err, want)
		}
	}
	for _, v := range []string{"1:2:3:4:5", "1:x", "4h", "1-2-3", "99999999999:00", "1-", "99999999999-00:00:00"} {
		if got, err := ParseLimit(v); err == nil {
			t.Errorf("%q: %s", v, got)
		}
	}
}
