package conf

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

const privateKey = "PrivateData"

// rule says what one setting must be.
type rule struct {
	key string
	why func(site Site, in Input) string
	// want returns the value to write, merged with what the site has, and whether
	// what it has would do already.
	// nil for PrologSlurmctld, of which a site may have several, and the time that it has.
	want func(have string, in Input) (want string, ok bool)
}

// finding compares the site with the rule; its Want is empty if the rule is of no use there.
func (r rule) finding(site Site, in Input) Finding {
	f := Finding{Level: Wrong, Key: r.key, Have: site.Get(r.key), Why: r.why(site, in)}
	ok := false
	switch {
	case r.key == privateKey && site.Release.Since(cloudShown):
		return Finding{}
	case r.key == prologKey:
		f.Have = strings.Join(site.prologs(), ",")
		f.Want, ok = prolog(site, in)
	case r.key == timeoutKey:
		ok = f.timeout(site, in)
	default:
		f.Want, ok = r.want(f.Have, in)
	}
	switch {
	case ok && f.Want == "":
		return Finding{}
	case ok:
		f.Level = OK
	case f.Have == "":
		f.Level = Missing
	}
	return f
}

func because(why string) func(Site, Input) string {
	return func(Site, Input) string { return why }
}

// rules are in the order in which the fragment is written.
var rules = []rule{
	{"SlurmctldParameters", slurmctldParametersWhy, slurmctldParameters},
	{"SchedulerParameters", schedulerParametersWhy, schedulerParameters},
	{prologKey, prologWhy, nil},
	{timeoutKey, because("The gate waits while nodes boot: it must not be cut off before the longest ResumeTimeout is over."), nil},
	{"ResumeProgram", ours("ResumeProgram", "Hands the order to power nodes up to burstd."), program(func(p Programs) string { return p.Resume })},
	{"SuspendProgram", ours("SuspendProgram", "Hands the order to power nodes down to burstd."), program(func(p Programs) string { return p.Suspend })},
	{"ResumeFailProgram", ours("ResumeFailProgram", "Tells burstd which nodes did not come up in time."), program(func(p Programs) string { return p.ResumeFail })},
	{"SuspendTime", because("Cluster-wide: never power down the site's own nodes. The cloud's partitions have times of their own."), suspendTime},
	{"ResumeRate", because("No limit on nodes per minute: burstd has its own limits, and one call may hold all nodes of a job."), exactly("0")},
	{"SuspendRate", because("No limit on nodes per minute: an idle instance costs money."), exactly("0")},
	{"ReturnToService", because("A cloud node that was DOWN is usable again as soon as its slurmd registers. This is cluster-wide: " +
		"it holds for the site's own nodes too."), exactly("2")},
	{privateKey, because("Shows cloud nodes in sinfo also while they are powered down."), privateData},
	{"TreeWidth", because("slurmctld speaks to every node itself: a node on the way would not know the others' cloud addresses."), exactly("65533")},
	{"GresTypes", because("Jobs may ask for the GPUs of cloud nodes."), gresTypes},
	{"SlurmdPidFile", because("Each slurmd of a host needs its own: one that finds the other's there ends it, that of the site's own node too."), ofEachNode("/var/run/slurmd.pid", "-%n")},
	{"SlurmdSpoolDir", because("Each slurmd of a host needs its own, for its jobs. It holds for the site's own nodes too: a job that runs while its node's slurmd is " +
		"restarted after this change is lost to Slurm, and runs on. Drain nodes first; or try local nodes on a test cluster."), ofEachNode("/var/spool/slurmd", "/%n")},
}

// settings compares the controller's settings with the rules.
func settings(site Site, in Input) []Finding {
	var all []Finding
	for _, r := range rules {
		if f := r.finding(site, in); f.Want != "" {
			all = append(all, f)
		}
	}
	return append(all, memlock(site, in)...)
}

func exactly(want string) func(string, Input) (string, bool) {
	return func(have string, _ Input) (string, bool) { return want, have == want }
}

