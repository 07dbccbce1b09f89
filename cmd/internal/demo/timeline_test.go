package demo

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/slurm"
)

func TestTimeline(t *testing.T) {
	began := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	var out strings.Builder
	l := timeline{out: &out, began: began}
	for _, e := range []api.Event{
		{Time: at(3.1), Kind: "order", Text: "resume c[1-3]"},
		{Time: at(3.15), Kind: "launch", Text: "3 × local.small/a/spot"},
		{Time: at(3.2), Kind: "instance", Node: "c1", Text: "local.small/a/spot is node c1"},
		{Time: at(3.5), Kind: "up", Node: "c3", Text: "registered, 1.2s after Slurm asked"},
		{Time: at(3.4), Kind: "up", Node: "c1", Text: "registered, 1.1s after Slurm asked"},
		{Time: at(3.6), Kind: "died", Node: "c9", Text: "100% gone %s"},
		{Time: at(3.7), Kind: "up", Node: "c2"},
	} {
		l.add(ofEvent(e))
	}
	l.add(ofJob(slurm.Job{State: "CONFIGURING"}, slurm.Job{ID: 7, Name: "heat", State: "RUNNING", Nodes: "c[1-3]"}, at(3.9)))
	l.flush(at(3.5))
	if out.Len() > 0 {
		t.Errorf("printed too early: %q", out.String())
	}
	l.flush(at(3.95))
	l.add(ofHeat(heatLine{kind: heatCheckpoint, iteration: 617}, at(104)))
	l.progress(500, 1000) // not on a terminal
	l.flush(at(105))
	for _, e := range []api.Event{
		{Time: at(106), Kind: "order", Text: "suspend c3"},
		{Time: at(107), Kind: "requeue", Job: 7, Text: "requeued, 560ms after the notice"},
		{Time: at(107.5), Kind: "evicted", Job: 7, Text: "requeued"},
		{Time: at(107.6), Kind: "evicted", Job: 8, Text: "it finished in the grace time"},
		{Time: at(108), Kind: "gone", Node: "c3"},
		{Time: at(109), Kind: "resume-file", Text: "odd"},
	} {
		l.add(ofEvent(e))
	}
	l.flushAll()
	const want = `   3.1 s  slurm  asks for c[1-3]
   3.1 s  burst  launches 3 × local.small/a/spot
   3.4 s  node   c[1-3] registered
   3.6 s  burst  c9: 100% gone %s
   3.9 s  job    7 (heat) runs on c[1-3]
 104.0 s  heat   writes its checkpoint at iteration 617 and leaves
 106.0 s  slurm  powers down c3
 107.0 s  burst  job 7: requeued, 560ms after the notice
 107.6 s  burst  job 8: it finished in the grace time
 108.0 s  cloud  the instance behind c3 is gone
 109.0 s  burst  odd
`
	if out.String() != want {
		t.Errorf("the timeline is\n%s", out.String())
	}
}

func TestOfJob(t *testing.T) {
	running := slurm.Job{ID: 7, Name: "heat", State: "RUNNING", Nodes: "c[1-2]"}
	again := running
	again.Restarts = 1
	for _, c := range []struct {
		name        string
		before, now slurm.Job
		want        string // empty: nothing to say
	}{
		{"starts", slurm.Job{ID: 7, State: "PENDING"}, running, "7 (heat) runs on c[1-2]"},
		{"goes on running", running, running, ""},
		{"was requeued between two looks", running, again, "7 (heat) runs again on c[1-2]"},
		{"waits", running, slurm.Job{ID: 7, State: "PENDING", Restarts: 1}, ""},
		{"ends", running, slurm.Job{ID: 7, Name: "heat", State: "COMPLETED"}, "7 (heat) has completed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if e, ok := ofJob(c.before, c.now, time.Time{}); ok != (c.want != "") || ok && e.text() != c.want {
				t.Errorf("%q, %t; want %q", e.text(), ok, c.want)
			}
		})
	}
}

func TestBar(t *testing.T) {
	var out strings.Builder
	l := timeline{out: &out, tty: true}
	l.progress(450, 1800)
	l.progress(450, 1800) // nothing new
	bar := "          heat   [##########..............................] 450 of 1800"
	l.print("a line")
	l.setBar("")
	if want := "\r\x1b[K" + bar + "\r\x1b[Ka line\n\r\x1b[K" + bar + "\r\x1b[K"; out.String() != want {
		t.Errorf("%q", out.String())
	}
}

func TestNobodyReads(t *testing.T) {
	r, w := io.Pipe()
	r.CloseWithError(errors.New("closed"))
	l := timeline{out: w}
	l.print("a")
	l.print("b")
	if l.err == nil || l.err.Error() != "closed" {
		t.Errorf("the error is %v", l.err)
	}
}
