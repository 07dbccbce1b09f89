package names

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// cloud is where names are written, and what was tried.
type cloud struct {
	mu     sync.Mutex
	tried  []string
	named  map[string]string
	refuse func(id string) error
}

func (c *cloud) write(_ context.Context, id, node string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tried = append(c.tried, id)
	if err := c.refuse(id); err != nil {
		return err
	}
	c.named[id] = node
	return nil
}

var errNo = errors.New("no")

// What fails is tried some times, what others refuse is not its failure, and who has
// been given another node meanwhile gets that one's name.
func TestWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		c := &cloud{named: map[string]string{}}
		begun := time.Now()
		c.refuse = func(id string) error {
			if id == "i-never" || id == "i-late" && time.Since(begun) < pause || id == "i-moved" && time.Since(begun) < time.Second {
				return errNo
			}
			return nil
		}
		w := &Writer{Write: c.write, Workers: 2, Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, cancel := context.WithCancel(t.Context())
		w.Add(ctx, map[string]string{"i-1": "a", "i-2": "b", "i-never": "c", "i-late": "d", "i-moved": "e"})
		cancel() // who has asked does not wait
		synctest.Wait()
		if len(c.named) != 2 || c.named["i-1"] != "a" {
			t.Errorf("at once there are %v", c.named)
		}
		w.Add(t.Context(), map[string]string{"i-moved": "f"})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		want := map[string]string{"i-1": "a", "i-2": "b", "i-late": "d", "i-moved": "f"}
		if fmt.Sprint(c.named) != fmt.Sprint(want) {
			t.Errorf("named are %v, want %v", c.named, want)
		}
		if n := len(c.tried) - len(want) - 2; n != tries {
			t.Errorf("what never succeeds was tried %d times: %q", n, c.tried)
		}
		if strings.Count(log.String(), "i-never") != 1 || w.busy || len(w.waiting) > 0 {
			t.Errorf("busy %v, waiting %v, the log:\n%s", w.busy, w.waiting, log.String())
		}
		w.Add(t.Context(), map[string]string{"i-3": "g"}) // after its end it begins anew
		synctest.Wait()
		if c.named["i-3"] != "g" {
			t.Errorf("named are %v", c.named)
		}
	})
}

// Without permission, a thousand names are not a thousand refused calls.
func TestHopeless(t *testing.T) {
	c := &cloud{refuse: func(string) error { return errNo }}
	w := &Writer{Write: c.write, Workers: 8, Hopeless: func(err error) bool { return errors.Is(err, errNo) }}
	batch := map[string]name{}
	for i := range 1000 {
		batch[fmt.Sprint("i-", i)] = name{node: "n"}
	}
	failed, err := w.batch(t.Context(), batch)
	if len(failed) != 1000 || !errors.Is(err, errNo) || len(c.tried) > 8 {
		t.Errorf("%d failed after %d calls: %v", len(failed), len(c.tried), err)
	}
}

// Of an error that says nothing of the others, all are tried, by few at once.
func TestWorkers(t *testing.T) {
	var mu sync.Mutex
	now, most := 0, 0
	var tried []string
	w := &Writer{Workers: 3, Write: func(_ context.Context, id, _ string) error {
		mu.Lock()
		now++
		most = max(most, now)
		tried = append(tried, id)
		mu.Unlock()
		time.Sleep(time.Millisecond) // so that others come
		mu.Lock()
		now--
		mu.Unlock()
		return errNo
	}}
	batch := map[string]name{}
	for i := range 20 {
		batch[fmt.Sprint("i-", i)] = name{node: "n"}
	}
	failed, _ := w.batch(t.Context(), batch)
	slices.Sort(tried)
	if len(failed) != 20 || len(slices.Compact(tried)) != 20 || most > 3 {
		t.Errorf("%d failed, %d were tried, %d at once", len(failed), len(tried), most)
	}
}
