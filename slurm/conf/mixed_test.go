package conf

import (
	"slices"
	"strings"
	"testing"
)

// mixedSite has nodes of its own and a partition of all nodes, as Slurm's configurator writes it.
const mixedSite = "ClusterName=onprem\nSlurmUser=slurm\nJobFileAppend=1\nNodeName=n[1-9] CPUs=4\nPartitionName=main Nodes=ALL Default=YES # as ever\n"

// TestMixed: whatever way a partition of the site takes the cloud's nodes in, its jobs would power them up.
func TestMixed(t *testing.T) {
	const nodes, cloudOnly = "NodeName=n[1-9] CPUs=4\n", "# without these\n"
	for _, test := range []struct{ name, lines, want string }{ // want: what is held, "" for nothing
		{"all", "PartitionName=main Nodes=ALL", "s[1-4],b1,o[1-3]"},
		{"of the DEFAULT line", "PartitionName=DEFAULT Nodes=ALL\nPartitionName=main Default=YES", "s[1-4],b1,o[1-3]"},
		{"a list", "PartitionName=main Nodes=n[1-9],s[3-4]", "s[3-4]"},
		{"a set of all", "NodeSet=every Nodes=ALL\nPartitionName=main Nodes=every", "s[1-4],b1,o[1-3]"},
		{"a set of some, below", "PartitionName=main Nodes=some\nNodeSet=some Nodes=n1,b1", "b1"},
		{"a set of a feature", "NodeSet=spots Feature=spot\nPartitionName=main Nodes=n1,spots", "s[1-4]"},
		{"a set of another feature", "NodeSet=ib Feature=ib\nPartitionName=main Nodes=n1,ib", ""},
		{"a set that is in no partition", "NodeSet=every Nodes=ALL\nPartitionName=main Nodes=n1", ""},
		{"its own", "PartitionName=main Nodes=n[1-9]", ""},
		{"none", "PartitionName=main", ""},
		{"one more of the cloud", "PartitionName=late Nodes=s[1-4],b1 MaxTime=60", ""},
		{"of the cloud, by a feature", "NodeSet=spots Feature=spot\nPartitionName=late Nodes=spots", ""},
		{"of the cloud, by a set of nodes", "NodeSet=some Nodes=s[1-4],b1\nPartitionName=late Nodes=some", ""},
		{"of the cloud, by a set and a list", "PartitionName=late Nodes=spots,b1\nNodeSet=spots Feature=spot", ""},
		{"a feature that the site's have too", "NodeName=x1 CPUs=1 Feature=big,spot\nNodeSet=spots Feature=spot\nPartitionName=main Nodes=spots", "s[1-4]"},
		{"a feature that may join", "MaxNodeCount=9\nNodeSet=spots Feature=spot\nPartitionName=main Nodes=spots", "s[1-4]"},
		{"a set and the site's", "NodeSet=spots Feature=spot\nNodeSet=own Nodes=n1\nPartitionName=main Nodes=spots,own", "s[1-4]"},
		{"all, and none is the site's", cloudOnly + "PartitionName=late Nodes=ALL", ""},
		{"all in a set, and none is the site's", cloudOnly + "NodeSet=every Nodes=ALL\nPartitionName=late Nodes=every", ""},
		{"all, and others may join", cloudOnly + "MaxNodeCount=9\nPartitionName=main Nodes=ALL", "s[1-4],b1,o[1-3]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			lines, cloud := strings.CutPrefix(test.lines, cloudOnly)
			if !cloud {
				lines = nodes + lines
			}
			site := files(t, map[string]string{"slurm.conf": lines + "\n"}).Site
			said := func(in Input) (all []string) {
				for _, f := range mixed(site, in) {
					if f.Level != Wrong || f.Have != "main" {
						t.Errorf("%+v", f)
					}
					all = append(all, f.Why)
				}
				return all
			}
			got := said(input())
			if len(got) > 1 || (len(got) == 1) != (test.want != "") || test.want != "" && !strings.Contains(got[0], " hold "+test.want+" of the cloud: ") {
				t.Errorf("%q, want %s", got, test.want)
			}
			in := input()
			in.Mixed = []string{"main"}
			if got := said(in); len(got) > 0 {
				t.Errorf("although it is meant: %q", got)
			}
		})
	}
}

