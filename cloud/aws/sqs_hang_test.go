package aws

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// A handler, or a deletion, that hangs keeps no other notice waiting.
func TestQueueIsReadWhileABatchHangs(t *testing.T) {
	for _, what := range []string{"handler", "deletion"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, h := &memoryQueue{}, &heard{}
				var late time.Duration
				var second time.Time
				h.fail = func(n cloud.Notice, _ int) error {
					switch {
					case n.Instance == "i-00000002":
						late = time.Since(second)
					case what == "handler":
						time.Sleep(8 * time.Second)
					}
					return nil
				}
				q.onDelete = func(int) (int, error) {
					if what == "deletion" {
						time.Sleep(8 * time.Second)
					}
					return 0, nil
				}
				q.send(spotOf(1))
				time.AfterFunc(time.Second, func() { second = time.Now(); q.send(spotOf(2)) })
				listening(t, q, h, time.Minute)
				if h.times("i-00000002") != 1 || late > 100*time.Millisecond || q.left() != 0 {
					t.Errorf("heard %d times, after %s; %d left", h.times("i-00000002"), late, q.left())
				}
			})
		})
	}
}

// Handlers that hang bound what is received, and hidden, meanwhile.
func TestQueueBoundsWhatIsWorkedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := &memoryQueue{}, &heard{}
		for i := range 2000 {
			q.send(spotOf(i))
		}
		h.fail = func(cloud.Notice, int) error { time.Sleep(time.Minute); return nil }
		time.AfterFunc(30*time.Second, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			if len(h.all) != batchSize*maxSettling {
				t.Errorf("%d are worked on", len(h.all))
			}
		})
		listening(t, q, h, 10*time.Minute)
		if q.left() != 0 || len(h.all) != 2000 {
			t.Errorf("%d left, %d heard", q.left(), len(h.all))
		}
	})
}
