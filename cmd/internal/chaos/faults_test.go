package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/spool"
)

// do makes an event happen and says whether it met anything. What lasts is
// undone by a goroutine of its own, which calm waits for.
func (w *world) do(ctx context.Context, e event) bool {
	switch e.kind {
	case submitJob:
		return w.submit(ctx, e)
	case cancelJob:
		return w.cancel(ctx, e)
	case evict, evictNow, againNotice, killMachine:
		return w.take(e)
	case noCapacity:
		return w.during(e, func() error { return w.Control.Refuse(patterns[e.pick%len(patterns)], e.pick/8%2) },
			func() error { return w.Control.Refuse(patterns[e.pick%len(patterns)], -1) })
	case slowBoot:
		return w.during(e, func() error { return w.Control.SetBoot(e.last) }, func() error { return w.Control.SetBoot(0) })
	case killBurstd:
		return w.lasting(func() { w.restartBurstd(ctx, e) })
	case killSlurm:
		return w.lasting(func() { w.restartSlurm(ctx, e) })
	case duplicate, foreign, unasked, nonsense:
		return w.order(ctx, e)
	case strayNotice, brokeNotice:
		return w.notice(e)
	case pause:
		return w.pauseLaunches(ctx, e)
	case drill:
		return w.practise(ctx, e)
	case rebalance, maintenance, stateChange:
		return w.lesser(e)
	case cutNode, cutSlurm:
		return w.cut(e)
	case fullDisk:
		return w.fill(e)
	}
	w.t.Errorf("nobody knows how to do %q", e.kind)
	return false
}

var patterns = []string{"*", "*/a", "*/b", "local.small/a/spot"}

// lasting runs what takes a while beside the storm.
func (w *world) lasting(run func()) bool {
	w.faults.Go(run)
	return true
}

// during does begin now and end when the event is over.
func (w *world) during(e event, begin, end func() error) bool {
	if err := begin(); err != nil {
		w.say("%s: %v", e.kind, err)
		return false
	}
	return w.lasting(func() {
		time.Sleep(e.last)
		if err := end(); err != nil {
			w.t.Errorf("ending %q: %v", e.kind, err)
		}
		w.say("over: %s", e.kind)
	})
}

// machine picks a live instance.
func (w *world) machine(pick int) (local.Machine, bool) {
	all, err := w.Control.List()
	if err != nil {
		w.say("listing instances: %v", err)
	}
	var live []local.Machine
	for _, m := range all {
		if m.State.Live() {
			live = append(live, m)
		}
	}
	if len(live) == 0 {
		return local.Machine{}, false
	}
	return live[pick%len(live)], true
}

// await picks a live instance, and waits for one.
func (w *world) await(pick int) (m local.Machine, ok bool) {
	err := insist(10*time.Second, func() error {
		if m, ok = w.machine(pick); !ok {
			return errors.New("no instance lives")
		}
		return nil
	})
	return m, err == nil
}

func (w *world) take(e event) bool {
	m, ok := w.await(e.pick)
	if !ok {
		return false
	}
	var err error
	switch e.kind {
	case killMachine:
		return w.lasting(func() {
			if err := w.Control.Kill(m.ID); err != nil {
				w.say("killing %s: %v", m.ID, err)
			}
		})
	case againNotice:
		for range 3 {
			err = w.Control.Evict(m.ID, e.last)
		}
	default:
		err = w.Control.Evict(m.ID, e.last)
	}
	w.say("%s of %s (%s), %s ahead: %v", e.kind, m.ID, m.Node, e.last, err)
	return err == nil
}

// restartBurstd kills burstd and starts it after a while. A kill during
// another's while is no kill.
func (w *world) restartBurstd(ctx context.Context, e event) {
	w.burstd.Lock()
	defer w.burstd.Unlock()
	if err := w.KillBurstd(); err != nil {
		w.t.Error(err)
	}
	w.say("burstd is dead for %s", e.last)
	time.Sleep(e.last)
	w.revive(ctx)
}

