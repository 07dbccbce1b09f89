package ft_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/ft"
)

// TestKindsInEveryOrder: what a cloud says of one instance within a second, in
// every order, and a guard that dies at every point: the job is moved once, off
// the node, and at most one other node is raised.
func TestKindsInEveryOrder(t *testing.T) {
	const reb, spot, work = cloud.Rebalance, cloud.SpotInterruption, cloud.Maintenance
	play := func(t *testing.T, order []cloud.NoticeKind, at int) (points []string) {
		bubble(t, "c[1-6]", func(w *world) {
			id := w.begin(leaves(w, 1, 75))[0]
			cfg := w.rules("c[1-6]", ft.Replace, ft.Drain)
			l := w.start(cfg, at)
			live := func(d time.Duration) {
				for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
					if l.isDead() {
						w.die()
						time.Sleep(3 * time.Second)
						l = w.start(cfg, 0)
					}
				}
			}
			first := w.instance("c1")
			for _, kind := range order {
				switch kind {
				case spot:
					w.evictInstance(first, time.Now().Add(2*time.Minute))
				case work:
					w.fake.Announce(cloud.Notice{Instance: first, Kind: work, Event: "e1", Deadline: time.Now().Add(time.Hour)})
				default:
					w.fake.Announce(cloud.Notice{Instance: first, Kind: kind})
				}
				live(300 * time.Millisecond)
			}
			live(3 * time.Minute)
			points = l.points
			w.closed(time.Second)
			i := w.info(id)
			if n := len(i.Signals); i.State != "RUNNING" || i.Restarts != 1 || slices.Contains(i.Nodes, "c1") || n < 1 || n > 2 {
				t.Errorf("%+v\n%s", i, w.story())
			}
			up := w.raised()
			slices.Sort(up)
			if up = slices.Compact(up); len(up) > 1 || w.Node("c1") != "IDLE+CLOUD+POWERED_DOWN" || len(w.Reservations()) > 0 {
				t.Errorf("raised %v, c1 %s, reservations %v\n%s", up, w.Node("c1"), w.Reservations(), w.story())
			}
		})
		return points
	}
	for _, order := range [][]cloud.NoticeKind{{reb, spot, work}, {reb, work, spot}, {spot, reb, work}, {spot, work, reb}, {work, reb, spot}, {work, spot, reb}} {
		points := play(t, order, 0)
		for i, p := range points {
			if i > 80 || testing.Short() && i%40 > 0 {
				continue
			}
			t.Run(fmt.Sprint(order, i+1, " ", p), func(t *testing.T) { play(t, order, i+1) })
		}
	}
}
