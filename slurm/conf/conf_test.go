package conf

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func names(prefix string, n int) []string {
	var all []string
	for i := 1; i <= n; i++ {
		all = append(all, fmt.Sprintf("%s%d", prefix, i))
	}
	return all
}

// input is of three pools, two of which share a partition.
func input() Input {
	times := Pool{SuspendTime: 10 * time.Minute, ResumeTimeout: 15 * time.Minute, SuspendTimeout: 2 * time.Minute}
	small, big, other := times, times, times
	small.Name, small.Nodes, small.Partition, small.CPUs, small.RealMemory = "small", names("s", 4), "cloud", 2, 3500
	small.Addr, small.Hostname, small.Ports, small.Features = "127.0.0.1", "head", "17001-17004", []string{"cloud", "spot"}
	small.OneHost = true
	big.Name, big.Nodes, big.Partition, big.CPUs, big.RealMemory = "big", []string{"b1"}, "cloud", 16, 64000
	big.Ports, big.Options = "17100", "Weight=10 MemSpecLimit=500"
	other.Name, other.Nodes, other.Partition, other.CPUs, other.RealMemory = "other", names("o", 3), "night", 8, 32000
	other.SuspendTime, other.ResumeTimeout = 1500*time.Millisecond, 30*time.Minute
	return Input{
		Pools:    []Pool{small, big, other},
		Programs: ProgramsIn("/usr/bin"),
		User:     "slurm",
		Source:   "/etc/burst/burst.toml",
	}
}

func site(t *testing.T) Site {
	t.Helper()
	s, err := Read("testdata/site/slurm.conf")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFragment(t *testing.T) {
	golden(t, "empty.golden", Fragment(Site{}, input()))
	conflicting := site(t)
	conflicting.Settings["slurmctldparameters"] += ",cloud_dns"
	conflicting.Settings["suspendexcparts"] = "batch,night"
	golden(t, "merged.golden", Fragment(conflicting, input()))
}

// A site that includes the fragment needs nothing more, and its fragment stays as it is.
func TestFragmentIsStable(t *testing.T) {
	for _, start := range []Site{{}, site(t)} {
		dir := t.TempDir()
		text := Fragment(start, input())
		var own strings.Builder
		for k, v := range start.Settings {
			fmt.Fprintf(&own, "%s=%q\n", k, v)
		}
		path := filepath.Join(dir, "slurm.conf")
		for name, text := range map[string]string{path: own.String() + "JobFileAppend=1\nInclude burst.conf\n", filepath.Join(dir, "burst.conf"): text} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		with, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range Check(with, input()) {
			if f.Level != OK {
				t.Errorf("after the fragment was included: %+v", f)
			}
		}
		lines := func(text string) string {
			var kept []string
			for line := range strings.Lines(text) {
				if line != "\n" && line[0] != '#' {
					kept = append(kept, line)
				}
			}
			return strings.Join(kept, "")
		}
		if d := cmp.Diff(lines(text), lines(Fragment(with, input()))); d != "" {
			t.Errorf("second fragment (-first +second):\n%s", d)
		}
	}
}

func TestCheck(t *testing.T) {
	all, err := json.MarshalIndent(Check(site(t), input()), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "check.golden", string(all)+"\n")
}

func TestCheckSettings(t *testing.T) {
	for _, test := range []struct {
		name, key, have string
		level           Level
		want            string
	}{
		{"parameters merged", "SlurmctldParameters", "a,b=2", Wrong, "a,b=2,idle_on_node_suspend,power_save_interval=1"},
		{"parameters replaced", "SlurmctldParameters", "power_save_interval=10,x", Wrong, "x,idle_on_node_suspend,power_save_interval=1"},
		{"parameters there", "SlurmctldParameters", "power_save_interval=1,idle_on_node_suspend", OK, "power_save_interval=1,idle_on_node_suspend"},
		{"a delay is set where there is none", "SchedulerParameters", "bf_continue", Wrong, "bf_continue,batch_sched_delay=1"},
		{"the site's own delay stays", "SchedulerParameters", "batch_sched_delay=10,bf_continue", OK, "batch_sched_delay=10,bf_continue"},
		{"cloud_dns never added", "SlurmctldParameters", "", Missing, "idle_on_node_suspend,power_save_interval=1"},
		{"gate alone", "PrologSlurmctld", "", Missing, "/usr/bin/burst-gate"},
		{"gate there", "PrologSlurmctld", "/usr/bin/burst-gate", OK, "/usr/bin/burst-gate"},
		{"site's own prolog", "PrologSlurmctld", "/x", Wrong, "/etc/burst/prolog-slurmctld"},
		{"chained already", "PrologSlurmctld", "/etc/burst/prolog-slurmctld", OK, "/etc/burst/prolog-slurmctld"},
		{"prolog timeout too short", "PrologEpilogTimeout", "900", Wrong, "2100"},
		{"prolog timeout long", "PrologEpilogTimeout", "3600", OK, "3600"},
		{"foreign resume program", "ResumeProgram", "/site/resume", Wrong, "/usr/bin/burst-resume"},
		{"global suspend time", "SuspendTime", "300", Wrong, "INFINITE"},
		{"no suspend time is infinite", "SuspendTime", "", OK, "INFINITE"},
		{"-1 is infinite", "SuspendTime", "-1", OK, "INFINITE"},
		{"rate", "ResumeRate", "300", Wrong, "0"},
		{"a PID file for each slurmd", "SlurmdPidFile", "/run/slurm/d.pid", Wrong, "/run/slurm/d-%n.pid"},
		{"a folder for each slurmd", "SlurmdSpoolDir", "/var/lib/slurm/slurmd", Wrong, "/var/lib/slurm/slurmd/%n"},
		{"the host's name is the same for all", "SlurmdSpoolDir", "/var/spool/%h", Wrong, "/var/spool/%h/%n"},
		{"a folder for each already", "SlurmdSpoolDir", "/var/spool/slurm.%n", OK, "/var/spool/slurm.%n"},
		{"private data merged", "PrivateData", "jobs", Wrong, "jobs,cloud"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := Site{Settings: map[string]string{strings.ToLower(test.key): test.have}}
			for _, f := range Check(s, input()) {
				if f.Key == test.key {
					if f.Level != test.level || f.Want != test.want || f.Have != test.have {
						t.Errorf("got %+v, want level %s and %q", f, test.level, test.want)
					}
					return
				}
			}
			t.Errorf("no finding for %s", test.key)
		})
	}
}

