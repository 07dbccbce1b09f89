package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/ft/ckpt"
)

// checkpointsOf makes n generations of a job's step and returns the last's folder.
func checkpointsOf(t *testing.T, dir, job, step string, n int) string {
	t.Helper()
	f, err := ckpt.Open(t.Context(), ckpt.Options{Dir: dir, Job: job, Step: step, Reserve: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var g ckpt.Generation
	for i := range n {
		p, err := f.Begin(t.Context(), 0)
		if err == nil {
			err = os.WriteFile(filepath.Join(p.Dir, "image"), []byte(strings.Repeat("x", 1000)), 0o600)
		}
		if err == nil {
			g, err = p.Commit(t.Context(), ckpt.About{Made: ckpt.Made{Tool: "dmtcp 4.2.0", Iteration: int64(i)}, Method: "dmtcp"})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return g.Dir
}

func TestCheckpointCommands(t *testing.T) {
	type command = func(context.Context, io.Writer, checkpointOptions, []string) error
	dir := t.TempDir()
	checkpointsOf(t, dir, "17", "0", 4)
	checkpointsOf(t, dir, "18_2", "0", 1)
	bad := checkpointsOf(t, dir, "18_2", "post.1", 1)
	flip := filepath.Join(bad, "image")
	if err := os.WriteFile(flip, []byte(strings.Repeat("x", 999)+"y"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		run  command
		o    checkpointOptions
		args []string
		want string // "17.0/4 good", …
		err  string
	}{
		{name: "list all", run: runCheckpointList, want: "17.0/4 good, 17.0/3 good, 17.0/2 good, 17.0/1 good, 18_2.0/1 good, 18_2.post.1/1 good"},
		{name: "list a job", run: runCheckpointList, args: []string{"18_2"}, want: "18_2.0/1 good, 18_2.post.1/1 good"},
		{name: "list a step", run: runCheckpointList, args: []string{"18_2.post.1"}, want: "18_2.post.1/1 good"},
		{name: "list what is not there", run: runCheckpointList, args: []string{"18_2.0", "18", "17.1"}, want: "18_2.0/1 good", err: "no checkpoint folder of 18, 17.1"},
		{name: "verify good ones", run: runCheckpointVerify, args: []string{"17"}, want: "17.0/4 good, 17.0/3 good, 17.0/2 good, 17.0/1 good"},
		{name: "verify a bad one", run: runCheckpointVerify, args: []string{"18_2"}, want: "18_2.0/1 good, 18_2.post.1/1 damaged", err: "1 of 2 checkpoints are damaged"},
		{name: "prune nothing named", run: runCheckpointPrune, err: "name the jobs, or --all"},
		{name: "prune both named", run: runCheckpointPrune, o: checkpointOptions{all: true}, args: []string{"17"}, err: "name the jobs, or --all"},
		{name: "prune to none", run: runCheckpointPrune, o: checkpointOptions{keep: -1}, args: []string{"17"}, err: "--keep is -1"},
		{name: "prune dry", run: runCheckpointPrune, o: checkpointOptions{keep: 1, all: true, dryRun: true}, want: "17.0/3 good, 17.0/2 good, 17.0/1 good"},
		{name: "prune", run: runCheckpointPrune, o: checkpointOptions{keep: 1, all: true}, want: "17.0/3 good, 17.0/2 good, 17.0/1 good"},
		{name: "list what is left", run: runCheckpointList, want: "17.0/4 good, 18_2.0/1 good, 18_2.post.1/1 good"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			o := test.o
			o.dir, o.json = dir, true
			if o.keep == 0 {
				o.keep = 2
			}
			err := test.run(t.Context(), &out, o, test.args)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			var lines []generation
			if out.Len() > 0 {
				if err := json.Unmarshal(out.Bytes(), &lines); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, g := range lines {
				got = append(got, g.Job+"."+g.Step+"/"+string(rune('0'+g.N))+" "+string(g.State))
				if g.Bytes != 1000 || g.Files != 1 || g.Began == nil || g.Iteration == nil || g.Tool != "dmtcp 4.2.0" || (g.Why == "") != (g.State == ckpt.Good) {
					t.Errorf("%+v", g)
				}
			}
			if strings.Join(got, ", ") != test.want {
				t.Errorf("%q, want %q", strings.Join(got, ", "), test.want)
			}
		})
	}
	t.Run("table", func(t *testing.T) {
		var out bytes.Buffer
		err := runCheckpointVerify(t.Context(), &out, checkpointOptions{dir: dir, keep: 2}, nil)
		lines := strings.Split(out.String(), "\n")
		if err == nil || len(lines) != 5 || !strings.HasPrefix(lines[0], "JOB ") || !strings.Contains(lines[3], "its SHA-256 is not the one") {
			t.Errorf("%v\n%s", err, out.String())
		}
	})
	t.Run("no directory", func(t *testing.T) {
		var out bytes.Buffer
		err := runCheckpointList(t.Context(), &out, checkpointOptions{dir: filepath.Join(dir, "none"), json: true, keep: 2}, nil)
		var hint interface{ Hint() string }
		if !errors.As(err, &hint) || !strings.Contains(hint.Hint(), "--dir") || out.Len() > 0 {
			t.Errorf("%v, and %q", err, out.String())
		}
	})
	t.Run("empty directory", func(t *testing.T) {
		var out bytes.Buffer
		if err := runCheckpointList(t.Context(), &out, checkpointOptions{dir: t.TempDir(), json: true, keep: 2}, nil); err != nil || out.String() != "[]\n" {
			t.Errorf("%v, %q", err, out.String())
		}
	})
}
