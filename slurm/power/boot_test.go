package power

import (
	"testing"
	"time"
)

func TestBootPace(t *testing.T) {
	now := time.Now()
	node := func(age time.Duration, addr bool) Node {
		return Node{Phase: Booting, Since: now.Add(-age), AddrSet: addr}
	}
	tests := []struct {
		name        string
		moving      []Node
		look, stale time.Duration
	}{
		{"just launched", []Node{node(0, false)}, 250 * time.Millisecond, 10 * time.Second},
		{"just addressed", []Node{node(0, true)}, 250 * time.Millisecond, time.Second},
		{"booting", []Node{node(6*time.Second, true)}, 750 * time.Millisecond, 4 * time.Second},
		{"booting for long", []Node{node(time.Minute, true)}, 5 * time.Second, 10 * time.Second},
		{"an old and a young one", []Node{node(time.Minute, true), node(6*time.Second, true)}, 750 * time.Millisecond, 4 * time.Second},
		{"the young one has no address", []Node{node(9*time.Second, true), node(0, false)}, 250 * time.Millisecond, 6 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			look, stale := bootPace(tt.moving, now)
			if look != tt.look || stale != tt.stale {
				t.Errorf("look after %s, read when older than %s, want %s, %s", look, stale, tt.look, tt.stale)
			}
		})
	}
}

// A pool whose nodes take long to boot has its own time, and the others theirs.
func TestBootTimeoutOfAPool(t *testing.T) {
	const booting = "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP"
	node := func(name, pool string) Node {
		return Node{Name: name, Pool: pool, Phase: Booting, Instance: "i-" + name, AddrSet: true, Made: at.Add(-20 * time.Minute)}
	}
	e, _ := testEngine(State{Nodes: []Node{node("c1", "p"), node("m1", "metal")}})
	e.pools["metal"] = Pool{Name: "metal", BootTimeout: 45 * time.Minute}
	var c Change
	e.tooLate(&c, reading(map[string]string{"c1": booting, "m1": booting}))
	if len(c.Nodes) != 1 || c.Nodes[0].Name != "c1" || c.Nodes[0].Phase != Freeing {
		t.Errorf("after 20 minutes %+v are given up, want c1 alone", c.Nodes)
	}
	for pool, want := range map[string]bool{"p": true, "metal": false} {
		n := node("x", pool)
		n.Made = time.Now().Add(-20 * time.Minute)
		if got := e.overdue([]Node{n}); got != want {
			t.Errorf("a launch for a node of %s that has waited 20 minutes comes too late: %v, want %v", pool, got, want)
		}
	}
	// slurmctld has less for the one, and more for the other.
	e.cfg.ResumeTimeout = func(pool string) time.Duration {
		return map[string]time.Duration{"metal": time.Minute, "p": time.Hour}[pool]
	}
	p, _ := e.planning()
	for pool, want := range map[string]time.Duration{"p": 15 * time.Minute, "metal": time.Minute} {
		if a, b := e.bootTimeout(pool), p.timeout(pool); a != want || b != want {
			t.Errorf("%s has %s and, in plans, %s, want %s", pool, a, b, want)
		}
		n := node("x", pool)
		n.Made = time.Now().Add(-50 * time.Second)
		if got := e.overdue([]Node{n}); got != (pool == "metal") {
			t.Errorf("a launch for a node of %s that has waited 50 seconds comes too late: %v", pool, got)
		}
	}
}

// TestALateLaunchIsNoBootFailure: of the time that its node had too little was left for it.
func TestALateLaunchIsNoBootFailure(t *testing.T) {
	for launched, want := range map[time.Duration]bool{time.Second: true, 9 * time.Minute: true, 10 * time.Minute: false, 14 * time.Minute: false} {
		st := State{Nodes: []Node{{Name: "c1", Pool: "p", Phase: Booting, Made: at, Instance: "i-1"}}, Instances: []Instance{onInstance("i-1", "c1", at.Add(launched))}}
		c := taking{mem: newMemory(st), snap: reading(map[string]string{"c1": "DOWN+CLOUD+POWERING_UP"}), pools: map[string]string{"c1": "p"}, now: at.Add(16 * time.Minute),
			timeout: func(string) time.Duration { return 15 * time.Minute }}.take(Order{Kind: ResumeFail, Nodes: "c1", Made: at.Add(16 * time.Minute)})
		if len(c.Instances) != 1 || c.Instances[0].Doomed == "" || c.Instances[0].Failed != want || c.Nodes[0].Phase != Freeing {
			t.Errorf("launched after %s: %+v", launched, c.Instances)
		}
	}
}