// revive starts burstd. With a full disk it does not start: then again.
func (w *world) revive(ctx context.Context) {
	for ctx.Err() == nil {
		err := w.StartBurstd(ctx)
		if err == nil {
			w.say("burstd is back")
			return
		}
		w.say("burstd does not start: %v", err)
		if err := w.KillBurstd(); err != nil {
			w.t.Error(err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (w *world) restartSlurm(ctx context.Context, e event) {
	w.slurm.Lock() // nobody submits
	defer w.slurm.Unlock()
	w.mu.Lock()
	settled := w.newest.Add(6 * time.Second)
	w.mu.Unlock()
	time.Sleep(time.Until(settled))
	if err := w.Cluster.KillController(); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	w.deaths = append(w.deaths, time.Now())
	w.mu.Unlock()
	w.say("slurmctld is dead for %s", e.last)
	time.Sleep(e.last)
	if err := w.Cluster.StartController(ctx); err != nil {
		w.t.Errorf("slurmctld does not start: %v", err)
	}
	w.say("slurmctld is back")
}

// heldBySlurm is why a job waits for an admin that a slurmctld wanted to start
// although it runs: killed before it had written the start down, it has
// forgotten it ("Duplicate jobid", and the node is drained; seen with 22.05).
const heldBySlurm = "launch failed requeued held"

// release is what an admin does about such a job.
func (w *world) release(ctx context.Context, id uint32) {
	out, err := w.Cluster.Command(ctx, "scontrol", "release", fmt.Sprint(id)).CombinedOutput()
	w.say("job %d, held by Slurm, is released: %v %s", id, err, out)
	w.held++
}

// order gives burstd an order that it must not carry out, or not twice.
func (w *world) order(ctx context.Context, e event) bool {
	dice := rand.New(rand.NewPCG(uint64(e.pick), 0))
	kind := []string{api.Resume, api.Suspend, api.ResumeFail}[dice.IntN(3)]
	nodes := w.Nodes()
	some := nodes[dice.IntN(len(nodes))]
	var orders []api.Order
	switch e.kind {
	case duplicate:
		orders = []api.Order{api.NewOrder(kind, some, "")}
		orders = append(orders, orders[0], orders[0])
	case unasked:
		orders = []api.Order{api.NewOrder(kind, some, "")}
		orders[0].Made = time.Now().Add(-time.Duration(dice.Int64N(int64(time.Minute))))
	case foreign:
		orders = []api.Order{api.NewOrder(kind, []string{"x[1-3]", "o1", some + ",x1", "login"}[dice.IntN(4)], "")}
	case nonsense:
		return w.babble(ctx, dice)
	}
	for i, o := range orders {
		var err error
		if way := dice.IntN(2); way == 0 || i == 1 {
			err = spool.Put(filepath.Join(w.Dir, "spool"), o)
		} else {
			err = w.API.AddOrder(ctx, o) // nobody may be there
		}
		w.say("%s: %s of %s: %v", e.kind, o.Kind, o.Nodes, err)
	}
	return true
}

// babble says what is no order, through the socket, the spool or burst-resume.
func (w *world) babble(ctx context.Context, dice *rand.Rand) bool {
	words := []string{"", "{", `{"id":"x"}`, `[]`, `{"id":"` + strings.Repeat("a", 32) + `","kind":"resume","nodes":"c[1-","made":"2020-01-01T00:00:00Z"}`,
		strings.Repeat("\x00", 5000), `{"id":"../../x","kind":"suspend","nodes":"c1"}`}
	word := words[dice.IntN(len(words))]
	switch dice.IntN(3) {
	case 0:
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://burstd/v1/orders", strings.NewReader(word))
		if err != nil {
			w.t.Error(err)
			return false
		}
		resp, err := w.raw.Do(req)
		if err != nil {
			w.say("nonsense: %v", err) // it is away
			return true
		}
		defer resp.Body.Close()
		if strings.HasPrefix(resp.Status, "2") && !strings.Contains(word, "c[1-") {
			w.t.Errorf("burstd took %q as an order: %s", word, resp.Status)
		}
	case 1:
		name := filepath.Join(w.Dir, "spool", fmt.Sprintf("%020d-%032x.json", dice.Uint64()%1e18, dice.Uint64()))
		if err := os.WriteFile(name, []byte(word), 0o600); err != nil {
			w.t.Error(err)
		}
	case 2:
		cmd := w.Cluster.Command(ctx, filepath.Join(w.bin, "burst-resume"), []string{"c[1-", "x[1-3]", "c99", "c1,,c2"}[dice.IntN(4)])
		cmd.Env = append(cmd.Environ(), "BURST_CONFIG="+w.Config, "SLURM_RESUME_FILE=/dev/null")
		out, err := cmd.CombinedOutput()
		w.say("burst-resume: %v %s", err, out)
	}
	return true
}

// notice says what is no notice of ours. The folder holds one of an instance
// until it is handled.
func (w *world) notice(e event) bool {
	id := fmt.Sprintf("i-%010x", uint32(e.pick))
	text := `{"instance":"` + id + `","kind":"` + string(cloud.SpotInterruption) + `","deadline":"2030-01-01T00:00:00Z"}`
	if e.kind == brokeNotice {
		text = []string{"{", "", `{"instance":"` + id + `"}`, `{"instance":"../c1","kind":"spot-interruption"}`, "\x00\xff"}[e.pick%5]
	}
	path := filepath.Join(w.Dir, "cloud", "notices", id+".json")
	write := func() error { return os.WriteFile(path, []byte(text), 0o644) }
	if e.kind == strayNotice {
		err := write()
		w.say("%s: %v", e.kind, err)
		return err == nil
	}
	return w.during(e, write, func() error {
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return err
		}
		return nil
	})
}
