package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/nodeapi"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
)

func TestCostLine(t *testing.T) {
	aws := []store.Bought{{Provider: "aws", Market: cloud.Spot, Type: "c7i.large"}}
	of := func(change func(*store.JobCost)) store.JobCost {
		began := time.Unix(1795391096, 0)
		c := store.JobCost{Run: history.Run{Job: 123, Nodes: 4, Begun: began, Ended: began.Add(62 * time.Minute)}, Bought: aws, Seconds: 14880, USD: 0.84, OnDemand: 2.1}
		change(&c)
		return c
	}
	for _, c := range []struct {
		change func(*store.JobCost)
		want   string
	}{
		{func(*store.JobCost) {}, "job 123 ran 1h02m on 4 nodes (aws spot c7i.large): 0.84 USD, 2.10 on demand"},
		{func(c *store.JobCost) { c.Open, c.Nodes, c.Evictions, c.Lost = true, 1, 1, 40*time.Second },
			"job 123 has run 1h02m on 1 node (aws spot c7i.large): 0.84 USD so far, 2.10 on demand; evicted 1 time, 40 s lost"},
		{func(c *store.JobCost) { c.Evictions, c.Lost, c.LostUnknown, c.USD = 2, 305*time.Second, 1, 0.00421 },
			"job 123 ran 1h02m on 4 nodes (aws spot c7i.large): 0.0042 USD, 2.10 on demand; evicted 2 times, 5m05s or more lost"},
		{func(c *store.JobCost) { c.Evictions, c.Lost, c.LostUnknown, c.Unknown = 1, -1, 1, 60 },
			"job 123 ran 1h02m on 4 nodes (aws spot c7i.large): 0.84 USD; evicted 1 time, what is lost is not known"},
		{func(c *store.JobCost) { c.Unpriced = 1800 }, "job 123 ran 1h02m on 4 nodes (aws spot c7i.large): 0.84 USD, and 0.50 h whose price is not known"},
		{func(c *store.JobCost) { c.Unpriced, c.Unknown = 14880, 14880 }, "job 123 ran 1h02m on 4 nodes (aws spot c7i.large): the price is not known"},
		{func(c *store.JobCost) {
			for i := range 5 {
				c.Bought = append(slices.Clone(c.Bought), store.Bought{Provider: "lon", Market: cloud.OnDemand, Type: fmt.Sprint("m", i)})
			}
		}, "job 123 ran 1h02m on 4 nodes (aws spot c7i.large, lon on-demand m0, lon on-demand m1, 3 more): 0.84 USD, 2.10 on demand"},
		{func(c *store.JobCost) { c.Bought = nil }, ""},
	} {
		if got := costLine(of(c.change)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestCostIsTheOwnersToKnow: a step's end is answered also where there is no such session.
func TestCostIsTheOwnersToKnow(t *testing.T) {
	st, err := store.Open(t.Context(), newJournal(t))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	row := ledger.Row{Instance: "i", Provider: "aws", Offering: cloud.Offering{Type: "m", Market: cloud.Spot}, Job: 7, UID: 1000, From: time.Now().Add(-time.Hour), To: time.Now(), Share: 1, Open: true}
	run := history.Run{Job: 7, Open: true, UID: 1000, Nodes: 1, Submitted: row.From, Started: row.From, Begun: row.From, Seen: row.To, State: "RUNNING"}
	if err := errors.Join(st.PutRuns(t.Context(), []history.Run{run}), st.PutUsage(t.Context(), []ledger.Row{row})); err != nil {
		t.Fatal(err)
	}
	s := steps{hub: session.NewHub(session.HubConfig{}, st, slog.New(slog.DiscardHandler)), store: st}
	if err := s.hub.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for uid, want := range map[int]string{1000: "job 7 has run 1h00m on 1 node (aws spot m): the price is not known", 1001: "", 0: ""} {
		said, err := s.Close(t.Context(), nodeapi.Caller{UID: uid}, session.End{Key: session.Key{Job: 7, Step: "0"}, Token: "t"})
		if err != nil || said.Cost != want {
			t.Errorf("uid %d is told %q, %v", uid, said.Cost, err)
		}
	}
	if said, err := s.Close(t.Context(), nodeapi.Caller{UID: 1000}, session.End{Key: session.Key{Job: 8, Step: "0"}, Token: "t"}); err != nil || said.Cost != "" {
		t.Error(said, err)
	}
}

// books are slurmdbd and the journal.
type books struct {
	runs     []history.Run
	going    bool
	unpriced float64
	records  map[uint32]slurm.Accounted
	refuse   map[uint32]error
	away     error
	asked    [][]uint32
	written  func()
	set      []uint32
}

func (b *books) RunsEnded(_ context.Context, from, to time.Time) (all []history.Run, _ error) {
	for _, r := range b.runs {
		if r.Ended.After(from) && !r.Ended.After(to) {
			all = append(all, r)
		}
	}
	return all, nil
}

func (b *books) RunCost(_ context.Context, r history.Run) (store.JobCost, error) {
	return store.JobCost{Run: r, Bought: []store.Bought{{Provider: "a", Market: cloud.Spot, Type: "t"}}, Seconds: 3600, USD: 1, OnDemand: 2, Going: b.going, Unpriced: b.unpriced}, nil
}

func (b *books) Accounted(_ context.Context, jobs []uint32) (map[uint32]slurm.Accounted, error) {
	b.asked = append(b.asked, jobs)
	for id, r := range b.records {
		r.ID = fmt.Sprintf("4_%d", id)
		b.records[id] = r
	}
	return maps.Clone(b.records), b.away
}

func (b *books) CommentAccounted(_ context.Context, id, text string) error {
	var job uint32
	if _, err := fmt.Sscanf(id, "4_%d", &job); err != nil {
		return err
	}
	if err := b.refuse[job]; err != nil {
		return err
	}
	r := b.records[job]
	r.AdminComment = text
	b.records[job] = r
	b.set = append(b.set, job)
	if b.written != nil {
		b.written()
	}
	return nil
}

const costOf7 = "burst: job 7 ran 1h00m on 1 node (a spot t): 1.00 USD, 2.00 on demand"

func TestCostComments(t *testing.T) {
	now := time.Unix(1795391096, 0)
	ended := now.Add(-time.Minute)
	run := func(id uint32) history.Run {
		return history.Run{Job: id, Nodes: 1, Submitted: ended.Add(-2 * time.Hour), Started: ended.Add(-time.Hour), Begun: ended.Add(-time.Hour), Ended: ended, State: "COMPLETED"}
	}
	record := func(comment string) slurm.Accounted {
		return slurm.Accounted{Submitted: ended.Add(-2 * time.Hour), Ended: ended, AdminComment: comment}
	}
	for _, c := range []struct {
		name, had, want string
		change          func(*books)
	}{
		{"none", "", costOf7, nil},
		{"of ours", "burst: node c1 was taken back by the cloud; requeued", "burst: node c1 was taken back by the cloud; requeued; " + costOf7, nil},
		{"somebody else's", "see ticket 9: burst: x", "see ticket 9: burst: x", nil},
		{"burstd was killed when it had it written", costOf7 + " or so", costOf7 + " or so", nil},
		{"another job's line", "burst: job 71 ran 1h", "burst: job 71 ran 1h; " + costOf7, nil},
		{"slurmdbd has not heard of the end", "x", "x", func(b *books) {
			b.records[7] = slurm.Accounted{Submitted: ended.Add(-2 * time.Hour), AdminComment: "x"}
		}},
		{"a later job of the id", "", "", func(b *books) {
			b.records[7] = slurm.Accounted{Submitted: ended.Add(time.Second), Ended: ended.Add(2 * time.Second)}
		}},
		{"an earlier one", "", "", func(b *books) {
			b.records[7] = slurm.Accounted{Submitted: ended.Add(-9 * time.Hour), Ended: ended.Add(-8 * time.Hour)}
		}},
		{"not booked", "", "", func(b *books) { b.going = true }},
		{"it has ended this moment", "", "", func(b *books) { b.runs[0].Ended = now }},
		{"it ended the day before yesterday", "", "", func(b *books) { b.runs[0].Ended = now.Add(-48 * time.Hour) }},
	} {
		b := &books{runs: []history.Run{run(7)}, records: map[uint32]slurm.Accounted{7: record(c.had)}}
		if c.change != nil {
			c.change(b)
		}
		for range 2 { // the second is of a burstd that was started anew
			comments := costComments{store: b, slurm: b, runs: map[endedRun]tries{}}
			if err := comments.round(t.Context(), now); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.records[7].AdminComment; got != c.want || len(b.set) > 1 {
			t.Errorf("%s: %q, set %d times", c.name, got, len(b.set))
		}
	}

	b := &books{records: map[uint32]slurm.Accounted{}, refuse: map[uint32]error{}}
	for id := range uint32(450) {
		b.runs = append(b.runs, run(id+1))
		b.records[id+1] = record("")
	}
	delete(b.records, 9)
	for _, id := range []uint32{3, 5, 201, 420} {
		b.refuse[id] = errors.New("refused")
	}
	comments := costComments{store: b, slurm: b, runs: map[endedRun]tries{}}
	b.away = errors.New("slurmdbd does not answer")
	if err := comments.round(t.Context(), now); err == nil || len(b.asked) != 1 || len(b.set) != 0 {
		t.Fatalf("%v, %d asked, %d set", err, len(b.asked), len(b.set))
	}
	b.away = nil
	for range 5 { // jobs that are refused do not keep it from the others, nor are they tried at once
		_ = comments.round(t.Context(), now)
	}
	if len(b.set) != 445 {
		t.Errorf("%d of 445 are set", len(b.set))
	}
	b.refuse, b.asked, b.records[9] = nil, nil, record("")
	if err := comments.round(t.Context(), now.Add(costEvery)); err != nil || len(b.set) != 450 || len(b.asked) != 1 || len(b.asked[0]) != 5 {
		t.Errorf("%v, %d set, asked for %v", err, len(b.set), b.asked)
	}
	b.runs = b.runs[:1]
	if _ = comments.round(t.Context(), now.Add(time.Hour)); len(comments.runs) != 1 || len(b.asked) != 1 {
		t.Errorf("%d are kept in mind", len(comments.runs))
	}
}

// TestCostCommentsWaitForPrices: the ledger may price a row when it is closed already, and a line is written once.
func TestCostCommentsWaitForPrices(t *testing.T) {
	ended := time.Unix(1795391096, 0)
	for _, priced := range []bool{true, false} {
		b := &books{unpriced: 1800, records: map[uint32]slurm.Accounted{7: {Submitted: ended.Add(-2 * time.Hour), Ended: ended}}}
		b.runs = []history.Run{{Job: 7, Nodes: 1, Submitted: ended.Add(-2 * time.Hour), Started: ended.Add(-time.Hour), Begun: ended.Add(-time.Hour), Ended: ended, State: "COMPLETED"}}
		comments := costComments{store: b, slurm: b, runs: map[endedRun]tries{}}
		want := costOf7
		for now := ended.Add(time.Minute); now.Before(ended.Add(costBack)); now = now.Add(costEvery) {
			if priced && now.After(ended.Add(5*time.Hour)) {
				b.unpriced = 0
			}
			before := len(b.set)
			if err := comments.round(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			if len(b.set) > before && (now.Sub(ended) < 5*time.Hour || !priced && now.Sub(ended) < 20*time.Hour) {
				t.Errorf("priced %v: written after %s", priced, now.Sub(ended))
			}
		}
		if !priced {
			want = "burst: job 7 ran 1h00m on 1 node (a spot t): 1.00 USD, and 0.50 h whose price is not known"
		}
		if got := b.records[7].AdminComment; got != want || len(b.set) != 1 {
			t.Errorf("priced %v: %q, set %d times", priced, got, len(b.set))
		}
	}
}

// TestCostCommentsLeaveOthers: what somebody writes while the lines of many are written is not written over, but
// for those of the few that were read at once.
func TestCostCommentsLeaveOthers(t *testing.T) {
	ended := time.Unix(1795391096, 0)
	b := &books{records: map[uint32]slurm.Accounted{}}
	for id := range uint32(150) {
		b.runs = append(b.runs, history.Run{Job: id + 1, Nodes: 1, Submitted: ended, Started: ended, Begun: ended, Ended: ended.Add(time.Hour), State: "COMPLETED"})
		b.records[id+1] = slurm.Accounted{Submitted: ended, Ended: ended.Add(time.Hour)}
	}
	b.written = func() {
		if r := b.records[100]; len(b.set) == 80 {
			r.AdminComment = "see ticket 9"
			b.records[100] = r
		}
	}
	comments := costComments{store: b, slurm: b, runs: map[endedRun]tries{}}
	if err := comments.round(t.Context(), ended.Add(2*time.Hour)); err != nil || len(b.set) != 149 || b.records[100].AdminComment != "see ticket 9" {
		t.Errorf("%v, %d are written, %+v", err, len(b.set), b.records[100])
	}
	asked := len(b.asked)
	comments = costComments{store: b, slurm: b, runs: map[endedRun]tries{}} // started anew, all have it
	if err := comments.round(t.Context(), ended.Add(2*time.Hour)); err != nil || len(b.asked) != asked+1 || len(b.set) != 149 {
		t.Errorf("%v, asked %d times, %d are written", err, len(b.asked)-asked, len(b.set))
	}
}

// TestCostComplaints: jobs end all the time, and slurmdbd refuses all of them for one reason.
func TestCostComplaints(t *testing.T) {
	c, now := complaints{}, time.Unix(1795391096, 0)
	refused := func(why string, jobs ...string) error {
		var all []error
		for _, id := range jobs {
			all = append(all, fmt.Errorf("setting the comment of job %s in slurmdbd: sacctmgr: %s (job %s)", id, why, id))
		}
		return errors.Join(all...)
	}
	for _, tt := range []struct {
		err   error
		after time.Duration
		want  bool
	}{
		{refused("Access denied", "7"), 0, true},
		{refused("Access denied", "8", "4_3", "9+1"), time.Minute, false},
		{refused("Connection refused", "8"), 2 * time.Minute, true},
		{errors.Join(refused("Access denied", "11"), refused("Connection refused", "12")), 3 * time.Minute, false},
		{errors.Join(refused("Access denied", "11"), refused("Nothing modified", "12")), 4 * time.Minute, true},
		{refused("Access denied", "12_1"), 7 * time.Hour, true},
	} {
		if got := c.fresh(tt.err, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s after %s: %v", tt.err, tt.after, got)
		}
	}
}
