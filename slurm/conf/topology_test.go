package conf

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// laidOut are the findings of switches and blocks, a line each.
func laidOut(site Site, in Input) string {
	var b strings.Builder
	for _, f := range topology(site, in) {
		fmt.Fprintf(&b, "%s %s=%s want %s\n", f.Level, f.Key, f.Have, f.Want)
	}
	return b.String()
}

// A pool whose nodes the site's network does not have gets no job there: check says so, and a diff gives each a leaf of
// its own, that of pools which share a partition one above. What the site has itself stays, and nothing is said twice.
func TestTopology(t *testing.T) {
	const (
		tree  = plainSite + "TopologyPlugin=topology/tree\n"
		block = plainSite + "TopologyPlugin=topology/block\n"
		own   = "SwitchName=ib0 Nodes=n[1-9]\nSwitchName=root Switches=ib0 # both\n"
		ours  = "SwitchName=burst-small Nodes=s[1-4]\nSwitchName=burst-big Nodes=b1\nSwitchName=burst-other Nodes=o[1-3]\nSwitchName=burst Switches=burst-small,burst-big\n"
	)
	for _, tt := range []struct {
		name        string
		slurm, file string
		found       string // but for what is ok
		after, hand string // "": nothing changes
	}{
		{"no topology", plainSite, "", "", "", ""},
		{"no plugin that reads it", plainSite + "TopologyPlugin=topology/3d_torus\n", own, "", "", ""},
		{"only for jobs that ask", tree + "TopologyParam=TopoOptional\n", own, "", "", ""},
		{"a site's tree", tree, own,
			"wrong SwitchName= want SwitchName=burst-small Nodes=s[1-4]\nwrong SwitchName= want SwitchName=burst-big Nodes=b1\n" +
				"wrong SwitchName= want SwitchName=burst-other Nodes=o[1-3]\nwrong SwitchName= want SwitchName=burst Switches=burst-small,burst-big\n", own + ours, ""},
		{"no end of the line", tree, strings.TrimSpace(own), "wrong", own[:len(own)-1] + "\n" + ours, ""},
		{"no file", tree, "", "wrong", ours, ""},
		{"all is there", tree, own + ours, "", "", ""},
		{"in the site's own words", tree, own + "SwitchName=cloud Nodes=s[1-4],b1,o[1-3]\n", "", "", ""},
		{"in part", tree, own + "SwitchName=cloud Nodes=s[1-3],b1,o1\n",
			"wrong SwitchName= want SwitchName=burst-small Nodes=s4\nwrong SwitchName= want SwitchName=burst-other Nodes=o[2-3]\n",
			own + "SwitchName=cloud Nodes=s[1-3],b1,o1\nSwitchName=burst-small Nodes=s4\nSwitchName=burst-other Nodes=o[2-3]\n", ""},
		{"below the site's root", tree, "SwitchName=ib0 Nodes=n[1-9]\nSwitchName=root Switches=ib0,burst-small,burst-big\nSwitchName=burst-small Nodes=s[1-4]\nSwitchName=burst-big Nodes=b1\nSwitchName=burst-other Nodes=o[1-3]\n", "", "", ""},
		{"a pool has grown, another is gone", tree, own + strings.Replace(ours, "s[1-4]", "s[1-2]", 1) + "SwitchName=burst-old Nodes=x[1-2]\n",
			"wrong SwitchName= want SwitchName=burst-small Nodes=s[1-4]\nwrong SwitchName=burst-old want \nwrong SwitchName=burst-small want \n",
			own + ours[strings.Index(ours, "\n")+1:] + "SwitchName=burst-small Nodes=s[1-4]\n", ""},
		{"the site's root has a leaf of a pool that is gone", tree, own[:strings.Index(own, "SwitchName=root")] + "SwitchName=root Switches=ib0,burst-small,burst-big,burst-old\n" + ours[:strings.Index(ours, "SwitchName=burst S")] + "SwitchName=burst-old Nodes=x1\n",
			"wrong SwitchName=burst-old want \n", own[:strings.Index(own, "SwitchName=root")] + "SwitchName=root Switches=ib0,burst-small,burst-big\n" + ours[:strings.Index(ours, "SwitchName=burst S")], "burst-old goes from its Switches"},
		{"and nothing else", tree, own + ours + "SwitchName=top Switches=burst-old\nSwitchName=burst-old Nodes=x1\n",
			"wrong SwitchName=burst-old want \n", own + ours + "SwitchName=top Switches=burst-old\n", "it has nothing but burst-old below it"},
		{"a pool has another name now", tree, own + strings.Replace(ours, "burst-big", "burst-bigger", 2), "wrong", own + "SwitchName=burst-small Nodes=s[1-4]\nSwitchName=burst-bigger Nodes=b1\nSwitchName=burst-other Nodes=o[1-3]\n", ""},
		{"switches of the site's whose names are like ours", tree, "SwitchName=ib[0-1] Nodes=n[1-9]\nSwitchName=burst-core Switches=ib[0-1]\n" + ours, "", "", ""},
		{"the site has its root in our switch", tree, own + strings.Replace(ours, "burst-small,burst-big", "burst-small,burst-big,root", 1), "", "", ""},
		{"a switch of the site's has our name", tree, "SwitchName=ib0 Nodes=n[1-9]\nSwitchName=burst Switches=ib0\n" + ours[:strings.Index(ours, "SwitchName=burst S")], "advice SwitchName= want \n", "", "add burst-small,burst-big to its Switches"},
		{"a leaf of the site's with a name like ours", tree, "SwitchName=ib0 Nodes=n[1-9]\nSwitchName=burst-cloud Nodes=s[1-4],b1,o[1-3]\nSwitchName=root Switches=ib0,burst-cloud\n", "", "", ""},
		{"the site has one of two pools below its root", tree, own + ours + "SwitchName=all Switches=ib0,burst-small\n", "advice SwitchName= want \n", "", "add burst-big to its Switches"},
		{"a name of the site's that is like ours", tree, "SwitchName=burst-ib Nodes=n[1-9]\n" + ours, "", "", ""},
		{"blocks", block, "BlockName=a Nodes=n[1-3]\nBlockSizes=1\n", "wrong BlockName= want BlockName=burst-small Nodes=s[1-4]\nwrong BlockName= want BlockName=burst-big Nodes=b1\nwrong BlockName= want BlockName=burst-other Nodes=o[1-3]\n",
			"BlockName=a Nodes=n[1-3]\nBlockSizes=1\nBlockName=burst-small Nodes=s[1-4]\nBlockName=burst-big Nodes=b1\nBlockName=burst-other Nodes=o[1-3]\n", ""},
		{"no block before, and the first is the measure", block, "", "wrong", "BlockName=burst-small Nodes=s[1-4]\n", "burst-other: the pool has 3 nodes for it, and a block must have at least 4"},
		{"too few for a block", block, "BlockName=a Nodes=n[1-3]\n", "wrong", "BlockName=a Nodes=n[1-3]\nBlockName=burst-small Nodes=s[1-4]\nBlockName=burst-other Nodes=o[1-3]\n", "burst-big: the pool has 1 nodes for it, and a block must have at least 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := map[string]string{"slurm.conf": tt.slurm}
			if tt.file != "" {
				all[topologyName] = tt.file
			}
			f := files(t, all)
			var found strings.Builder
			for line := range strings.Lines(laidOut(f.Site, input())) {
				if !strings.HasPrefix(line, "ok SwitchName=burst") {
					found.WriteString(line)
				}
			}
			if tt.found == "wrong" && strings.HasPrefix(found.String(), "wrong ") {
				tt.found = found.String()
			}
			if found.String() != tt.found {
				t.Errorf("found\n%s, not\n%s", found.String(), tt.found)
			}
			said := told(t, f, input())
			if (tt.hand != "") != strings.Contains(said, "by hand") || !strings.Contains(said, tt.hand) {
				t.Errorf("by hand: %s", said)
			}
			again := apply(t, f, input())
			text, err := os.ReadFile(filepath.Join(filepath.Dir(f.Path), topologyName))
			if got := string(text); got != tt.after && !(tt.after == "" && got == tt.file) {
				t.Errorf("%s is then\n%s%v", topologyName, got, err)
			}
			if got := told(t, again, input()); strings.Contains(got, "@@") {
				t.Errorf("after the change there is this to change:\n%s", got)
			}
			if left := laidOut(again.Site, input()); strings.Contains(left, "wrong") && tt.hand == "" {
				t.Errorf("after the change: %s", left)
			}
		})
	}
}

