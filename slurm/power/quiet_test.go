package power

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

// TestAJobIsToldOnceItCanBe: Slurm does not take the comment at first. It is tried again, at growing
// intervals, and not once it is written.
func TestAJobIsToldOnceItCanBe(t *testing.T) {
	inTwoClouds(t, State{}, nil, nil, nil, func(e *Engine, s *scripted) {
		ctx, cancel := context.WithCancel(context.Background()) // of the bubble
		defer cancel()
		e.market.jobs = map[uint32]slurm.Job{7: {ID: 7}}
		tell := func() int {
			s.asked = nil
			for range 20 {
				e.tellQuiet(ctx, map[asking]string{{7, "a"}: quietText + "why"})
				synctest.Wait()
				e.drain(ctx)
			}
			return len(s.asked)
		}
		s.fail["job 7 comment"] = errors.New("refused")
		if n := tell(); n != 1 {
			t.Errorf("asked %d times in one moment", n)
		}
		time.Sleep(time.Minute)
		delete(s.fail, "job 7 comment")
		if n := tell(); n != 1 {
			t.Errorf("asked %d times when Slurm takes it", n)
		}
	})
}

// TestWhatAJobWasToldIsTakenBack when it does not wait any more.
func TestWhatAJobWasToldIsTakenBack(t *testing.T) {
	const text, move = quietText + "why", MovedText + "r: goes also to cloud, since 2026-01-01 00:00:00"
	st := State{Nodes: []Node{{Name: "c2", Pool: "p", Phase: Wanted, Job: 8}}}
	inTwoClouds(t, st, nil, nil, nil, func(e *Engine, s *scripted) {
		e.slurm = &commented{scripted: s}
		s.snap.Jobs = map[uint32]slurm.Job{7: {ID: 7, State: "RUNNING", AdminComment: text}, 8: {ID: 8, State: "CONFIGURING", AdminComment: text},
			9: {ID: 9, State: "RUNNING", AdminComment: "burst: requeued: x"}, 11: {ID: 11, State: "RUNNING", AdminComment: move + behind(budgetText) + "why"}, 10: {ID: 10, State: "COMPLETED", AdminComment: text}}
		ctx, cancel := context.WithCancel(context.Background()) // of the bubble
		defer cancel()
		e.listed = e.listAll(ctx)
		if err := e.round(ctx, e.listed); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for id, want := range map[uint32]string{7: "", 8: text, 9: "burst: requeued: x", 11: move, 10: text} {
			if got := s.snap.Jobs[id].AdminComment; got != want {
				t.Errorf("job %d is told %q", id, got)
			}
		}
		e.drain(ctx)
	})
}

// TestAMovedJobKeepsTheWordsOfItsMove when it is told of a cloud that does not answer, or of a price: in place of what was told of its boot.
func TestAMovedJobKeepsTheWordsOfItsMove(t *testing.T) {
	const move = MovedText + "r: goes also to cloud, since 2026-01-01 00:00:00"
	for _, had := range []string{move, move + behind(BootText) + "1 of pool p", move + behind(quietText) + "another"} {
		inTwoClouds(t, State{}, nil, nil, nil, func(e *Engine, s *scripted) {
			ctx, cancel := context.WithCancel(context.Background()) // of the bubble
			defer cancel()
			s.snap.Jobs = map[uint32]slurm.Job{7: {ID: 7, AdminComment: had}}
			e.slurm, e.market.jobs = &commented{scripted: s}, s.snap.Jobs
			e.tellQuiet(ctx, map[asking]string{{7, "a"}: budgetText + "why"})
			synctest.Wait()
			e.drain(ctx)
			if got, want := s.snap.Jobs[7].AdminComment, move+"; its nodes are launched when the budget has an answer: why"; got != want {
				t.Errorf("told %q, want %q", got, want)
			}
		})
	}
}
