package ckpt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSurplus(t *testing.T) {
	e := func(attempt, n int, s State) Entry { return Entry{ID: ID{attempt, n}, State: s} }
	part := func(attempt, n int) Entry {
		return Entry{ID: ID{attempt, n}, State: Good, Manifest: Manifest{Together: true}}
	}
	for _, test := range []struct {
		name string
		keep int
		all  []Entry // newest first
		used ID
		more []ID // blessed
		only *ID
		want string
	}{
		{name: "nothing"},
		{name: "as many as are kept", keep: 2, all: []Entry{e(0, 2, Good), e(0, 1, Good)}},
		{name: "one more", keep: 2, all: []Entry{e(0, 3, Good), e(0, 2, Good), e(0, 1, Good)}, want: "0/1"},
		{name: "the last good one", keep: 1, all: []Entry{e(0, 3, Damaged), e(0, 2, Unfinished), e(0, 1, Good)}},
		{name: "bad ones are none", keep: 2, all: []Entry{e(0, 4, Damaged), e(0, 3, Good), e(0, 2, Aside), e(0, 1, Good)}},
		{name: "bad ones behind enough good ones", keep: 1, all: []Entry{e(0, 4, Good), e(0, 3, Damaged), e(0, 2, Aside), e(0, 1, Good)}, want: "0/3 0/2 0/1"},
		{name: "the blessed one", keep: 1, all: []Entry{e(0, 3, Good), e(0, 2, Good), e(0, 1, Good)}, more: []ID{{0, 1}}, want: "0/2"},
		{name: "the one in use", keep: 1, all: []Entry{e(1, 3, Good), e(0, 2, Good), e(0, 1, Good)}, used: ID{0, 1}, want: "0/2"},
		{name: "late ones", keep: 2, all: []Entry{e(1, 2, Good), e(0, 3, Late), e(0, 1, Good)}, want: "0/3"},
		{name: "what is not ours to judge", keep: 1, all: []Entry{e(0, 5, Good), e(0, 4, Unfinished), e(0, 3, Foreign), e(0, 2, Unreadable), e(0, 1, Good)}, want: "0/1"},
		{name: "of parts, who chooses is not known", keep: 1, all: []Entry{part(2, 3), part(1, 2), part(0, 1)}},
		{name: "of parts, which have chosen", keep: 1, all: []Entry{part(9, 5), part(3, 4), part(2, 3), part(1, 2), part(0, 1)}, only: &ID{1, 2}, want: "3/4 2/3 0/1"},
		{name: "of parts, which have begun anew", keep: 2, all: []Entry{part(2, 3), part(1, 2), part(0, 1)}, only: &ID{}, want: "0/1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := &Folder{o: Options{Keep: max(test.keep, 1), Attempt: 9}, used: test.used, only: test.only}
			for _, b := range test.more {
				f.Bless(b)
			}
			var got []string
			for _, e := range f.surplus(test.all, time.Now()) {
				got = append(got, short(e.ID))
			}
			if strings.Join(got, " ") != test.want {
				t.Errorf("surplus are %q, want %q", got, test.want)
			}
		})
	}
}

func TestBlessOnlyRises(t *testing.T) {
	f := &Folder{}
	for _, id := range []ID{{0, 3}, {0, 2}, {1, 1}, {0, 9}} {
		f.Bless(id)
	}
	if *f.o.Blessed != (ID{1, 1}) {
		t.Errorf("the blessed one is %s", *f.o.Blessed)
	}
}

