package heat

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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
		"Slurm refuses to take it": {`case $* in *update*) echo asked >>"$ULFM_DIR/asked"; exit 1 ;; *job*) echo "JobId=7 NodeList=h[1-2]" ;; *) printf 'h1\nh2\n' ;; esac`,
			"leave h2; leave h2; SECONDS=60; leave h2; cat $ULFM_DIR/asked", "asked\nasked\n", false},
		"a node like the job's": {`echo "JobId=7 Partition=east Account=lab QOS=high NumNodes=2 CPUs/Task=4 MinMemoryNode=500M MinTmpDiskNode=0 Features=[a|b]&* OverSubscribe=NO Reservation=r1 ExcNodeList=h9 NodeList=h[1-2]"`,
			"alike h1,h2", "--partition=east\n--account=lab\n--qos=high\n--cpus-per-task=4\n--mem=500M\n--exclusive\n--reservation=r1\n--constraint=[a|b]&*\n--exclude=h1,h2,h9\n", false},
		"a node of its provider": {`case $* in *job*) echo "JobId=7 Partition=east Features=east|lon" ;; *) printf 'NodeName=h1 AvailableFeatures=rack ActiveFeatures=rack\nNodeName=h2 AvailableFeatures=x86,east,lon ActiveFeatures=x86,lon\n' ;; esac`,
			"alike h1,h2", "--partition=east\n--constraint=x86&lon\n--exclude=h1,h2\n", false},
		"nodes have all features": {`case $* in *job*) echo "JobId=7 Partition=east Features=east|lon" ;; *) echo "NodeName=h1 AvailableFeatures=east,lon ActiveFeatures=lon,east" ;; esac`,
			"alike h1", "--partition=east\n--constraint=east|lon\n--exclude=h1\n", false},
		"none that did not do":    {`echo "JobId=7 Partition=east"`, "shun h5 fails; alike h1", "--partition=east\n--exclude=h1,h5\n", false},
		"a node like any":         {`echo "JobId=7 Partition=east Account=(null) QOS=N/A CPUs/Task=1 MinMemoryCPU=0 Features=(null) OverSubscribe=OK ExcNodeList=(null)"`, "alike h1", "--partition=east\n--mem=0\n--exclude=h1\n", false},
		"a shared node, 26.05":    {`echo "JobId=7 Partition=east OverSubscribe=NO Exclusive=NO"`, "alike h1", "--partition=east\n--exclude=h1\n", false},
		"a whole node, 26.05":     {`echo "JobId=7 Partition=east OverSubscribe=NO Exclusive=NODE"`, "alike h1", "--partition=east\n--exclusive\n--exclude=h1\n", false},
		"a user's node, 26.05":    {`echo "JobId=7 Partition=east OverSubscribe=NO Exclusive=USER"`, "alike h1", "--partition=east\n--exclusive=user\n--exclude=h1\n", false},
		"a user's node":           {`echo "JobId=7 Partition=east OverSubscribe=USER"`, "alike h1", "--partition=east\n--exclusive=user\n--exclude=h1\n", false},
		"all memory of a node":    {`echo "JobId=7 Partition=east MinMemoryNode=0 MinTmpDiskNode=0"`, "alike h1", "--partition=east\n--mem=0\n--exclude=h1\n", false},
		"nobody tells of the job": {"exit 1", "alike h1", "", true},
		"it is cancelled already": {`case $1 in update | requeue) exit 9 ;; *) echo "JobId=7 JobState=CANCELLED Reason=None" ;; esac`, "requeue", "", false},
		"nobody can requeue":      {`case $1 in update | requeue) exit 9 ;; *) echo "JobId=7 JobState=RUNNING Reason=None" ;; esac`, "requeue", "", true},
		"burstd was first":        {`case $1 in update) exit 0 ;; requeue) : >"$ULFM_DIR/done"; exit 9 ;; esac; [ -e "$ULFM_DIR/done" ] && echo "JobId=7 JobState=PENDING " || echo "JobId=7 JobState=RUNNING "`, "requeue", "", false},
		"Slurm is away":           {"exit 1", "requeue", "", true},
		"it has joined":           {`case $* in *"job 8"*) echo "JobId=8 NodeList=h3" ;; *hostnames*) printf 'h1\nh3\n' ;; *"job 7"*) echo "JobId=7 NodeList=h[1,3]" ;; *) exit 1 ;; esac`, "take 8", "", false},
		"it has not joined":       {`case $* in *"job 8"*) echo "JobId=8 NodeList=h3" ;; *hostnames*) printf 'h1\nh2\n' ;; *"job 7"*) echo "JobId=7 NodeList=h[1-2]" ;; *) exit 1 ;; esac`, "take 8", "", true},
		"who knows if it has":     {`case $* in *"job 8"*) echo "JobId=8 NodeList=h3" ;; *) exit 1 ;; esac`, "take 8", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "scontrol"), []byte("#!/bin/sh\n"+tt.scontrol+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", `export ULFM_DIR=`+dir+` job=7 host=h1 ranks=2; have=(h1 h2); note() { echo "$*" >&2; }; . "$0"; . "${0%nodes}grow"; `+tt.ask, parts)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.Output()
			if string(out) != tt.want || (err != nil) != tt.fails {
				t.Errorf("%s: %q, %v; want %q, failure: %v", tt.ask, out, err, tt.want, tt.fails)
			}
		})
	}
}