// Nodes of a cloud have a host for themselves.
func TestHostsOfTheirOwn(t *testing.T) {
	in := input()
	in.Pools[0].OneHost = false
	for _, f := range Check(Site{}, in) {
		if strings.HasPrefix(f.Key, "Slurmd") {
			t.Errorf("%+v", f)
		}
	}
}

func TestJobsTakeInNodes(t *testing.T) {
	for have, want := range map[string]string{
		"":                     "batch_sched_delay=1,permit_job_expansion",
		"batch_sched_delay=10": "batch_sched_delay=10,permit_job_expansion",
		"Permit_Job_Expansion,batch_sched_delay=10": "Permit_Job_Expansion,batch_sched_delay=10",
	} {
		got, ok := schedulerParameters(have, Input{Expand: true})
		if got != want || ok != (have == want) {
			t.Errorf("%q: got %q, %v, want %q", have, got, ok, want)
		}
	}
}

func TestConflicts(t *testing.T) {
	for _, test := range []struct {
		name, key, have string
		level           Level // empty: no finding
		why             string
	}{
		{"other user", "SlurmUser", "root", Wrong, `set user = "root"`},
		{"our user", "SlurmUser", "slurm", "", ""},
		{"cloud_dns", "SlurmctldParameters", "Cloud_DNS", Advice, "DNS"},
		{"addresses of registrations", "SlurmctldParameters", "idle_on_node_suspend,cloud_reg_addrs", Advice, "from its registration"},
		{"messages along switches", "TopologyParam", "SwitchAsNodeRank,RouteTree", Advice, "TreeWidth"},
		{"messages along switches, before", "RoutePlugin", "route/topology", Advice, "TreeWidth"},
		{"messages by TreeWidth", "RoutePlugin", "route/default", "", ""},
		{"IPv6 alone, and no cloud", "CommunicationParameters", "EnableIPv6,DisableIPv4", "", ""},
		{"no requeue", "JobRequeue", "0", Advice, "--requeue"},
		{"output overwritten", "JobFileAppend", "0", Advice, "--open-mode=append"},
		{"our partition excluded", "SuspendExcParts", "batch,cloud", Wrong, "Idle nodes of cloud"},
		{"other partition excluded", "SuspendExcParts", "batch", "", ""},
		{"our nodes excluded", "SuspendExcNodes", "n1,s[2-3]", Wrong, "s[2-3] would never"},
		{"nodes with counts", "SuspendExcNodes", "s[1-4]:2", Wrong, "s[1-4] would never"},
		{"unreadable nodes", "SuspendExcNodes", "s[1-", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			settings := map[string]string{"jobfileappend": "1"}
			settings[strings.ToLower(test.key)] = test.have
			got := conflicts(Site{Settings: settings}, input())
			if test.level == "" {
				if len(got) > 0 {
					t.Errorf("got %+v, want none", got)
				}
				return
			}
			if len(got) != 1 || got[0].Key != test.key || got[0].Level != test.level || !strings.Contains(got[0].Why, test.why) {
				t.Errorf("got %+v, want one %s with %q", got, test.level, test.why)
			}
		})
	}
}

