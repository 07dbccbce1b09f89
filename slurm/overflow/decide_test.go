package overflow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/directive"
)

var now = time.Unix(1_800_000_000, 0)

// waits is a job of user 1000 that has waited 12 minutes in main.
func waits(change func(*slurm.Waiting)) slurm.Waiting {
	w := slurm.Waiting{Job: slurm.Job{ID: 7, UID: 1000, User: "ada", Account: "phys", Partition: "main", State: "PENDING", Reason: "Resources", Batch: true, NumNodes: 1,
		Submitted: now.Add(-12 * time.Minute), Eligible: now.Add(-12 * time.Minute), TimeLimit: time.Hour}, Needs: slurm.Needs{CPUs: 1, MinCPUs: 1}, QOS: "normal", Priority: 10, WorkDir: "/home/ada"}
	if change != nil {
		change(&w)
	}
	return w
}

func small(change func(*Rule)) Rule {
	r := Rule{Name: "small", From: []string{"main"}, To: []string{"cloud"}, After: 10 * time.Minute}
	if change != nil {
		change(&r)
	}
	return r
}

func clouds() map[string]Partition {
	nodes := map[string]slurm.Node{}
	for i := range 4 {
		nodes[fmt.Sprint("c", i)] = slurm.Node{Name: fmt.Sprint("c", i), Partitions: []string{"cloud"}, CPUs: 4, RealMemory: 8000, Features: []string{"avx", "east"}, Gres: "gpu:a100:2(S:0)"}
	}
	return PartitionsOf([]map[string]string{
		{"PartitionName": "cloud", "State": "UP", "MaxTime": "1-00:00:00", "MaxNodes": "UNLIMITED", "AllowAccounts": "ALL", "AllowQos": "ALL", "MaxMemPerNode": "UNLIMITED"},
		{"PartitionName": "picky", "State": "UP", "AllowAccounts": "chem", "DenyQos": "low"},
		{"PartitionName": "shut", "State": "DOWN"}}, nodes, nil)
}

// with is a snapshot in which the script of each job is read.
func with(rules []Rule, jobs ...slurm.Waiting) Snapshot {
	s := Snapshot{Now: now, Rules: rules, Partitions: clouds(), Waiting: jobs, Scripts: map[ScriptID]Script{}, Jobs: map[uint32]slurm.Job{},
		OnPrem: OnPrem{FileSystems: []string{"/scratch"}, Licenses: []string{"matlab"}, Features: []string{"infiniband-hdr"}}}
	for _, j := range jobs {
		s.Scripts[ScriptOf(j.Job)] = Script{}
		s.Jobs[j.ID] = j.Job
	}
	return s
}

