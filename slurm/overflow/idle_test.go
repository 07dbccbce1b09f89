package overflow

import (
	"strings"
	"testing"

	"github.com/burst-hpc/burst/slurm"
)

// TestEmptyAndIdle: no job that a rule is found empty or idle for is moved by it.
func TestEmptyAndIdle(t *testing.T) {
	for _, tt := range []struct {
		rule        func(*Rule)
		empty, idle string
	}{
		{rule: func(r *Rule) { r.Features = []string{"avx", "!avx"} }, empty: "features leaves out all that it names"},
		{rule: func(r *Rule) { r.Features = []string{"avx", "east", "!avx"} }},
		{rule: func(r *Rule) { r.Features = []string{"!avx512"} }},
		{rule: func(r *Rule) { r.Gres = []string{"gpu", "!gpu"} }, empty: "gres leaves out all that it names", idle: "gres leaves out the kinds"},
		{rule: func(r *Rule) { r.Gres = []string{"gpu:a100", "!gpu"} }, idle: "gres leaves out the kinds of all that it names"},
		{rule: func(r *Rule) { r.Gres = []string{"gpu", "!gpu:v100"} }},
		{rule: func(r *Rule) { r.Licenses = []string{"ansys", "!ansys"} }, empty: "licenses leaves out all that it names"},
		{rule: func(r *Rule) { r.Licenses = []string{"matlab"} }, idle: "all of its licenses (matlab) are among those of [onprem]"},
		{rule: func(r *Rule) { r.Licenses = []string{"matlab@flex"} }, idle: "all of its licenses (matlab@flex) are among"},
		{rule: func(r *Rule) { r.Licenses = []string{"matlab", "ansys"} }},
		{rule: func(r *Rule) { r.Licenses = []string{"matlab", "ansys", "!ansys"} }, idle: "all of its licenses (matlab) are among"},
		{rule: func(r *Rule) { r.Licenses = []string{"!matlab"} }},
		{rule: func(r *Rule) { r.Features = []string{"infiniband-hdr"} }, idle: "all of its features (infiniband-hdr) are among"},
		{rule: func(r *Rule) { r.Directives = []string{"ckpt=dmtcp", "ckpt=none"} }, empty: "directives asks for ckpt=dmtcp and ckpt=none"},
		{rule: func(r *Rule) { r.Directives = []string{"ckpt=dmtcp", "ckpt=dmtcp", "stay=no"} }},
		{rule: func(r *Rule) { r.Directives = []string{"stay=yes"} }, idle: "no job that says #BURST stay is moved"},
	} {
		r := small(tt.rule)
		empty, idle := r.Empty(), r.Idle(with(nil).OnPrem)
		if !strings.HasPrefix(empty, tt.empty) || !strings.HasPrefix(idle, tt.idle) || tt.empty == "" && empty != "" || tt.idle == "" && idle != "" {
			t.Errorf("%v %v %v %v: %q, %q; want %q, %q", r.Features, r.Gres, r.Licenses, r.Directives, empty, idle, tt.empty, tt.idle)
		}
		var moved bool
		for _, feature := range []string{"", "avx", "east", "infiniband-hdr"} {
			for _, licence := range []string{"", "ansys", "matlab@flex", "ansys,matlab"} {
				for _, gres := range []string{"", "gres:gpu:1", "gres:gpu:a100:1"} {
					for _, said := range []string{"", "#BURST ckpt=dmtcp stay=no", "#BURST stay"} {
						w := waits(func(w *slurm.Waiting) { w.Features, w.Licenses, w.PerNode = feature, licence, gres })
						s := with([]Rule{r}, w)
						s.Scripts[ScriptOf(w.Job)] = s.OnPrem.Read("#!/bin/sh\n" + said + "\n")
						moved = moved || Decide(s)[0].Action == Add
					}
				}
			}
		}
		if quiet := empty == "" && idle == ""; moved != quiet {
			t.Errorf("%v %v %v %v: %q, %q, and a job is moved: %v", r.Features, r.Gres, r.Licenses, r.Directives, empty, idle, moved)
		}
	}
}
