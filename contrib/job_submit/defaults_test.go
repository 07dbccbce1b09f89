package jobsubmit

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm/directive"
)

// defaults are a site's, of each kind that there is.
var defaults = []string{
	"ckpt=dmtcp strategy=both interval=30m", "ckpt=scr strategy=preemptive retries=3", "signal=USR1 grace=60s", "ckpt=signal signal=USR2 files='out/*.ckpt'",
	"ckpt=command preset=blcr dir=/scratch/%u", "ckpt=command checkpoint='a b' restart=c run=d setup=e strategy=periodic", "ckpt=none", "ckpt=mana strategy=none signal=TERM", "retries=2 label=x container=y.sif after=power_down", "",
}

// TestDefaults: what job_submit.lua makes of a site's defaults does to a job what
// [partition.NAME.checkpoint] of burst.toml does, and no job fails for it whose words go together.
func TestDefaults(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	// A comment with a site's part is another job's, and the part is replaced.
	cases := slices.DeleteFunc(drawn(rand.New(rand.NewPCG(seed, 0)), 4000), func(c said) bool { return strings.Contains(c.comment, "burst-site:") })
	for _, k := range directive.Keys() {
		cases = append(cases, said{"#!/bin/sh\n#BURST " + k.Name + "=" + k.Example, ""}, said{"", "burst: " + k.Name + "=" + k.Example + " # more"}, said{"#!/bin/sh\n#BURST " + k.Name + "=" + k.Example, "mine"})
		for _, m := range directive.Methods() {
			cases = append(cases, said{"#!/bin/sh\n#BURST ckpt=" + m, "burst: " + k.Name + "=" + k.Example})
		}
	}
	var conf strings.Builder
	conf.WriteString("return {")
	for i, d := range defaults {
		fmt.Fprintf(&conf, "p%d = { defaults = %q },", i, d)
	}
	conf.WriteString("}")
	luas := interpreters(t)
	if testing.Short() {
		luas = luas[:1]
	}
	for _, l := range luas {
		var jobs []job
		for i, c := range cases {
			jobs = append(jobs, job{partition: fmt.Sprintf("p%d", i%len(defaults)), script: c.script, comment: c.comment})
		}
		loaded, all := submit(t, l, conf.String(), jobs...)
		if loaded != "" {
			t.Fatal(loaded)
		}
		together, wrong := 0, 0
		for i, got := range all {
			text := defaults[i%len(defaults)]
			if err := sameAsBurstToml(cases[i], text, got, &together); err != nil {
				t.Errorf("%s: %q in a partition with %q: %+v: %v", filepath.Base(l), cases[i], text, got, err)
				if wrong++; wrong == 5 {
					t.FailNow()
				}
			}
		}
		if t.Logf("%s: %d of %d jobs go together", filepath.Base(l), together, len(all)); together < len(all)/10 {
			t.Error("nearly no job goes together: it shows little")
		}
	}
}

// sameAsBurstToml says what is other than if burst.toml had the defaults.
func sameAsBurstToml(c said, text string, got done, together *int) error {
	site, err := directive.ReadOptions(strings.ReplaceAll(text, "after=power_down", ""))
	if err != nil {
		return err
	}
	site.Source = directive.Source{Kind: directive.Partition, Name: "cloud"}
	if strings.Contains(text, "after=") {
		site.Settings = append(site.Settings, directive.Setting{Key: "after", Value: directive.PowerDown})
	}
	user := directive.Said{Script: c.script, Comment: c.comment}
	if got.code != passes || strings.Contains(got.said, "no room") {
		return nil // as TestAgree has it
	}
	filled := directive.Said{Script: c.script, Comment: strings.TrimPrefix(got.comment, "nil")}
	holds, failed := filled.Merge()
	_, alone := user.Merge()
	user.Site.Layers = []directive.Layer{site}
	want, err := user.Merge()
	switch {
	case alone == nil && failed != nil:
		return fmt.Errorf("it goes together without the defaults, and now: %w", failed)
	case err == nil && failed != nil:
		return fmt.Errorf("it goes together with burst.toml, and now: %w", failed)
	case failed != nil:
		return nil
	case err == nil && holds.Directive != want.Directive:
		return fmt.Errorf("%+v holds, want %+v", holds.Directive, want.Directive)
	}
	*together++
	for _, k := range directive.Keys() {
		if from := holds.From[k.Name].Kind; from != directive.Script && from != directive.Comment && from != directive.Default && from != directive.Submitted {
			return fmt.Errorf("%s is of the %s", k.Name, from)
		}
	}
	asks := holds.Method != directive.None && holds.Strategy != directive.None || holds.Signal != "" && !holds.Startles()
	if requeued := got.requeue == "1"; requeued != asks {
		return fmt.Errorf("requeue is %s, and that it asks to go on is %v", got.requeue, asks)
	}
	return nil
}
