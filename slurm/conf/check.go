package conf

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/slurm/hostlist"
)

// Check compares what the site has with what Burst needs. Node and partition
// lines are compared only if the site's were read.
func Check(site Site, in Input) []Finding {
	all := append(settings(site, in), conflicts(site, in)...)
	if site.Lines {
		all = append(all, checkNodes(site, in)...)
		all = append(all, checkPartitions(site, in)...)
		all = append(all, topology(site, in)...)
	}
	return all
}

// conflicts are settings of the site that Burst does not write, but that spoil
// its work.
func conflicts(site Site, in Input) []Finding {
	var all []Finding
	add := func(level Level, key, why string) {
		all = append(all, Finding{Level: level, Key: key, Have: site.Get(key), Why: why})
	}
	if user := site.Get("SlurmUser"); user != "" && user != in.User {
		add(Wrong, "SlurmUser", fmt.Sprintf("burstd takes orders from %s only: set user = %q under [slurm] in burst.toml.", in.User, user))
	}
	if slices.ContainsFunc(words(site.Get("SlurmctldParameters")), func(w string) bool { return strings.EqualFold(w, "cloud_dns") }) {
		add(Advice, "SlurmctldParameters", "cloud_dns makes clients look node names up in DNS, and not use the addresses that burstd sets: "+
			"leave it out unless every cloud node's name resolves everywhere.")
	}
	if slices.ContainsFunc(words(site.Get("SlurmctldParameters")), func(w string) bool { return strings.EqualFold(w, "cloud_reg_addrs") }) {
		add(Advice, "SlurmctldParameters", "cloud_reg_addrs has slurmctld take a node's address from its registration, in place of the one that burstd sets: "+
			"leave it out. Behind a NAT or a tunnel it is an address where nobody answers.")
	}
	for _, route := range []struct {
		key string
		on  bool
	}{{"RoutePlugin", strings.EqualFold(site.Get("RoutePlugin"), "route/topology")}, {"TopologyParam", site.topologyParam("RouteTree")}} {
		if route.on {
			add(Advice, route.key, "Messages go from node to node along the switches, whatever TreeWidth is: a node on the way may not know the others' cloud addresses. "+
				"Leave it out: switches then only decide which nodes a job gets.")
		}
	}
	if site.Get("JobRequeue") == "0" {
		add(Advice, "JobRequeue", "Jobs are not requeued after an eviction unless they were submitted with --requeue.")
	}
	if site.Get("JobFileAppend") != "1" {
		add(Advice, "JobFileAppend", "A job that is requeued overwrites its output of before unless it was submitted with --open-mode=append: 1 appends.")
	}
	if in.Expand && contained(site) {
		add(Advice, "PrologFlags", "With Contain, which X11 and RunInJob imply, each job has a step on its nodes from the start, and Slurm joins no node "+
			"that has one to a running job: expand in burst.toml is of no use. ulfm-run asks for no new nodes then.")
	}
	if in.Expand && site.Release.Since(firstAddrs) {
		add(Advice, "SchedulerParameters", "From Slurm 23.11 on no step runs on a node of a cloud that a running job takes in: srun is told the addresses "+
			"of the nodes with which the job began. expand in burst.toml is of no use.")
	}
	if shared := overlap(words(site.Get("SuspendExcParts")), partitionNames(in)); shared != "" {
		add(Wrong, "SuspendExcParts", fmt.Sprintf("Idle nodes of %s would never be powered down: remove it from the list.", shared))
	}
	excluded, err := hostlist.Expand(nodesBeforeCounts(site.Get("SuspendExcNodes")))
	if shared := overlap(excluded, idleNodes(in)); err == nil && shared != "" {
		add(Wrong, "SuspendExcNodes", fmt.Sprintf("%s would never be powered down: remove it from the list.", shared))
	}
	for _, key := range []string{"ProctrackType", "TaskPlugin"} {
		if oneHost(in) && strings.Contains(strings.ToLower(site.Get(key)), "/cgroup") {
			add(Advice, key, "Several slurmds on one host, as those of local nodes are, have not been tried with Slurm's cgroups, which they would share: "+
				"where jobs fail to start or outlive their node, take ProctrackType=proctrack/linuxproc and TaskPlugin=task/none on this test cluster.")
		}
	}
	if in.configless() && slices.ContainsFunc(words(site.Get("CommunicationParameters")), func(w string) bool { return strings.EqualFold(w, "DisableIPv4") }) {
		add(Wrong, "CommunicationParameters", "With DisableIPv4 Slurm reaches no node of a cloud: burstd sets the private IPv4 address of its instance. Remove that word; EnableIPv6 may stay.")
	}
	if in.configless() {
		for _, path := range site.Unserved {
			all = append(all, Finding{Level: Wrong, Key: "Include", Have: path, Want: filepath.Base(path), Why: "slurmctld hands nodes of a cloud only " +
				"what is included by its bare name, from slurm.conf's own folder. Without the file their slurmd does not start."})
		}
		for _, key := range []string{"Prolog", "Epilog", "TaskProlog", "TaskEpilog", "HealthCheckProgram"} {
			if strings.HasPrefix(site.Get(key), "/") {
				add(Advice, key, "Nodes of a cloud run it too: it must be on their image, or be made by the pool's setup. "+
					"A node whose Prolog fails is drained.")
			}
		}
	}
	return all
}

