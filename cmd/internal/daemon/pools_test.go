package daemon

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestStageNames: burst's columns are the engine's stages.
func TestStageNames(t *testing.T) {
	var names []string
	for _, s := range power.Stages {
		names = append(names, string(s))
	}
	if !reflect.DeepEqual(names, api.BootStages) {
		t.Errorf("power.Stages %q, api.BootStages %q", names, api.BootStages)
	}
}

type willing struct {
	crash.Journal
	err error
}

func (w willing) CommitPower(context.Context, power.Change) error { return w.err }

// TestBootsAreObservedOnce, when they have ended well and the journal has them.
func TestBootsAreObservedOnce(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	up := power.Boot{Node: "c1", Pool: "p", Ordered: at, Called: at.Add(time.Second), Registered: at.Add(30 * time.Second), Ended: at, Outcome: power.BootUp}
	under, failed, stranger := up, up, up
	under.Outcome, failed.Outcome, stranger.Pool = "", "no capacity", "gone"
	for _, tt := range []struct {
		name string
		boot power.Boot
		err  error
		want int // stages
	}{
		{"up", up, nil, 2},
		{"under way", under, nil, 0},
		{"failed", failed, nil, 0},
		{"of a pool that has left the configuration", stranger, nil, 0},
		{"not written", up, errors.New("disk full"), 0},
	} {
		h := newBootStages()
		j := timed{willing{err: tt.err}, h, map[string]bool{"p": true}}
		if err := j.CommitPower(t.Context(), power.Change{Boots: []power.Boot{tt.boot}}); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v", tt.name, err)
		}
		reg := prometheus.NewRegistry()
		reg.MustRegister(h)
		families, err := reg.Gather()
		n := 0
		for _, f := range families {
			n += len(f.GetMetric())
		}
		if err != nil || n != tt.want {
			t.Errorf("%s: %d stages are observed, want %d (%v)", tt.name, n, tt.want, err)
		}
	}
}

// TestStatusSaysByWhom a pool was stopped: it matters to those who launch beside burstd.
func TestStatusSaysByWhom(t *testing.T) {
	t.Parallel()
	r := newSite(t).start()
	if err := r.ChangePool(t.Context(), api.PoolChange{Pool: "p", Stop: true, Reason: "audit"}); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Status(t.Context()); err != nil || len(s.ByHand) != 1 || s.ByHand[0] != "p" || s.Stopped["p"] == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := r.ChangePool(t.Context(), api.PoolChange{Pool: "p"}); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Status(t.Context()); err != nil || len(s.ByHand)+len(s.Stopped) != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
