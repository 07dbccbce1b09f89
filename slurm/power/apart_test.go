package power

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
)

// TestAJobInSeveralPlacesIsTold: Slurm has given it nodes that were up in two clouds, or in two zones.
func TestAJobInSeveralPlacesIsTold(t *testing.T) {
	var st State
	states := map[string]string{}
	for n, place := range []string{"east/a", "east/a", "east/b", "west/"} {
		name := fmt.Sprint("c", n+1)
		i := onInstance("i-"+name, name, at)
		i.Provider, i.Offering = place[:4], cloud.Offering{Type: "small", Zone: place[5:], Market: cloud.OnDemand}
		st.Instances = append(st.Instances, i)
		st.Nodes = append(st.Nodes, Node{Name: name, Pool: "p", Phase: Up, Instance: i.ID})
		states[name] = "ALLOCATED+CLOUD"
	}
	job := func(nodes string, count int, state, comment string) slurm.Job {
		return slurm.Job{State: state, Nodes: nodes, NumNodes: count, AdminComment: comment}
	}
	const (
		apart = apartText + "c1 in east/a, c4 in west"
		moved = MovedText + "small: goes also to cloud, since 2026-11-28 10:00:00"
	)
	for _, tt := range []struct {
		name string
		job  slurm.Job
		want string
	}{
		{"two clouds", job("c[1,4]", 2, "RUNNING", ""), apart},
		{"two zones", job("c[1-3]", 3, "RUNNING", ""), apartText + "c[1-2] in east/a, c3 in east/b"},
		{"one zone", job("c[1-2]", 2, "RUNNING", ""), ""},
		{"one node", job("c1", 1, "RUNNING", ""), ""},
		{"one is the site's", job("c1,s1", 2, "RUNNING", ""), ""},
		{"its nodes are not ready", job("c[1,4]", 2, "CONFIGURING", ""), ""},
		{"it had waited", job("c[1,4]", 2, "RUNNING", HeldText+"x"), apart},
		{"a rule has moved it", job("c[1,4]", 2, "RUNNING", moved), moved + "; " + strings.TrimPrefix(apart, "burst: ")},
		{"a rule has moved it, and its nodes were ordered", job("c[1,4]", 2, "RUNNING", moved+"; nodes ordered: 2 of pool p at 11:00; it starts when they have booted"), moved + "; " + strings.TrimPrefix(apart, "burst: ")},
		{"a rule has moved it, and it has been told", job("c[1-2]", 2, "RUNNING", moved+"; "+strings.TrimPrefix(apart, "burst: ")), moved + "; " + strings.TrimPrefix(apart, "burst: ")},
		{"a rule has moved it, and it waits again", job("", 2, "PENDING", moved+"; "+strings.TrimPrefix(apart, "burst: ")), moved},
		{"a rule could not move it before", job("c[1,4]", 2, "RUNNING", KeptText+"launches are paused"), apart},
		{"it was put off before", job("c[1,4]", 2, "RUNNING", waitsText+"budget: x"), apart},
		{"a budget kept it from the cloud before", job("c[1,4]", 2, "RUNNING", AwayText+"main, and not for cloud: budget: x"), apart},
		{"it has its place in the cloud back", job("c[1,4]", 2, "RUNNING", "burst: its budget is looked at anew; back to main,cloud"), apart},
		{"it is told of an eviction", job("c[1,4]", 2, "RUNNING", "burst: node c9 was taken back"), "burst: node c9 was taken back"},
		{"an admin's word", job("c[1,4]", 2, "RUNNING", "see me"), "see me"},
		{"it has been told", job("c[1-2]", 2, "RUNNING", apart), apart},
		{"it waits again", job("", 2, "PENDING", apart), ""},
		{"it has ended", job("c[1,4]", 2, "COMPLETED", apart), apart},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inTwoClouds(t, st, nil, states, nil, func(e *Engine, s *scripted) {
				e.slurm = &commented{scripted: s}
				s.snap.Jobs = map[uint32]slurm.Job{7: tt.job}
				ctx, cancel := context.WithCancel(context.Background()) // of the bubble
				defer cancel()
				e.tookQuiet(ctx, s.snap)
				synctest.Wait()
				if got := s.snap.Jobs[7].AdminComment; got != tt.want {
					t.Errorf("it is told %q", got)
				}
				e.drain(ctx)
			})
		})
	}
}
