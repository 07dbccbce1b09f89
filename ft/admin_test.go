package ft_test

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
)

// TestANodeThatAnAdminHasDrained stays as it is, with its instance to be looked
// at, for as long as nothing is certain or near; a job on it is cared for.
func TestANodeThatAnAdminHasDrained(t *testing.T) {
	const drained = "IDLE+CLOUD+DRAIN"
	for _, tt := range []struct {
		name string
		kind cloud.NoticeKind
		rule string
		busy bool
		then string // after a minute
		late string // 2 h later
	}{
		{"maintenance, drain", cloud.Maintenance, ft.Drain, false, drained, "IDLE+CLOUD+POWERED_DOWN"},
		{"maintenance, reserve", cloud.Maintenance, ft.Reserve, false, drained, "IDLE+CLOUD+POWERED_DOWN"},
		{"rebalance, drain", cloud.Rebalance, ft.Drain, false, drained, drained},
		{"rebalance, replace", cloud.Rebalance, ft.Replace, false, drained, drained},
		{"rebalance of a busy one", cloud.Rebalance, ft.Replace, true, "ALLOCATED+CLOUD+DRAIN", "ALLOCATED+CLOUD+DRAIN"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, "c[1-3]", func(w *world) {
				id := w.begin(stays(w))[0]
				w.scontrol("update", "nodename=c1", "state=drain", "reason=disk")
				if !tt.busy {
					w.Exit(id, 0)
				}
				time.Sleep(2 * time.Second)
				w.start(w.rules("c[1-3]", tt.rule, tt.rule), 0)
				n := cloud.Notice{Instance: w.instance("c1"), Kind: tt.kind}
				if tt.kind == cloud.Maintenance {
					n.Deadline, n.Event = time.Now().Add(time.Hour), "e1"
				}
				w.fake.Announce(n)
				time.Sleep(time.Minute)
				if got := w.Node("c1"); got != tt.then {
					t.Errorf("the node is %s, not %s\n%s", got, tt.then, w.story())
				}
				if tt.busy != (len(w.raised()) == 1) {
					t.Errorf("raised: %v", w.raised())
				}
				time.Sleep(2 * time.Hour)
				if got := w.Node("c1"); got != tt.late {
					t.Errorf("at last the node is %s, not %s\n%s", got, tt.late, w.story())
				}
				w.closed(time.Minute)
			})
		})
	}
}