func program(path func(Programs) string) func(string, Input) (string, bool) {
	return func(have string, in Input) (string, bool) {
		want := path(in.Programs)
		return want, have == want
	}
}

// ours says what becomes of a program of the site's own: Slurm has room for one.
func ours(key, why string) func(Site, Input) string {
	return func(site Site, in Input) string {
		have := site.Get(key)
		if have == "" || slices.Contains([]string{in.Programs.Resume, in.Programs.Suspend, in.Programs.ResumeFail}, have) {
			return why
		}
		return fmt.Sprintf("%s The site's own %s would no longer be called.", why, have)
	}
}

func suspendTime(have string, _ Input) (string, bool) {
	return "INFINITE", have == "" || have == "-1" || strings.EqualFold(have, "INFINITE")
}

func slurmctldParametersWhy(_ Site, in Input) string {
	why := "idle_on_node_suspend: a node that was powered down is IDLE and no longer drained, so that it can be used again. " +
		"power_save_interval=1: Slurm looks every second, not every 10, for nodes to power up or down."
	if in.configless() {
		why += " enable_configless: nodes of a cloud fetch slurm.conf from slurmctld."
	}
	return why
}

func (in Input) configless() bool {
	return slices.ContainsFunc(in.Pools, func(p Pool) bool { return p.Configless })
}

func gresTypes(have string, in Input) (string, bool) {
	if !slices.ContainsFunc(in.Pools, func(p Pool) bool { return p.gres() != "" }) {
		return "", true
	}
	return merge(words(have), []string{"gpu"}, have)
}

// ofEachNode wants a path that is another one for each node, where nodes are slurmds of one host: the site's, or
// usual, with mark before its extension.
func ofEachNode(usual, mark string) func(string, Input) (string, bool) {
	return func(have string, in Input) (string, bool) {
		if !oneHost(in) {
			return "", true
		}
		if strings.Contains(have, "%n") {
			return have, true
		}
		path := cmp.Or(have, usual)
		ext := filepath.Ext(path)
		return strings.TrimSuffix(path, ext) + mark + ext, false
	}
}

func slurmctldParameters(have string, in Input) (string, bool) {
	wanted := []string{"idle_on_node_suspend", "power_save_interval=1"}
	if in.configless() {
		wanted = append(wanted, "enable_configless")
	}
	list := slices.DeleteFunc(words(have), func(w string) bool {
		key, _, _ := strings.Cut(w, "=")
		return strings.EqualFold(key, "power_save_interval") && !slices.Contains(wanted, strings.ToLower(w))
	})
	return merge(list, wanted, have)
}

// schedulerParameters leaves a delay that the site has chosen.
func schedulerParameters(have string, in Input) (string, bool) {
	const key = "batch_sched_delay="
	list := words(have)
	var wanted []string
	if !slices.ContainsFunc(list, func(w string) bool { return strings.HasPrefix(strings.ToLower(w), key) }) {
		wanted = append(wanted, key+"1")
	}
	if in.Expand {
		wanted = append(wanted, "permit_job_expansion")
	}
	if len(wanted) == 0 {
		return have, true
	}
	return merge(list, wanted, have)
}

func schedulerParametersWhy(_ Site, in Input) string {
	why := "batch_sched_delay: a batch job that comes back from an eviction is looked at within 1 s, not 3 s. " +
		"Where the queue is so heavy that this is too often, write another value: it is left as it is."
	if in.Expand {
		why += " permit_job_expansion: a running job may take in another node in place of one that goes (expand in burst.toml)."
	}
	return why
}

func privateData(have string, _ Input) (string, bool) {
	return merge(words(have), []string{"cloud"}, have)
}

// merge adds to list what it lacks of wanted; ok if that is what the site has.
func merge(list, wanted []string, have string) (string, bool) {
	for _, w := range wanted {
		if !slices.ContainsFunc(list, func(l string) bool { return strings.EqualFold(l, w) }) {
			list = append(list, w)
		}
	}
	return strings.Join(list, ","), slices.Equal(list, words(have))
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
