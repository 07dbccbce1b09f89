package ckpt

import (
	"strings"
	"testing"
)

// TestOnly: the generation that others count on, or none in its place. It stays when
// newer ones go that were passed over, and room is made.
func TestOnly(t *testing.T) {
	dir := t.TempDir()
	for attempt := range 3 {
		f := openIn(t, dir, attempt)
		mustWrite(t, f, 1)
		f.Close()
	}
	f := openIn(t, dir, 3)
	if c, err := f.Only(t.Context(), ID{0, 1}); err != nil || c.From == nil || c.From.ID() != (ID{0, 1}) {
		t.Fatalf("%+v, %v", c, err)
	}
	f.Release()
	mustPrune(t, f)
	wantStates(t, f, "0/1 good")
	mustWrite(t, f, 3)
	if err := f.makeRoom(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustPrune(t, f)
	if all := states(t, f); !strings.HasSuffix(all, "0/1 good") {
		t.Errorf("left are %s", all)
	}

	next := openIn(t, dir, 4)
	if c, err := next.Only(t.Context(), ID{}); err != nil || c.From != nil || len(c.Passed) > 0 {
		t.Errorf("none: %+v, %v", c, err)
	}
	if _, err := next.Only(t.Context(), ID{2, 3}); err == nil || !strings.Contains(err.Error(), "other parts") {
		t.Errorf("one that is gone: %v", err)
	}
}
