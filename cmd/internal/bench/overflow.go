package bench

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/overflow"
)

const (
	overflowJobs    = 10_000 // that wait
	overflowRunning = 5_000
	overflowRules   = 20
	overflowMoved   = 500 // of those that wait, before
	overflowBack    = 2_000
	overflowArrays  = 200 // of those that wait, with ten tasks each
	overflowNodes   = 1_000
	overflowRounds  = 9
)

func overflowRound() Bench {
	return Bench{
		Name: "overflow-10k-round",
		Method: fmt.Sprintf("CPU time (user and system, of all threads) in which %d pending jobs, of which %d are arrays of ten tasks, are read of squeue's answer and decided about by %d rules, with scripts known, %d moved before, "+
			"%d given back for a budget, %d running and %d nodes; squeue's own time is not in it: median of %d rounds", overflowJobs, overflowArrays, overflowRules, overflowMoved, overflowBack, overflowRunning, overflowNodes, overflowRounds),
		Unit:   "ms",
		Better: Lower,
		Goal:   200,
		Run:    runOverflowRound,
	}
}

// cpu is the time that this process has used.
func cpu() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("reading the CPU time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

func runOverflowRound(ctx context.Context, env Env) ([]float64, error) {
	return overflowSamples(ctx, env, overflowRounds)
}

func overflowSamples(ctx context.Context, env Env, rounds int) ([]float64, error) {
	q := &queued{moved: map[uint32]string{}}
	client := slurm.New(q)
	s, err := overflowWorld(ctx, q)
	if err != nil {
		return nil, err
	}
	var samples []float64
	for range rounds {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		runtime.GC() // the garbage of one round is not the next one's load
		q.took = 0
		before, err := cpu()
		if err != nil {
			return nil, err
		}
		if s.Waiting, err = client.Waiting(ctx); err != nil {
			return nil, err
		}
		did := map[overflow.Action]int{}
		for _, d := range overflow.Decide(s) {
			did[d.Action] += len(d.Keys)
		}
		after, err := cpu()
		if err != nil {
			return nil, err
		}
		if all := did[overflow.Add] + did[overflow.Leave] + did[overflow.Keep]; all != overflowJobs+9*overflowArrays || did[overflow.Keep] != overflowMoved || did[overflow.Add] < overflowJobs/20 || did[overflow.Leave] < overflowJobs/20 {
			return nil, fmt.Errorf("the rules decided otherwise than they should: %v", did)
		}
		env.note("%d to be moved, %d stay", did[overflow.Add], did[overflow.Leave])
		samples = append(samples, (after-before-q.took).Seconds()*1e3)
	}
	return samples, nil
}

// overflowWorld is a site with all that a round looks at but the jobs that wait.
func overflowWorld(ctx context.Context, q *queued) (overflow.Snapshot, error) {
	now := time.Unix(queuedNow, 0)
	s := overflow.Snapshot{Now: now, Jobs: map[uint32]slurm.Job{}, Scripts: map[overflow.ScriptID]overflow.Script{},
		OnPrem: overflow.OnPrem{FileSystems: []string{"/scratch", "/archive"}, Licenses: []string{"matlab"}, Features: []string{"hdr"}}}
	for i := range overflowRules {
		r := overflow.Rule{Name: fmt.Sprint("rule-", i), From: []string{"main", "long"}, To: []string{"cloud"}, After: 10 * time.Minute, MaxNodes: 8}
		switch i % 5 {
		case 0:
			r.Users = []string{fmt.Sprint("user", i), fmt.Sprint("user", i+1)}
		case 1:
			r.Licenses = []string{"ansys", "!matlab"}
			r.MaxTime = time.Hour
		case 2:
			r.Accounts = []string{fmt.Sprint("account", i), "!account7"}
		case 3:
			r.Gres, r.To = []string{"gpu"}, []string{"gpus", "cloud"}
		case 4:
			r.MinNodes, r.Directives = 1+i/10, []string{"stay=no"}
		}
		s.Rules = append(s.Rules, r)
	}
	s.Rules = append(s.Rules[:overflowRules-1], overflow.Rule{Name: "rest", From: []string{"main", "long"}, To: []string{"cloud"}, MaxTime: 4 * time.Hour, After: 10 * time.Minute})
	nodes := map[string]slurm.Node{}
	for i := range overflowNodes {
		n := slurm.Node{Name: fmt.Sprint("c", i), Partitions: []string{"cloud"}, CPUs: 8 << (i % 3), RealMemory: 16000 << (i % 3), Features: []string{"avx", "lon"}}
		if i%4 == 0 {
			n.Partitions, n.Gres = []string{"gpus"}, "gpu:a100:4"
		}
		nodes[n.Name] = n
	}
	for i := range overflowNodes {
		n := slurm.Node{Name: fmt.Sprint("n", i), Partitions: []string{"main"}, CPUs: 64, RealMemory: 15000 << (i % 2), Features: []string{"avx", "hdr"}}
		if i%3 == 0 {
			n.Partitions = append(n.Partitions, "long")
		}
		nodes[n.Name] = n
	}
	s.Partitions = overflow.PartitionsOf([]map[string]string{{"PartitionName": "cloud", "State": "UP", "MaxTime": "2-00:00:00"}, {"PartitionName": "gpus", "State": "UP"},
		{"PartitionName": "main", "State": "UP", "MaxTime": "7-00:00:00", "DefaultTime": "1:00:00"}, {"PartitionName": "long", "State": "UP", "MaxTime": "1-00:00:00"}}, nodes, nil)
	for i := range overflowRunning {
		id := uint32(1_000_000 + i)
		s.Jobs[id] = slurm.Job{ID: id, State: "RUNNING", Partition: "main", UID: 1000}
	}
	waiting, err := slurm.New(q).Waiting(ctx)
	if err != nil {
		return s, err
	}
	for i, w := range waiting {
		s.Jobs[w.ID] = w.Job
		text := "#!/bin/sh\nsrun app /home/in\n"
		switch i % 7 {
		case 0:
			text = "#!/bin/sh\n#BURST stay=no\nsrun app\n"
		case 1:
			text = "#!/bin/sh\nsrun app /scratch/in\n"
		}
		s.Scripts[overflow.ScriptOf(w.Job)] = s.OnPrem.Read(text)
	}
	for _, d := range overflow.Decide(overflow.Snapshot{Now: s.Now, Rules: s.Rules, OnPrem: s.OnPrem, Partitions: s.Partitions, Waiting: waiting, Jobs: s.Jobs, Scripts: s.Scripts}) {
		if d.Action == overflow.Add && d.Keys[0].Task < 0 && len(s.Records) < overflowMoved {
			s.Records = append(s.Records, overflow.Record{Key: d.Keys[0], UID: d.Job.UID, Submitted: d.Job.Submitted, Rule: d.Rule, Was: d.Was, To: d.To, State: overflow.InPlace, At: now})
			q.moved[d.Job.ID] = d.Job.Partition + "," + strings.Join(d.To, ",")
		}
	}
	s.Back = map[uint32]overflow.Back{}
	for i, w := range waiting { // those that ask for most of each user's
		if _, moved := q.moved[w.ID]; !moved && w.NumNodes > 3 && len(s.Back) < overflowBack {
			s.Back[w.ID] = overflow.Back{Until: now.Add(10 * time.Minute), Why: "budget: no room", Of: &waiting[i]}
		}
	}
	return s, nil
}

// queuedNow is when the jobs wait, in seconds since 1970.
const queuedNow = 1_800_000_000

// queued answers squeue with jobs that wait.
type queued struct {
	moved map[uint32]string // partitions
	took  time.Duration     // CPU time of the answers
}

// Run implements slurm.Runner.
func (q *queued) Run(_ context.Context, _ string, args ...string) ([]byte, []byte, error) {
	before, err := cpu()
	if err != nil {
		return nil, nil, err
	}
	var names []string
	mark := ""
	for i, a := range args {
		if a == "-O" {
			for item := range strings.SplitSeq(args[i+1], ",") {
				name, m, _ := strings.Cut(item, ":")
				names, mark = append(names, name), m
			}
		}
	}
	var b bytes.Buffer
	for i := range overflowJobs {
		have := q.job(i)
		for _, name := range names {
			b.WriteString(have[name])
			b.WriteString(mark)
		}
		b.WriteByte('\n')
	}
	after, err := cpu()
	q.took += after - before
	return b.Bytes(), nil, err
}

func (q *queued) job(i int) map[string]string {
	id := uint32(1000 + i)
	j := map[string]string{"JobID": fmt.Sprint(id), "ArrayJobID": fmt.Sprint(id), "ArrayTaskID": "N/A", "UserID": fmt.Sprint(1000 + i%200), "UserName": fmt.Sprint("user", i%200),
		"Account": fmt.Sprint("account", i%20), "Partition": []string{"main", "long", "main,long"}[i%3], "State": "PENDING", "Reason": []string{"Priority", "Resources", "Priority", "Dependency"}[i%4],
		"Requeue": "1", "BatchFlag": "1", "NumNodes": fmt.Sprint(1 + i%6), "NumCPUs": fmt.Sprint(8 * (1 + i%6)), "MinCPUs": "1", "NumTasks": "8", "MinMemory": "4000M", "tres-alloc": fmt.Sprintf("cpu=8,mem=%dM,node=1,billing=8", 4000*(1+i%6)),
		"SubmitTime": fmt.Sprint(queuedNow - 3600 - i), "EligibleTime": fmt.Sprint(queuedNow - i), "StartTime": fmt.Sprint(queuedNow + i), "Name": "sim-" + fmt.Sprint(i), "Comment": "(null)",
		"QOS": "normal", "TimeLimit": []string{"30:00", "2:00:00", "1-00:00:00"}[i%3], "PriorityLong": fmt.Sprint(100000 - i), "Licenses": "(null)", "WorkDir": fmt.Sprint("/home/user", i%200, "/run"),
		"STDIN": "/dev/null", "STDOUT": fmt.Sprint("/home/user", i%200, "/run/slurm-", id, ".out"), "STDERR": fmt.Sprint("/home/user", i%200, "/run/slurm-", id, ".out"),
		"OverSubscribe": "NO", "Exclusive": "NO"} // as squeue of Slurm 26.05
	if i%(overflowJobs/overflowArrays) == 7 {
		j["ArrayTaskID"] = "0-9%4"
	}
	if i%17 == 0 {
		j["MinMemory"] = "0"
	}
	if i%9 == 0 {
		j["Feature"] = "avx&(lon|fra)"
	}
	if i%11 == 0 {
		j["Licenses"] = []string{"ansys:2", "matlab"}[i%2]
	}
	if i%13 == 0 {
		j["tres-per-node"] = "gres:gpu:1"
	}
	if p, ok := q.moved[id]; ok {
		j["Partition"] = p
	}
	return j
}