// oneHost says whether a pool's nodes are slurmds of one host.
func oneHost(in Input) bool {
	return slices.ContainsFunc(in.Pools, func(p Pool) bool { return p.OneHost })
}

// contained says whether each job has an external step on its nodes, by one of these flags.
func contained(site Site) bool {
	return slices.ContainsFunc(words(site.Get("PrologFlags")), func(w string) bool {
		return slices.Contains([]string{"contain", "x11", "runinjob"}, strings.ToLower(w))
	})
}

// nodesBeforeCounts removes the ":count" that SuspendExcNodes may have after a set of nodes.
func nodesBeforeCounts(list string) string {
	head, _, _ := strings.Cut(list, ":")
	return head
}

func partitionNames(in Input) map[string]bool {
	names := map[string]bool{}
	for _, p := range in.Pools {
		names[p.Partition] = true
	}
	return names
}

// idleNodes are those that are powered down when they are idle.
func idleNodes(in Input) map[string]bool {
	names := map[string]bool{}
	for _, p := range in.Pools {
		if p.Server {
			continue
		}
		for _, n := range p.Nodes {
			names[n] = true
		}
	}
	return names
}

// overlap folds those of list that are in set.
func overlap(list []string, set map[string]bool) string {
	return hostlist.Fold(slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !set[s] }))
}

// checkNodes finds nodes that slurm.conf lacks or describes in another way.
func checkNodes(site Site, in Input) []Finding {
	lines := map[string]map[string]string{}
	for _, l := range site.Nodes {
		names, err := hostlist.Expand(l.Name)
		if err != nil {
			continue // Slurm itself refuses it, with its line
		}
		for _, n := range names {
			lines[n] = l.Attrs
		}
	}
	var all []Finding
	for _, p := range in.Pools {
		all = append(all, p.check(lines)...)
		all = append(all, p.inherits(site.NodeDefault)...)
	}
	return all
}

// inherits tells what the site's NodeName=DEFAULT line gives to the pool's
// nodes, except for what a pool writes itself: a count of sockets, say, that a
// cloud node does not have and is refused for.
func (p Pool) inherits(def map[string]string) []Finding {
	own := map[string]bool{"cpus": true, "realmemory": true, "state": true}
	for _, kv := range append(pairs(p.Options), pairs(p.hardware())...) {
		own[kv[0]] = true
	}
	var all []Finding
	for _, key := range slices.Sorted(maps.Keys(def)) {
		if !own[key] {
			all = append(all, Finding{Level: Advice, Key: "NodeName", Have: "DEFAULT " + key + "=" + def[key],
				Why: fmt.Sprintf("The nodes of pool %s inherit it: if it is not true of them, set %s in the pool's node_options.", p.Name, key)})
		}
	}
	return all
}

func (p Pool) check(lines map[string]map[string]string) []Finding {
	want := p.nodeLine()
	var missing []string
	differ := map[string][]string{} // what differs -> nodes
	for _, n := range p.Nodes {
		attrs, known := lines[n]
		if !known {
			missing = append(missing, n)
			continue
		}
		for _, d := range p.differences(attrs) {
			differ[d] = append(differ[d], n)
		}
	}
	var all []Finding
	if len(missing) > 0 {
		all = append(all, Finding{Level: Missing, Key: "NodeName", Want: want,
			Why: fmt.Sprintf("Pool %s: slurm.conf does not know %s.", p.Name, hostlist.Fold(missing))})
	}
	for _, d := range slices.Sorted(maps.Keys(differ)) {
		all = append(all, Finding{Level: Wrong, Key: "NodeName", Have: d, Want: want,
			Why: fmt.Sprintf("Pool %s: so it says of %s.", p.Name, hostlist.Fold(differ[d]))})
	}
	if len(all) == 0 {
		all = append(all, Finding{Level: OK, Key: "NodeName", Have: hostlist.Fold(p.Nodes), Want: want, Why: fmt.Sprintf("Pool %s.", p.Name)})
	}
	return all
}

// differences lists what a node's line says that the pool does not want.
func (p Pool) differences(attrs map[string]string) []string {
	var all []string
	if !strings.EqualFold(attrs["state"], "CLOUD") {
		all = append(all, "State="+attrs["state"])
	}
	if have := attrs["cpus"]; have != "" && p.CPUs > 0 && have != strconv.Itoa(p.CPUs) {
		all = append(all, "CPUs="+have)
	}
	if have := attrs["realmemory"]; p.RealMemory > 0 && have != strconv.Itoa(p.RealMemory) {
		all = append(all, "RealMemory="+have)
	}
	if have := attrs["gres"]; p.gres() != "" && !strings.EqualFold(have, p.gres()) {
		all = append(all, "Gres="+have)
	}
	have := attrs["feature"] + "," + attrs["features"]
	if lacks := without(p.Sources, words(have)); lacks != "" {
		all = append(all, "Feature="+strings.Trim(have, ","))
	}
	if have := attrs["port"]; p.Ports != "" && strings.Trim(have, "[]") != p.Ports {
		all = append(all, "Port="+have)
	}
	return all
}
