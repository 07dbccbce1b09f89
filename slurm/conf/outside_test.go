package conf

import (
	"slices"
	"strings"
	"testing"
)

// TestChainAfterTheChange: the script that calls the site's own program can be made before the change and after it.
func TestChainAfterTheChange(t *testing.T) {
	in := input()
	const want = "exec /usr/bin/burst-gate --then /site/p\n"
	for name, text := range map[string]string{
		"a site's own":       plainSite + "PrologSlurmctld=/site/p\n",
		"after the Include":  plainSite + "Include burst.conf\nPrologSlurmctld=/site/p\n",
		"the script as well": plainSite + "PrologSlurmctld=/site/p\nInclude burst.conf\n",
	} {
		f := files(t, map[string]string{"slurm.conf": text, "burst.conf": Fragment(Site{}, in)})
		if got := f.ChainScript(in, ""); !strings.HasSuffix(got, want) {
			t.Errorf("%s: before the change: %q", name, got)
		}
		after := apply(t, f, in)
		if got := after.ChainScript(in, ""); !strings.HasSuffix(got, want) {
			t.Errorf("%s: after the change: %q", name, got)
		}
		if c, err := after.Change(in); err != nil || !c.Nothing() {
			t.Errorf("%s: after the change: %v %+v", name, err, c)
		}
		if after.Get(prologKey) != in.Programs.Chain {
			t.Errorf("%s: slurmctld has %s", name, after.Get(prologKey))
		}
		newer := f // from 24.05 on each line counts, and the gate comes beside the site's own
		newer.Release = manyPrologs
		if got := newer.ChainScript(in, ""); got != "" {
			t.Errorf("%s: 24.05: %q", name, got)
		}
	}

	alone := files(t, map[string]string{"slurm.conf": plainSite + "PrologSlurmctld=" + in.Programs.Chain + "\n"})
	if got := alone.ChainScript(in, ""); got != "" {
		t.Errorf("nothing says what it calls, but it is %q", got)
	}
	if got := alone.ChainScript(in, "#!/bin/sh\nexec /old/burst-gate --then /site/p\n"); !strings.HasSuffix(got, want) {
		t.Errorf("the script in place says it, but it is %q", got)
	}
}

// TestChangeOfManyPrologs: where each line counts the site's own stays, and none of Burst's is there twice.
func TestChangeOfManyPrologs(t *testing.T) {
	in := input()
	gate, chain := in.Programs.Gate, in.Programs.Chain
	for name, text := range map[string]string{
		"before":                       "PrologSlurmctld=/site/p\nInclude burst.conf\n",
		"after":                        "Include burst.conf\nPrologSlurmctld=/site/p\n",
		"with the script of before":    "PrologSlurmctld=/site/p\nPrologSlurmctld=" + chain + "\nInclude burst.conf\n",
		"with the gate":                "PrologSlurmctld=" + gate + "\nPrologSlurmctld=/site/p\nInclude burst.conf\n",
		"with burst.conf of 22.05":     "PrologSlurmctld=/site/p\nInclude old.conf\n",
		"with the gate after all that": "PrologSlurmctld=/site/p\nInclude burst.conf\nPrologSlurmctld=" + gate + "\n",
	} {
		f := files(t, map[string]string{"slurm.conf": plainSite + text, "burst.conf": Fragment(Site{}, in),
			"old.conf": Fragment(Site{Settings: map[string]string{"prologslurmctld": "/site/p"}}, in)})
		f.Release = manyPrologs
		after := apply(t, f, in)
		after.Release = manyPrologs
		got := strings.Join(after.prologs(), " ")
		if got != "/site/p "+gate && got != gate+" /site/p" {
			t.Errorf("%s: slurmctld runs %s", name, got)
		}
		if c, err := after.Change(in); err != nil || !c.Nothing() {
			t.Errorf("%s: after the change: %v %+v", name, err, c)
		}
	}
}

// TestChangeIncludesOnce: slurmctld ends at a file that is included twice, as its nodes are.
func TestChangeIncludesOnce(t *testing.T) {
	in := input()
	fragment := Fragment(Site{}, in)
	for name, test := range map[string]struct {
		all  map[string]string
		same bool
	}{
		"a banner above":      {map[string]string{"slurm.conf": plainSite + "Include burst.conf\n", "burst.conf": "# Ansible managed\n\n" + fragment}, true},
		"by another name":     {map[string]string{"slurm.conf": plainSite + "Include cloud.conf\n", "cloud.conf": "# Ansible managed\n" + fragment}, true},
		"empty":               {map[string]string{"slurm.conf": plainSite + "Include burst.conf\n", "burst.conf": ""}, false},
		"lines without head":  {map[string]string{"slurm.conf": plainSite + "Include burst.conf\n", "burst.conf": "ResumeRate=5\nPartitionName=night Nodes=o[1-3]\n"}, false},
		"the site's own text": {map[string]string{"slurm.conf": plainSite + "Include burst.conf\n", "burst.conf": "# ours\n" + bare(fragment)}, true},
	} {
		f := files(t, test.all)
		c, err := f.Change(in)
		if err != nil || c.Nothing() != test.same {
			t.Errorf("%s: %v %+v", name, err, c)
		}
		after := apply(t, f, in)
		if n := strings.Count(after.texts[0].text, "Include"); n != 1 {
			t.Errorf("%s: included %d times:\n%s", name, n, after.texts[0].text)
		}
		for _, found := range Check(after.Site, in) {
			if found.MustChange() {
				t.Errorf("%s: after the change: %+v", name, found)
			}
		}
	}
}

// bare is a text without its comments.
func bare(content string) string {
	var b strings.Builder
	for _, line := range logical(content) {
		b.WriteString(line.text + "\n")
	}
	return b.String()
}