func TestNewcomers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rule   func(*Rule)
		job    func(*slurm.Waiting)
		script string
		want   string // action: words of why
	}{
		{name: "waits long enough", want: "add: rule small: waits 12m for Resources; goes also to cloud"},
		{name: "too early", rule: func(r *Rule) { r.After = time.Hour }, want: "leave: stays for now: waits 12m for Resources; rule small moves it after 1h"},
		{name: "starts later", rule: func(r *Rule) { r.After, r.StartsLater = time.Hour, time.Hour }, job: func(w *slurm.Waiting) { w.Start = now.Add(3 * time.Hour) }, want: "add: rule small: waits 12m for Resources, starts in 3h"},
		{name: "starts sooner", rule: func(r *Rule) { r.After, r.StartsLater = 0, time.Hour }, job: func(w *slurm.Waiting) { w.Start = now.Add(30 * time.Minute) }, want: "leave: stays for now: waits 12m for Resources, starts in 30m; rule small moves it if Slurm says"},
		{name: "no estimate", rule: func(r *Rule) { r.After, r.StartsLater = 0, time.Hour }, want: "leave: stays for now"},
		{name: "neither", rule: func(r *Rule) { r.After = 0 }, job: func(w *slurm.Waiting) { w.Eligible = now }, want: "add: rule small: waits 0s"},
		{name: "for priority", job: func(w *slurm.Waiting) { w.Reason = "Priority" }, want: "add: "},
		{name: "for nodes that are down", job: func(w *slurm.Waiting) {
			w.Reason = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
		}, want: "add: rule small: waits 12m for Resources; goes"},
		{name: "for nodes that are down, otherwise written", job: func(w *slurm.Waiting) {
			w.Reason = "Nodes_required_for_job_are_DOWN,_DRAINED,_REBOOTING_or_reserved"
		}, want: "add: "},
		{name: "for nodes kept for a maintenance", rule: func(r *Rule) { r.After, r.StartsLater = 0, 2*time.Hour }, job: func(w *slurm.Waiting) {
			w.Reason, w.Start = "ReqNodeNotAvail, Reserved for maintenance", now.Add(20*time.Hour)
		}, want: "add: rule small: waits 12m for Resources, starts in 20h; goes"},
		{name: "for nodes that do not answer", job: func(w *slurm.Waiting) { w.Reason = "ReqNodeNotAvail,_UnavailableNodes:n[1-8]" }, want: "add: rule small: waits 12m for Resources; goes"},
		{name: "for nodes that do not answer, too early", rule: func(r *Rule) { r.After = time.Hour }, job: func(w *slurm.Waiting) { w.Reason = "ReqNodeNotAvail" }, want: "leave: stays for now: waits 12m for Resources; rule small moves it after 1h"},
		{name: "for nodes of its own list", job: func(w *slurm.Waiting) { w.Reason, w.Required = "ReqNodeNotAvail", "c[0-1]" }, want: "leave: stays for now: it waits for ReqNodeNotAvail"},
		{name: "for nodes of the site's of its own list", job: func(w *slurm.Waiting) { w.Reason, w.Required = "ReqNodeNotAvail", "n[1-2]" }, want: "leave: stays: cannot run in cloud: it asks for nodes n[1-2]"},
		{name: "asks for one of two itself", rule: func(r *Rule) { r.To = []string{"cloud", "picky"} }, job: func(w *slurm.Waiting) { w.Partition = "main,cloud" }, want: "leave: stays: it asks for cloud itself"},
		{name: "account in another case", rule: func(r *Rule) { r.Accounts = []string{"phys"} }, job: func(w *slurm.Waiting) { w.Account = "Phys" }, want: "add: "},
		{name: "for a dependency", job: func(w *slurm.Waiting) { w.Reason = "Dependency" }, want: "leave: stays for now: it waits for Dependency"},
		{name: "not looked at", job: func(w *slurm.Waiting) { w.Reason = "" }, want: "leave: stays for now: it waits for Slurm to look at it"},
		{name: "held", job: func(w *slurm.Waiting) { w.Priority = 0 }, want: "leave: stays: it is held"},
		{name: "het", job: func(w *slurm.Waiting) { w.HetID = 6 }, want: "leave: stays: the parts"},
		{name: "salloc", job: func(w *slurm.Waiting) { w.Batch = false }, want: "leave: stays: a job of salloc"},
		{name: "asks for cloud too", job: func(w *slurm.Waiting) { w.Partition = "main,cloud" }, want: "leave: stays: it asks for cloud itself"},
		{name: "stay", script: "#BURST stay", want: "leave: stays: says #BURST stay"},
		{name: "stay in the comment", job: func(w *slurm.Waiting) { w.Comment = "burst: stay" }, want: "leave: stays: says #BURST stay"},
		{name: "the comment is over the script", script: "#BURST stay", job: func(w *slurm.Waiting) { w.Comment = "burst: stay=no" }, want: "add: "},
		{name: "wrong lines", script: "#BURST sty=1", want: "leave: stays: its #BURST lines are wrong: line 1"},
		{name: "stay, and a wrong key", job: func(w *slurm.Waiting) { w.Comment = "burst: stay budget=abc" }, want: "leave: stays: its comment is wrong: budget: "},
		{name: "stay, and a comma", job: func(w *slurm.Waiting) { w.Comment = "burst: stay, budget=x" }, want: `leave: stays: its comment is wrong: "stay," is not key=value`},
		{name: "stay in another language", job: func(w *slurm.Waiting) { w.Comment = "burst: stay=ja" }, want: "leave: stays: its comment is wrong: stay: "},
		{name: "stay misspelt", job: func(w *slurm.Waiting) { w.Comment = "burst: sty" }, want: `leave: stays: its comment is wrong: "sty" is not key=value`},
		{name: "the site's part is wrong", job: func(w *slurm.Waiting) { w.Comment = "burst-site: ckpt burst: stay=no" }, want: `leave: stays: its comment is wrong: "ckpt" is not key=value`},
		{name: "a comment of others", job: func(w *slurm.Waiting) { w.Comment = "please stay budget=abc" }, want: "add: "},
		{name: "GRES that are shorter in upper case", job: func(w *slurm.Waiting) { w.PerNode = "gres:gpu:ı" }, want: "leave: stays: cannot run in cloud: too few nodes there have 1 of gpu:ı"},
		{name: "on-prem path", script: "srun app </scratch/ada/in", want: "leave: stays: its script names a path below /scratch"},
		{name: "another path", script: "srun app /scratch2/x /home/scratch/x", want: "add: "},
		{name: "on-prem folder", job: func(w *slurm.Waiting) { w.WorkDir = "/scratch" }, want: "leave: stays: its working directory is below /scratch"},
		{name: "on-prem output", job: func(w *slurm.Waiting) { w.Stderr = "/home/../scratch/x.%j" }, want: "leave: stays: its error output is below /scratch"},
		{name: "on-prem licence", job: func(w *slurm.Waiting) { w.Licenses = "x,matlab@flex:2" }, want: "leave: stays: asks for licence matlab, which is on-prem only"},
		{name: "on-prem feature", job: func(w *slurm.Waiting) { w.Features = "avx&infiniband-hdr*1" }, want: "leave: stays: asks for feature infiniband-hdr"},
		{name: "reservation", job: func(w *slurm.Waiting) { w.Reservation = "r" }, want: "leave: stays: asks for reservation r"},
		{name: "nodelist outside", job: func(w *slurm.Waiting) { w.Required = "n[1-2]" }, want: "leave: stays: cannot run in cloud: it asks for nodes n[1-2]"},
		{name: "nodelist inside", job: func(w *slurm.Waiting) { w.Required = "c[0-1]" }, want: "add: "},
		{name: "too long", job: func(w *slurm.Waiting) { w.TimeLimit = 25 * time.Hour }, want: "leave: stays: cannot run in cloud: the job's time limit is 25h, and the partition's 24h"},
		{name: "without a limit", job: func(w *slurm.Waiting) { w.TimeLimit = 0 }, want: "leave: stays: cannot run in cloud: the job has no time limit"},
		{name: "too many nodes", job: func(w *slurm.Waiting) { w.NumNodes = 5 }, want: "leave: stays: cannot run in cloud: it asks for 5 nodes, and there are 4"},
		{name: "too many CPUs of a node", job: func(w *slurm.Waiting) { w.CPUs, w.MinCPUs = 8, 8 }, want: "leave: stays: cannot run in cloud: too few nodes there have 8 CPUs"},
		{name: "CPUs over several nodes", job: func(w *slurm.Waiting) { w.CPUs = 16 }, want: "add: "},
		{name: "CPUs on one node", job: func(w *slurm.Waiting) { w.CPUs, w.MaxNodes = 5, 1 }, want: "leave: stays: cannot run in cloud: it asks for 5 CPUs, and as many nodes as Slurm counts for it have fewer"},
		{name: "CPUs on two nodes", job: func(w *slurm.Waiting) { w.CPUs, w.MaxNodes = 8, 2 }, want: "add: "},
		{name: "memory of each CPU on one node", job: func(w *slurm.Waiting) { w.Memory, w.CPUs, w.MaxNodes, w.Total = 2500, 4, 1, 10000 }, want: "leave: stays: cannot run in cloud: it asks for 4 CPUs"},
		{name: "too many CPUs", job: func(w *slurm.Waiting) { w.CPUs = 17 }, want: "leave: stays: cannot run in cloud: it asks for 17 CPUs"},
		{name: "memory of a node", job: func(w *slurm.Waiting) { w.Memory, w.Total = 9000, 9000 }, want: "leave: stays: cannot run in cloud: too few nodes there have 9000 MiB"},
		{name: "memory of each CPU", job: func(w *slurm.Waiting) { w.Memory, w.CPUs, w.Total = 2500, 4, 10000 }, want: "add: "},
		{name: "memory of each of a task's CPUs", job: func(w *slurm.Waiting) { w.Memory, w.CPUs, w.MinCPUs, w.Total = 2500, 4, 4, 10000 }, want: "leave: stays: cannot run in cloud: too few nodes there have 10000 MiB"},
		{name: "feature", job: func(w *slurm.Waiting) { w.Features = "west|(avx&east)" }, want: "add: "},
		{name: "another feature", job: func(w *slurm.Waiting) { w.Features = "avx&west" }, want: "leave: stays: cannot run in cloud: too few nodes there have avx&west"},
		{name: "no constraint", job: func(w *slurm.Waiting) { w.Features = "avx&" }, want: "leave: stays: cannot run in cloud: its --constraint is not understood"},
		{name: "GRES", job: func(w *slurm.Waiting) { w.PerNode = "gres:gpu:a100:2" }, want: "add: "},
		{name: "more GRES", job: func(w *slurm.Waiting) { w.PerNode = "gres:gpu:3" }, want: "leave: stays: cannot run in cloud: too few nodes there have 3 of gpu"},
		{name: "GRES of the job", job: func(w *slurm.Waiting) { w.PerJob = "gres:gpu:9" }, want: "leave: stays: cannot run in cloud: its nodes have fewer than 9 of gpu"},
		{name: "to a picky one", rule: func(r *Rule) { r.To = []string{"picky"} }, want: `leave: stays: cannot run in picky: account "phys" is not among`},
		{name: "to one that is shut, and another", rule: func(r *Rule) { r.To = []string{"shut", "cloud"} }, want: "add: rule small: waits 12m for Resources; goes also to cloud"},
		{name: "to one that is not there", rule: func(r *Rule) { r.To = []string{"nope"} }, want: "leave: stays: Slurm has no partition nope"},
		{name: "account", rule: func(r *Rule) { r.Accounts = []string{"chem"} }, want: "leave: stays: no rule is about it"},
		{name: "not the account", rule: func(r *Rule) { r.Accounts = []string{"!chem"} }, want: "add: "},
		{name: "left out", rule: func(r *Rule) { r.Users = []string{"ada", "!ada"} }, want: "leave: stays: no rule is about it"},
		{name: "nodes", rule: func(r *Rule) { r.MinNodes, r.MaxNodes = 2, 4 }, want: "leave: stays: no rule is about it"},
		{name: "limit", rule: func(r *Rule) { r.MaxTime = 30 * time.Minute }, want: "leave: stays: no rule is about it"},
		{name: "no limit", rule: func(r *Rule) { r.MaxTime = 30 * time.Minute }, job: func(w *slurm.Waiting) { w.TimeLimit = 0 }, want: "leave: stays: no rule is about it"},
		{name: "GRES of the rule", rule: func(r *Rule) { r.Gres = []string{"gpu:a100"} }, job: func(w *slurm.Waiting) { w.PerNode = "gres:gpu:a100:1" }, want: "add: "},
		{name: "not GRES", rule: func(r *Rule) { r.Gres = []string{"!gpu"} }, job: func(w *slurm.Waiting) { w.PerNode = "gres:gpu:1" }, want: "leave: stays: no rule is about it"},
		{name: "directive", rule: func(r *Rule) { r.Directives = []string{"stay=no"} }, script: "#BURST stay=no", want: "add: "},
		{name: "no directive", rule: func(r *Rule) { r.Directives = []string{"stay=no"} }, want: "leave: stays: no rule is about it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := waits(tt.job)
			s := with([]Rule{small(tt.rule)}, w)
			s.Scripts[ScriptOf(w.Job)] = s.OnPrem.Read("#!/bin/sh\n" + strings.TrimPrefix(tt.script, "\n") + "\n")
			if tt.name == "wrong lines" {
				s.Scripts[ScriptOf(w.Job)] = s.OnPrem.Read(tt.script)
			}
			got := Decide(s)
			if len(got) != 1 || !strings.HasPrefix(fmt.Sprint(got[0].Action, ": ", got[0].Why), tt.want) || got[0].Script {
				t.Errorf("got %+v\nwant %q", got, tt.want)
			}
		})
	}
}

