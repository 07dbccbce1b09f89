package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/slurm"
)

var t0 = time.Unix(1_800_000_000, 0)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

// job is job 7 of u7 on c[1-2], submitted at 0.
func job(state string, restarts, start int) slurm.Job {
	return slurm.Job{ID: 7, UID: 1007, User: "u7", Account: "a", Name: "heat", Partition: "cloud", State: state, Restarts: restarts, Nodes: "c[1-2]", NumNodes: 2,
		Submitted: at(0), Start: at(start)}
}

func ended(state string, restarts, start, end int) slurm.Job {
	j := job(state, restarts, start)
	j.End = at(end)
	return j
}

func with(j slurm.Job, change func(*slurm.Job)) slurm.Job { change(&j); return j }

// book is a history in memory.
type book struct {
	t      *testing.T
	rows   map[string]Run
	spoken map[uint32]Spoken
}

func (b *book) known(in Input) []Run {
	open := slices.DeleteFunc(slices.Collect(maps.Values(b.rows)), func(r Run) bool { return !r.Open })
	for _, id := range Meant(open, in) {
		var last Run
		for _, r := range b.rows {
			if r.Job == id && !r.Open && !r.Submitted.Before(last.Submitted) {
				last = r
			}
		}
		if last.Job != 0 {
			open = append(open, last)
		}
	}
	return open
}

// round books a reading once, and a second time, which must change nothing.
func (b *book) round(taken int, jobs ...slurm.Job) {
	b.t.Helper()
	in := Input{Snapshot: &slurm.Snapshot{Taken: at(taken), Jobs: map[uint32]slurm.Job{}, Nodes: map[string]slurm.Node{
		"c1": {CPUs: 8, RealMemory: 1000}, "c2": {CPUs: 4, RealMemory: 500}, "on1": {CPUs: 2, RealMemory: 100}}},
		Pools: map[string]string{"c1": "p", "c2": "p"}, Types: map[string]string{"c1": "m5", "c2": "c5"}, Measured: map[string]Measured{"p": {NetworkGbit: 12.5}}, Spoken: b.spoken}
	for _, j := range jobs {
		in.Snapshot.Jobs[j.ID] = j
	}
	for _, r := range Book(b.known(in), in) {
		b.rows[fmt.Sprint(r.Job, r.Submitted.Unix())] = r
	}
	if again := Book(b.known(in), in); len(again) > 0 {
		b.t.Errorf("booked again at %d: %+v", taken, again)
	}
}

// text has each run: job, state, "+" where it is open, attempts, from-to, time.
func (b *book) text() string {
	var all []string
	for _, r := range slices.SortedFunc(maps.Values(b.rows), func(x, y Run) int { return x.Submitted.Compare(y.Submitted) }) {
		open, end := "", "?"
		if r.Open {
			open = "+"
		}
		if !r.Ended.IsZero() {
			end = fmt.Sprint(r.Ended.Sub(t0).Seconds())
		}
		all = append(all, fmt.Sprintf("%d %s%s x%d %g-%s %gs", r.Job, r.State, open, r.Restarts+1, r.Started.Sub(t0).Seconds(), end, r.Time().Seconds()))
	}
	return strings.Join(all, ", ")
}