// TestChangeFollowsTheSite: what the site says later above the Include counts, and burst.conf does not keep its old copy.
func TestChangeFollowsTheSite(t *testing.T) {
	in := input()
	f := files(t, map[string]string{"slurm.conf": plainSite + "PrivateData=usage\n"})
	f = apply(t, f, in)
	for _, test := range []struct{ from, to, key, want string }{
		{"PrivateData=usage\n", "PrivateData=jobs\n", privateKey, "jobs,cloud"},
		{"PrivateData=jobs\n", "PrivateData=jobs\nSchedulerParameters=bf_interval=20\n", "SchedulerParameters", "bf_interval=20,batch_sched_delay=1"},
		{"bf_interval=20\n", "batch_sched_delay=9\n", "SchedulerParameters", "batch_sched_delay=9"},
		{"PrivateData=jobs\n", "PrologEpilogTimeout=9000\n", timeoutKey, "9000"},
	} {
		write(t, f.Path, strings.Replace(f.texts[0].text, test.from, test.to, 1), 0o644)
		var err error
		if f, err = ReadFiles(f.Path); err != nil {
			t.Fatal(err)
		}
		if c, err := f.Change(in); err != nil || c.Nothing() {
			t.Errorf("%s: %v: it is called as it should be", test.to, err)
		}
		f = apply(t, f, in)
		if got := f.Get(test.key); got != test.want {
			t.Errorf("%s: slurmctld has %s", test.to, got)
		}
		if c, err := f.Change(in); err != nil || !c.Nothing() {
			t.Errorf("%s: after the change: %v %+v", test.to, err, c)
		}
	}
	edited := f.texts[1]
	write(t, edited.path, strings.Replace(edited.text, "ResumeRate=0", "ResumeRate=0\nSlurmctldParameters=node_reg_mem_percent=90", 1), 0o644)
	f, err := ReadFiles(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	if got := apply(t, f, in).Get("SlurmctldParameters"); got != "node_reg_mem_percent=90,idle_on_node_suspend,power_save_interval=1" {
		t.Errorf("an edit of burst.conf, of what no other file says: %s", got)
	}
}

// TestChangeTakesTheFormerLimitOut: the burst.conf of before had a limit for prologs where the site has none.
func TestChangeTakesTheFormerLimitOut(t *testing.T) {
	in := input()
	const line = "PrologEpilogTimeout=2100\n"
	former := strings.Replace(Fragment(Site{}, in), "# Hands the order to power nodes up", "# The gate waits while nodes boot: it must not be cut off before the longest\n"+
		"# ResumeTimeout is over.\n"+line+"\n# Hands the order to power nodes up", 1)
	if !strings.Contains(former, line) {
		t.Fatal("the line is not in it")
	}
	for name, test := range map[string]struct{ site, burst, want string }{
		"the site has none":           {"", former, ""},
		"the site has one":            {"PrologEpilogTimeout=9000\n", former, "9000"},
		"the site has one, too short": {"PrologEpilogTimeout=60\n", former, "2100"},
		"no head: somebody wrote it":  {"", bare(former), "2100"},
	} {
		f := files(t, map[string]string{"slurm.conf": plainSite + test.site + "Include burst.conf\n", "burst.conf": test.burst})
		after := apply(t, f, in)
		if got := after.Get(timeoutKey); got != test.want {
			t.Errorf("%s: slurmctld has %q", name, got)
		}
		if c, err := after.Change(in); err != nil || !c.Nothing() {
			t.Errorf("%s: after the change: %v %+v", name, err, c)
		}
	}
}

// TestChangeTellsWhatWasAdded: what somebody wrote into burst.conf does not go without a word; what Fragment wrote for
// another burst.toml does.
func TestChangeTellsWhatWasAdded(t *testing.T) {
	in := input()
	fragment := Fragment(Site{Settings: map[string]string{"slurmctldparameters": "enable_configless"}}, in)
	added := "KillWait=30\nNodeName=p[1-2] CPUs=4\nPartitionName=own Nodes=p[1-2]\nNodeSet=x Nodes=p1\nInclude more.conf\n"
	edited := strings.NewReplacer("PartitionName=night", "PartitionName=night MaxTime=60", "PrivateData=cloud", "PrivateData=cloud,jobs",
		"NodeName=o[1-3]", "NodeName=o[1-3] Weight=7", "SuspendRate=0", "SuspendRate=9").Replace(fragment)
	f := files(t, map[string]string{"slurm.conf": plainSite + "PrivateData=usage\nInclude burst.conf\n", "burst.conf": edited + added, "more.conf": ""})
	c, err := f.Change(in)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range c.Notes {
		if strings.Contains(n, "/burst.conf:") {
			_, n, _ = strings.Cut(n, "/burst.conf:")
			_, n, _ = strings.Cut(n, " ")
			n, _, _ = strings.Cut(n, ": ")
			got = append(got, n)
		}
	}
	want := []string{"privatedata=jobs goes", "goes, and with it weight=7", "goes, and with it maxtime=60", "killwait=30 goes", "NodeName=p[1-2] CPUs=4 goes",
		"PartitionName=own Nodes=p[1-2] goes", "NodeSet=x Nodes=p1 goes", "Include more.conf goes"}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	in.Pools[0].Nodes, in.Pools[0].CPUs = names("s", 9), 16
	f = files(t, map[string]string{"slurm.conf": plainSite + "Include burst.conf\n", "burst.conf": fragment})
	if c, err := f.Change(in); err != nil || c.Nothing() || len(c.Notes) > 0 {
		t.Errorf("of a pool that has changed: %v %q", err, c.Notes)
	}
}
