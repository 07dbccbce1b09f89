// Package chaos holds the test that lets everything go wrong at once, by dice,
// on a whole site of real parts: slurmctld, slurmds that come up as instances of
// cloud/local, burstd, jobs. make test-chaos runs it, and the worlds in virtual
// time of cmd/internal/crash.
//
// CHAOS_SEED is the seed, CHAOS_TIME how long all of it takes about. The plan
// of jobs and faults follows from the seed, the time and whether root runs it;
// what it meets does not: processes of a real machine run as they like. The
// same seed is therefore the same storm, and not the same weather to the
// second.
package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cmd/internal/rig"
)

func TestMain(m *testing.M) {
	local.Main()
	os.Exit(m.Run())
}

const (
	slurmdTimeout = 20 * time.Second // Slurm calls a silent node DOWN
	pools         = 2
	nodes         = 8
	// calmTime bounds how long the world may take to come to rest: the ten
	// minutes that a job waits at most for what failed, and its work.
	calmTime = 13 * time.Minute
)

// world is a site, with what has happened to it.
type world struct {
	*rig.Site
	t       *testing.T
	bin     string
	metrics string // address of burstd's
	began   time.Time
	raw     *http.Client // to burstd's socket
	faults  sync.WaitGroup

	slurm  sync.RWMutex // written to by whoever kills slurmctld
	burstd sync.Mutex   // held by whoever kills burstd

	mu     sync.Mutex
	story  []string
	jobs   []*submitted
	newest time.Time   // when the last job was submitted
	deaths []time.Time // of slurmctld
	held   int         // jobs that Slurm held, and that were released
	met    map[string]int
}

// say writes a line of the story.
func (w *world) say(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(format, args...)
}

// tell is say with the lock held.
func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf("%s %7.2f s  ", time.Now().Format("15:04:05.000"), time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// TestSite is the storm over real parts, the calm after it, and the account.
func TestSite(t *testing.T) {
	if os.Getenv("CHAOS_TIME") == "" {
		t.Skip("chaos: minutes of real time; make test-chaos runs it")
	}
	whole, err := time.ParseDuration(os.Getenv("CHAOS_TIME"))
	if err != nil || whole < 20*time.Second {
		t.Fatalf("CHAOS_TIME is no duration of at least 20s: %q", os.Getenv("CHAOS_TIME"))
	}
	seed := rand.Uint64() % 1_000_000
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHAOS_SEED is no number: %v", err)
		}
	}
	root := os.Getuid() == 0
	fmt.Printf("chaos: CHAOS_SEED=%d CHAOS_TIME=%s, real parts\n", seed, whole)
	if !root {
		fmt.Printf("chaos: NOT AMONG THE FAULTS: %s. They need root.\n", strings.Join([]string{cutNode, cutSlurm, fullDisk}, ", "))
	}
	w := begin(t, seed, root)
	defer w.end(seed, root)
	base, err := w.startSize(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	storm := plan(seed, whole/2, pools, root)
	w.rage(storm)
	w.calm()
	w.judge(base)
	w.table(storm)
}

func begin(t *testing.T, seed uint64, root bool) *world {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "bin")
	if err := rig.Build(t.Context(), bin); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	s, err := rig.Start(t.Context(), rig.Options{Dir: filepath.Join(t.TempDir(), "site"), Bin: bin, Nodes: nodes, Pools: pools, OnPrem: 1, Gate: true, NetNS: root,
		SuspendTime: 5 * time.Second, SuspendTimeout: 12 * time.Second, ResumeTimeout: 45 * time.Second, CredExpire: 10 * time.Second,
		SlurmdTimeout: slurmdTimeout, PoolToml: rules(seed), DaemonToml: fmt.Sprintf("metrics = %q", addr),
		SlurmExtra: "SchedulerParameters=batch_sched_delay=0,sched_min_interval=0\nMinJobAge=86400\n"})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Site: s, t: t, bin: bin, metrics: addr, began: time.Now(), met: map[string]int{}}
	socket, err := filepath.EvalSymlinks(filepath.Join(s.Dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	w.raw = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(socket, "burstd.sock"))
	}}}
	undo := func() error { return nil }
	if root {
		if undo, err = w.ownDisk(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { // after end
		if err := w.StopBurstd(); err != nil {
			t.Error(err)
		}
		if err := undo(); err != nil {
			t.Error(err)
		}
		if err := w.Close(); err != nil {
			t.Errorf("closing the site: %v", err)
		}
		if left := leftovers(s.Dir); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
	})
	if err := os.Mkdir(filepath.Join(w.Work, "beat"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.Work, "task"), []byte(task), 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

// rage carries the plan out; none of its events waits for another.
func (w *world) rage(storm []event) {
	begin := time.Now()
	for _, e := range storm {
		select {
		case <-w.t.Context().Done():
			return
		case <-time.After(time.Until(begin.Add(e.at))):
		}
		w.say("%s (pick %d, %s)", e.kind, e.pick%1000, e.last)
		w.faults.Go(func() { // some have to wait for slurmctld
			if w.do(w.t.Context(), e) {
				w.mu.Lock()
				w.met[e.kind]++
				w.mu.Unlock()
			}
		})
		if w.burstd.TryLock() {
			if !w.BurstdAlive() {
				w.t.Error("burstd has ended by itself")
				w.say("burstd has ended by itself")
				w.revive(w.t.Context())
			}
			w.burstd.Unlock()
		}
	}
}

// calm waits until the faults are over and the world is at rest.
func (w *world) calm() {
	w.faults.Wait()
	w.say("the faults are over")
	begin := time.Now()
	var restless string
	for time.Since(begin) < calmTime {
		if restless = w.restless(); restless == "" {
			w.say("the world is calm")
			fmt.Printf("chaos: calm %.1f s after the storm\n", time.Since(begin).Seconds())
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	w.t.Errorf("not calm within %s: %s", calmTime, restless)
	w.say("not calm: %s", restless)
}

// restless says what still goes on.
func (w *world) restless() string {
	ctx, cancel := context.WithTimeout(w.t.Context(), 30*time.Second)
	defer cancel()
	jobs, err := w.Slurm().Jobs(ctx)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, j := range jobs {
		if strings.ReplaceAll(j.Reason, "_", " ") == heldBySlurm && len(w.deaths) > 0 {
			w.release(ctx, j.ID)
		}
		if slices.Contains(goesOn, j.State) {
			all = append(all, fmt.Sprintf("job %d is %s (%s)", j.ID, j.State, j.Reason))
		}
	}
	machines, err := w.Control.List()
	if err != nil {
		return err.Error()
	}
	for _, m := range machines {
		if m.State.Live() {
			all = append(all, fmt.Sprintf("%s (%s) is %s", m.ID, m.Node, m.State))
		}
	}
	states, err := w.Slurm().Nodes(ctx, w.Nodes()...)
	if err != nil {
		return err.Error()
	}
	for _, n := range states {
		if s := n.State.String(); n.State.Base != "IDLE" || !strings.Contains(s, "POWERED_DOWN") {
			all = append(all, n.Name+" is "+s)
		}
	}
	st, err := w.API.Status(ctx)
	if err != nil {
		return err.Error()
	}
	if st.Orders+st.Instances+st.Evictions+st.Spooled+len(st.Nodes) > 0 {
		all = append(all, fmt.Sprintf("burstd has %+v", st))
	}
	return strings.Join(all, "; ")
}

var goesOn = []string{"PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
