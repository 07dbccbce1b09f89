package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/history"
	"github.com/burst-hpc/burst/cmd/internal/jobword"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/munge/mungetest"
	"github.com/burst-hpc/burst/cmd/internal/nodeapi"
	"github.com/burst-hpc/burst/cmd/internal/srun"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/ckpt"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// TestWhoMaySpeakForAJob and how often Slurm is asked for it.
func TestWhoMaySpeakForAJob(t *testing.T) {
	s := newSite(t)
	node := netip.MustParseAddr("10.0.0.1")
	snap := func(j slurm.Job) *slurm.Snapshot {
		return &slurm.Snapshot{Taken: time.Now(), Jobs: map[uint32]slurm.Job{7: j}, Nodes: map[string]slurm.Node{
			"p1": {Name: "p1", Addr: "10.0.0.1"}, "p2": {Name: "p2", Addr: "10.0.0.2"}, "on1": {Name: "on1", Addr: "on1"}}}
	}
	running := slurm.Job{ID: 7, UID: 1000, State: "RUNNING", Restarts: 1, Nodes: "p1", NumNodes: 1}
	with := func(change func(j *slurm.Job)) slurm.Job {
		j := running
		change(&j)
		return j
	}
	for _, tt := range []struct {
		name    string
		first   slurm.Job     // as Slurm has been read
		age     time.Duration // of that
		now     slurm.Job     // as it is
		err     error         // of reading it
		caller  nodeapi.Caller
		attempt int
		want    error // nil: it may
		reads   int
	}{
		{name: "its owner, from its node", first: running, now: running},
		{name: "read long ago", first: running, age: time.Hour, now: running, reads: 1},
		{name: "read long ago, and Slurm is away", first: running, age: time.Hour, err: errors.New("away"), reads: 1},
		{name: "it has just started", now: running, reads: 1},
		{name: "it has just started, and Slurm is away", err: context.DeadlineExceeded, want: context.DeadlineExceeded, reads: 1},
		{name: "it has just been started anew", first: with(func(j *slurm.Job) { j.Restarts = 0 }), now: running, reads: 1},
		{name: "it does not run", now: with(func(j *slurm.Job) { j.State = "PENDING" }), want: nodeapi.ErrNotRunning, reads: 1},
		{name: "there is none", now: slurm.Job{}, want: nodeapi.ErrNotRunning, reads: 1},
		{name: "an attempt that is not yet", first: running, now: running, attempt: 2, want: nodeapi.ErrNotRunning, reads: 1},
		{name: "an attempt that is over", first: running, now: running, attempt: -1, want: session.ErrReplaced, reads: 1},
		{name: "another user", first: running, now: running, caller: nodeapi.Caller{UID: 1001}, want: session.ErrNotYours, reads: 1},
		{name: "root", first: running, now: running, caller: nodeapi.Caller{UID: -1}, want: session.ErrNotYours, reads: 1},
		{name: "from another cloud node", first: running, now: running, caller: nodeapi.Caller{Addr: netip.MustParseAddr("10.0.0.2")}, want: session.ErrNotYours, reads: 1},
		{name: "from a host that is no cloud node", first: running, now: running, caller: nodeapi.Caller{Addr: netip.MustParseAddr("192.168.0.1")}},
		{name: "from burstd's own host", first: running, now: running, caller: nodeapi.Caller{Addr: netip.MustParseAddr("127.0.0.1")}},
		{name: "a job on the site's own nodes, from a cloud node", now: with(func(j *slurm.Job) { j.Nodes = "on1" }), want: session.ErrNotYours, reads: 1},
		{name: "its nodes are no list", now: with(func(j *slurm.Job) { j.Nodes = "p[" }), want: session.ErrNotYours, reads: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				job, err, reads := tt.first, error(nil), 0
				st := steps{cfg: s.config, slurm: slurm.NewWatcher(func(context.Context) (*slurm.Snapshot, error) {
					reads++
					if err != nil {
						return nil, err
					}
					sn := snap(job)
					if job.ID == 0 {
						delete(sn.Jobs, 7)
					}
					return sn, nil
				}, minGap)}
				if _, err := st.slurm.Fresh(t.Context(), time.Now()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(tt.age + time.Second)
				job, err, reads = tt.now, tt.err, 0
				c := tt.caller
				if c.UID == 0 {
					c.UID = 1000
				}
				c.UID = max(c.UID, 0)
				if !c.Addr.IsValid() {
					c.Addr = node
				}
				got, cerr := st.check(t.Context(), c, attemptOf{7, 1 + tt.attempt})
				if !errors.Is(cerr, tt.want) || cerr == nil && got.ID != 7 || reads != tt.reads {
					t.Errorf("job %d, %v after %d readings; want %v after %d", got.ID, cerr, reads, tt.want, tt.reads)
				}
			})
		})
	}
}

