package slurm

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// As Slurm 22.05 prints them: an array's task, a job that waits, a comment of two lines, and none.
const sacctOut = "5|4_1|1795391096|1795391098|\n10|9+1|1795391269|Unknown|\n2|2|1795390972|1795390976|burst: a, b|c: 1 USD\nand 50% more\n8|8|1795391119|1795391125|burst: by sacctmgr\n"

func TestAccounted(t *testing.T) {
	out := strings.ReplaceAll(strings.ReplaceAll(sacctOut, "b|c", "b\x00c"), "|", captureMark)
	f := &fake{answer: func([]string) (string, string, error) { return strings.ReplaceAll(out, "\x00", "|"), "", nil }}
	got, err := newFake(f).Accounted(t.Context(), []uint32{5, 10, 2, 8, 77})
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	want := map[uint32]Accounted{5: {"4_1", at(1795391096), at(1795391098), ""}, 10: {ID: "9+1", Submitted: at(1795391269)},
		2: {"2", at(1795390972), at(1795390976), "burst: a, b|c: 1 USD\nand 50% more"}, 8: {"8", at(1795391119), at(1795391125), "burst: by sacctmgr"}}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if line := f.lines()[0]; line != "sacct --local --allusers --allocations --noheader --parsable2 --delimiter="+captureMark+" --format=JobIDRaw,JobID,Submit,End,AdminComment --jobs=5,10,2,8,77" {
		t.Error(line)
	}
	for _, wrong := range []string{"a line without a job", strings.Join([]string{"x", "x", "1", "2", ""}, captureMark), strings.Join([]string{"5", "", "1", "2", ""}, captureMark), "5" + captureMark + "1795391096"} {
		f.answer = func([]string) (string, string, error) { return wrong + "\n", "", nil }
		if got, err := newFake(f).Accounted(t.Context(), []uint32{5}); !errors.Is(err, errAccounts) {
			t.Errorf("%q: %v, %v", wrong, got, err)
		}
	}
	f.answer = func([]string) (string, string, error) {
		return "", "Slurm accounting storage is disabled\n", exitError(1)
	}
	if _, err := newFake(f).Accounted(t.Context(), []uint32{5}); err == nil || !strings.Contains(err.Error(), "storage is disabled") {
		t.Error(err)
	}
}

func TestCommentAccounted(t *testing.T) {
	f := &fake{}
	if err := newFake(f).CommentAccounted(t.Context(), "4_3", "burst: 1 USD\nx"); err != nil {
		t.Fatal(err)
	}
	if c := f.commands[0]; strings.Join(c, "|") != "sacctmgr|--immediate|modify|job|where|jobid=4_3|set|AdminComment=burst: 1 USD x" {
		t.Error(c)
	}
	f.answer = func([]string) (string, string, error) { return " Nothing modified\n", "sacctmgr: no\n", exitError(1) }
	if err := newFake(f).CommentAccounted(t.Context(), "4_3", "x"); err == nil {
		t.Error("a refusal is no error")
	}
}

func TestAccountParents(t *testing.T) {
	f := &fake{answer: func([]string) (string, string, error) {
		return "chem|root\nphysics|root\nphysics|\nroot|\nroot|\ntheory|physics\ntheory|\ntheory|chem\ntheory|physics\n", "", nil
	}}
	got, err := newFake(f).AccountParents(t.Context())
	if want := "map[chem:[root] physics:[root] root:[] theory:[physics chem]]"; err != nil || fmt.Sprint(got) != want {
		t.Error(got, err)
	}
	if c := f.commands[0]; strings.Join(c, "|") != "sacctmgr|--noheader|--parsable2|list|account|withassoc|format=account,parentname" {
		t.Error(c)
	}
	f.answer = func([]string) (string, string, error) { return "", "sacctmgr: no\n", exitError(1) }
	if got, err := newFake(f).AccountParents(t.Context()); err == nil {
		t.Error("a refusal is no error:", got)
	}
}