// unhurried is a test of which most is a script's own waits: make test runs it, beside the others.
func unhurried(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("ulfm-run waits for seconds; make test runs it")
	}
	t.Parallel()
}

// TestULFMRequeues: when the batch host has a notice the job is requeued as soon as the
// checkpoint is written, or must be, whatever mpirun does: the host may go any moment.
func TestULFMRequeues(t *testing.T) {
	unhurried(t)
	for name, tt := range map[string]struct {
		says string
		args []string
	}{
		"the program has stopped": {"heat: stopped at iteration 5, the checkpoint is written", nil},
		"it does not stop":        {"heat: iteration 5 of 9", []string{"--grace", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			bin := filepath.Join(dir, "bin")
			if err := os.Mkdir(bin, 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{
				"mpirun":    `echo "` + tt.says + `"; trap "" TERM; exec sleep 100`,
				"ompi_info": "echo FT MPI support: yes",
				"scancel":   "",
				"srun":      "",
				"scontrol": `echo "$*" >>` + dir + `/asked
					case $* in
					*"show job"*) echo "JobId=7 JobState=RUNNING NodeList=h1 " ;;
					*hostnames*) echo h1 ;;
					*"show node"*) echo "NodeName=h1 State=MIXED+DRAIN" ;;
					esac`,
			} {
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			cmd := exec.CommandContext(ctx, "ulfm/ulfm-run", append(tt.args, "--mpi", dir, "true")...)
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SLURM_JOB_ID=7", "SLURMD_NODENAME=h1", "TMPDIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			asked, err := os.ReadFile(filepath.Join(dir, "asked"))
			if err != nil || !strings.HasSuffix(string(asked), "update JobId=7 Requeue=1\nrequeue 7\n") {
				t.Errorf("%v\n%s", err, asked)
			}
		})
	}
}

// TestULFMRefused: a program that says 2 has refused to run, on whichever node.
func TestULFMRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		node, srun string
		want       bool
	}{
		"on the batch host":  {"h1", "exit 9", true},
		"on another":         {"h2", "exit 2", true},
		"burst-srun is off":  {"h2", `[ "$BURST_SRUN_OFF" != 1 ] || exit 2`, true},
		"it does not refuse": {"h2", "exit 0", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "srun"), []byte("#!/bin/sh\n"+tt.srun+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "ulfm/ulfm-run", "rank", "--on", tt.node, "--", "sh", "-c", "exit 2")
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "ULFM_JOB=7", "ULFM_HOST=h1", "ULFM_DIR="+dir)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "refused")); (err == nil) != tt.want {
				t.Errorf("refused: %v, want %v", err, tt.want)
			}
		})
	}
}

