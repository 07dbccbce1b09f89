package ft

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestCommandsWithADeadline find a turn, however many have none.
func TestCommandsWithADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		turns := &turns{free: 8, spare: 2}
		var given []func()
		whenever := make(chan func(), 20)
		for range 20 {
			go func() {
				if done, err := turns.take(ctx, time.Time{}); err == nil {
					whenever <- done
				}
			}()
		}
		synctest.Wait()
		if n := len(whenever); n != 6 {
			t.Fatalf("%d of 8 turns are those' that have no deadline", n)
		}
		for range 2 {
			done, err := turns.take(ctx, time.Now().Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			given = append(given, done)
		}
		urgent := make(chan func(), 1)
		go func() {
			if done, err := turns.take(ctx, time.Now().Add(time.Second)); err == nil {
				urgent <- done
			}
		}()
		synctest.Wait()
		(<-whenever)()
		synctest.Wait()
		if len(urgent) != 1 || len(whenever) != 5 {
			t.Errorf("%d with a deadline, and %d without, have the turn that was given back", len(urgent), len(whenever)-5)
		}
		given = append(given, <-urgent)
		for _, done := range given {
			done()
		}
		synctest.Wait()
		if n := len(whenever); n != 6 {
			t.Errorf("of 8 turns %d are taken", n)
		}
		for range 19 { // all others come to their turn
			(<-whenever)()
			synctest.Wait()
		}
		if turns.free != 8 || len(turns.waiting) != 0 {
			t.Errorf("in the end %d are free, and %d wait", turns.free, len(turns.waiting))
		}
	})
}