// TestNarrow: a partition of all nodes gets those of the site, and nothing else is changed in its line.
func TestNarrow(t *testing.T) {
	for _, test := range []struct{ name, conf, want string }{ // want: a line of the diff
		{"as the configurator writes it", mixedSite, "+PartitionName=main Nodes=n[1-9] Default=YES # as ever"},
		{"of the DEFAULT line", strings.Replace(mixedSite, "PartitionName=main Nodes=ALL", "PartitionName=DEFAULT Nodes=ALL\nPartitionName=main", 1),
			"+PartitionName=main Default=YES Nodes=n[1-9] # as ever"},
		{"over two lines", strings.Replace(mixedSite, " Default=YES # as ever", ` \`+"\n  Default=YES", 1), "+PartitionName=main Nodes=n[1-9]   Default=YES"},
		{"behind AllocNodes", strings.Replace(mixedSite, "Nodes=ALL", "AllocNodes=ALL Nodes=ALL", 1), "+PartitionName=main AllocNodes=ALL Nodes=n[1-9] Default=YES # as ever"},
		{"before AllocNodes", strings.Replace(mixedSite, "Nodes=ALL", "Nodes=ALL AllocNodes=ALL", 1), "+PartitionName=main Nodes=n[1-9] AllocNodes=ALL Default=YES # as ever"},
		{"twice", strings.Replace(mixedSite, "Nodes=ALL", "Nodes=n1 Nodes=ALL", 1), "+PartitionName=main Nodes=n1 Nodes=n[1-9] Default=YES # as ever"},
		{"in quotes", strings.Replace(mixedSite, "Nodes=ALL", `Nodes="all"`, 1), "+PartitionName=main Nodes=n[1-9] Default=YES # as ever"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := files(t, map[string]string{"slurm.conf": test.conf})
			got := told(t, f, input())
			if !slices.Contains(strings.Split(got, "\n"), test.want) || strings.Contains(got, "by hand") || strings.Contains(got, "# wrong: PartitionName") ||
				strings.Count(got, "partition main has Nodes=ALL") != 1 {
				t.Errorf("no line %q:\n%s", test.want, got)
			}
			after := apply(t, f, input())
			if got := told(t, after, input()); got != "" {
				t.Errorf("after the change:\n%s", got)
			}
			for _, found := range Check(after.Site, input()) {
				if found.MustChange() {
					t.Errorf("after the change: %+v", found)
				}
			}
			in := input()
			in.Mixed = []string{"main"}
			if got := told(t, f, in); strings.Contains(got, "+PartitionName=main") || strings.Contains(got, "by hand") {
				t.Errorf("although it is meant:\n%s", got)
			}
		})
	}
}

// TestNarrowByHand: what the site's own nodes are is not known, or a list was written by somebody: nobody else changes it.
func TestNarrowByHand(t *testing.T) {
	for _, test := range []struct{ name, lines, want string }{
		{"nodes that may join", "MaxNodeCount=100\nPartitionName=any Nodes=ALL", "PartitionName=any: Its Nodes=ALL hold s[1-4],b1,o[1-3] of the cloud: "},
		{"nodes that cannot be read", "NodeName=x[1- CPUs=1\nPartitionName=any Nodes=ALL", "List the site's own nodes instead."},
		{"a list", "PartitionName=any Nodes=n[1-3],s1", "Leave them out there, or in the NodeSet by which they are in."},
		{"a set", "NodeSet=every Nodes=ALL\nPartitionName=any Nodes=every", "Leave them out there, or in the NodeSet by which they are in."},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := files(t, map[string]string{"slurm.conf": plainSite + test.lines + "\n"})
			got := told(t, f, input())
			if !strings.Contains(got, "# by hand: PartitionName=any: Its Nodes=") || !strings.Contains(got, test.want) || strings.Contains(got, "-PartitionName") {
				t.Errorf("%s", got)
			}
			if after := told(t, apply(t, f, input()), input()); !strings.Contains(after, "# by hand: PartitionName=any: ") {
				t.Errorf("after the change:\n%s", after)
			}
		})
	}
}

// TestNarrowServer: a server of files is taken out by the same change, and is told by hand where the cloud's nodes are to be in.
func TestNarrowServer(t *testing.T) {
	in := input()
	in.Pools = append(in.Pools, server())
	f := files(t, map[string]string{"slurm.conf": mixedSite})
	if got := told(t, f, in); strings.Contains(got, "by hand") || !strings.Contains(got, "+PartitionName=main Nodes=n[1-9] ") {
		t.Errorf("%s", got)
	}
	in.Mixed = []string{"main"}
	if got := told(t, f, in); !strings.Contains(got, "by hand: PartitionName=main: It gives nfs to jobs") || strings.Contains(got, "+PartitionName=main") {
		t.Errorf("%s", got)
	}
}