// fakes writes programs into a folder, which is in front of the PATH of what it returns: ulfm-run
// with these arguments, in a job 7 on h1.
func fakes(t *testing.T, dir string, programs map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	programs["ompi_info"] = "echo FT MPI support: yes"
	for name, text := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "ulfm/ulfm-run", append(args, "--mpi", dir, "true")...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SLURM_JOB_ID=7", "SLURMD_NODENAME=h1", "TMPDIR="+dir)
	return cmd
}

// TestULFMPrologFlags: no node is asked for where Slurm joins none.
func TestULFMPrologFlags(t *testing.T) {
	unhurried(t)
	for flags, asks := range map[string]bool{"(null)": true, "Alloc,Serial": true, "Alloc,Contain,X11": false, "CONTAIN": false} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := fakes(t, dir, map[string]string{
				"mpirun":  `sleep 2; echo "heat: done"`,
				"scancel": "", "srun": "",
				"salloc": `: >"$TMPDIR/asked"; exit 1`,
				"scontrol": `case $* in
					*"show config"*) echo "PrologFlags             = ` + flags + `" ;;
					*"show job"*) echo "JobId=7 JobState=RUNNING NodeList=h[1-2] " ;;
					*hostnames*) printf 'h1\nh2\n' ;;
					*"show node"*) printf 'NodeName=h1 State=MIXED\nNodeName=h2 State=MIXED+DRAIN\n' ;;
					esac`,
			}, "--poll", "0.2")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "asked")); (err == nil) != asks || (strings.Count(string(out), "PrologFlags") == 0) != asks {
				t.Errorf("a node was asked for: %v, want %v\n%s", err == nil, asks, out)
			}
		})
	}
}

// TestULFMPinned: no node is asked for where no step would run on it, and one is with an older Slurm, or where the job is on the site's own.
func TestULFMPinned(t *testing.T) {
	unhurried(t)
	for _, tt := range []struct {
		version, state string
		asks           bool
	}{
		{"22.05.8", "MIXED+CLOUD", true}, {"23.02.7", "MIXED+CLOUD", true}, {"23.11.0-0rc1", "MIXED+CLOUD", false},
		{"24.11.5", "MIXED+CLOUD", false}, {"24.11.5", "MIXED", true}, {"26.05.0", "ALLOCATED+CLOUD", false},
	} {
		t.Run(tt.version+" "+tt.state, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			cmd := fakes(t, dir, map[string]string{
				"mpirun":  `sleep 2; echo "heat: done"`,
				"scancel": "", "srun": "",
				"salloc": `: >"$TMPDIR/asked"; exit 1`,
				"scontrol": `case $* in
					*"show config"*) echo "SLURM_VERSION           = ` + tt.version + `" ;;
					*"show job"*) echo "JobId=7 JobState=RUNNING NodeList=h[1-2] " ;;
					*hostnames*) printf 'h1\nh2\n' ;;
					*"show node h1,h2"*) printf 'NodeName=h1 State=` + tt.state + `\nNodeName=h2 State=` + tt.state + `+DRAIN\n' ;;
					esac`,
			}, "--poll", "0.2")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "asked")); (err == nil) != tt.asks || (strings.Count(string(out), "no node is asked for: from Slurm 23.11") == 0) != tt.asks {
				t.Errorf("a node was asked for: %v, want %v\n%s", err == nil, tt.asks, out)
			}
		})
	}
}