// From 25.05 on topology.yaml is read in place of topology.conf; before, it is not.
func TestTopologyYAML(t *testing.T) {
	const yaml = "- topology: ib\n  cluster_default: true\n  tree:\n    switches:\n      - switch: leaf\n        nodes: \"n[1-9],s[1-4]\" # of both\n      - switch: other\n        nodes: b1\n"
	for _, tt := range []struct {
		name, text string
		release    Release
		found      string
	}{
		{"a tree", yaml, Release{25, 5}, "wrong topology.yaml=o[1-3] want \n"},
		{"and a flat one", yaml + "- topology: flat\n  flat: True\n", Release{25, 11}, "advice topology.yaml=o[1-3] want \n"},
		{"all are there", yaml + "      - switch: burst-other\n        nodes: o[1-3]\n", Release{25, 5}, ""},
		{"not read yet, and topology.conf is", yaml, Release{24, 11}, "wrong SwitchName= want SwitchName=burst-other Nodes=o[1-3]\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := files(t, map[string]string{"slurm.conf": plainSite + "TopologyPlugin=topology/tree\n", yamlName: tt.text, topologyName: "SwitchName=ib0 Nodes=s[1-4],b1,n[1-9]\n"})
			f.Release = tt.release
			if got := laidOut(f.Site, input()); got != tt.found {
				t.Errorf("%s", got)
			}
			if got := told(t, f, input()); strings.Contains(got, "by hand: o[1-3]: Pool other") != strings.HasPrefix(tt.found, "wrong topology.yaml") {
				t.Errorf("%s", got)
			}
		})
	}
}