// TestFirstRule: the first that matches decides, also when it says to wait.
func TestFirstRule(t *testing.T) {
	later := small(func(r *Rule) { r.Name, r.After = "later", 0 })
	s := with([]Rule{small(func(r *Rule) { r.After = time.Hour }), later}, waits(nil))
	if got := Decide(s); got[0].Action != Leave || got[0].Rule != "small" {
		t.Errorf("%+v", got)
	}
	s.Rules[0].Users = []string{"bob"}
	if got := Decide(s); got[0].Action != Add || got[0].Rule != "later" {
		t.Errorf("%+v", got)
	}
}

// TestClosed: nobody goes where no nodes are launched, and who waits for them goes back.
func TestClosed(t *testing.T) {
	both := waits(func(w *slurm.Waiting) { w.ID, w.Partition = 9, "main,cloud" })
	s := with([]Rule{small(nil)}, waits(nil), both)
	s.Records, s.Closed = []Record{record(both, InPlace)}, map[string]string{"cloud": "launches are paused"}
	got := Decide(s)
	if len(got) != 2 || got[0].Action != Take || got[1].Action != Leave || got[1].Why != "stays: no nodes are launched for cloud now: launches are paused" {
		t.Errorf("%+v", got)
	}
}

// TestScripts: a script is asked for when nothing else keeps the job, and not before.
func TestScripts(t *testing.T) {
	s := with([]Rule{small(nil)}, waits(nil), waits(func(w *slurm.Waiting) { w.ID, w.Eligible = 8, now }), waits(func(w *slurm.Waiting) { w.ID, w.Partition = 9, "other" }))
	s.Scripts = nil
	got := Decide(s)
	if len(got) != 2 || !got[0].Script || got[0].Action != Leave || got[1].Script {
		t.Errorf("%+v", got)
	}
	s.Rules[0].Directives = []string{"stay=no"} // it says which rule it is
	if got := Decide(s); !got[0].Script || !got[1].Script {
		t.Errorf("%+v", got)
	}
}