func TestBook(t *testing.T) {
	elsewhere := with(job("RUNNING", 0, 10), func(j *slurm.Job) { j.Nodes = "on1" })
	pending := with(job("PENDING", 1, 0), func(j *slurm.Job) { j.Start, j.Submitted = time.Time{}, at(100) })
	for _, tt := range []struct {
		name string
		do   func(b *book)
		want string
	}{
		{"it waits", func(b *book) { b.round(30, job("PENDING", 0, 40)); b.round(60, job("CONFIGURING", 0, 40)) }, ""},
		{"not ours", func(b *book) { b.round(30, elsewhere) }, ""},
		{"ours by its word", func(b *book) { b.spoken = map[uint32]Spoken{7: {Label: "l"}}; b.round(30, elsewhere) }, "7 RUNNING+ x1 10-? 20s"},
		{"its nodes are no list", func(b *book) { b.round(30, with(elsewhere, func(j *slurm.Job) { j.Nodes = "c[" })) }, ""},
		{"it runs", func(b *book) { b.round(30, job("RUNNING", 0, 10)); b.round(60, job("RUNNING", 0, 10)) }, "7 RUNNING+ x1 10-? 50s"},
		{"it has just ended", func(b *book) { b.round(30, job("RUNNING", 0, 10)); b.round(60, ended("COMPLETED", 0, 10, 50)) }, "7 COMPLETED+ x1 10-50 40s"},
		{"it ended", func(b *book) { b.round(30, job("RUNNING", 0, 10)); b.round(66, ended("FAILED", 0, 10, 50)) }, "7 FAILED x1 10-50 40s"},
		{"it is shown for long", func(b *book) {
			for s := 66; s < 300; s += 30 {
				b.round(s, ended("TIMEOUT", 0, 10, 50))
			}
			b.round(400)
		}, "7 TIMEOUT x1 10-50 40s"},
		{"burstd was away for all of it", func(b *book) { b.round(200, ended("COMPLETED", 2, 10, 50)) }, "7 COMPLETED x3 10-50 40s"},
		{"burstd was away, and Slurm has forgotten it", func(b *book) { b.round(30, job("RUNNING", 0, 10)); b.round(7200) }, "7 UNKNOWN x1 10-30 20s"},
		{"Slurm forgets soon", func(b *book) {
			b.round(30, job("RUNNING", 0, 10))
			b.round(51, ended("CANCELLED", 0, 10, 50))
			b.round(53)
		}, "7 CANCELLED x1 10-50 40s"},
		{"cancelled while it waited", func(b *book) {
			b.round(300, with(ended("CANCELLED", 0, 10, 10), func(j *slurm.Job) { j.Nodes = "" }))
		}, ""},
		{"requeued", func(b *book) {
			b.round(30, job("RUNNING", 0, 10))
			b.round(90, job("COMPLETING", 0, 10))
			b.round(120, pending)
			b.round(180, with(job("RUNNING", 1, 150), func(j *slurm.Job) { j.Submitted = at(100) }))
		}, "7 RUNNING+ x2 10-? 125s"},
		{"requeued and started between two readings", func(b *book) {
			b.round(30, job("RUNNING", 0, 10))
			b.round(60, with(job("RUNNING", 1, 50), func(j *slurm.Job) { j.Submitted = at(40) }))
			b.round(300, with(ended("COMPLETED", 1, 50, 250), func(j *slurm.Job) { j.Submitted = at(40) }))
		}, "7 COMPLETED x2 10-250 230s"},
		{"its node failed, and Slurm requeues it", func(b *book) {
			b.round(30, job("RUNNING", 0, 10))
			b.round(60, ended("NODE_FAIL", 0, 10, 58))
			b.round(70, pending)
			b.round(90, pending)
		}, "7 PENDING+ x2 10-? 48s"},
		{"cancelled after a requeue", func(b *book) {
			b.round(30, job("RUNNING", 0, 10))
			b.round(60, pending)
			b.round(200, with(ended("CANCELLED", 1, 120, 120), func(j *slurm.Job) { j.Nodes = "" }))
		}, "7 CANCELLED x2 10-120 35s"},
		{"its user requeues it after its end", func(b *book) {
			b.round(66, ended("FAILED", 0, 10, 50))
			b.round(120, pending)
		}, "7 PENDING+ x2 10-? 40s"},
		{"that runs then", func(b *book) {
			b.round(66, ended("FAILED", 0, 10, 50))
			b.round(120, pending)
			b.round(400, with(job("RUNNING", 1, 380), func(j *slurm.Job) { j.Submitted = at(100) }))
		}, "7 RUNNING+ x2 10-? 60s"},
		{"that runs elsewhere, between two readings", func(b *book) {
			b.round(66, ended("FAILED", 0, 10, 50))
			b.round(400, with(elsewhere, func(j *slurm.Job) { j.Restarts, j.Start, j.Submitted = 1, at(380), at(350) }))
		}, "7 RUNNING+ x2 10-? 60s"},
		{"that has ended again", func(b *book) {
			b.round(300, ended("COMPLETED", 1, 10, 50))
			b.round(900, with(ended("COMPLETED", 3, 380, 400), func(j *slurm.Job) { j.Submitted = at(350) }))
		}, "7 COMPLETED x4 10-400 60s"},
		{"a job that was requeued, and is not ours", func(b *book) { b.round(120, pending) }, ""},
		{"its id is another's, after its end, which is requeued", func(b *book) {
			b.round(300, ended("COMPLETED", 0, 10, 50))
			b.round(900, with(job("RUNNING", 0, 820), func(j *slurm.Job) { j.Submitted = at(800) }))
			b.round(960, with(pending, func(j *slurm.Job) { j.Submitted = at(950) }))
		}, "7 COMPLETED x1 10-50 40s, 7 PENDING+ x2 820-? 110s"},
		{"its id is another user's, after its end, which was requeued", func(b *book) {
			b.round(300, ended("COMPLETED", 0, 10, 50))
			b.round(900, with(job("RUNNING", 1, 820), func(j *slurm.Job) { j.Submitted, j.UID = at(800), 1 }))
		}, "7 COMPLETED x1 10-50 40s, 7 RUNNING+ x2 820-? 80s"},
		{"its id is an array's, after its end, which was requeued", func(b *book) {
			b.round(300, ended("COMPLETED", 0, 10, 50))
			b.round(900, with(job("RUNNING", 1, 820), func(j *slurm.Job) { j.Submitted, j.ArrayID, j.ArrayTask = at(800), 5, "2" }))
		}, "7 COMPLETED x1 10-50 40s, 7 RUNNING+ x2 820-? 80s"},
		{"its id is another's, which waits requeued less often", func(b *book) {
			b.round(300, ended("COMPLETED", 2, 10, 50))
			b.round(900, with(pending, func(j *slurm.Job) { j.Submitted = at(800) }))
		}, "7 COMPLETED x3 10-50 40s"},
		{"slurmctld comes back and knows less", func(b *book) {
			b.round(66, ended("COMPLETED", 0, 10, 50))
			b.round(90, job("RUNNING", 0, 10))
			b.round(150, ended("COMPLETED", 0, 10, 100))
		}, "7 COMPLETED x1 10-100 90s"},
		{"Slurm has forgotten it, and comes back", func(b *book) {
			b.round(30, job("RUNNING", 0, 10))
			b.round(60)
			b.round(90, job("RUNNING", 0, 10))
		}, "7 RUNNING+ x1 10-? 80s"},
		{"its id is another's", func(b *book) {
			b.round(30, job("RUNNING", 0, 10))
			b.round(900, with(job("RUNNING", 0, 820), func(j *slurm.Job) { j.Submitted, j.UID = at(800), 1 }))
		}, "7 UNKNOWN x1 10-30 20s, 7 RUNNING+ x1 820-? 80s"},
		{"its id is another's of the same user", func(b *book) {
			b.round(30, job("RUNNING", 0, 10))
			b.round(900, with(ended("FAILED", 0, 820, 850), func(j *slurm.Job) { j.Submitted = at(800) }))
		}, "7 UNKNOWN x1 10-30 20s, 7 FAILED x1 820-850 30s"},
		{"its id is another's, after its end", func(b *book) {
			b.round(300, ended("COMPLETED", 0, 10, 50))
			b.round(900, with(job("RUNNING", 0, 820), func(j *slurm.Job) { j.Submitted = at(800) }))
		}, "7 COMPLETED x1 10-50 40s, 7 RUNNING+ x1 820-? 80s"},
		{"slurmctld's clock is ahead", func(b *book) {
			b.round(30, with(job("RUNNING", 0, 110), func(j *slurm.Job) { j.Submitted = at(100) }))
			b.round(60, with(pending, func(j *slurm.Job) { j.Submitted = at(130) }))
			b.round(70, with(pending, func(j *slurm.Job) { j.Submitted = at(130) }))
		}, "7 PENDING+ x2 110-? 0s"},
		{"the clock was set back", func(b *book) {
			b.round(90, job("RUNNING", 0, 10))
			b.round(30, job("RUNNING", 0, 10))
			b.round(20)
			b.round(110, job("RUNNING", 0, 10))
		}, "7 RUNNING+ x1 10-? 100s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &book{t: t, rows: map[string]Run{}}
			tt.do(b)
			if got := b.text(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestARunSaysWhat(t *testing.T) {
	b := &book{t: t, rows: map[string]Run{}, spoken: map[uint32]Spoken{7: {Label: "heat-4k", Method: "dmtcp"}}}
	array := func(j *slurm.Job) { j.ArrayID, j.ArrayTask, j.HetID = 5, "2", 6 }
	b.round(30, with(job("RUNNING", 0, 10), array))
	b.spoken = nil
	b.round(90, with(ended("FAILED", 0, 10, 60), func(j *slurm.Job) { array(j); j.ExitCode, j.ExitSignal = 3, 9 }))
	want := Run{Job: 7, Submitted: at(0), Whole: true, ArrayID: 5, ArrayTask: "2", HetID: 6, Name: "heat", User: "u7", UID: 1007, Account: "a", Partition: "cloud",
		Pool: "p", Types: "c5,m5", Nodes: 2, VCPUs: 12, Memory: 1500, Measured: Measured{NetworkGbit: 12.5}, Started: at(10), Begun: at(10), Seen: at(90), Ended: at(60), State: "FAILED", Exit: 3, Signal: 9,
		Label: "heat-4k", Method: "dmtcp"}
	for _, r := range b.rows {
		if r != want {
			t.Errorf("got  %+v\nwant %+v", r, want)
		}
	}
	if len(b.rows) != 1 {
		t.Errorf("%d runs", len(b.rows))
	}
}

// TestPoolOf: a job's batch host may be the site's own.
func TestPoolOf(t *testing.T) {
	pools := map[string]string{"c1": "p", "c2": "p", "d1": "q"}
	for nodes, want := range map[string]string{"c[1-2]": "p", "on1,d1": "q", "on[1-2]": "", "": "", "c[1-": ""} {
		if got := PoolOf(pools, NodesOf(slurm.Job{Nodes: nodes})); got != want {
			t.Errorf("%q is of %q, want %q", nodes, got, want)
		}
	}
}
