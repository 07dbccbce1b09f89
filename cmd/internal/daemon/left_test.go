package daemon

import (
	"os"
	"testing"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/stopall"
)

// TestAWordForABurstdThatIsAway: it starts paused, also with a new journal, and
// one that did not answer heeds the word when it finds it; each is heeded once.
func TestAWordForABurstdThatIsAway(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	path := s.config.Endpoint.PauseFile()
	leave := func() {
		t.Helper()
		if err := stopall.Leave(path, stopall.Wish{By: "uid 0", Why: "burst stop-all"}); err != nil {
			t.Fatal(err)
		}
	}
	paused := func(r *running) bool {
		st, err := r.Status(t.Context())
		return err == nil && st.Paused != nil && st.Paused.By == "uid 0" && st.Paused.Why == "burst stop-all (by uid 0)"
	}
	gone := func() bool { _, err := os.Stat(path); return os.IsNotExist(err) }
	leave()
	r := s.start()
	if !paused(r) {
		t.Error("it does not start paused")
	}
	if !gone() { // else it would pause again after the `burst resume` of an admin who has waited for the start
		t.Error("burstd serves, and the word is still there")
	}
	r.finish()
	if r = s.start(); !paused(r) {
		t.Error("the pause does not survive a restart")
	}
	if err := r.ChangePause(t.Context(), api.PauseChange{}); err != nil {
		t.Fatal(err)
	}
	leave()
	r.until("a burstd that runs pauses", func() bool { return paused(r) && gone() })
	if err := r.ChangePause(t.Context(), api.PauseChange{}); err != nil {
		t.Fatal(err)
	}
	r.finish()
	if r = s.start(); paused(r) {
		t.Error("a word that was heeded, and taken back, pauses again")
	}
}
