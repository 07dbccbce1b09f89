package power

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// deaf is a journal that cannot be asked.
type deaf struct{ *paper }

func (deaf) Known(context.Context, []string) (map[string]bool, error) {
	return nil, errors.New("disk I/O error")
}

// TestBookUnseen: what lists show as ended, and nobody knows, is closed once, and the journal is asked once for it.
func TestBookUnseen(t *testing.T) {
	ended := func(id, pool, token string) cloud.Instance {
		return cloud.Instance{ID: id, Pool: pool, Token: token, State: cloud.Terminated, Launched: at, Ended: at.Add(time.Minute)}
	}
	live := ended("i-lives", "p", "t")
	live.State = cloud.Terminating
	named := ended("i-named", "p", "t")
	named.Node = "c2"
	untold := ended("i-untold", "p", "t")
	untold.Ended = time.Time{}
	builder := cloud.BuilderToken(time.Now().Add(time.Hour))
	held := true
	e, p := testEngine(State{Launches: []Launch{{Token: "open", Provider: "east"}}, Instances: []Instance{{Instance: ended("i-have", "p", "t"), Provider: "east"}}})
	e.cfg.Held = func(cloud.Instance) bool { return held }
	p.committed = []Change{{Instances: []Instance{{Instance: ended("i-past", "p", "t")}}}}
	twice := ended("i-twice", "q", "t")
	l := newListing(at)
	l.lists["east"] = []cloud.Instance{ended("i-have", "p", "t"), ended("i-past", "p", "t"), ended("i-open", "p", "open"), ended("i-built", "p", builder), live, named, untold, twice}
	l.lists["west"] = []cloud.Instance{twice}
	round := func() (booked map[string]Instance) {
		t.Helper()
		var c Change
		p.asked = nil
		e.bookUnseen(t.Context(), &c, l)
		if len(c.Events) != len(c.Instances) || len(c.Nodes)+len(c.Fences)+len(c.Actions) > 0 {
			t.Errorf("%+v", c)
		}
		booked = map[string]Instance{}
		for _, i := range c.Instances {
			booked[i.ID] = i
		}
		if err := e.commit(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return booked
	}
	e.journal = deaf{p}
	if got := round(); len(got) > 0 {
		t.Errorf("without an answer %+v", got)
	}
	e.journal = p
	got := round()
	if want := []string{"i-named", "i-past", "i-twice", "i-untold"}; !slices.Equal(p.asked, want) || len(got) != 3 {
		t.Fatalf("asked of %v, want %v; %+v", p.asked, want, got)
	}
	if i := got["i-named"]; i.Assigned != "c2" || i.Pool != "p" || i.Provider != "east" || !i.Ended.Equal(named.Ended) || i.Guessed || i.Gone.IsZero() {
		t.Errorf("%+v", i)
	}
	if i := got["i-untold"]; !i.Guessed || i.Ended.IsZero() {
		t.Errorf("%+v", i)
	}
	if i := got["i-twice"]; i.Provider != "west" {
		t.Errorf("it is of provider %s, and of a pool of west's", i.Provider)
	}
	if len(e.mem.instances) != 1 {
		t.Errorf("%+v", e.mem.instances)
	}
	if got := round(); len(got) > 0 || len(p.asked) != 3 {
		t.Errorf("booked %+v anew, asked of %v", got, p.asked)
	}
	if got := round(); len(got)+len(p.asked) > 0 {
		t.Errorf("booked %+v anew, asked of %v", got, p.asked)
	}
	held = false
	delete(e.mem.launches, "open")
	if got := round(); len(got) != 2 || got["i-open"].ID == "" || got["i-built"].ID == "" {
		t.Errorf("%+v", got)
	}
	l.lists["east"], l.lists["west"] = nil, nil
	if round(); len(e.past) > 0 {
		t.Errorf("%v is kept", e.past)
	}
}