// Only a site where jobs are to take in nodes is told that they cannot.
func TestPrologFlagsOfJobsThatTakeInNodes(t *testing.T) {
	for _, test := range []struct {
		have         string
		expand, told bool
	}{
		{"Alloc,CONTAIN", true, true},
		{"x11", true, true},
		{"RunInJob", true, true},
		{"Alloc,Serial", true, false},
		{"", true, false},
		{"Contain", false, false},
	} {
		in := input()
		in.Expand = test.expand
		got := conflicts(Site{Settings: map[string]string{"jobfileappend": "1", "prologflags": test.have}}, in)
		if told := len(got) == 1 && got[0].Key == "PrologFlags" && got[0].Level == Advice; told != test.told || len(got) > 1 {
			t.Errorf("%q, expand %v: %+v, want it told: %v", test.have, test.expand, got, test.told)
		}
	}
}

// Nodes that fetch slurm.conf from slurmctld get what it includes by a bare
// name only: slurm.conf(5), enable_configless.
func TestIncludesOfConfiglessNodes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "slurm.conf")
	write(t, path, "JobFileAppend=1\nInclude "+dir+"/burst.conf\nInclude sub/own.conf\nInclude bare.conf\n", 0o644)
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"burst.conf", "sub/own.conf", "bare.conf"} {
		write(t, filepath.Join(dir, name), "", 0o644)
	}
	site, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	in := input()
	if got := conflicts(site, in); len(got) > 0 {
		t.Errorf("nodes with a slurm.conf of their own: %+v", got)
	}
	in.Pools[0].Configless = true
	scripts := Running(map[string]string{"JobFileAppend": "1", "Prolog[0]": "/etc/slurm/prolog.sh", "Epilog": "(null)", "TaskProlog": "served.sh"})
	if got := conflicts(scripts, in); len(got) != 1 || got[0].Level != Advice || got[0].Key != "Prolog" {
		t.Errorf("scripts that nodes run: %+v", got)
	}
	got := conflicts(site, in)
	if len(got) != 2 || got[0].Level != Wrong || got[0].Have != dir+"/burst.conf" || got[0].Want != "burst.conf" || got[1].Want != "own.conf" {
		t.Errorf("got %+v", got)
	}
}