// TestRoom: jobs that Slurm would start first are moved first, tasks counted apart.
func TestRoom(t *testing.T) {
	s := with([]Rule{small(func(r *Rule) { r.AtOnce = 3 })}, waits(func(w *slurm.Waiting) { w.Priority = 1 }),
		waits(func(w *slurm.Waiting) { w.ID, w.ArrayID, w.ArrayTask = 20, 20, "2-9%4" }), waits(func(w *slurm.Waiting) { w.ID, w.Priority = 8, 99 }))
	got := Decide(s)
	if len(got) != 3 || got[0].Keys[0] != (Key{8, -1}) || !slices.Equal(got[1].Keys, []Key{{20, 2}, {20, 3}}) || got[2].Action != Leave ||
		!strings.Contains(got[2].Why, "rule small: 3 of its jobs wait or run in cloud already") {
		t.Errorf("%+v", got)
	}
}

func record(w slurm.Waiting, state string) Record {
	return Record{Key: Key{w.ID, -1}, UID: w.UID, Submitted: w.Submitted, Rule: "small", Was: []string{"main"}, To: []string{"cloud"}, State: state, At: now.Add(-time.Minute)}
}

func TestRecords(t *testing.T) {
	both := func(w *slurm.Waiting) { w.Partition = "cloud,main" } // Slurm may turn the order round
	for _, tt := range []struct {
		name  string
		state string
		job   func(*slurm.Waiting)
		rules func([]Rule) []Rule
		read  string
		want  string
	}{
		{name: "written, Slurm not told", state: Adding, want: "add: rule small: goes also to cloud"},
		{name: "written, Slurm told", state: Adding, job: both, want: "seen: "},
		{name: "written, and its user is quicker", state: Adding, job: func(w *slurm.Waiting) { w.Partition = "other" }, want: "theirs: its user or an admin made its partitions other"},
		{name: "written, and the rule is gone", state: Adding, rules: func([]Rule) []Rule { return nil }, want: "gone: rule small is gone before it was added"},
		{name: "kept", state: InPlace, job: both, want: "keep: "},
		{name: "kept though it waits for something else", state: InPlace, job: func(w *slurm.Waiting) { both(w); w.Reason, w.Eligible, w.Priority = "BeginTime", now, 0 }, want: "keep: "},
		{name: "the rule is gone", state: InPlace, job: both, rules: func([]Rule) []Rule { return nil }, want: "take: rule small is gone; back to main"},
		{name: "the rule is not about it", state: InPlace, job: both, rules: func(r []Rule) []Rule { r[0].Users = []string{"bob"}; return r }, want: "take: rule small is not about it any more"},
		{name: "another rule is", state: InPlace, job: both, rules: func(r []Rule) []Rule { return []Rule{small(func(r *Rule) { r.Name = "first" }), r[0]} }, want: "take: rule first is about it now"},
		{name: "the rule goes elsewhere", state: InPlace, job: both, rules: func(r []Rule) []Rule { r[0].To = []string{"picky"}; return r }, want: "take: rule small is not to cloud any more"},
		{name: "it cannot run there now", state: InPlace, job: func(w *slurm.Waiting) { both(w); w.NumNodes = 9 }, want: "take: cannot run in cloud"},
		{name: "it says stay now", state: InPlace, job: func(w *slurm.Waiting) { both(w); w.Comment = "burst: stay" }, want: "take: says #BURST stay"},
		{name: "its comment becomes wrong", state: InPlace, job: func(w *slurm.Waiting) { both(w); w.Comment = "burst: stay budget=abc" }, want: "take: its comment is wrong: budget: "},
		{name: "it is held", state: InPlace, job: func(w *slurm.Waiting) { both(w); w.Reason, w.Priority = "JobHeldUser", 0 }, want: "take: it is held; back to main"},
		{name: "Slurm holds it", state: InPlace, job: func(w *slurm.Waiting) { both(w); w.Reason, w.Priority = "launch failed requeued held", 0 }, want: "take: it is held; back to main"},
		{name: "written, and it is held", state: Adding, job: func(w *slurm.Waiting) { w.Reason = "JobHeldAdmin" }, want: "gone: it is held before it was added"},
		{name: "it waits for a limit", state: InPlace, read: "aside", job: func(w *slurm.Waiting) { both(w); w.Reason = "QOSMaxJobsPerUserLimit" }, want: "take: it waits for QOSMaxJobsPerUserLimit now, not for Resources or Priority; back to main"},
		{name: "it waits for a limit, since lately", state: InPlace, read: "lately aside", job: func(w *slurm.Waiting) { both(w); w.Reason = "QOSMaxJobsPerUserLimit" }, want: "keep: "},
		{name: "it waits for a limit, and the rule for long", state: InPlace, read: "aside", rules: func(r []Rule) []Rule { r[0].After = 20 * time.Minute; return r },
			job: func(w *slurm.Waiting) { both(w); w.Reason = "QOSMaxJobsPerUserLimit" }, want: "keep: "},
		{name: "its user gave it a start", state: InPlace, read: "aside", job: func(w *slurm.Waiting) { both(w); w.Reason, w.Eligible = "BeginTime", now.Add(48*time.Hour) }, want: "take: it waits for BeginTime now"},
		{name: "it has the start that it was given with its nodes' want", state: InPlace, read: "aside soon", job: func(w *slurm.Waiting) { both(w); w.Reason, w.Eligible = "BeginTime", now.Add(30*time.Second) }, want: "keep: "},
		{name: "one of its partitions is down", state: InPlace, read: "aside", job: func(w *slurm.Waiting) { both(w); w.Reason = "PartitionDown" }, want: "keep: "},
		{name: "it waits for nodes again", state: InPlace, read: "aside", job: both, want: "keep: "},
		{name: "it waits for nodes that are down", state: InPlace, read: "aside", job: func(w *slurm.Waiting) { both(w); w.Reason = "ReqNodeNotAvail, UnavailableNodes:n1" }, want: "keep: "},
		{name: "Slurm is to look at it", state: InPlace, read: "aside", job: func(w *slurm.Waiting) { both(w); w.Reason = "None" }, want: "keep: "},
		{name: "Slurm may not requeue it any more", state: InPlace, read: "spot", job: both, want: "take: Slurm may not requeue it, and partition cloud has nodes that the cloud may take back: add #SBATCH --requeue; back to main"},
		{name: "its user took it away", state: InPlace, want: "theirs: its user or an admin made its partitions main"},
		{name: "and it stays so", state: LeftAlone, want: "leave: stays: its partitions were changed by its user or an admin after Burst had decided to add cloud"},
		{name: "taking, Slurm not told", state: Taking, job: both, want: "take: "},
		{name: "taking, Slurm told", state: Taking, want: "gone: back to main alone"},
		{name: "taking, and its user is quicker", state: Taking, job: func(w *slurm.Waiting) { w.Partition = "other" }, want: "theirs: "},
		{name: "requeued", state: InPlace, job: func(w *slurm.Waiting) { both(w); w.Submitted, w.Restarts = now, 1 }, want: "keep: "},
		{name: "another job of its number", state: InPlace, job: func(w *slurm.Waiting) { both(w); w.Submitted = now }, want: "forget: another job has its number"},
		{name: "its nodes did not come", state: InPlace, job: both, read: "back", want: "take: it was given back: budget: no more; back to main"},
		{name: "its nodes did not come, and it starts soon", state: InPlace, job: both, read: "soon", want: "keep: "},
		{name: "no budget ever has room for it", state: InPlace, job: both, read: "never", want: "take: it was given back: budget: no more; back to main"},
		{name: "written, and its nodes did not come", state: Adding, read: "back", want: "gone: it was given back"},
		{name: "its script is not read yet", state: InPlace, job: both, read: "no", want: "keep: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := waits(tt.job)
			s := with([]Rule{small(nil)}, w)
			if tt.rules != nil {
				s.Rules = tt.rules(s.Rules)
			}
			switch tt.read {
			case "spot":
				s.Spot = map[string]bool{"cloud": true}
			case "aside":
				next := waits(func(w *slurm.Waiting) { w.ID = 8 })
				s.Rules[0].AtOnce, s.Waiting, s.Scripts[ScriptOf(next.Job)] = 1, append(s.Waiting, next), Script{}
				s.Aside = map[uint32]time.Time{7: now.Add(-asideFor)}
			case "lately aside":
				s.Aside = map[uint32]time.Time{7: now.Add(-asideFor + time.Second)}
			case "aside soon":
				s.Aside = map[uint32]time.Time{7: now.Add(-asideFor)}
				s.Back = map[uint32]Back{7: {Until: now.Add(30 * time.Second), Why: "node c1: it did not boot"}}
			case "no":
				s.Scripts = nil
			case "soon":
				s.Back = map[uint32]Back{7: {Until: now.Add(30 * time.Second), Why: "node c1: it did not boot"}}
			case "never":
				s.Back = map[uint32]Back{7: {Until: now.Add(-time.Hour), Why: "budget: no more", Never: true}}
			case "back":
				s.Back = map[uint32]Back{7: {Until: now.Add(10 * time.Minute), Why: "budget: no more"}}
			}
			s.Records = []Record{record(waits(nil), tt.state)}
			got := Decide(s)
			if len(got) == 0 || !strings.HasPrefix(fmt.Sprint(got[0].Action, ": ", got[0].Why), tt.want) {
				t.Errorf("got %+v\nwant %q", got, tt.want)
			}
		})
	}
}

