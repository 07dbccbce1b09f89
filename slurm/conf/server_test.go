package conf

import (
	"strings"
	"testing"
	"time"
)

// server is a pool of one node that serves files.
func server() Pool {
	return Pool{Name: "nfs", Nodes: []string{"nfs"}, Partition: "nfs", CPUs: 2, RealMemory: 3500, Server: true,
		ResumeTimeout: 15 * time.Minute, SuspendTimeout: 2 * time.Minute}
}

// A server of files has a partition that takes no jobs, and is idle for ever.
func TestServer(t *testing.T) {
	in := input()
	in.Pools = append(in.Pools, server())
	const line = "PartitionName=nfs Nodes=nfs State=INACTIVE SuspendTime=INFINITE ResumeTimeout=900 SuspendTimeout=120"
	text := Fragment(Site{}, in)
	if !strings.Contains(text, "\nNodeName=nfs CPUs=2 RealMemory=3500 State=CLOUD\n") || !strings.Contains(text, "\n"+line+"\n") {
		t.Errorf("%s", text)
	}
	for _, tt := range []struct{ name, key, value, want string }{
		{"as it should be", "state", "INACTIVE", ""},
		{"minus one is INFINITE too", "suspendtime", "-1", ""},
		{"jobs would run there", "state", "UP", "State is UP there: jobs would run on a server of files."},
		{"a site's own line without a state", "state", "", "State is not set there"},
		{"its folders would go when it is idle", "suspendtime", "600", "SuspendTime is 600 there and INFINITE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			attrs := map[string]string{"nodes": "nfs", "state": "INACTIVE", "suspendtime": "INFINITE", "resumetimeout": "900", "suspendtimeout": "120"}
			attrs[tt.key] = tt.value
			one := Input{Pools: []Pool{server()}}
			got := partitions(one)[0].differences(attrs)
			if !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
				t.Errorf("%q", got)
			}
		})
	}
	// Whoever excludes it as well does no harm.
	for _, f := range Check(Site{Settings: map[string]string{"suspendexcnodes": "nfs"}}, in) {
		if f.Key == "SuspendExcNodes" {
			t.Errorf("%+v", f)
		}
	}
}

// TestTakers: a partition of the site's that has the server among its nodes gives it to jobs.
func TestTakers(t *testing.T) {
	in := input()
	in.Pools = append(in.Pools, server())
	for nodes, want := range map[string]bool{"ALL": true, "all": true, "n[1-4],nfs": true, "n[1-4]": false, "": false} {
		site := Site{Lines: true, Partitions: []Line{{Name: "batch", Attrs: map[string]string{"nodes": nodes}}}}
		found := false
		for _, f := range Check(site, in) {
			found = found || f.Level == Wrong && f.Key == "PartitionName" && f.Have == "batch" && strings.HasPrefix(f.Why, "It gives nfs to jobs")
		}
		if told := strings.Contains(Fragment(site, in), "# wrong: PartitionName=batch: It gives nfs to jobs"); found != want || told != want {
			t.Errorf("Nodes=%s: check says so: %v, genconf: %v", nodes, found, told)
		}
	}
}
