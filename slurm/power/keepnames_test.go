package power

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestKeepNames: which names are kept from jobs, from when on, and until when.
func TestKeepNames(t *testing.T) {
	_, i1 := upAt("c1", "east")  // powered down: it has no record any more
	n2, i2 := upAt("c2", "east") // wanted again
	n3, i3 := upAt("c3", "west")
	n4, i4 := upAt("c4", "east") // up
	for _, i := range []*Instance{&i1, &i2, &i3} {
		i.Doomed = "suspended"
	}
	n2.Phase, n2.Instance, n3.Phase, n3.Instance = Wanted, "", Wanted, ""
	st := State{Nodes: []Node{n2, n3, n4}, Instances: []Instance{i1, i2, i3, i4}}
	inTwoClouds(t, st, nil, nil, nil, func(e *Engine, s *scripted) {
		step := func(want ...string) {
			t.Helper()
			s.asked = nil
			if _, err := e.keepNames(t.Context()); err != nil || !slices.Equal(s.asked, want) {
				t.Errorf("asked %q, want %q, %v", s.asked, want, err)
			}
		}
		step()
		e.market.silent["east"] = true
		step()
		time.Sleep(doubtFor)
		s.fail["reserve c1,c2"] = errors.New("refused")
		step("reserve c1,c2")
		step()
		delete(s.fail, "reserve c1,c2")
		time.Sleep(time.Minute)
		step("reserve c1,c2")
		step()
		time.Sleep(keptFor/2 + time.Second)
		step("reserve c1,c2") // before it ends
		delete(e.mem.instances, "i-c2")
		step("reserve c1")
		e.market.silent["east"] = false
		step("unreserve burst-away-p")
		step()
	})
}