// TestWhatIsOfAnEarlierJob of the same id is not told to this one.
func TestWhatIsOfAnEarlierJob(t *testing.T) {
	first := time.Now().Add(-time.Hour)
	for _, tt := range []struct {
		name    string
		attempt int // that made the generation
		at      time.Time
		first   time.Time
		want    bool
	}{
		{"of this attempt", 1, first.Add(time.Minute), first, true},
		{"of the one before", 0, first.Add(time.Minute), first, true},
		{"of one that is not yet", 2, first.Add(time.Minute), first, false},
		{"of before its submission", 1, first.Add(-time.Minute), first, false},
		{"of who knows when", 1, first.Add(-time.Minute), time.Time{}, true},
	} {
		g := session.Blessed{Key: session.Key{Job: 7, Attempt: tt.attempt, Step: "0"}, At: tt.at}
		if got := ofJob(g, slurm.Job{ID: 7, Restarts: 1}, tt.first); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// squeue prints the jobs of DIR/jobs, a line of NAME=VALUE each, in the format
// that it is asked for.
const squeue = `#!/bin/sh
for a; do case "$a" in JobID:*) format=$a;; esac; done
mark=${format#JobID:}; mark=${mark%%,*}
while read -r job; do
	IFS=,
	for field in $format; do
		value=
		IFS=' '
		for pair in $job; do [ "${pair%%=*}" != "${field%%:*}" ] || value=${pair#*=}; done
		IFS=,
		printf '%s%s' "$value" "$mark"
	done
	unset IFS
	echo
done <DIR/jobs
`

func jobLine(id, uid, restarts int) string {
	return fmt.Sprintf("JobID=%d ArrayJobID=%d ArrayTaskID=N/A HetJobID=0 UserID=%d Partition=p State=RUNNING Requeue=1 BatchFlag=1 RestartCnt=%d "+
		"exit_code=0 NumNodes=1 NodeList=p1 SubmitTime=N/A EligibleTime=N/A StartTime=N/A EndTime=N/A\n", id, id, uid, restarts)
}

// TestBurstSrunsAreHeard over TCP, with MUNGE both ways, by a real burstd, which
// is restarted between what is asked and its answer.
func TestBurstSrunsAreHeard(t *testing.T) {
	if testing.Short() {
		t.Skip("runs munged: slow end-to-end, run by make test")
	}
	s := newSite(t)
	socket := mungetest.Start(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.config.Endpoint.Listen = free.Addr().String()
	free.Close()
	me := os.Getuid()
	s.write("jobs", jobLine(7, me, 1)+jobLine(8, me+1, 0), 0o644)
	s.write("bin/squeue", strings.ReplaceAll(squeue, "DIR", s.dir), 0o755)
	s.write("bin/scontrol", `#!/bin/sh
case "$*" in
'show config') echo 'AuthInfo = socket=`+socket+`';;
'-o show nodes') echo 'NodeName=p1 CPUAlloc=0 CPUTot=1 NodeAddr=127.0.0.1 NodeHostName=p1 State=ALLOCATED+CLOUD RealMemory=500 Partitions=p';;
esac
`, 0o755)
	asked := session.Order{Job: 7, Attempt: 1, Request: session.Request{ID: "i-1/spot/7", Kind: session.Stop, By: time.Now().Add(10 * time.Minute), Why: "it goes"}}
	var evicted power.Change
	for _, id := range []string{"i-1", "i-2", "i-3", "i-4"} { // of ten hours each
		now := time.Now()
		evicted.Instances = append(evicted.Instances, power.Instance{Doomed: power.CloudEnded, Gone: now, Provider: "local",
			Instance: cloud.Instance{ID: id, Pool: "p", Launched: now.Add(-10 * time.Hour), Offering: cloud.Offering{Market: cloud.Spot}}})
	}
	s.journal(func(st *store.Store) error { return st.CommitPower(t.Context(), evicted) })
	s.journal(func(st *store.Store) error {
		return st.CommitSession(t.Context(), session.Change{Orders: []session.Order{asked}})
	})
	r := s.start()
	r.until("nodes are answered", func() bool { return strings.Contains(r.log.String(), "booting nodes are answered") })

	link := srun.Link{URLs: []string{"http://" + s.config.Endpoint.Listen}, UID: me, Munge: munge.New(munge.Options{Socket: socket})}
	transport := link.Transport()
	var before jobword.Before
	if err := transport.Do(t.Context(), jobword.Path, jobword.Asking{Job: 7, Attempt: 1}, &before); err != nil || len(before.Blessed) > 0 {
		t.Errorf("before: %+v, %v", before, err)
	}
	for _, tt := range []struct {
		name string
		key  session.Key
		want error // nil: none of session's
		says string
	}{
		{"another user's job", session.Key{Job: 8, Step: "0"}, session.ErrNotYours, "403"},
		{"an attempt that is over", session.Key{Job: 7, Step: "0"}, session.ErrReplaced, "410"},
		{"a job that is not", session.Key{Job: 9, Step: "0"}, nil, "knows no job 9"},
	} {
		err := transport.Do(t.Context(), session.PathOpen, session.Hello{Key: tt.key, Token: "t"}, nil)
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}

	stopping, finish := make(chan session.Request, 1), make(chan struct{})
	var said sync.Map
	c := session.NewClient(session.ClientConfig{Transport: transport,
		Hello: session.Hello{Key: session.Key{Job: 7, Attempt: 1, Step: "0"}, Host: "p1", Method: "signal", Strategy: "both", Dir: "/shared/7"},
		Do: func(ctx context.Context, q session.Request) session.Answer {
			stopping <- q
			<-finish
			return session.Answer{Generation: "/shared/7/attempt-1/gen-3", N: 3, Bytes: 5, Took: time.Second, Iteration: 70, Stopped: true}
		},
		Say: func(text string) { said.Store(text, true) }})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	defer running.Wait()
	defer cancel()
	q := <-stopping
	if d := q.By.Sub(asked.Request.By).Abs(); q.ID != asked.Request.ID || q.Kind != session.Stop || d > 15*time.Second {
		t.Errorf("it heard %+v, asked was %+v", q, asked.Request)
	}
	r.until("the session is counted", func() bool {
		m := r.scrape()
		return strings.Contains(m, "burst_sessions 1") && strings.Contains(m, "burst_requests_open 1")
	})
	r.finish()
	died := ft.Eviction{Instance: "i-9", Kind: ft.Died, Job: 7, Stage: ft.Done, Ending: ft.Moved, Began: time.Now(), Ended: time.Now(), LostIterations: 40}
	s.journal(func(st *store.Store) error {
		return st.CommitFT(t.Context(), ft.Change{Evictions: []ft.Eviction{died}})
	})
	half := ledger.Row{Instance: "i-8", Provider: "local", Pool: "p", Offering: cloud.Offering{Type: "small", Market: cloud.Spot}, Node: "p1", Job: 7, UID: me, From: time.Now().Add(-30 * time.Minute), To: time.Now(),
		Share: 1, Price: ledger.Price{USDPerHour: 0.5, Date: time.Now(), Source: "table"}, USDPerHourOnDemand: 2}
	s.journal(func(st *store.Store) error { return st.PutUsage(t.Context(), []ledger.Row{half}) })
	run := history.Run{Job: 7, Open: true, UID: me, Nodes: 1, Submitted: half.From, Started: half.From, Begun: half.From, Seen: half.To, State: "RUNNING", Restarts: 1}
	s.journal(func(st *store.Store) error { return st.PutRuns(t.Context(), []history.Run{run}) })
	close(finish)
	r = s.start()
	r.until("the answer has come", func() bool { return strings.Contains(r.scrape(), "burst_requests_open 0") })
	end, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	if cost := c.Close(end).Cost; !strings.HasPrefix(cost, "job 7 has run ") || !strings.HasSuffix(cost, " on 1 node (local spot small): 0.25 USD so far, 1.00 on demand; evicted 1 time, nothing lost") {
		t.Errorf("it is told %q", cost)
	}
	r.until("the session is closed", func() bool { return strings.Contains(r.scrape(), "burst_sessions 0") })
	if err := transport.Do(t.Context(), jobword.Path, jobword.Asking{Job: 7, Attempt: 1}, &before); err != nil || before.Blessed["0"].N != 3 || before.Blessed["0"].Attempt != 1 ||
		len(before.Evicted) != 1 || before.Evicted[0].Iterations != 40 || before.Evicted[0].Died.Unix() != died.Ended.Unix() {
		t.Errorf("after it: %+v, %v", before, err)
	}
	var word session.Word
	advised := ckpt.Interval(30*time.Second, ckpt.Rate{Evictions: 4, Watched: 40 * time.Hour}.Between(1), 0)
	r.until("a step is advised as its pool's instances were evicted", func() bool {
		h := session.Hello{Key: session.Key{Job: 7, Attempt: 1, Step: "1"}, Token: "u", Began: time.Now(), Host: "p1", Method: "signal", Strategy: "periodic", Dir: "/shared/7", Cost: 30 * time.Second}
		err := transport.Do(t.Context(), session.PathOpen, h, &word)
		return err == nil && word.Interval.Round(time.Second) == advised.Round(time.Second)
	})
	said.Range(func(text, _ any) bool { t.Errorf("it said %q", text); return true })
	r.finish()
	s.journal(func(st *store.Store) error {
		b, err := st.Blessed(t.Context(), 7, "0")
		if b.Answer.Generation != "/shared/7/attempt-1/gen-3" || b.Answer.Iteration != 70 {
			t.Errorf("blessed: %+v", b)
		}
		return err
	})
}

// journal opens the journal of a burstd that does not run.
func (s *site) journal(do func(*store.Store) error) {
	s.Helper()
	st, err := store.Open(s.Context(), s.config.Endpoint.DB())
	if err != nil {
		s.Fatal(err)
	}
	defer st.Close()
	if err := do(st); err != nil {
		s.Fatal(err)
	}
}
