package sandbox

import (
	"fmt"
	"strings"
	"time"
)

// layout is what Start decides about a cluster, beyond its Options.
type layout struct {
	Options
	host     string            // this host's short name
	user     string            // who runs the daemons
	dir, run string            // see Cluster
	port     int               // the controller's; on-prem and then cloud nodes follow
	programs map[string]string // slurm.conf key -> script
	pmix     bool              // srun has MPI type pmix
}

// text writes slurm.conf.
func (l layout) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }

	line("# A sandbox of Burst: written at each start, edits are lost.")
	line("ClusterName=sandbox")
	line("SlurmctldHost=%s(%s)", l.host, l.CtldAddr)
	line("SlurmctldPort=%d", l.port)
	line("MailProg=/bin/true")
	line("SlurmUser=%s", l.user)
	line("# An ordinary user's slurmd refuses to run without it.")
	line("SlurmdUser=%s", l.user)
	line("AuthType=auth/munge")
	line("CredType=cred/munge")
	info := "socket=" + l.run + "/" + mungeSocket
	if l.CredExpire > 0 {
		line("# A requeued job is held for cred_expire + 1 s.")
		info += fmt.Sprintf(",cred_expire=%d", seconds(l.CredExpire))
	}
	line("AuthInfo=%s", info)
	line("")
	line("StateSaveLocation=%s/state", l.dir)
	line("SlurmctldPidFile=%s/slurmctld.pid", l.run)
	line("SlurmctldLogFile=%s/log/slurmctld.log", l.dir)
	line("# One host is many nodes: %%n keeps their files apart.")
	line("SlurmdSpoolDir=%s/spool/%%n", l.run)
	line("SlurmdPidFile=%s/slurmd-%%n.pid", l.run)
	line("SlurmdLogFile=%s/log/slurmd-%%n.log", l.dir)
	line("# PMIx makes a folder per step in it, which would exist for a step's second node.")
	line("TmpFS=%s/tmp/%%n", l.run)
	line("")
	line("# What works without cgroups and without root.")
	line("ProctrackType=proctrack/linuxproc")
	line("TaskPlugin=task/none")
	line("JobAcctGatherType=jobacct_gather/none")
	line("AccountingStorageType=accounting_storage/none")
	if l.pmix {
		line("MpiDefault=pmix")
	}
	line("")
	line("SelectType=select/cons_tres")
	line("SelectTypeParameters=CR_CPU")
	line("# The nodes are as large as this file says, whatever the host has.")
	line("SlurmdParameters=config_overrides")
	line("KillWait=%d", seconds(l.KillWait))
	line("SlurmdTimeout=%d", seconds(l.SlurmdTimeout))
	line("# slurmctld talks to each node itself: nodes need not know each other's address.")
	line("TreeWidth=65533")
	line("# A node that comes back, late or unasked, is used again.")
	line("ReturnToService=2")
	l.powerSaving(line)
	l.nodes(line)
	if l.Extra != "" {
		line("")
		line("%s", strings.TrimRight(l.Extra, "\n"))
	}
	return b.String()
}

// powerSaving writes what is global about it; the times are the partition's own.
func (l layout) powerSaving(line func(string, ...any)) {
	line("")
	line("# Power saving is for partition cloud alone: no node elsewhere is ever powered down.")
	line("SuspendTime=INFINITE")
	for _, key := range programKeys {
		if path := l.programs[key]; path != "" {
			line("%s=%s", key, path)
		}
	}
	if l.programs[gateKey] != "" {
		line("# The gate waits for a job's nodes; killed early, it would requeue the job with a hold.")
		line("PrologEpilogTimeout=%d", seconds(l.ResumeTimeout+time.Minute))
	}
	line("ResumeRate=0")
	line("SuspendRate=0")
	line("# A suspended node is IDLE again, without drain; timers are looked at each second.")
	line("SlurmctldParameters=idle_on_node_suspend,power_save_interval=1")
	line("# A requeued job is looked at within a second.")
	line("SchedulerParameters=batch_sched_delay=1")
	line("# Show powered-down cloud nodes too.")
	line("PrivateData=cloud")
}

func (l layout) nodes(line func(string, ...any)) {
	size := func(cpus int) string { return fmt.Sprintf("CPUs=%d RealMemory=%d", cpus, l.RealMemory) }
	line("")
	if l.OnPrem > 0 {
		line("NodeName=%s NodeHostname=%s NodeAddr=%s Port=%s %s",
			span("o", 1, l.OnPrem), l.host, l.CtldAddr, span("", l.port+1, l.OnPrem), size(l.OnPremCPUs))
	}
	switch {
	case l.CloudNodes == 0:
	case l.NetNS:
		line("# The names resolve nowhere: whoever resumes a node sets its address.")
		line("NodeName=%s %s State=CLOUD", span("c", 1, l.CloudNodes), size(l.CPUs))
	default:
		line("NodeName=%s NodeHostname=%s NodeAddr=%s Port=%s %s State=CLOUD",
			span("c", 1, l.CloudNodes), l.host, l.CtldAddr, span("", l.port+1+l.OnPrem, l.CloudNodes), size(l.CPUs))
	}
	if l.OnPrem > 0 {
		line("PartitionName=onprem Nodes=%s Default=YES State=UP", span("o", 1, l.OnPrem))
	}
	if l.CloudNodes > 0 {
		line("PartitionName=cloud Nodes=%s Default=%s State=UP SuspendTime=%d SuspendTimeout=%d ResumeTimeout=%d",
			span("c", 1, l.CloudNodes), yesNo(l.OnPrem == 0),
			seconds(l.SuspendTime), seconds(l.SuspendTimeout), seconds(l.ResumeTimeout))
	}
}

// span writes n names or numbers from first on: c1, c[1-4], [17001-17004].
func span(prefix string, first, n int) string {
	if n == 1 {
		return fmt.Sprintf("%s%d", prefix, first)
	}
	return fmt.Sprintf("%s[%d-%d]", prefix, first, first+n-1)
}

// seconds rounds up: Slurm knows whole seconds, and 0 often means forever.
func seconds(d time.Duration) int { return int((d + time.Second - 1) / time.Second) }

func yesNo(b bool) string {
	if b {
		return "YES"
	}
	return "NO"
}

// mpiText is mpi.conf. Where PMIx waits with another algorithm, as it does unasked, ranks on three
// nodes die at MPI_Init now and then (docs/slurm-states.md).
const mpiText = "PMIxCollFence=ring\n"

// cgroupText writes cgroup.conf for what `slurmctld -V` says. No plugin of
// ours uses cgroups, but slurmd loads the interface to them all the same, and
// that of version 2 fails without systemd or root. "disabled" is known from
// 24.05 on; before, the interface of version 1 touches nothing when loaded.
func cgroupText(version string) string {
	if since(version, 24, 5) {
		return "CgroupPlugin=disabled\n"
	}
	return "CgroupPlugin=cgroup/v1\n"
}

// since says whether the Slurm of which `slurmctld -V` says this is of a release, or newer.
func since(version string, major, minor int) bool {
	var a, b int
	_, number, _ := strings.Cut(version, " ")
	n, _ := fmt.Sscanf(number, "%d.%d", &a, &b)
	return n == 2 && (a > major || a == major && b >= minor)
}
