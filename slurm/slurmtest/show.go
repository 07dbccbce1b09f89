package slurmtest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// stamp prints a time as Slurm does under SLURM_TIME_FORMAT=%s, which our
// client sets.
func stamp(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) }

// stampOr is stamp, or word for no time.
func stampOr(t time.Time, word string) string {
	if t.IsZero() {
		return word
	}
	return stamp(t)
}

// show is scontrol -o show; which narrows nodes and jobs.
func (c *Controller) show(what, which string) answer {
	switch what {
	case "node", "nodes":
		return c.showNodes(which)
	case "job", "jobs":
		return c.showJobs(which)
	case "partition", "partitions":
		return c.showPartitions()
	case "config":
		return c.showConfig()
	}
	return answer{unknown: true}
}

func (c *Controller) showNodes(which string) answer {
	if c.down {
		return failure(1, "slurm_load_node error: "+noController)
	}
	nodes := c.nodes
	var b strings.Builder
	code := 0
	if which != "" {
		list, err := hostlist.Expand(which)
		if err != nil {
			return answer{code: 1, stdout: "Node " + which + " not found\n"}
		}
		nodes = nil
		for _, name := range list {
			if n := c.byName[name]; n != nil {
				nodes = append(nodes, n)
				continue
			}
			fmt.Fprintf(&b, "Node %s not found\n", name)
			code = 1
		}
	}
	b.Grow(len(nodes) * 640)
	for _, n := range nodes {
		c.writeNode(&b, n)
	}
	return answer{stdout: b.String(), code: code}
}

// writeNode prints one line; plain writes, for there may be 10,000 of them.
func (c *Controller) writeNode(b *strings.Builder, n *node) {
	cpus, memory := strconv.Itoa(c.opt.CPUs), strconv.Itoa(c.opt.Memory)
	used, usedMemory, usedTRES := "0", "0", ""
	if part := strconv.Itoa(n.used()); part != "0" {
		used, usedMemory, usedTRES = part, memory, "cpu="+part+",mem="+memory+"M"
	}
	available, active := "(null)", "(null)"
	if n.cloud && n.partition != servers {
		available, active = orNull(strings.Join(c.opt.Features, ",")), orNull(strings.Join(n.active, ","))
	}
	arch, system, load, free := "", "", "N/A", "N/A"
	if !n.boot.IsZero() {
		arch, system, load, free = "Arch=x86_64 ", "Version=22.05.8 OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC ", "0.17", memory
	}
	for _, s := range [...]string{
		"NodeName=", n.name, " ", arch, "CoresPerSocket=1  CPUAlloc=", used, " CPUEfctv=", cpus, " CPUTot=", cpus, " CPULoad=", load,
		" AvailableFeatures=", available, " ActiveFeatures=", active, " Gres=(null) NodeAddr=", n.addr, " NodeHostName=", n.host, " Port=6818 ", system,
		" RealMemory=", memory, " AllocMem=", usedMemory, " FreeMem=", free, " Sockets=", cpus, " Boards=1 State=", n.state(),
		" ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=", n.partition,
		"  BootTime=", stampOr(n.boot, "None"), " SlurmdStartTime=", stampOr(n.boot, "None"), " LastBusyTime=", stampOr(n.busy, "Unknown"),
		" CfgTRES=cpu=", cpus, ",mem=", memory, "M,billing=", cpus, " AllocTRES=", usedTRES,
		" CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s",
	} {
		b.WriteString(s)
	}
	if n.reason != "" {
		b.WriteString(" Reason=" + n.reason)
	}
	b.WriteByte('\n')
}

func (c *Controller) showJobs(which string) answer {
	if c.down {
		return failure(1, "slurm_load_jobs error: "+noController)
	}
	jobs := c.sorted()
	if which != "" {
		j := c.job(which)
		if j == nil {
			return failure(1, "slurm_load_jobs error: Invalid job id specified")
		}
		jobs = []*job{j}
	}
	if len(jobs) == 0 {
		return answer{stdout: "No jobs in the system\n"}
	}
	var b strings.Builder
	for _, j := range jobs {
		c.writeJob(&b, j)
	}
	return answer{stdout: b.String()}
}

