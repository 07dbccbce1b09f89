package ft_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/notice"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// world is what outlives a guard: Slurm, the cloud that gives notices, and the
// journal. In place of slurm/power it boots what Slurm resumes, each node with a
// new instance, and tells Slurm of an instance that has gone.
type world struct {
	*testing.T
	*slurmtest.Controller
	fake *cloudtest.Fake
	boot time.Duration // of an instance; 1 s
	ctx  context.Context
	rest sync.WaitGroup // what the world itself does

	mu        sync.Mutex
	fail      func(cmd string) error      // as slurmtest.Options.Fail
	rewrite   func(*slurm.Snapshot)       // what the guard reads of Slurm
	source    cloud.NoticeSource          // in place of fake
	committed func(c ft.Change)           // called after each change of the journal
	loaded    func()                      // called after a life has read it
	refuse    string                      // stderr of commands that fail with an exit code
	running   int                         // commands under way
	most      int                         // at once
	nodes     map[string]string           // instance -> node
	made      map[string]int              // node -> its instances so far
	notices   map[noticeKey]ft.Notice     // the journal
	records   map[noticeKey]notice.Record //
	evictions map[evictionKey]ft.Eviction //
	events    []ft.Event                  //
	life      *life
}

type noticeKey struct {
	instance string
	kind     cloud.NoticeKind
}

type evictionKey struct {
	noticeKey
	job uint32
}

// bubble runs f in a world of its own and in virtual time. Whatever goroutine
// the guard leaves behind fails the test.
func bubble(t *testing.T, nodes string, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		names, err := hostlist.Expand(nodes)
		if err != nil {
			t.Fatal(err)
		}
		w := &world{T: t, boot: time.Second, fake: cloudtest.NewFake(cloudtest.Options{}), nodes: map[string]string{}, made: map[string]int{},
			notices: map[noticeKey]ft.Notice{}, records: map[noticeKey]notice.Record{}, evictions: map[evictionKey]ft.Eviction{}}
		w.Controller = slurmtest.New(slurmtest.Options{Nodes: names, SuspendTimeout: 5 * time.Second, SuspendTime: time.Hour,
			OnResume: w.resume, OnSuspend: w.suspend, Fail: w.fault})
		ctx, cancel := context.WithCancel(t.Context())
		w.ctx = ctx
		w.rest.Go(func() { w.Serve(ctx) })
		defer func() {
			w.die()
			cancel()
			w.rest.Wait()
			time.Sleep(time.Minute) // the goroutines of Slurm's programs and of jobs end
		}()
		f(w)
	})
}

func (w *world) fault(cmd string) error {
	w.mu.Lock()
	fail := w.fail
	w.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(cmd)
}

func (w *world) failing(f func(cmd string) error) {
	w.mu.Lock()
	w.fail = f
	w.mu.Unlock()
}

func (w *world) resume(list, _ string) {
	names, err := hostlist.Expand(list)
	if err != nil {
		w.Error(err)
	}
	w.mu.Lock()
	for _, n := range names {
		w.made[n]++
		w.nodes[fmt.Sprintf("i-%s-%d", n, w.made[n])] = n
	}
	boot := w.boot
	w.mu.Unlock()
	time.Sleep(boot)
	for _, n := range names {
		w.Register(n)
	}
}

func (w *world) suspend(list string) {
	names, err := hostlist.Expand(list)
	if err != nil {
		w.Error(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.nodes, func(_, node string) bool { return slices.Contains(names, node) })
}

// instance is the one behind a node.
func (w *world) instance(node string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, n := range w.nodes {
		if n == node {
			return i
		}
	}
	w.Fatalf("no instance is node %s", node)
	return ""
}

// evict gives notice of the instance behind a node, which goes after lead.
func (w *world) evict(node string, lead time.Duration) {
	w.evictInstance(w.instance(node), time.Now().Add(lead))
}

func (w *world) evictInstance(id string, deadline time.Time) {
	w.fake.Announce(cloud.Notice{Instance: id, Kind: cloud.SpotInterruption, Deadline: deadline})
	w.rest.Go(func() {
		select {
		case <-time.After(time.Until(deadline)):
			w.vanish(id)
		case <-w.ctx.Done():
		}
	})
}

// vanish ends an instance; Slurm is told as slurm/power does it.
func (w *world) vanish(id string) {
	w.mu.Lock()
	node, known := w.nodes[id]
	delete(w.nodes, id)
	w.mu.Unlock()
	if !known {
		return
	}
	w.Lost(node)
	for _, state := range []string{"down", "power_down_force"} {
		if _, _, err := w.Controller.Run(context.Background(), "scontrol", "update", "nodename="+node, "state="+state, "reason=gone"); err != nil {
			w.Error(err)
		}
	}
}

// until lets time pass until cond holds, at most for d.
func (w *world) until(d time.Duration, what string, cond func() bool) {
	w.Helper()
	for end := time.Now().Add(d); !cond(); time.Sleep(50 * time.Millisecond) { // synctest's time
		if time.Now().After(end) {
			w.Fatalf("not within %s: %s\n%s", d, what, w.story())
		}
	}
}

// story is all that was written and run, for a test that failed.
func (w *world) story() string {
	var b strings.Builder
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		fmt.Fprintf(&b, "%s %s node %s job %d: %s\n", e.Time.Format("15:04:05.000"), e.Kind, e.Node, e.Job, e.Text)
	}
	for _, e := range w.evictions {
		fmt.Fprintf(&b, "%+v\n", e)
	}
	for _, c := range w.Calls() {
		if c.Name != "squeue" && c.Args[0] != "-o" {
			fmt.Fprintf(&b, "%s %s %q\n", c.At.Format("15:04:05.000"), c.Name, c.Args)
		}
	}
	return b.String()
}

func (w *world) info(id uint32) slurmtest.JobInfo {
	i, _ := w.Info(id)
	return i
}

// begin submits jobs and waits until they run; it returns their ids.
func (w *world) begin(jobs ...slurmtest.Job) []uint32 {
	w.Helper()
	var ids []uint32
	for _, j := range jobs {
		ids = append(ids, w.Submit(j))
	}
	w.until(time.Minute, "the jobs run", func() bool {
		return !slices.ContainsFunc(ids, func(id uint32) bool { return w.info(id).State != "RUNNING" })
	})
	return ids
}

// again waits until the job runs for the n-th time after its first.
func (w *world) again(d time.Duration, id uint32, n int) {
	w.Helper()
	w.until(d, fmt.Sprintf("job %d runs with %d restarts", id, n), func() bool {
		i := w.info(id)
		return i.State == "RUNNING" && i.Restarts == n
	})
}

// closed waits until all notices are acknowledged.
func (w *world) closed(d time.Duration) {
	w.Helper()
	w.until(d, "all notices are closed", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, n := range w.notices {
			if n.Stage != ft.Acked {
				return false
			}
		}
		return len(w.notices) > 0
	})
}

// count counts events of a kind.
func (w *world) count(kind string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, e := range w.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
