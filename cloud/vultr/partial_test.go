package vultr_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cloud/vultr/vultrtest"
)

// A list whose count stays wrong does not blind burstd for ever: what it shows is
// believed in the end, and what it hides of ours is asked for, by a process that
// has begun since, too.
func TestCountStaysWrong(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, vultrtest.Options{})
	dir := t.TempDir()
	var log bytes.Buffer
	open := func() *vultr.Provider {
		return over(t, c, func(v *vultr.Config) { v.Dir, v.Log = dir, slog.New(slog.NewTextHandler(&log, nil)) })
	}
	p := open()
	got, err := p.Launch(t.Context(), ask("t-1", 3))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b cloud.Instance) int { return strings.Compare(a.ID, b.ID) })
	ended, hidden := got[0].ID, got[1].ID
	if err := p.Terminate(t.Context(), []string{ended}); err != nil {
		t.Fatal(err)
	}
	c.Hide(hidden)
	wrong := time.Now()
	for name, p := range map[string]*vultr.Provider{"as before": p, "restarted": open()} {
		var all []cloud.Instance
		for {
			all, err = p.List(t.Context(), cloud.Filter{Cluster: "c-1"})
			if err == nil {
				break
			}
			if len(all) > 0 || cloud.KindOf(err) != cloud.Transient || time.Since(wrong) > time.Minute {
				t.Fatalf("%s: %v, %v", name, all, err)
			}
		}
		if took := time.Since(wrong); took < 10*lag {
			t.Errorf("%s: it is believed after %s", name, took)
		}
		wrong = time.Now()
		all = slices.DeleteFunc(all, func(i cloud.Instance) bool { return i.State == cloud.Terminated || i.State == cloud.Terminating })
		slices.SortFunc(all, func(a, b cloud.Instance) int { return strings.Compare(a.ID, b.ID) })
		if found := ids(all); !slices.Equal(found, ids(got[1:])) || all[0].Pool != "pool" {
			t.Errorf("%s: shown are %v, want %v", name, found, ids(got[1:]))
		}
		if more, err := p.Launch(t.Context(), ask("t-"+name[:1], 1)); err != nil || len(more) != 1 {
			t.Errorf("%s: a launch brings %v, %v", name, ids(more), err)
		} else if err := p.Terminate(t.Context(), ids(more)); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(log.String(), "counted more than it shows"); n != 2 {
		t.Errorf("it is said %d times by two processes:\n%s", n, log.String())
	}
	// What Vultr has said for a Lag that it does not know is not asked for again.
	asked := func() (n int) {
		for _, call := range c.Calls() {
			if call.Op == "GET instances" && strings.HasSuffix(call.Path, ended) {
				n++
			}
		}
		return n
	}
	before := 0
	for until := time.Now().Add(3 * lag); time.Now().Before(until) || before == 0 || asked() > before; {
		if before = asked(); time.Since(wrong) > time.Minute {
			t.Fatalf("what has ended was asked for %d times", before)
		}
		if _, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"}); err != nil {
			t.Fatal(err)
		}
	}
	// Once a whole list comes, a wrong count is a new mistake.
	c.Hide("")
	if _, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"}); err != nil {
		t.Error(err)
	}
	c.Hide(hidden)
	if all, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"}); cloud.KindOf(err) != cloud.Transient || len(all) > 0 {
		t.Errorf("wrong anew: %v, %v", ids(all), err)
	}
}