func (c *Controller) writeJob(b *strings.Builder, j *job) {
	nodes := j.nodeCount()
	fmt.Fprintf(b, "JobId=%d JobName=%s UserId=%s(%d) GroupId=%s(%d) MCS_label=N/A Priority=%d Nice=0 Account=%s QOS=(null)",
		j.id, j.Name, j.User, j.UID, j.User, j.UID, 4294901760-j.id, orNull(j.Account))
	fmt.Fprintf(b, " JobState=%s Reason=%s Dependency=(null) Requeue=%s Restarts=%d BatchFlag=%s Reboot=0 ExitCode=%d:%d",
		j.state, j.reason, bit(j.Requeue), j.restarts, bit(!j.Salloc), j.code, j.signal)
	fmt.Fprintf(b, " RunTime=%s TimeLimit=UNLIMITED TimeMin=N/A SubmitTime=%s EligibleTime=%s AccrueTime=%s StartTime=%s EndTime=%s",
		j.runTime(), stamp(j.submitted), stamp(j.begin), stamp(j.submitted), stampOr(j.startShown(), "Unknown"), stampOr(j.end, "Unknown"))
	fmt.Fprintf(b, " Deadline=N/A SuspendTime=None SecsPreSuspend=0 LastSchedEval=%s Scheduler=Main Partition=%s AllocNode:Sid=ctl:1 ReqNodeList=(null) ExcNodeList=(null) NodeList=%s",
		stamp(j.submitted), j.partition(), j.nodesShown())
	if j.batch != "" {
		fmt.Fprintf(b, " BatchHost=%s", j.batch)
	}
	fmt.Fprintf(b, " NumNodes=%d NumCPUs=%d NumTasks=%d CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=%[2]d,mem=%[4]dM,node=%[1]d,billing=%[2]d Socks/Node=*",
		nodes, nodes*c.opt.CPUs, nodes, nodes*c.opt.Memory)
	b.WriteString(" NtasksPerN:B:S:C=0:0:*:* CoreSpec=* MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0 Features=(null) DelayBoot=00:00:00 OverSubscribe=NO Contiguous=0 Licenses=(null) Network=(null) Command=/home/job.sh WorkDir=/home")
	if j.admin != "" {
		b.WriteString(" AdminComment=" + j.admin + " ")
	}
	if j.Comment != "" {
		b.WriteString(" Comment=" + j.Comment + " ")
	}
	b.WriteString(" StdErr=/dev/null StdIn=/dev/null StdOut=/dev/null Power= \n")
}

// startShown is the StartTime that Slurm prints: the expected one of a held job.
func (j *job) startShown() time.Time {
	if j.state == pending && j.begin.After(time.Now()) {
		return j.begin
	}
	return j.start
}

func (j *job) nodesShown() string {
	if j.state == completing {
		return fold(j.nodes)
	}
	return j.nodeList
}

func (j *job) nodeCount() int {
	switch {
	case j.state == pending:
		return j.Nodes
	case j.state == completing:
		return len(j.nodes)
	}
	return j.count
}

func (j *job) runTime() string {
	var d time.Duration
	switch {
	case j.state == pending || j.start.IsZero():
	case j.end.IsZero():
		d = time.Now().Truncate(time.Second).Sub(j.start.Truncate(time.Second)) // Slurm knows whole seconds
	default:
		d = j.end.Truncate(time.Second).Sub(j.start.Truncate(time.Second))
	}
	s := int(d.Seconds())
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

func orNull(s string) string {
	if s == "" {
		return "(null)"
	}
	return s
}

func bit(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func (c *Controller) showPartitions() answer {
	if c.down {
		return failure(1, "slurm_load_partitions error: "+noController)
	}
	var order []string
	nodes := map[string][]*node{}
	for _, n := range c.nodes {
		if !slices.Contains(order, n.partition) {
			order = append(order, n.partition)
		}
		nodes[n.partition] = append(nodes[n.partition], n)
	}
	var b strings.Builder
	for _, p := range order {
		suspend, state := "INFINITE", "UP"
		switch p {
		case onPrem:
		case servers:
			state = "INACTIVE"
		default:
			suspend = seconds(c.opt.SuspendTime)
		}
		fmt.Fprintf(&b, "PartitionName=%s AllowGroups=ALL Default=%s MaxNodes=UNLIMITED Nodes=%s OverSubscribe=NO State=%s TotalCPUs=%d TotalNodes=%d SelectTypeParameters=NONE ResumeTimeout=%s SuspendTimeout=%s SuspendTime=%s\n",
			p, map[bool]string{true: "YES", false: "NO"}[p == c.opt.Partition], fold(nodes[p]), state, len(nodes[p])*c.opt.CPUs, len(nodes[p]),
			seconds(c.opt.ResumeTimeout), seconds(c.opt.SuspendTimeout), suspend)
	}
	return answer{stdout: b.String()}
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }

func (c *Controller) showConfig() answer {
	if c.down {
		return failure(1, "slurm_load_ctl_conf error: "+noController)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Configuration data as of %s\n", stamp(time.Now()))
	for _, kv := range [][2]string{
		{"AuthInfo", fmt.Sprintf("cred_expire=%d", int((c.opt.Hold - time.Second).Seconds()))},
		{"ClusterName", "slurmtest"},
		{"MinJobAge", seconds(c.opt.MinJobAge) + " sec"},
		{"PrologSlurmctld", map[bool]string{true: "(null)", false: "/usr/bin/burst-gate"}[c.opt.Ungated]},
		{"ResumeTimeout", seconds(c.opt.ResumeTimeout) + " sec"},
		{"ReturnToService", strconv.Itoa(c.opt.ReturnToService)},
		{"SLURM_VERSION", "22.05.8"},
		{"SlurmdTimeout", seconds(c.opt.SlurmdTimeout) + " sec"},
		{"SuspendTime", "INFINITE"},
		{"SuspendTimeout", seconds(c.opt.SuspendTimeout) + " sec"},
	} {
		fmt.Fprintf(&b, "%-23s = %s\n", kv[0], kv[1])
	}
	for _, key := range slices.Sorted(maps.Keys(c.opt.Config)) {
		fmt.Fprintf(&b, "%-23s = %s\n", key, c.opt.Config[key])
	}
	return answer{stdout: b.String()}
}
