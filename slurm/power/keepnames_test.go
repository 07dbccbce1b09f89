package power

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
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
	inTwoClouds(t, st, nil, offNodes("c1", "c2", "c3", "c4"), nil, func(e *Engine, s *scripted) {
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

// TestNamesThatAnEarlierLifeKept: burstd was restarted, and the cloud has answered meanwhile, or has not. What
// is still kept from jobs is given back once it has.
func TestNamesThatAnEarlierLifeKept(t *testing.T) {
	for _, tt := range []struct {
		name   string
		st     State
		silent bool
		want   []string
	}{
		{"it answers", State{Instances: []Instance{suspended("c1", "east")}}, false, []string{"unreserve burst-away-p"}},
		{"it is still away", State{Instances: []Instance{suspended("c1", "east")}}, true, []string{"reserve c1"}},
		{"another's is", State{Instances: []Instance{suspended("c1", "gone")}}, false, []string{"reserve c1"}},
		{"it is, and nothing ends there", State{}, true, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inTwoClouds(t, tt.st, nil, offNodes("c1"), nil, func(e *Engine, s *scripted) {
				e.market = New(Config{Pools: []Pool{e.pools["p"]}}, nil, nil, nil, nil).market
				e.heard = map[string]bool{}
				keep := func() {
					t.Helper()
					if _, err := e.keepNames(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if keep(); len(s.asked) > 0 {
					t.Errorf("before its first answer Slurm is asked %q", s.asked)
				}
				e.heard["west"], e.heard["east"], e.market.silent["east"] = true, !tt.silent, tt.silent
				for range 3 {
					keep()
					time.Sleep(doubtFor)
				}
				if !slices.Equal(s.asked, tt.want) || len(saidKinds(e.journal.(*paper))) > 0 && len(tt.want) > 0 && tt.want[0] != "reserve c1" {
					t.Errorf("asked %q, want %q; said %q", s.asked, tt.want, saidKinds(e.journal.(*paper)))
				}
			})
		})
	}
}

// offNodes are nodes as Slurm shows them that are off.
func offNodes(names ...string) map[string]string {
	states := map[string]string{}
	for _, name := range names {
		states[name] = "IDLE+CLOUD+POWERED_DOWN"
	}
	return states
}

// suspended is a node's last instance, which is to end.
func suspended(node, provider string) Instance {
	_, i := upAt(node, provider)
	i.Doomed = "suspended"
	return i
}

func saidKinds(p *paper) (all []string) {
	for _, c := range p.committed {
		for _, ev := range c.Events {
			all = append(all, ev.Kind)
		}
	}
	return all
}

// TestNamesThatSlurmDoesNotKnow: the others are kept all the same.
func TestNamesThatSlurmDoesNotKnow(t *testing.T) {
	st := State{Instances: []Instance{suspended("c1", "east"), suspended("c2", "east")}}
	inTwoClouds(t, st, nil, offNodes("c2"), nil, func(e *Engine, s *scripted) {
		e.market.silent["east"] = true
		for range 3 {
			if _, err := e.keepNames(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(doubtFor)
		}
		if want := []string{"reserve c2"}; !slices.Equal(s.asked, want) {
			t.Errorf("asked %q, want %q", s.asked, want)
		}
	})
}

// TestAReservationOfNamesIsTriedAgain when its backoff is over; what was never kept is not told to be back.
func TestAReservationOfNamesIsTriedAgain(t *testing.T) {
	inTwoClouds(t, State{Instances: []Instance{suspended("c1", "east")}}, nil, offNodes("c1"), nil, func(e *Engine, s *scripted) {
		e.market.silent["east"] = true
		e.keepNames(t.Context())
		time.Sleep(doubtFor)
		s.fail["reserve c1"], s.fail["unreserve burst-away-p"] = errors.New("refused"), errors.New("refused")
		for range 4 {
			due, err := e.keepNames(t.Context())
			if err != nil || due <= 0 || due > time.Second {
				t.Fatalf("it is due in %s, %v", due, err)
			}
			if again, _ := e.keepNames(t.Context()); again <= 0 || again > due {
				t.Errorf("it is due in %s, and then in %s", due, again)
			}
			time.Sleep(due)
		}
		delete(e.mem.instances, "i-c1")
		s.asked = nil
		for range 2 {
			due, err := e.keepNames(t.Context())
			if err != nil || due <= 0 || due > 10*time.Second {
				t.Fatalf("it is due in %s, %v", due, err)
			}
			time.Sleep(due)
		}
		delete(s.fail, "unreserve burst-away-p")
		if _, err := e.keepNames(t.Context()); err != nil || len(s.asked) < 2 {
			t.Errorf("asked %q, %v", s.asked, err)
		}
		if said := saidKinds(e.journal.(*paper)); len(said) > 0 || len(e.market.kept) > 0 {
			t.Errorf("said %q; kept are %v", said, e.market.kept)
		}
	})
}

// TestNamesOfAProviderThatLeft: nobody can say what became of an instance and a launch there. Their names are kept
// from jobs, and those that have got one get others.
func TestNamesOfAProviderThatLeft(t *testing.T) {
	node := func(name string, phase Phase, token string) Node {
		return Node{Name: name, Pool: "p", Phase: phase, Token: token, Job: 107}
	}
	st := State{Instances: []Instance{suspended("c1", "old"), suspended("c4", "old")},
		Nodes: []Node{node("c1", Wanted, ""), node("c2", Launching, "t"), node("c3", Wanted, "")},
		Launches: []Launch{{Token: "t", Provider: "old", Nodes: []string{"c2"}, State: Written, Request: cloud.LaunchRequest{Pool: "p"}},
			{Token: "u", Provider: "old", Nodes: []string{"c3"}, State: Abandoned, Request: cloud.LaunchRequest{Pool: "p"}}}}
	inSlurm(t, st, offNodes("c1", "c2", "c3", "c4"), nil, func(t *testing.T, e *Engine, s *scripted) {
		e.mem.heard[""] = true
		for range 2 {
			if _, err := e.keepNames(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(doubtFor)
		}
		if want := []string{"reserve c1,c2,c4"}; !slices.Equal(s.asked, want) {
			t.Errorf("asked %q, want %q", s.asked, want)
		}
		for name, n := range e.mem.nodes {
			n.Made = time.Now()
			e.mem.nodes[name] = n
		}
		p, _ := e.planning()
		out := p.plan()
		want := []string{"c1 freeing job 107", "c2 freeing job 107", "hold 107"}
		if diff := cmp.Diff(want, sum(out.Change)); diff != "" || len(out.drafts) != 1 || out.drafts[0].nodes[0].Name != "c3" {
			t.Errorf("planned %+v (-want +got):\n%s", out.drafts, diff)
		}
		if text := "old is not configured any more, and whether i-c1, which was node c1, is gone is not known; its nodes begin anew under other names"; len(out.Holds) > 0 && out.Holds[0].Why != text {
			t.Errorf("the job is told %q", out.Holds[0].Why)
		}
	})
}

// TestALaunchThatIsLostHoldsItsJobTogether: the job's other node is not launched while it is given back.
func TestALaunchThatIsLostHoldsItsJobTogether(t *testing.T) {
	st := State{Launches: []Launch{{Token: "t", Provider: "old", Nodes: []string{"c2"}, State: Written, Request: cloud.LaunchRequest{Pool: "p"}}},
		Nodes: []Node{{Name: "c2", Pool: "p", Phase: Launching, Token: "t", Job: 7, Whole: true}, {Name: "c3", Pool: "p", Phase: Wanted, Job: 7, Whole: true}}}
	inSlurm(t, st, nil, nil, func(t *testing.T, e *Engine, s *scripted) {
		e.mem.heard[""] = true
		e.market.kept["p"] = aside{nodes: []string{"c2"}}
		p, _ := e.planning()
		out := p.plan()
		if diff := cmp.Diff([]string{"c2 freeing job 7 whole", "c3 freeing job 7 whole", "hold 7"}, sum(out.Change)); diff != "" || len(out.drafts) > 0 {
			t.Errorf("planned %+v (-want +got):\n%s", out.drafts, diff)
		}
	})
}