func mustPrune(t *testing.T, f *Folder) {
	t.Helper()
	if _, err := f.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestPrune(t *testing.T) {
	dir := t.TempDir()
	f := openIn(t, dir, 0)
	mustWrite(t, f, 5)
	gone, err := f.Surplus(t.Context())
	if err != nil || len(gone) != 3 {
		t.Fatalf("surplus: %v, %v", gone, err)
	}
	wantStates(t, f, "0/5 good, 0/4 good, 0/3 good, 0/2 good, 0/1 good")
	f.Bless(ID{0, 2})
	done, err := f.Prune(t.Context())
	if err != nil || len(done) != 2 || done[0].Bytes == 0 {
		t.Fatalf("deleted: %v, %v", done, err)
	}
	wantStates(t, f, "0/5 good, 0/4 good, 0/2 good")
	f.Bless(ID{0, 5})
	mustPrune(t, f)
	wantStates(t, f, "0/5 good, 0/4 good")
	for _, name := range filesBelow(t, dir) {
		if strings.Contains(name, trashPrefix) {
			t.Errorf("left behind: %s", name)
		}
	}
}

// A generation that a step starts from is not deleted, by whomever.
func TestPruneLeavesWhatIsInUse(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, openIn(t, dir, 0), 1)
	f := openIn(t, dir, 1)
	wantNewest(t, f, ID{0, 1})
	mustWrite(t, f, 2)
	o := optionsIn(dir)
	o.Keep = 1
	admin, err := View(o)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	mustPrune(t, admin)
	wantStates(t, f, "1/3 good, 0/1 good")
	mustPrune(t, f)
	wantStates(t, f, "1/3 good, 0/1 good")
	f.Release()
	mustPrune(t, admin)
	wantStates(t, f, "1/3 good")
}

// Sizes alone do not make a generation the last good one.
func TestPruneReadsWhatIsToRemain(t *testing.T) {
	for _, view := range []bool{false, true} {
		dir := t.TempDir()
		f := openIn(t, dir, 0)
		mustWrite(t, f, 2)
		g := mustWrite(t, f, 1)
		name := filepath.Join(g.Dir, "sub", "image.1")
		if err := os.WriteFile(name, []byte("two"), 0o600); err != nil {
			t.Fatal(err)
		}
		o := optionsIn(dir)
		o.Keep = 1
		var err error
		if view {
			f, err = View(o)
		} else {
			f, err = Open(t.Context(), o)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		mustPrune(t, f)
		// Its size is right, so the list calls it good; the next one is kept for it.
		wantStates(t, f, "0/3 good, 0/2 good")
	}
}

func TestPruneOfWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, openIn(t, dir, 0), 3)
	f := openIn(t, dir, 0)
	f.read = func(ID) error { return errors.New("input/output error") }
	if _, err := f.Prune(t.Context()); err == nil || !strings.Contains(err.Error(), "nothing is pruned") {
		t.Errorf("Prune says %v", err)
	}
	wantStates(t, f, "0/3 good, 0/2 good, 0/1 good")
}

func TestPruneDeletesReadOnlyFolders(t *testing.T) {
	f := openIn(t, t.TempDir(), 0)
	g := mustWrite(t, f, 1)
	mustWrite(t, f, 2)
	if err := os.Chmod(filepath.Join(g.Dir, "sub"), 0o500); err != nil {
		t.Fatal(err)
	}
	mustPrune(t, f)
	wantStates(t, f, "0/3 good, 0/2 good")
}

func TestView(t *testing.T) {
	dir := t.TempDir()
	if _, err := View(optionsIn(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a step without checkpoints: %v", err)
	}
	if names := filesBelow(t, dir); len(names) != 0 {
		t.Errorf("looking has made %q", names)
	}
	f := openIn(t, dir, 2)
	g := mustWrite(t, f, 1)
	before := strings.Join(filesBelow(t, dir), " ")
	found, err := Find(dir)
	if err != nil || len(found) != 1 || found[0].Job != "17" || found[0].Step != "0" {
		t.Fatalf("found %+v, %v", found, err)
	}
	v, err := View(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	wantStates(t, v, "2/1 good")
	if err := os.Truncate(filepath.Join(g.Dir, "image.0"), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Verify(t.Context(), g.ID()); err == nil {
		t.Error("damage is not found")
	}
	wantNewest(t, v, ID{})
	if _, err := v.Begin(t.Context(), 0); err == nil {
		t.Error("a generation is begun")
	}
	wantStates(t, v, "2/1 damaged")
	if after := strings.Join(filesBelow(t, dir), " "); after != before {
		t.Errorf("looking has changed %s into %s", before, after)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"job-17/step-0", "job-17/step-post", "job-9_3/step-0", "job-/step-0", "job-4/other", "other", "job-17/old-2026-step-0"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "job-5"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range found {
		got = append(got, o.Job+"."+o.Step)
	}
	if want := "17.0 17.post 9_3.0"; strings.Join(got, " ") != want {
		t.Errorf("found %q, want %s", got, want)
	}
	if _, err := Find(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there is none")
	}
}
