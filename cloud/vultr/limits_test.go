package vultr

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Requests that a busy machine or a slow road has held up come together, and
// still no more than 30 come within one second.
func TestLateRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(allowed)
		clear := time.Now().Add(1500 * time.Millisecond) // the road, until when nothing comes
		var mu sync.Mutex
		var came []time.Time
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				answered, err := l.send(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				defer answered()
				time.Sleep(time.Until(clear))
				mu.Lock()
				defer mu.Unlock()
				came = append(came, time.Now())
			})
		}
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); len(came) != 100 || took > 6*time.Second {
			t.Errorf("%d came, in %s", len(came), took)
		}
		slices.SortFunc(came, time.Time.Compare)
		for i := 30; i < len(came); i++ {
			if d := came[i].Sub(came[i-30]); d < time.Second {
				t.Fatalf("31 requests came within %s", d)
			}
		}
	})
}
