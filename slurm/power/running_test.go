package power

import (
	"context"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// counted is a cloud whose instances run some time after the test has begun.
type counted struct {
	still
	instance cloud.Instance
	runs     time.Time
	lists    chan cloud.Filter
}

func (c counted) List(_ context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	c.lists <- f
	i := c.instance
	i.State = cloud.Pending
	if !time.Now().Before(c.runs) {
		i.State = cloud.Running
	}
	return []cloud.Instance{i}, nil
}

// TestHowRunningIsLearnt: few calls, none after the node's first word, and close to the truth.
func TestHowRunningIsLearnt(t *testing.T) {
	for _, tt := range []struct {
		name   string
		runs   time.Duration
		speaks time.Duration
		most   int // calls
		off    time.Duration
	}{
		{"after 1 s", time.Second, time.Hour, 1, runningPace},
		{"after 10 s", 10 * time.Second, time.Hour, 6, 5 * time.Second},
		{"after 100 s", 100 * time.Second, time.Hour, 14, 35 * time.Second},
		{"the node speaks before", 100 * time.Second, 3 * time.Second, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st, nodes := booting()
			st.Nodes, st.Instances, st.Boots = st.Nodes[:1], st.Instances[:1], st.Boots[:1]
			st.Instances[0].State = cloud.Pending
			cloudy := counted{instance: st.Instances[0].Instance, lists: make(chan cloud.Filter, 1000)}
			inSlurm(t, st, nodes, nil, func(t *testing.T, e *Engine, _ *scripted) {
				began := time.Now()
				n := e.mem.nodes["c1"]
				n.Since = began
				e.mem.nodes["c1"] = n
				cloudy.runs = began.Add(tt.runs)
				e.providers["east"], e.next = cloudy, began.Add(time.Hour) // no round of reconciliation
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { e.Run(ctx); close(done) }()
				time.AfterFunc(tt.speaks, func() {
					if _, err := e.WhoAmI(ctx, "i-c1", "10.0.0.1"); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				})
				time.Sleep(3 * time.Minute)
				cancel()
				<-done
				if len(cloudy.lists) > tt.most {
					t.Errorf("%d calls", len(cloudy.lists))
				}
				at := e.mem.boots["c1"].Running
				if known := !at.IsZero(); known != (tt.off > 0) || known && at.Sub(cloudy.runs) > tt.off {
					t.Errorf("running is noted at %s, it was at %s", at.Sub(began), tt.runs)
				}
			})
		})
	}
}