// TestULFMArrayTask: the last task of an array has the array's own number, which names all tasks.
func TestULFMArrayTask(t *testing.T) {
	unhurried(t)
	dir := t.TempDir()
	cmd := fakes(t, dir, map[string]string{
		"mpirun":  `echo "heat: stopped at iteration 5, the checkpoint is written"; trap "" TERM; exec sleep 100`,
		"scancel": "", "srun": "",
		"scontrol": `echo "$*" >>"$TMPDIR/asked"
			case $* in
			*"show job 7_2") echo "JobId=7 ArrayJobId=7 ArrayTaskId=2 JobState=RUNNING NodeList=h1 " ;;
			*"show job 7") printf 'JobId=8 ArrayJobId=7 ArrayTaskId=1 JobState=RUNNING NodeList=h9 \nJobId=7 ArrayJobId=7 ArrayTaskId=2 JobState=RUNNING NodeList=h1 \n' ;;
			*hostnames*) echo h1 ;;
			*"show node"*) echo "NodeName=h1 State=MIXED+DRAIN" ;;
			esac`,
	}, "--poll", "0.2")
	cmd.Env = append(cmd.Env, "SLURM_ARRAY_JOB_ID=7", "SLURM_ARRAY_TASK_ID=2", "SLURM_RESTART_COUNT=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if err != nil || !strings.HasSuffix(string(asked), "update JobId=7_2 Requeue=1\nrequeue 7_2\n") || !strings.Contains(string(asked), "update JobId=7_2 Requeue=0\n") {
		t.Errorf("%v\n%s", err, asked)
	}
	for _, line := range strings.Split(string(asked), "\n") {
		if strings.HasSuffix(line, " 7") || strings.Contains(line, "JobId=7 ") {
			t.Errorf("it asked of all tasks: %s", line)
		}
	}
}

// TestULFMRequeuesAgain: slurmctld, which cannot requeue the job, is not asked at each look.
func TestULFMRequeuesAgain(t *testing.T) {
	unhurried(t)
	dir := t.TempDir()
	cmd := fakes(t, dir, map[string]string{
		"mpirun":  `sleep 5; echo "heat: done"`,
		"scancel": "", "srun": "",
		"scontrol": `case $* in
			*"show job"*) echo "JobId=7 JobState=RUNNING NodeList=h1 " ;;
			*hostnames*) echo h1 ;;
			*"show node"*) echo "NodeName=h1 State=MIXED+DRAIN" ;;
			update*) echo "$*" >>"$TMPDIR/asked"; exit 1 ;;
			esac`,
	}, "--poll", "0.2", "--grace", "0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	if n := strings.Count(string(asked), "Requeue=1"); err != nil || n < 1 || n > 2 {
		t.Errorf("%v, %d times in 5 s:\n%s", err, n, asked)
	}
}

// TestULFMStaysFresh: nothing that ulfm-run has in /tmp grows old, and is cleaned from there.
func TestULFMStaysFresh(t *testing.T) {
	text, err := os.ReadFile("../../packaging/tmpfiles/burst-node.conf")
	if err != nil || !strings.Contains(string(text), "\nx /tmp/ulfm-run.*\n") {
		t.Errorf("%v: it is not kept from cleaning:\n%s", err, text)
	}
	dir := t.TempDir()
	cmd := fakes(t, dir, map[string]string{
		"mpirun":  `until [ -e "$TMPDIR/enough" ]; do sleep 0.1; done; echo "heat: done"`,
		"scancel": "", "srun": "", "scontrol": `case $* in *"show job"*) echo "JobId=7 NodeList=h1 " ;; *hostnames*) echo h1 ;; *"show node"*) echo "NodeName=h1 State=MIXED" ;; esac`,
	}, "--poll", "0.2")
	o := finish(t, cmd, func() {
		var files []string
		until(t, "it runs", func() bool {
			files, _ = filepath.Glob(filepath.Join(dir, "ulfm-run.*", "*")) // the pattern is right
			return len(files) >= 6
		})
		files = append(files, filepath.Dir(files[0]))
		old := time.Now().Add(-20 * 24 * time.Hour)
		for _, file := range files {
			if err := os.Chtimes(file, old, old); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
		}
		until(t, "they are fresh", func() bool {
			for _, file := range files {
				info, err := os.Stat(file)
				if filepath.Base(file) == "plan.new" && os.IsNotExist(err) {
					continue // it is the plan now
				}
				if err != nil || time.Since(info.ModTime()) > time.Hour {
					return false
				}
			}
			return true
		})
		if err := os.WriteFile(filepath.Join(dir, "enough"), nil, 0o600); err != nil {
			t.Error(err)
		}
	})
	if o.code != 0 {
		t.Errorf("exit code %d:\n%s", o.code, o.stderr)
	}
}