func TestCheckLines(t *testing.T) {
	node := func(name, attrs string) Line { return line("NodeName=" + name + " " + attrs) }
	part := func(name, attrs string) Line { return line("PartitionName=" + name + " " + attrs) }
	nodes := []Line{
		node("s[1-4]", "CPUs=2 RealMemory=3500 State=CLOUD Port=[17001-17004]"),
		node("b1", "CPUs=16 RealMemory=64000 State=CLOUD Port=17100"),
		node("o[1-3]", "CPUs=8 RealMemory=32000 State=Cloud"),
	}
	const times = " SuspendTime=600 ResumeTimeout=900 SuspendTimeout=120"
	night := part("night", "Nodes=o[1-3] SuspendTime=2 ResumeTimeout=1800 SuspendTimeout=120")
	for _, test := range []struct {
		name       string
		nodes      []Line
		partitions []Line
		want       string // level and why of the first finding that is not OK
	}{
		{"as it should be", nodes, []Line{part("cloud", "Nodes=s[1-4],b1"+times), night}, ""},
		{"node missing", nodes[1:], []Line{part("cloud", "Nodes=s[1-4],b1"+times), night}, "missing: Pool small: slurm.conf does not know s[1-4]."},
		{"node of another size", append([]Line{node("s[1-4]", "CPUs=4 RealMemory=3500 State=CLOUD Port=[17001-17004]")}, nodes[1:]...),
			[]Line{part("cloud", "Nodes=s[1-4],b1"+times), night}, "wrong: Pool small: so it says of s[1-4]."},
		{"partition missing", nodes, []Line{part("cloud", "Nodes=s[1-4],b1"+times)}, "missing: slurm.conf has no partition night."},
		{"partition with on-prem nodes", nodes, []Line{part("cloud", "Nodes=s[1-4],b1,n1"+times), night}, "wrong: It also holds n1:"},
		{"partition of all", nodes, []Line{part("cloud", "Nodes=ALL"+times), night}, "wrong: It holds ALL nodes:"},
		{"partition lacks nodes", nodes, []Line{part("cloud", "Nodes=s[1-4]"+times), night}, "wrong: It does not hold b1."},
		{"other times", nodes, []Line{part("cloud", "Nodes=s[1-4],b1 SuspendTime=60 ResumeTimeout=900 SuspendTimeout=120"), night},
			"wrong: SuspendTime is 60 there and 600 in burst.toml."},
		{"times not set", nodes, []Line{part("cloud", "Nodes=s[1-4],b1"), night}, "wrong: SuspendTime is not set there"},
		{"a node may be back too soon", nodes, []Line{part("cloud", "Nodes=s[1-4],b1 SuspendTime=600 ResumeTimeout=900 SuspendTimeout=3"), part("night", "Nodes=o[1-3] SuspendTime=2 ResumeTimeout=1800 SuspendTimeout=3")},
			"advice: SuspendTimeout=3: the next instance"},
		{"unreadable", nodes, []Line{part("cloud", "Nodes=s[1-"), night}, "wrong: Its nodes cannot be read:"},
		{"another partition of all, where all are the cloud's", nodes, []Line{part("cloud", "Nodes=s[1-4],b1"+times), night, part("any", "Nodes=all")}, ""},
		{"another partition of all", append([]Line{node("n1", "CPUs=4")}, nodes...), []Line{part("cloud", "Nodes=s[1-4],b1"+times), night, part("any", "Nodes=all")}, "wrong: Its Nodes=all hold s[1-4],b1,o[1-3] of the cloud: any job"},
		{"another partition of the cloud", nodes, []Line{part("cloud", "Nodes=s[1-4],b1"+times), night, part("any", "Nodes=s[1-2],o1")}, ""},
		{"another partition with some of them", nodes, []Line{part("cloud", "Nodes=s[1-4],b1"+times), night, part("any", "Nodes=n1,s[1-2]")}, "wrong: Its Nodes=n1,s[1-2] hold s[1-2] of the cloud:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ""
			s := Site{Lines: true, Nodes: test.nodes, Partitions: test.partitions}
			in := input()
			if strings.Contains(test.want, "SuspendTimeout=") {
				for i := range in.Pools {
					in.Pools[i].SuspendTimeout = 3 * time.Second
				}
			}
			for _, f := range append(checkNodes(s, in), checkPartitions(s, in)...) {
				if f.Level != OK && got == "" {
					got = fmt.Sprintf("%s: %s", f.Level, f.Why)
				}
			}
			if !strings.HasPrefix(got, test.want) || test.want == "" && got != "" {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A site's DEFAULT line reaches the pools' nodes, but where they have their own.
func TestCheckDefaults(t *testing.T) {
	s := Site{Lines: true, NodeDefault: map[string]string{"cpus": "64", "weight": "5", "sockets": "2"}}
	var got []string
	for _, f := range checkNodes(s, input()) {
		if f.Level == Advice {
			got = append(got, f.Have+": "+strings.Split(f.Why, " inherit")[0])
		}
	}
	want := []string{
		"DEFAULT sockets=2: The nodes of pool small", "DEFAULT weight=5: The nodes of pool small",
		"DEFAULT sockets=2: The nodes of pool big",
		"DEFAULT sockets=2: The nodes of pool other", "DEFAULT weight=5: The nodes of pool other",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func line(text string) Line {
	r := reader{site: Site{Settings: map[string]string{}}}
	r.line(pairs(text))
	return append(r.site.Nodes, r.site.Partitions...)[0]
}

func TestChainScript(t *testing.T) {
	in := input()
	for have, want := range map[string]string{
		"": "", in.Programs.Gate: "", in.Programs.Chain: "",
		"/site/prolog": "#!/bin/sh\n# PrologSlurmctld: Burst's gate, then the site's own program, whose exit code counts.\n" +
			"exec /usr/bin/burst-gate --then /site/prolog\n",
	} {
		if got := ChainScript(Site{Settings: map[string]string{"prologslurmctld": have}}, in); got != want {
			t.Errorf("ChainScript with %q = %q, want %q", have, got, want)
		}
	}
}

func TestCheckOptions(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "Weight=10 Gres=gpu:2": true, "state=UNKNOWN": false, "Weight=1\nNodeName=x": false, "CPUs=4": false, "Weight=1 #x": false,
	} {
		if err := CheckOptions(text); (err == nil) != ok {
			t.Errorf("CheckOptions(%q) = %v", text, err)
		}
	}
}

// TestCheckSources: without the features of its sources no job is kept to one.
func TestCheckSources(t *testing.T) {
	p := Pool{Name: "small", Nodes: []string{"s1", "s2"}, Features: []string{"big", "east", "lon"}, Sources: []string{"east", "lon"}}
	if line := p.nodeLine(); !strings.Contains(line, " Feature=big,east,lon") {
		t.Errorf("the line is %q", line)
	}
	for text, ok := range map[string]bool{
		"Feature=lon,east": true, "Features=big,lon,east": true, "Feature=lon": false, "": false, "Feature=eastern,lon": false,
	} {
		l := line("NodeName=s[1-2] State=CLOUD " + text)
		got := p.check(map[string]map[string]string{"s1": l.Attrs, "s2": l.Attrs})
		if len(got) != 1 || (got[0].Level == OK) != ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// TestOneHostCgroups: slurmds of one host would share Slurm's cgroups.
func TestOneHostCgroups(t *testing.T) {
	for value, want := range map[string]int{"ProctrackType=proctrack/cgroup": 1, "ProctrackType=proctrack/linuxproc": 0, "TaskPlugin=task/affinity,task/cgroup": 1, "TaskPlugin=task/none": 0} {
		key, value, _ := strings.Cut(value, "=")
		for _, local := range []bool{true, false} {
			in, found := input(), 0
			in.Pools[0].OneHost = local
			for _, f := range Check(Site{Settings: map[string]string{strings.ToLower(key): value}}, in) {
				if f.Key == key && f.Level == Advice {
					found++
				}
			}
			if local && found != want || !local && found != 0 {
				t.Errorf("%s=%s, local nodes: %v: %d findings", key, value, local, found)
			}
		}
	}
}

// What a PartitionName=DEFAULT line gives to the cloud's partition is told, but for what the partition says itself.
func TestPartitionInherits(t *testing.T) {
	const told = "Partition cloud inherits it"
	for _, tt := range []struct{ name, lines, want string }{
		{"nothing", "PartitionName=DEFAULT State=UP Default=NO SuspendTime=60", ""},
		{"who may use it", "PartitionName=DEFAULT AllowGroups=hpc MaxTime=60", "DEFAULT allowgroups=hpc maxtime=60"},
		{"of lines before, too", "PartitionName=DEFAULT AllowGroups=hpc\nPartitionName=DEFAULT MaxTime=60", "DEFAULT allowgroups=hpc maxtime=60"},
		{"but for another value of its own", "PartitionName=DEFAULT AllowGroups=hpc MaxTime=60\nPartitionName=cloud Nodes=s[1-4],b1 MaxTime=30", "DEFAULT allowgroups=hpc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := input()
			in.Pools = append(in.Pools[:2], server())
			var got string
			for _, f := range Check(files(t, map[string]string{"slurm.conf": plainSite + tt.lines + "\n"}).Site, in) {
				if strings.Contains(f.Why, "inherits it") {
					got += f.Have
					if f.Level != Advice || !strings.HasPrefix(f.Why, told) {
						t.Errorf("%+v", f)
					}
				}
			}
			if got != tt.want {
				t.Errorf("%q, not %q", got, tt.want)
			}
		})
	}
}

// Slurm that speaks no IPv4 reaches no node of a cloud; both at once it may.
func TestIPv4OfClouds(t *testing.T) {
	in := input()
	in.Pools[0].Configless = true
	for have, want := range map[string]bool{"EnableIPv6,DisableIPv4": true, "disableipv4": true, "EnableIPv6": false, "NoAddrCache": false} {
		got := conflicts(Site{Settings: map[string]string{"jobfileappend": "1", "communicationparameters": have}}, in)
		if told := len(got) == 1 && got[0].Key == "CommunicationParameters" && got[0].Level == Wrong; told != want || len(got) > 1 {
			t.Errorf("%q: %+v", have, got)
		}
	}
}
