package conf

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// files writes a site's files into a folder and reads them.
func files(t *testing.T, all map[string]string) Files {
	t.Helper()
	dir := t.TempDir()
	for name, text := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, path, text, 0o644)
	}
	f, err := ReadFiles(filepath.Join(dir, "slurm.conf"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// told is a change as an admin reads it, without the test's folder.
func told(t *testing.T, f Files, in Input) string {
	t.Helper()
	c, err := f.Change(in)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, n := range c.Notes {
		b.WriteString("# " + n + "\n")
	}
	for _, n := range c.Hand {
		b.WriteString("# by hand: " + n + "\n")
	}
	for _, file := range c.Files {
		b.WriteString(file.Unified())
	}
	return strings.ReplaceAll(b.String(), filepath.Dir(f.Path), "DIR")
}

// apply does what a change says, and reads the files again.
func apply(t *testing.T, f Files, in Input) Files {
	t.Helper()
	c, err := f.Change(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range c.Files {
		before, err := os.ReadFile(file.Path)
		if string(before) != file.Before || file.New != os.IsNotExist(err) {
			t.Errorf("%s: the change is of another file", file.Path)
		}
		write(t, file.Path, file.After, 0o644)
	}
	again, err := ReadFiles(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

const plainSite = "ClusterName=onprem\nSlurmUser=slurm\nJobFileAppend=1\nNodeName=n[1-9] CPUs=4\nPartitionName=batch Nodes=n[1-9] Default=YES\n"

// awkward is a site that has a bit of everything, spread over files.
func awkward() map[string]string {
	return map[string]string{
		"slurm.conf": `# A site's own file.
ClusterName=onprem
SlurmUser=slurm
JobFileAppend=1
SlurmctldParameters="enable_configless, \
power_save_interval=30"
SuspendProgram=/usr/local/sbin/poweroff-idle
SuspendTime=60
SuspendTime=600
ReconfigFlags=KeepPowerSaveSettings
SuspendExcParts=batch,night
include nodes-%c.conf
PartitionName=batch Nodes=n[1-9] Default=YES
PartitionName=cloud Nodes=s[1-4] \
  MaxTime=60 AllowGroups=hpc Default=NO
ReturnToService=1`, // and no end of the line
		"nodes-onprem.conf": "NodeName=n[1-9] CPUs=4\nNodeName=DEFAULT State=CLOUD\nNodeName=x[1-9],s[1-2] CPUs=4 Weight=5\nNodeName=s3 CPUs=2\nNodeName=s4 CPUs=2 State=CLOUD MemSpecLimit=7\n",
	}
}

func TestChange(t *testing.T) {
	for _, test := range []struct {
		name   string
		golden string
		files  map[string]string
	}{
		{"a site without Burst", "diff-new.golden", map[string]string{"slurm.conf": plainSite}},
		{"lines with other values, in several files", "diff-awkward.golden", awkward()},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := files(t, test.files)
			golden(t, test.golden, told(t, f, input()))
			after := apply(t, f, input())
			if got := told(t, after, input()); strings.Contains(got, "@@") {
				t.Errorf("after the change there is this to change:\n%s", got)
			}
			for _, found := range Check(after.Site, input()) {
				if found.MustChange() && found.Key != "SuspendExcParts" { // that by hand
					t.Errorf("after the change: %+v", found)
				}
			}
		})
	}
}

// TestChangeOfSitesOwn: what the site has itself under a pool's name is not taken away, and nothing is shown that
// slurmctld would not start with.
func TestChangeOfSitesOwn(t *testing.T) {
	const away = "they would be powered down when they are idle. Give the cloud a partition of its own."
	for _, test := range []struct{ name, lines, want string }{
		{"nodes in the partition", "PartitionName=cloud Nodes=s[1-4],n9", "5: PartitionName=cloud: It also holds n9: " + away},
		{"the site's partition", "PartitionName=DEFAULT Nodes=n[1-9]\nPartitionName=cloud MaxTime=60", "6: PartitionName=cloud: It also holds n[1-9]: " + away},
		{"all nodes", "PartitionName=night Nodes=ALL", "5: PartitionName=night: It holds ALL nodes: the site's own would be powered down when they are idle. Give the cloud a partition of its own."},
		{"a set of nodes", "NodeSet=gpu Feature=gpu\nPartitionName=cloud Nodes=gpu", "6: PartitionName=cloud: It also holds gpu: " + away},
		{"nodes that stay", "NodeName=s[3-5] CPUs=2", "5: NodeName=s[3-5]: s[3-4] is the site's own there (State=UNKNOWN), and a pool of burst.toml has the name: " +
			"give the pool's nodes other names. If it is to be a node of the cloud, remove it there."},
		{"nodes to come", "NodeName=DEFAULT State=FUTURE\nNodeName=b1", "6: NodeName=b1: b1 is the site's own there (State=FUTURE), and a pool of burst.toml has the name: " +
			"give the pool's nodes other names. If it is to be a node of the cloud, remove it there."},
		{"a list of ports", "NodeName=x1,s[1-2] Port=[17001-17003] State=CLOUD", "5: NodeName=x1,s[1-2]: Slurm takes a node only once: remove s[1-2] there, and what port says of it."},
		{"a list of addresses", "NodeName=x1,s1 NodeAddr=10.0.0.1,10.0.0.2 State=CLOUD", "5: NodeName=x1,s1: Slurm takes a node only once: remove s1 there, and what nodeaddr says of it."},
	} {
		own := "ClusterName=onprem\nSlurmUser=slurm\nNodeName=n[1-9] CPUs=4\nPartitionName=batch Nodes=n[1-9]\n"
		for _, tail := range []string{"\n", "\nInclude burst.conf\n"} {
			got := told(t, files(t, map[string]string{"slurm.conf": own + test.lines + tail, "burst.conf": Fragment(Site{}, input())}), input())
			if want := "# by hand: DIR/slurm.conf:" + test.want + " No change is shown until then.\n"; got != want {
				t.Errorf("%s:\n%swant\n%s", test.name, got, want)
			}
		}
	}
}

func TestChangeIsNothing(t *testing.T) {
	in := input()
	fragment := Fragment(Site{Settings: map[string]string{"jobfileappend": "1"}}, in)
	for name, all := range map[string]map[string]string{
		"included":                {"slurm.conf": plainSite + "Include burst.conf\n", "burst.conf": fragment},
		"included by another":     {"slurm.conf": plainSite + "Include more.conf\n", "more.conf": "Include burst.conf\n", "burst.conf": fragment},
		"written into slurm.conf": {"slurm.conf": plainSite + fragment},
		"other comments":          {"slurm.conf": plainSite + "Include b.conf\n", "b.conf": strings.ReplaceAll(fragment, "\n# ", "\n# # ")},
		"in other words": {"slurm.conf": plainSite + strings.NewReplacer("NodeName=s[1-4]", "nodename=s[1-2],s[3-4]", "CPUs=", "Procs=",
			"Feature=", "Features=spot,more,", "SuspendTime=INFINITE", "SuspendTime=-1", " State=UP", "").Replace(fragment)},
	} {
		c, err := files(t, all).Change(in)
		if err != nil || !c.Nothing() || len(c.Notes) > 0 {
			t.Errorf("%s: %v %+v", name, err, c)
		}
	}
}

// TestChangeFinds: what one line does is found, and mended by the change.
func TestChangeFinds(t *testing.T) {
	in := input()
	fragment := Fragment(Site{}, in)
	included := func(before, after string) map[string]string {
		return map[string]string{"slurm.conf": plainSite + before + "Include burst.conf\n" + after, "burst.conf": fragment}
	}
	for _, test := range []struct {
		name  string
		files map[string]string
		want  []string // lines
	}{
		{"a later line takes a setting back", included("", "SuspendRate=60\n"), []string{"-SuspendRate=60",
			"# DIR/slurm.conf:7: SuspendRate comes after what Burst writes, and takes it back: the last line counts. No limit on nodes per minute: an idle instance costs money."}},
		{"a node is there twice", included("NodeName=s4 CPUs=2 State=CLOUD\n", ""), []string{"-NodeName=s4 CPUs=2 State=CLOUD"}},
		{"a partition is there twice", included("", "PartitionName=night Nodes=o[1-3]\n"), []string{"-PartitionName=night Nodes=o[1-3]"}},
		{"a pool has other nodes", map[string]string{"slurm.conf": plainSite + "Include burst.conf\n", "burst.conf": strings.ReplaceAll(fragment, "o[1-3]", "o[1-2]")},
			[]string{"-NodeName=o[1-2] CPUs=8 RealMemory=32000 State=CLOUD", "+NodeName=o[1-3] CPUs=8 RealMemory=32000 State=CLOUD"}},
		{"a pool has gone", map[string]string{"slurm.conf": plainSite + "Include burst.conf\n", "burst.conf": fragment + "NodeName=gone1 State=CLOUD\n"}, []string{"-NodeName=gone1 State=CLOUD"}},
		{"burst.conf is not included", map[string]string{"slurm.conf": plainSite, "burst.conf": fragment}, []string{"+Include burst.conf", "--- DIR/slurm.conf"}},
		{"by hand", included("SuspendExcNodes=b1\n", ""), []string{"# by hand: SuspendExcNodes=b1: b1 would never be powered down: remove it from the list."}},
		{"one of two settings in a line", included("", "SuspendRate=60 KillWait=30\n"), []string{"-SuspendRate=60 KillWait=30", "+KillWait=30"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := files(t, test.files)
			text := told(t, f, in)
			have := strings.Split(text, "\n")
			for _, w := range test.want {
				if !slices.Contains(have, w) {
					t.Errorf("%q is not in\n%s", w, text)
				}
			}
			if c, err := apply(t, f, in).Change(in); err != nil || len(c.Files) > 0 {
				t.Errorf("after the change: %v %+v", err, c)
			}
		})
	}
}

// TestChangeOfIncludes: nodes of a cloud get what is included by its bare name.
func TestChangeOfIncludes(t *testing.T) {
	in := input()
	in.Pools[0].Configless = true
	f := files(t, map[string]string{"slurm.conf": "", "sub/a.conf": "", "b.conf": ""})
	dir := filepath.Dir(f.Path)
	write(t, f.Path, plainSite+"Include "+dir+"/b.conf\ninclude sub/a.conf\n", 0o644)
	f, err := ReadFiles(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	text := told(t, f, in)
	for _, want := range []string{"-Include DIR/b.conf\n+Include b.conf\n", "# by hand: Include=sub/a.conf: slurmctld hands"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if _, err := ReadFiles(filepath.Join(dir, "none.conf")); err == nil {
		t.Error("a file that is not there was read")
	}
}

// TestUnified: what is printed is what patch makes the new text of.
func TestUnified(t *testing.T) {
	if _, err := exec.LookPath("patch"); err != nil {
		t.Skip("NOT TESTED: patch is not here, which reads what genconf --diff prints")
	}
	lines := func(n int, change map[int]string) string {
		var b strings.Builder
		for i := range n {
			if other, ok := change[i]; ok {
				b.WriteString(other)
				continue
			}
			b.WriteString("line " + strings.Repeat("x", i) + "\n")
		}
		return b.String()
	}
	for name, f := range map[string]FileChange{
		"new":              {New: true, After: "a\nb\n"},
		"of nothing":       {After: "a\nb\n"},
		"first and last":   {Before: lines(9, nil), After: lines(9, map[int]string{0: "new\n", 8: ""})},
		"two hunks":        {Before: lines(40, nil), After: lines(40, map[int]string{3: "", 11: "a\nb\n", 30: "c\n"})},
		"hunks that touch": {Before: lines(40, nil), After: lines(40, map[int]string{3: "", 10: "a\n", 17: "", 25: "b\n"})},
		"no end of line":   {Before: "a\nb", After: "a\nb\nc\n"},
		"to nothing":       {Before: "a\nb\n", After: ""},
		"to no end":        {Before: "a\nb\n", After: "a\nc"},
	} {
		dir := t.TempDir()
		f.Path = filepath.Join(dir, "f")
		if !f.New {
			write(t, f.Path, f.Before, 0o644)
		}
		cmd := exec.Command("patch", "-p1", "-d", "/", "--fuzz=0", "-s")
		cmd.Stdin = strings.NewReader(f.Unified())
		out, err := cmd.CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s\n%s", name, err, out, f.Unified())
			continue
		}
		after, err := os.ReadFile(f.Path)
		if err != nil || string(after) != f.After {
			t.Errorf("%s: %v: it has become %q, want %q", name, err, after, f.After)
		}
	}
	long := strings.Repeat("a\n", 3000)
	if got := (FileChange{Before: long, After: strings.ReplaceAll(long, "a", "b")}).Unified(); strings.Count(got, "\n") != 6003 {
		t.Errorf("two long texts: %d lines", strings.Count(got, "\n"))
	}
}
