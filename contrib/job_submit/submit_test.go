package jobsubmit

import (
	"cmp"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	site = `return { cloud = { defaults = "ckpt=dmtcp strategy=preemptive retries=3" }, spot = { defaults = 'signal=USR1 label="a"', no_requeue = "refuse" } }`
	// unset is what slurmctld says of numbers that nobody gave: NO_VAL16.
	unset = 65534
)

// job is a job that is submitted. Its zero value is of an empty script in cloud.
type job struct {
	kind, partition, comment, script string // kind: submit, other (of another user), modify, or broken
	requeue, het, nodes              int    // requeue: 0 is not set, -1 is --no-requeue
}

func (j job) framed() []byte {
	requeue := map[int]int{0: unset, 1: 1, -1: 0}[j.requeue]
	het := unset
	if (j.kind == "submit" || j.kind == "other") && j.het >= 0 {
		het = j.het
	}
	comment := cmp.Or(j.comment, "nil")
	return framed(cmp.Or(j.kind, "submit"), cmp.Or(j.partition, "cloud"), comment, cmp.Or(j.script, "#!/bin/sh\n"),
		strconv.Itoa(requeue), strconv.Itoa(het), strconv.Itoa(j.nodes))
}

// done is what became of a job.
type done struct {
	code, comment, requeue, said string
	took                         string // seconds of CPU
}

const (
	passes  = "0"
	refused = "-1"
)

