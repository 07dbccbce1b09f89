package heat

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestULFMNodes: what Slurm does not say is not taken for an answer, by which ranks
// would crowd on one node, or go back onto one that goes.
func TestULFMNodes(t *testing.T) {
	parts, err := filepath.Abs("ulfm/ulfm-nodes")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		scontrol, ask string
		want          string // standard output
		fails         bool
	}{
		"all nodes":           {`case $* in *job*) echo "JobId=7 ReqNodeList=x NodeList=h[1-2]" ;; *) printf 'h2\nh1\n' ;; esac`, "nodes", "h1\nh2\n", false},
		"no answer":           {"exit 1", "nodes", "", true},
		"no nodes":            {`echo "JobId=7 NodeList=(null)"`, "nodes", "", true},
		"no names":            {`case $* in *job*) echo "JobId=7 NodeList=h[1-2]" ;; *) exit 1 ;; esac`, "nodes", "", true},
		"one is doomed":       {`printf 'NodeName=h1 State=MIXED\nNodeName=h2 State=MIXED+DRAIN\n'`, "doomed h1 h2", "h2\n", false},
		"none is":             {`printf 'NodeName=h1 State=MIXED\nNodeName=h2 State=IDLE+CLOUD\n'`, "doomed h1 h2", "", false},
		"nobody tells":        {"exit 1", "doomed h1 h2", "", true},
		"one is not told of":  {`echo "NodeName=h1 State=MIXED"`, "doomed h1 h2", "", true},
		"nothing to leave by": {"exit 1", "leave h2", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte("#!/bin/sh\n"+tt.scontrol+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", `job=7 host=h1 ULFM_DIR=`+dir+` have=(h1 h2); note() { echo "$*" >&2; }; . "$0"; `+tt.ask, parts)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.Output()
			if string(out) != tt.want || (err != nil) != tt.fails {
				t.Errorf("%s: %q, %v; want %q, failure: %v", tt.ask, out, err, tt.want, tt.fails)
			}
		})
	}
}