// TestBegun: a job that runs in the cloud takes a place, one that runs at its own does not.
func TestBegun(t *testing.T) {
	for _, tt := range []struct {
		name string
		job  *slurm.Job
		want string
	}{
		{"runs in the cloud", &slurm.Job{State: "RUNNING", Partition: "cloud"}, "7 leave"},
		{"runs at its own", &slurm.Job{State: "RUNNING", Partition: "main"}, "7 add"},
		{"has ended", &slurm.Job{State: "COMPLETED", Partition: "cloud", Nodes: "c1", End: now.Add(-2 * time.Minute)}, "5 over ran in cloud: completed|7 add"},
		{"has ended at its own", &slurm.Job{State: "FAILED", Partition: "main", Nodes: "n1", End: now.Add(-2 * time.Minute)}, "5 over ran at its own place, main: failed|7 add"},
		{"was cancelled", &slurm.Job{State: "CANCELLED", Partition: "main,cloud", End: now.Add(-2 * time.Minute)}, "5 over ended while it waited: cancelled|7 add"},
		{"begins between the readings", &slurm.Job{State: "PENDING", Partition: "main,cloud"}, "7 leave"},
		{"is not known", nil, "5 forget the job has ended|7 add"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := with([]Rule{small(func(r *Rule) { r.AtOnce = 1 })}, waits(nil))
			r := record(waits(nil), InPlace)
			r.Job = 5
			s.Records = []Record{r}
			if tt.job != nil {
				tt.job.ID, tt.job.UID, tt.job.Submitted = 5, r.UID, r.Submitted
				s.Jobs[5] = *tt.job
			}
			var got []string
			for _, d := range Decide(s) {
				text := fmt.Sprint(d.Keys[0], " ", d.Action)
				if d.Action == Forget || d.Action == Over {
					text += " " + d.Why
				}
				got = append(got, text)
			}
			want := strings.Split(tt.want, "|")
			if len(got) != len(want) {
				t.Fatalf("got %q, want %q", got, want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i], want[i]) {
					t.Errorf("got %q, want %q", got[i], want[i])
				}
			}
		})
	}
}

