package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

func TestPruneOfJobsThatAreGone(t *testing.T) {
	ctld := slurmtest.New(slurmtest.Options{Nodes: []string{"c1"}, Config: map[string]string{"SlurmctldHost[0]": "ctl1", "SlurmctldPort": "6817"}})
	known := fmt.Sprint(ctld.Submit(slurmtest.Job{Nodes: 1}))
	fresh := func() string {
		dir := t.TempDir()
		for job, of := range map[string]struct {
			cluster, ctld string
			age           time.Duration
		}{known: {"slurmtest", "ctl1:6817", 0}, "90": {"slurmtest", "ctl1:6817", 100 * time.Hour}, "91_4": {"slurmtest", "ctl1:6817", time.Hour},
			"92": {"other", "ctl1:6817", 100 * time.Hour}, "93": {}, "94": {"slurmtest", "ctl2:6817", 100 * time.Hour}} {
			checkpointsOf(t, dir, job, "0", 2)
			if of.cluster == "" {
				continue // it has no record
			}
			text := fmt.Sprintf(`{"cluster": %q, "slurmctld": %q, "began": %q, "steps": [{"name": "0", "began": %[3]q, "done": false}]}`, of.cluster, of.ctld, time.Now().Add(-of.age).Format(time.RFC3339))
			if err := os.WriteFile(filepath.Join(dir, "job-"+job, "steps-0.json"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	up := slurm.New(ctld)
	for _, test := range []struct {
		name string
		o    checkpointOptions
		args []string
		gone string // jobs
		err  string
	}{
		{name: "all", o: checkpointOptions{all: true}, gone: "90 91_4"},
		{name: "dry", o: checkpointOptions{all: true, dryRun: true}, gone: "90 91_4"},
		{name: "old ones", o: checkpointOptions{all: true, older: 24 * time.Hour}, gone: "90"},
		{name: "one", args: []string{"91_4"}, gone: "91_4"},
		{name: "one that Slurm knows", args: []string{known}, err: "job " + known + " stays"},
		{name: "one of another cluster", args: []string{"92"}, err: "job 92 stays"},
		{name: "one of another cluster of the same name", args: []string{"94"}, err: "job 94 stays"},
		{name: "one without a record", args: []string{"93", "90"}, gone: "90", err: "job 93 stays"},
		{name: "a step", args: []string{"90.0"}, err: "is a step"},
		{name: "nothing named", err: "name the jobs, or --all"},
		{name: "no directory", o: checkpointOptions{all: true, dir: "/nowhere"}, err: "/nowhere"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := fresh()
			o := test.o
			if o.dir == "" {
				o.dir = dir
			}
			o.json, o.keep, o.gone, o.client = true, 2, true, up
			var out bytes.Buffer
			err := runCheckpointPrune(t.Context(), &out, o, test.args)
			if (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			var lines []generation
			if out.Len() > 0 {
				if err := json.Unmarshal(out.Bytes(), &lines); err != nil {
					t.Fatal(err)
				}
			}
			told := map[string]int{}
			for _, g := range lines {
				told[g.Job]++
			}
			for _, job := range []string{known, "90", "91_4", "92", "93", "94"} {
				_, err := os.Stat(filepath.Join(dir, "job-"+job))
				gone := strings.Contains(" "+test.gone+" ", " "+job+" ")
				if (err != nil) != (gone && !o.dryRun) || (told[job] == 2) != gone {
					t.Errorf("job %s: %v; %d told", job, err, told[job])
				}
			}
		})
	}
	t.Run("Slurm does not answer", func(t *testing.T) {
		ctld.Down()
		defer ctld.Up()
		dir := fresh()
		var out bytes.Buffer
		err := runCheckpointPrune(t.Context(), &out, checkpointOptions{dir: dir, all: true, gone: true, keep: 2, client: up}, nil)
		if _, serr := os.Stat(filepath.Join(dir, "job-90")); err == nil || serr != nil || !strings.Contains(err.Error(), "nothing is deleted") {
			t.Errorf("%v, %v", err, serr)
		}
	})
	t.Run("older than, without gone", func(t *testing.T) {
		var out bytes.Buffer
		if err := runCheckpointPrune(t.Context(), &out, checkpointOptions{all: true, keep: 2, older: time.Hour}, nil); err == nil || !strings.Contains(err.Error(), "--older-than") {
			t.Error(err)
		}
	})
}
