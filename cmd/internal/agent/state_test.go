package agent

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/imds/imdstest"
)

// TestRestart: a maintenance that has ended while the agent was away, as by
// the reboot that it was, is called off.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		at := secs(86400)
		w.service.Maintenance(imdstest.Planned("e1", "system-reboot", "active", at), imdstest.Planned("e2", "system-reboot", "active", at))
		w.run()
		time.Sleep(5 * time.Second)
		w.stop()
		w.service.Maintenance(imdstest.Planned("e2", "system-reboot", "active", at))
		w.run()
		time.Sleep(time.Minute)
		all := []cloud.Notice{planned("e1", at), planned("e2", at), planned("e2", at), off(planned("e1", at))}
		w.want(all...)
		w.stop()
		if text, err := os.ReadFile(w.config.State); err != nil || strings.Contains(string(text), "e1") || !strings.Contains(string(text), "e2") {
			t.Errorf("the state file has %s, %v", text, err)
		}
		// The end of e2 is seen while burstd is away, and the agent dies before it is told.
		w.service.Maintenance()
		w.burstd.set(func(c *controller) { c.fail = down })
		w.run()
		time.Sleep(time.Minute)
		w.stop()
		w.burstd.set(func(c *controller) { c.fail = nil })
		w.run()
		time.Sleep(time.Minute)
		w.stop()
		w.want(append(all, off(planned("e2", at)))...)
		// Another instance boots an image that has the file.
		w.service.Set("instance-id", "i-2")
		if err := os.WriteFile(w.config.State, []byte(`{"instance":"i-1","events":[{"kind":"maintenance","event":"e3"}]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		w.run()
		time.Sleep(time.Minute)
		w.stop()
		w.want(append(all, off(planned("e2", at)))...)
	})
}

// TestBadState: a file that is broken, or cannot be written, stops nothing.
func TestBadState(t *testing.T) {
	for _, text := range []string{"", "null", "{", `{"instance":"i-1","events":[{"kind":"spot-interruption"}]}`} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			if err := os.WriteFile(w.config.State, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if text == "" {
				w.config.State = "/proc/none/told.json"
			}
			at := secs(86400)
			w.service.Maintenance(imdstest.Planned("e1", "system-reboot", "active", at))
			w.run()
			time.Sleep(5 * time.Second)
			w.stop()
			w.want(planned("e1", at))
		})
	}
}

// TestFlat: nothing grows over 10,000 looks, of which each is different.
func TestFlat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run()
		defer func() { w.stop() }()
		measure := func() (routines int, heap uint64) {
			synctest.Wait()
			w.munge.set(func(m *minted) { clear(m.open) })
			w.burstd.set(func(c *controller) { c.notices, c.beats = nil, nil })
			w.log.mu.Lock()
			w.log.text = bytes.Buffer{}
			w.log.mu.Unlock()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return runtime.NumGoroutine(), m.HeapAlloc
		}
		year := func(looks int) {
			for i := range looks {
				switch i % 5 {
				case 0:
					w.service.Spot("terminate", secs(i))
				case 1:
					w.service.Maintenance(imdstest.Planned("e"+time.Now().String(), "system-reboot", "active", secs(i)))
				case 2:
					w.service.Maintenance()
					w.service.Set(imdstest.SpotPath, "<html>")
				case 3:
					w.burstd.set(func(c *controller) { c.fail = down })
					w.service.Fail("/latest", imdstest.Fault{Status: 500})
				case 4:
					w.burstd.set(func(c *controller) { c.fail = nil })
					w.service.Fail("/latest", imdstest.Fault{})
				}
				time.Sleep(pollEvery)
			}
			w.service.Maintenance()
			time.Sleep(time.Minute)
		}
		looks, most := 10_000, uint64(512<<10)
		if testing.Short() { // as much for a look
			looks, most = looks/4, most/4
		}
		year(500)
		routines, heap := measure()
		year(looks)
		moreRoutines, moreHeap := measure()
		t.Logf("%d bytes, before %d", moreHeap, heap)
		if moreRoutines > routines || moreHeap > heap+most {
			t.Errorf("%d goroutines and %d bytes, before %d and %d", moreRoutines, moreHeap, routines, heap)
		}
	})
}