// TestLowered: when fewer are let, those that came last go back, and nothing goes to and fro.
func TestLowered(t *testing.T) {
	var jobs []slurm.Waiting
	var records []Record
	for i := range 4 {
		w := waits(func(w *slurm.Waiting) { w.ID, w.Partition = uint32(10+i), "main,cloud" })
		r := record(w, InPlace)
		r.At = now.Add(time.Duration(i-10) * time.Minute)
		jobs, records = append(jobs, w), append(records, r)
	}
	s := with([]Rule{small(func(r *Rule) { r.AtOnce = 2 })}, jobs...)
	s.Records = records
	var got []string
	for _, d := range Decide(s) {
		got = append(got, fmt.Sprint(d.Keys[0], d.Action))
	}
	if want := []string{"10keep", "11keep", "12take", "13take"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i := range 2 { // they are taken away, and wait for a place
		s.Waiting[2+i].Partition, s.Jobs = "main", nil
	}
	s.Records = records[:2]
	for _, d := range Decide(s)[2:] {
		if d.Action != Leave {
			t.Errorf("%+v", d)
		}
	}
}

// TestPlacesOfThoseAside: a moved job that does not want to start gives its place to one that does, and is not moved again as it is.
func TestPlacesOfThoseAside(t *testing.T) {
	moved := waits(func(w *slurm.Waiting) { w.ID, w.Partition, w.Reason = 10, "main,cloud", "AssocGrpCPUMinutesLimit" })
	next := waits(func(w *slurm.Waiting) { w.ID, w.Priority = 11, 1 })
	s := with([]Rule{small(func(r *Rule) { r.AtOnce = 1 })}, moved, next)
	s.Records = []Record{record(moved, InPlace)}
	for _, tt := range []struct {
		since time.Duration
		want  []string
	}{{asideFor - time.Minute, []string{"10keep", "11leave"}}, {asideFor, []string{"10take", "11add"}}} {
		s.Aside = map[uint32]time.Time{10: now.Add(-tt.since)}
		var got []string
		for _, d := range Decide(s) {
			got = append(got, fmt.Sprint(d.Keys[0], d.Action))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("after %s: got %v, want %v", tt.since, got, tt.want)
		}
	}
	s.Records, s.Waiting[0].Partition = nil, "main"
	for _, d := range Decide(s) {
		if want := map[uint32]Action{10: Leave, 11: Add}[d.Job.ID]; d.Action != want {
			t.Errorf("%s: %s: %s", d.Keys[0], d.Action, d.Why)
		}
	}
}

// TestPlacesNobodyWants: who does not want to start keeps its place unless another wants it, and gives up no more than are wanted.
func TestPlacesNobodyWants(t *testing.T) {
	for _, tt := range []struct {
		atOnce, others int
		rests          bool
		want           []string
	}{
		{0, 1, false, []string{"10keep", "11keep", "20add"}},
		{2, 0, false, []string{"10keep", "11keep"}},
		{2, 1, false, []string{"10keep", "11take", "20add"}},
		{2, 1, true, []string{"10keep", "11keep", "20leave"}},
		{2, 3, false, []string{"10take", "11take", "20add", "21add", "22leave"}},
	} {
		s := with([]Rule{small(func(r *Rule) { r.AtOnce = tt.atOnce })})
		s.Aside = map[uint32]time.Time{10: now.Add(-asideFor), 11: now.Add(-2 * asideFor)}
		for id := range s.Aside {
			s.Waiting = append(s.Waiting, waits(func(w *slurm.Waiting) { w.ID, w.Partition, w.Reason = id, "main,cloud", "QOSGrpNodeLimit" }))
			s.Records = append(s.Records, record(s.Waiting[len(s.Waiting)-1], InPlace))
		}
		for i := range tt.others {
			next := waits(func(w *slurm.Waiting) { w.ID = uint32(20 + i) })
			s.Waiting, s.Scripts[ScriptOf(next.Job)] = append(s.Waiting, next), Script{}
			if tt.rests {
				s.Rests = map[ScriptID]Rest{ScriptOf(next.Job): {now.Add(time.Minute), "in cloud it waited for QOSGrpNodeLimit"}}
			}
		}
		var got []string
		for _, d := range Decide(s) {
			got = append(got, fmt.Sprint(d.Keys[0], d.Action))
			if tt.rests && d.Action == Leave && d.Why != "stays until "+now.Add(time.Minute).Local().Format(time.TimeOnly)+": in cloud it waited for QOSGrpNodeLimit" {
				t.Error(d.Why)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("at once %d, %d others: got %v, want %v", tt.atOnce, tt.others, got, tt.want)
		}
	}
}

// TestSpot: a job that an eviction would end goes only where no cloud takes its nodes back, or where the rule says so.
func TestSpot(t *testing.T) {
	const kept = "Slurm may not requeue it, and partition cloud has nodes that the cloud may take back: add #SBATCH --requeue"
	const no = "leave: stays: " + kept
	for _, tt := range []struct {
		name       string
		spot, safe bool // cloud has nodes of spot; there is another partition
		requeue    bool
		rule       func(*Rule)
		want       string
	}{
		{"it may be requeued", true, false, true, nil, "add: "},
		{"it may not", true, false, false, nil, no},
		{"it may not, and nothing is taken back", false, false, false, nil, "add: "},
		{"it may not, and the rule moves any", true, false, false, func(r *Rule) { r.NoRequeue = true }, "add: "},
		{"it may not, and another partition keeps its nodes", true, true, false, func(r *Rule) { r.To = []string{"cloud", "safe"} }, "add: rule small: waits 12m for Resources; goes also to safe"},
	} {
		w := waits(func(w *slurm.Waiting) { w.Requeue = tt.requeue })
		s := with([]Rule{small(tt.rule)}, w)
		s.Spot = map[string]bool{"cloud": tt.spot}
		if tt.safe {
			s.Partitions["safe"] = s.Partitions["cloud"]
		}
		got := Decide(s)[0]
		if !strings.HasPrefix(fmt.Sprint(got.Action, ": ", got.Why), tt.want) {
			t.Errorf("%s: got %s: %s, want %q", tt.name, got.Action, got.Why, tt.want)
		}
		if told := map[bool]string{true: kept}[tt.want == no]; got.Kept != told { // its user can mend it
			t.Errorf("%s: it is told %q", tt.name, got.Kept)
		}
		s.Now = s.Now.Add(-10 * time.Minute)
		if got := Decide(s)[0]; got.Kept != "" || !got.Early {
			t.Errorf("%s: too early, it is told %q", tt.name, got.Kept)
		}
	}
}

// TestArrayTasks: each task has a record of its own.
func TestArrayTasks(t *testing.T) {
	s := with([]Rule{small(nil)}, waits(func(w *slurm.Waiting) { w.ID, w.ArrayID, w.ArrayTask, w.Partition = 31, 30, "2-3", "main,cloud" }),
		waits(func(w *slurm.Waiting) { w.ID, w.ArrayID, w.ArrayTask = 30, 30, "4-5" }))
	for _, task := range []int{2, 3} {
		r := record(s.Waiting[0], InPlace)
		r.Key = Key{30, task}
		s.Records = append(s.Records, r)
	}
	got := Decide(s)
	if len(got) != 3 || got[0].Action != Keep || got[1].Action != Keep || got[2].Action != Add || !slices.Equal(got[2].Keys, []Key{{30, 4}, {30, 5}}) {
		t.Errorf("%+v", got)
	}
}

func TestCovers(t *testing.T) {
	all := small(nil)
	for _, tt := range []struct {
		name        string
		first, next func(*Rule)
		want        bool
	}{
		{"the same", nil, nil, true},
		{"less", nil, func(r *Rule) { r.Users, r.MaxNodes = []string{"ada"}, 4 }, true},
		{"more", func(r *Rule) { r.Users = []string{"ada"} }, nil, false},
		{"some of the users", func(r *Rule) { r.Users = []string{"ada", "bob"} }, func(r *Rule) { r.Users = []string{"bob"} }, true},
		{"all but one", func(r *Rule) { r.Users = []string{"!ada"} }, func(r *Rule) { r.Users = []string{"bob"} }, false}, // it is, but that is not seen
		{"all but the same", func(r *Rule) { r.Users = []string{"!ada"} }, func(r *Rule) { r.Users = []string{"!ada", "!bob"} }, true},
		{"fewer nodes", func(r *Rule) { r.MaxNodes = 4 }, func(r *Rule) { r.MinNodes, r.MaxNodes = 2, 3 }, true},
		{"more nodes", func(r *Rule) { r.MaxNodes = 4 }, func(r *Rule) { r.MinNodes = 2 }, false},
		{"shorter", func(r *Rule) { r.MaxTime = time.Hour }, func(r *Rule) { r.MaxTime = time.Minute }, true},
		{"any length", func(r *Rule) { r.MaxTime = time.Hour }, nil, false},
		{"another partition", nil, func(r *Rule) { r.From = []string{"other"} }, false},
		{"with a directive", nil, func(r *Rule) { r.Directives = []string{"stay=no"} }, true},
		{"from one node on", func(r *Rule) { r.MinNodes = 1 }, nil, true},
		{"without the directive", func(r *Rule) { r.Directives = []string{"stay=no"} }, nil, false},
	} {
		a, b := all, all
		if tt.first != nil {
			tt.first(&a)
		}
		if tt.next != nil {
			tt.next(&b)
		}
		if got := a.Covers(b); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	if small(func(r *Rule) { r.MinNodes, r.MaxNodes = 3, 2 }).Empty() == "" || small(func(r *Rule) { r.Users = []string{"a", "!a"} }).Empty() == "" || all.Empty() != "" {
		t.Error("Empty")
	}
}

// FuzzDecide: whatever users write of their jobs, nothing falls over, and what is wrong keeps a job where it is.
func FuzzDecide(f *testing.F) {
	add := func(change func(w *slurm.Waiting, script *string)) {
		w, script := waits(nil), "#!/bin/sh\n#BURST stay=no\n"
		change(&w, &script)
		f.Add(w.Features, w.PerNode, w.PerJob, w.PerTask, w.Licenses, w.Required, w.Comment, w.ArrayTask, w.Reason, w.WorkDir, script)
	}
	add(func(*slurm.Waiting, *string) {})
	for _, text := range []string{"", "ı", "gres:gpu:ı", "gpu:ſ", "gres:gpu:a100:2", "gres/gpu=4K,cpu=2", "K", ":", "=", ",", "a&(b|c*2)", "((((", "!", "[", "c[0-", "n[1-2]", "matlab@", "@:2", "0-9:0%", "1-...", "burst:", "burst: stay=", "burst-site: burst:", "#BURST \"", "\x00\xff", "/", "/scratch", "JobHeld", "9223372036854775807P", "gres:gpu:-9223372036854775808"} {
		add(func(w *slurm.Waiting, script *string) {
			w.Features, w.PerNode, w.PerJob, w.PerTask, w.Licenses, w.Required, w.Comment, w.ArrayTask, w.Reason, w.WorkDir, *script = text, text, text, text, text, text, text, text, text, text, text
		})
		add(func(w *slurm.Waiting, _ *string) { w.PerNode = text })
		add(func(w *slurm.Waiting, _ *string) { w.PerJob, w.NumNodes = text, 3 })
		add(func(w *slurm.Waiting, _ *string) { w.Features = text })
		add(func(w *slurm.Waiting, _ *string) { w.Comment = text })
	}
	f.Fuzz(func(t *testing.T, features, perNode, perJob, perTask, licenses, required, comment, task, reason, dir, script string) {
		w := waits(func(w *slurm.Waiting) {
			w.Features, w.PerNode, w.PerJob, w.PerTask, w.Licenses, w.Required, w.Comment, w.ArrayTask, w.Reason, w.WorkDir = features, perNode, perJob, perTask, licenses, required, comment, task, reason, dir
			w.ArrayID = w.ID
		})
		moved := w
		moved.ID, moved.ArrayID, moved.ArrayTask, moved.Partition = 8, 0, "", "main,cloud"
		s := with([]Rule{small(func(r *Rule) { r.Gres, r.Licenses, r.Features = []string{"!net"}, []string{"!x"}, []string{"!y"} }), small(nil)}, w, moved)
		for id := range s.Scripts {
			s.Scripts[id] = s.OnPrem.Read(script)
		}
		s.Records = []Record{record(moved, InPlace)}
		for _, d := range Decide(s) {
			if _, _, err := directive.ReadComment(comment); err != nil && (d.Action == Add || d.Action == Keep) {
				t.Errorf("%s with the comment %q: %s", d.Action, comment, d.Why)
			}
		}
	})
}

func FuzzConstraint(f *testing.F) {
	for _, s := range []string{"a&b", "a|(b&!c)", "[a*2&b*1]", "a*", "((((", "!"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if h, ok := parseConstraint(s); ok && h != nil {
			h([]string{"a"})
		}
	})
}
