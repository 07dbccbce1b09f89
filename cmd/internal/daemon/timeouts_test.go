package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/power"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestSlurmGivesUpSooner: what slurmctld has is told once, and again when it is another.
func TestSlurmGivesUpSooner(t *testing.T) {
	t.Parallel()
	h := newHourly(t)
	defer h.store.Close()
	h.journal = logged{h.store, h.log}
	for name, n := range map[string]string{"long": "c1", "short": "c2", "strange": "x1"} {
		p := config.Pool{Power: power.Pool{Name: name, Nodes: []string{n}}, Slurm: conf.Pool{ResumeTimeout: 15 * time.Minute}}
		if name == "short" {
			p.Slurm.ResumeTimeout = time.Minute
		}
		h.cfg.Pools = append(h.cfg.Pools, p)
	}
	read := func(has time.Duration) (told []string) {
		t.Helper()
		h.client = slurm.New(slurmtest.New(slurmtest.Options{Nodes: []string{"c1", "c2"}, ResumeTimeout: has}))
		if err := h.readTimeouts(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := h.store.Events(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			if e.Kind == "timeout-short" {
				told = append(told, e.Pool+": "+e.Text)
			}
		}
		if a, b, c := h.timeouts.get("long"), h.timeouts.get("short"), h.timeouts.get("strange"); a != has || b != has || c != 0 {
			t.Errorf("it has %s: known are %s, %s and %s", has, a, b, c)
		}
		return told
	}
	for i, tt := range []struct {
		has  time.Duration
		told int // so far
	}{{time.Minute, 1}, {time.Minute, 1}, {2 * time.Minute, 2}, {15 * time.Minute, 2}, {time.Minute, 3}} {
		got := read(tt.has)
		if len(got) != tt.told || !strings.HasPrefix(got[0], "long: slurmctld gives its nodes up after 1m0s (ResumeTimeout), before the 15m0s of resume_timeout") {
			t.Errorf("%d: Slurm has %s: told was %q", i, tt.has, got)
		}
	}
}
