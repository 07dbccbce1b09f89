package daemon

import (
	"log/slog"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestPoolsNameTheirImages, of each of a pool's sources: what deletes images asks for them.
func TestPoolsNameTheirImages(t *testing.T) {
	st, err := store.Open(t.Context(), newJournal(t))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	d := &Daemon{store: st, log: slog.New(slog.DiscardHandler)}
	withHours(t, d, map[string]time.Duration{"v1": time.Hour}, time.Now())
	d.cfg.Pools[0].Power.Image = "os:1"
	d.cfg.Pools[0].Then = []config.Pool{{Power: power.Pool{Name: "vhp", Provider: "east", Image: "ami-1"}}}
	all, err := d.Pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range all {
		got[p.Pool+" "+p.Provider] = p.Image
	}
	if got["vhp lon"] != "os:1" || got["vhp east"] != "ami-1" {
		t.Errorf("%v", got)
	}
}