// submit gives jobs, one after the other, to burst.lua with a site's file.
func submit(t *testing.T, interpreter, conf string, jobs ...job) (loaded string, all []done) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job_submit_burst.lua")
	if conf != "" {
		if err := os.WriteFile(path, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stdin := framed(path)
	for _, j := range jobs {
		stdin = append(stdin, j.framed()...)
	}
	out := unframed(t, lua(t, interpreter, "submit.lua", stdin))
	if len(out) != 1+6*len(jobs) {
		t.Fatalf("%d jobs: %q", len(jobs), out)
	}
	for o := out[1:]; len(o) > 0; o = o[6:] {
		all = append(all, done{o[0], o[1], o[2], o[3], o[5]})
		if o[4] != "" {
			t.Errorf("a job made it call %s: slurmctld waits meanwhile", o[4])
		}
	}
	return out[0], all
}

func TestSubmit(t *testing.T) {
	const fills, tuned = "burst-site: ckpt=dmtcp strategy=preemptive retries=3", "burst-site: strategy=preemptive retries=3"
	big := strings.Repeat("c", 1000)
	tests := []struct {
		name string
		job  job
		want done // said: a part of it; "" is nothing
	}{
		{"nothing said", job{}, done{passes, fills, "1", "", ""}},
		{"another partition", job{partition: "onprem", script: "#BURST x"}, done{passes, "nil", "65534", "", ""}},
		{"the default partition is another", job{partition: "nil", script: "#BURST x"}, done{passes, "nil", "65534", "", ""}},
		{"one of several partitions", job{partition: "onprem,cloud"}, done{passes, fills, "1", "", ""}},
		{"a wrong line", job{script: "#!/bin/sh\n#SBATCH -N1\n#BURST interval=tomato\n"}, done{refused, "nil", "65534", `user: Burst: line 3: #BURST interval: "tomato" is not a time`, ""}},
		{"a wrong comment", job{comment: "burst: colour=red"}, done{refused, "burst: colour=red", "65534", "user: Burst: job comment colour: unknown key", ""}},
		{"a wrong comment of salloc", job{script: "nil", comment: "burst: keep=0"}, done{refused, "burst: keep=0", "65534", `user: Burst: job comment keep: "0" is not`, ""}},
		{"salloc", job{script: "nil"}, done{passes, "nil", "65534", "", ""}},
		{"what no site can mend", job{script: "#BURST ckpt=dmtcp restart=x"}, done{refused, "nil", "65534", "user: Burst: line 1: #BURST restart: is for ckpt=command", ""}},
		{"CRLF", job{script: "#!/bin/sh\r\n#BURST ckpt=scr\r\n"}, done{passes, tuned, "1", "", ""}},
		{"Python", job{script: "#!/usr/bin/python3\n#BURST keep=0\n"}, done{refused, "nil", "65534", `user: Burst: line 2: #BURST keep: "0"`, ""}},
		{"a method of the user's", job{script: "#BURST ckpt=scr\n"}, done{passes, tuned, "1", "", ""}},
		{"the user wants none", job{script: "#BURST ckpt=none\n"}, done{passes, tuned, "65534", "", ""}},
		{"a signal of the user's", job{script: "#BURST signal=USR1"}, done{passes, fills, "1", "", ""}},
		{"a strategy that never asks", job{script: "#BURST ckpt=dmtcp strategy=none"}, done{passes, "burst-site: retries=3", "65534", "", ""}},
		{"the user tunes", job{script: "#BURST dir=/x keep=4"}, done{passes, fills, "1", "", ""}},
		{"the user wants an interval", job{script: "#BURST interval=5m"}, done{passes, "burst-site: ckpt=dmtcp retries=3", "1", "", ""}},
		{"the user's files", job{script: "#BURST files=out"}, done{passes, tuned, "65534", "", ""}},
		{"the user's image", job{script: "#BURST container=x.sif"}, done{passes, fills, "1", "", ""}},
		{"the user tunes the site's signal", job{partition: "spot", script: "#BURST grace=90s"}, done{passes, "burst-site: signal=USR1 label=a", "1", "", ""}},
		{"the site's signal, which is not sent", job{partition: "spot", script: "#BURST ckpt=dmtcp strategy=none"}, done{passes, "burst-site: signal=USR1 label=a", "65534", "", ""}},
		{"the site's signal, which the user has turned off", job{partition: "spot", script: "#BURST ckpt=none"}, done{passes, "burst-site: signal=USR1 label=a", "65534", "", ""}},
		{"all is the user's", job{script: "#BURST ckpt=scr strategy=both retries=1", comment: "mine"}, done{passes, "mine", "1", "", ""}},
		{"a comment of Burst's", job{comment: " burst:retries=9 # x"}, done{passes, "burst-site: ckpt=dmtcp strategy=preemptive burst:retries=9 # x", "1", "", ""}},
		{"a comment that another job had", job{comment: "burst-site: ckpt=criu keep=7 burst: label=x"}, done{passes, fills + " burst: label=x", "1", "", ""}},
		{"one of another kind that another job had", job{comment: "burst-site: ckpt=criu # project 7"}, done{passes, fills + " # project 7", "1", "", ""}},
		{"the site's part alone, and all is the user's", job{comment: "burst-site: keep=7", script: "#BURST ckpt=scr strategy=both retries=1"}, done{passes, "", "1", "", ""}},
		{"a site's part that is none", job{comment: "burst-site: project"}, done{refused, "burst-site: project", "65534", `user: Burst: job comment: "project" is not key=value`, ""}},
		{"a comment of another kind", job{comment: "project: 7 burst: x"}, done{passes, fills + " # project: 7 burst: x", "1", "", ""}},
		{"a comment too long to keep", job{comment: big}, done{passes, big, "65534", "user: Burst: the job's comment leaves no room for this partition's defaults: they are left out", ""}},
		{"a long comment, and no defaults", job{comment: big + big, script: "#BURST ckpt=scr strategy=both retries=1"}, done{passes, big + big, "1", "", ""}},
		{"requeue is there", job{requeue: 1}, done{passes, fills, "1", "", ""}},
		{"no requeue", job{requeue: -1}, done{passes, fills, "0", "user: Burst: warning: the job asks for checkpoints, but with --no-requeue it ends with its node", ""}},
		{"no requeue, and nothing asked", job{requeue: -1, script: "#BURST ckpt=none"}, done{passes, tuned, "0", "", ""}},
		{"no requeue, refused", job{requeue: -1, partition: "spot"}, done{refused, "burst-site: signal=USR1 label=a", "0", "user: Burst: the job asks for checkpoints and cannot be requeued: leave --no-requeue out", ""}},
		{"below the first command", job{script: "#!/bin/sh\n\ntrue\n #BURST x\n#BURSTX\necho '#BURST x'\n"}, done{passes, fills, "1", "user: Burst: warning: line 4: #BURST is below the first command, and is not read", ""}},
		{"nearly a directive", job{script: "#!/bin/sh\n# x\n#Burst: keep=2\n"}, done{passes, fills, "1", "user: Burst: warning: line 3: is a comment: a directive begins with #BURST and a blank", ""}},
		{"a folder of the node's", job{script: "#BURST dir=/tmp//x"}, done{passes, fills, "1", "user: Burst: warning: dir=/tmp//x is as a rule a node's own", ""}},
		{"a method of one node on four", job{nodes: 4}, done{passes, fills, "1", "user: Burst: warning: dmtcp checkpoints what runs on one node, and the job asks for 4", ""}},
		{"a number of nodes that nobody gave", job{nodes: 4294967294}, done{passes, fills, "1", "", ""}},
		{"modified", job{kind: "modify", partition: "nil", comment: "burst: keep=0"}, done{refused, "burst: keep=0", "65534", `user: Burst: job comment keep: "0"`, ""}},
		{"modified well", job{kind: "modify", partition: "nil", comment: "burst: keep=1"}, done{passes, "burst: keep=1", "65534", "", ""}},
		{"modified and moved away", job{kind: "modify", partition: "onprem", comment: "burst: keep=0"}, done{passes, "burst: keep=0", "65534", "", ""}},
		{"something else modified", job{kind: "modify"}, done{passes, "nil", "65534", "", ""}},
		{"an error of our own", job{kind: "broken"}, done{passes, "nil", "65534", "log: Burst: submit: the job passes unchecked: ", ""}},
		{"more than slurmctld should wait for", job{script: strings.Repeat("#\n", 20000) + "#BURST x"}, done{passes, "nil", "65534", "", ""}},
		{"a directive that never ends", job{script: "#BURST " + strings.Repeat(" ", 1<<20) + "x"}, done{passes, "nil", "65534", "", ""}},
	}
	var jobs []job
	for _, tt := range tests {
		jobs = append(jobs, tt.job)
	}
	for _, l := range interpreters(t) {
		loaded, all := submit(t, l, site, jobs...)
		if loaded != "" {
			t.Fatal(loaded)
		}
		for i, got := range all {
			said, want := got.said, tests[i].want
			heard := (said == "") == (want.said == "") && strings.HasPrefix(said, want.said) && !strings.Contains(said, "\n")
			got.said, got.took, want.said = "", "", ""
			if got != want || !heard {
				t.Errorf("%s: %s:\ngot  %+v, said %q\nwant %+v", filepath.Base(l), tests[i].name, got, said, want)
			}
		}
	}
}

// The parts of a heterogeneous job are requeued as their leader is.
func TestHet(t *testing.T) {
	part := job{kind: "submit", het: 1, script: "nil"}
	away, others := job{kind: "submit", het: 2, script: "nil", partition: "onprem"}, job{kind: "other", het: 1, script: "nil"}
	leads, not := job{kind: "submit", script: "#BURST ckpt=scr"}, job{kind: "submit", script: "#BURST ckpt=none"}
	const fills = "burst-site: strategy=preemptive retries=3"
	set, unset := done{passes, "nil", "1", "", ""}, done{passes, "nil", "65534", "", ""}
	for _, l := range interpreters(t) {
		for _, c := range []struct {
			name string
			jobs []job
			want []done
		}{
			{"they follow", []job{leads, part, away, {kind: "submit", het: 2, script: "nil", requeue: -1}, {kind: "submit", het: 3, script: "nil", comment: "burst: keep=0"}},
				[]done{{passes, fills, "1", "", ""}, set, set, {passes, "nil", "0", "", ""}, {code: refused}}},
			{"others come between", []job{leads, {}, others, {kind: "other", script: "#BURST ckpt=none"}, part, others},
				[]done{{code: passes}, {code: passes}, unset, {code: passes}, set, unset}},
			{"a leader that asks for nothing, after one that does", []job{leads, part, not, part}, []done{{code: passes}, set, {passes, fills, "65534", "", ""}, unset}},
			{"a leader that is not requeued", []job{leads, {kind: "submit", requeue: -1}, part}, []done{{code: passes}, {code: passes}, unset}},
			{"a leader elsewhere", []job{leads, {kind: "submit", partition: "onprem"}, part, away}, []done{{code: passes}, {code: passes}, unset, unset}},
			{"a leader that is refused", []job{leads, {kind: "submit", script: "#BURST x"}, part}, []done{{code: passes}, {code: refused}, unset}},
		} {
			_, all := submit(t, l, site, c.jobs...)
			for i, w := range c.want {
				got := all[i]
				if got.took = ""; got.code != w.code || w.comment != "" && got != w {
					t.Errorf("%s: %s: job %d: got %q, want %q", filepath.Base(l), c.name, i, got, w)
				}
			}
		}
	}
}

// A site's file that is wrong is not used, and says why; no job is touched.
func TestWrongConfig(t *testing.T) {
	for _, c := range []struct{ conf, said string }{
		{"", "cannot open "},
		{"return {", "unexpected symbol"},
		{"cloud = {}", "it returns no table: its first word must be return"},
		{"return { 'cloud' }", "an entry without a partition's name"},
		{"return { cloud = 'x' }", "partition cloud: is no table"},
		{"return { cloud = { default = '' } }", "partition cloud: default: unknown; known are defaults, no_requeue"},
		{"return { cloud = { defaults = {} } }", "partition cloud: defaults: is no text"},
		{"return { cloud = { no_requeue = true } }", `partition cloud: no_requeue: is neither "warn" nor "refuse"`},
		{"return { cloud = {}, spot = { defaults = 'keep=0' } }", `partition spot: defaults: keep: "0" is not a number`},
		{"return { cloud = { defaults = 'dir=/x' } }", "partition cloud: defaults: dir: needs a method"},
		{"return { cloud = { defaults = 'dir /x' } }", `partition cloud: defaults: "dir" is not key=value`},
		{"error({})", "table: "},
	} {
		for _, l := range interpreters(t) {
			loaded, all := submit(t, l, c.conf, job{script: "#BURST x"})
			all[0].took = ""
			if all[0] != (done{passes, "nil", "65534", "", ""}) || !strings.HasPrefix(loaded, "log: Burst: /") || !strings.Contains(loaded, c.said) || !strings.Contains(loaded, "all jobs pass unchecked") {
				t.Errorf("%s: %s: %q, loaded %q", l, c.conf, all[0], loaded)
			}
		}
	}
}