// Genconf without --diff says what topology.conf must hold.
func TestFragmentSaysTopology(t *testing.T) {
	f := files(t, map[string]string{"slurm.conf": plainSite + "TopologyPlugin=topology/tree\n", topologyName: "SwitchName=ib0 Nodes=n[1-9],b1\n"})
	if text := Fragment(f.Site, input()); !strings.HasSuffix(text, "\n# topology.conf must hold:\n#   SwitchName=burst-small Nodes=s[1-4]\n#   SwitchName=burst-other Nodes=o[1-3]\n") {
		t.Errorf("%s", text)
	}
}

// A pool that goes takes its switch with it, in one change: with that alone slurmctld would not start.
func TestTopologyOfAPoolThatGoes(t *testing.T) {
	all := map[string]string{"slurm.conf": plainSite + "TopologyPlugin=topology/tree\n", topologyName: "SwitchName=ib0 Nodes=n[1-9]\n"}
	f := apply(t, files(t, all), input())
	less := input()
	less.Pools = less.Pools[:2]
	said := told(t, f, less)
	for _, gone := range []string{"-SwitchName=burst-other Nodes=o[1-3]", "-NodeName=o[1-3] "} {
		if !strings.Contains(said, "\n"+gone) {
			t.Errorf("%s is not in\n%s", gone, said)
		}
	}
	if got := told(t, apply(t, f, less), less); strings.Contains(got, "@@") {
		t.Errorf("after the change there is this to change:\n%s", got)
	}
}
