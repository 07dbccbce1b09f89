package power

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// steps has the engine work for a while, as Run does.
func steps(t *testing.T, e *Engine, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		again := e.step(t.Context())
		e.calls.Wait()
		e.drain(t.Context())
		time.Sleep(max(10*time.Millisecond, min(again, time.Second)))
	}
}

// TestAServerThatIsWellIsLeftAlone: nothing is asked of Slurm, nor of the cloud, as long as nothing happens to it, and
// the journal has on its instance that it serves files.
func TestAServerThatIsWellIsLeftAlone(t *testing.T) {
	st := serverUp()
	st.Heard = []string{""}
	inServed(t, st, 0, map[string]string{"s1": "IDLE+CLOUD", "c1": "IDLE+CLOUD+POWERED_DOWN"}, func(t *testing.T, e *Engine, s *scripted) {
		n := s.snap.Nodes["s1"]
		n.Addr, n.Partitions = "10.0.0.9", []string{"s"}
		s.snap.Nodes["s1"] = n
		var ended []string
		e.providers["east"] = ending{still{lists: []cloud.Instance{st.Instances[0].Instance}}, &ended}
		steps(t, e, 30*time.Minute)
		s.asked = slices.DeleteFunc(s.asked, func(what string) bool { return strings.HasPrefix(what, "unreserve burst-dry-") }) // once, at the start
		if n := e.mem.nodes["s1"]; len(s.asked)+len(ended) > 0 || n.Phase != Up || n.Reason != "" {
			t.Errorf("Slurm is asked %q, the cloud to end %q; %+v", s.asked, ended, n)
		}
		if e.rounds < 10 {
			t.Errorf("%d rounds only", e.rounds)
		}
		marks := 0
		for _, c := range e.journal.(*paper).committed {
			for _, i := range c.Instances {
				if i.ID == "i-s1" && i.Serves {
					marks++
				}
			}
		}
		if marks != 1 {
			t.Errorf("the journal is told %d times that it serves files", marks)
		}
	})
}

// TestAServerIsNotToGoForAJob: a site's partition may have given it to one that cannot have its other nodes.
func TestAServerIsNotToGoForAJob(t *testing.T) {
	st := serverUp()
	st.Nodes[0].Job = 7
	inServed(t, st, 0, map[string]string{"s1": "IDLE+CLOUD"}, func(t *testing.T, e *Engine, _ *scripted) {
		p := e.planningNow()
		p.of = map[uint32][]Node{7: {e.mem.nodes["s1"]}}
		i := e.mem.instances["i-s1"]
		g, k := group{job: 7, pool: "s"}, kindOf(i.Provider, i.Offering)
		var c Change
		if p.leave(&c, g, k) || len(c.Nodes) > 0 {
			t.Errorf("%+v", c.Nodes)
		}
		delete(p.servers.pools, "s1")
		if !p.leave(&c, g, k) || len(c.Nodes) != 1 {
			t.Error("a node that serves nothing stays")
		}
	})
}
