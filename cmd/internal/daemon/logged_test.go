package daemon

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestEventsAreLogged: what `burst events` shows can be asked of systemd's
// journal too, and what is not durable has not happened.
func TestEventsAreLogged(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	evict := ft.Change{Events: []ft.Event{{Kind: "evict", Node: "c1", Instance: "i-1", Job: 7, Text: "signal USR1"}}}
	sick := power.Change{Events: []power.Event{{Kind: "sick", Node: "c2", Text: "its disk is full"}}}
	bad := logged{fakeJournal{err: errors.New("disk full")}, log}
	if bad.CommitFT(t.Context(), evict) == nil || bad.CommitPower(t.Context(), sick) == nil || out.Len() > 0 {
		t.Errorf("not written, and logged: %s", &out)
	}
	good := logged{fakeJournal{}, log}
	if err := errors.Join(good.CommitFT(t.Context(), evict), good.CommitPower(t.Context(), sick)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`msg="signal USR1" event=evict node=c1 instance=i-1 job=7`, `msg="its disk is full" event=sick node=c2`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &out)
		}
	}
}
