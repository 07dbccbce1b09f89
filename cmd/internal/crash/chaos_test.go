package crash_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/slurmtest"
)

// TestChaos: jobs come and are cancelled, burstd and slurmctld die, orders get
// lost, the cloud fails in every way that it can and says what is not so, all by
// dice; in the end every job has finished or its user was told why, no instance
// lives, the journal is closed, no node had two instances at once, and no job
// ran twice at once. Without CHAOS_TIME it plays a few seeds; with it, as many
// from CHAOS_SEED on as there is time for: a quarter of CHAOS_TIME.
func TestChaos(t *testing.T) {
	total := &tally{met: map[string]int{}}
	play := func(seed uint64) {
		t.Run(fmt.Sprint("dice ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { chaos(newPlayed(t, seed), seed, total) })
		})
	}
	text := os.Getenv("CHAOS_TIME")
	if text == "" {
		worlds := uint64(40)
		if testing.Short() {
			worlds = 1
		}
		for seed := range worlds {
			play(seed)
		}
		return
	}
	whole, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("CHAOS_TIME: %v", err)
	}
	seed := rand.Uint64() % 1_000_000
	if text := os.Getenv("CHAOS_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("CHAOS_SEED is no number: %v", err)
		}
	}
	fmt.Printf("chaos: CHAOS_SEED=%d CHAOS_TIME=%s, virtual time\n", seed, text)
	played := 0
	for end := time.Now().Add(whole / 4); time.Now().Before(end); played++ {
		play(seed + uint64(played))
	}
	fmt.Printf("chaos: %d worlds\n", played)
	for _, what := range slices.Sorted(maps.Keys(total.met)) {
		fmt.Printf("chaos: %-34s %8d\n", what, total.met[what])
	}
}

// tally counts what the worlds have survived.
type tally struct {
	mu  sync.Mutex
	met map[string]int
}

// played is a story by dice.
type played struct {
	*story
	dice      *rand.Rand
	moody     *moody
	offerings []cloud.Offering
	jobs      []uint32
	requeue   map[uint32]bool
	cancelled map[uint32]bool
	told      []string          // what has happened
	planned   map[string]string // maintenance: event -> instance
	doubled   map[string]bool   // nodes whose second instance the dice have made

	more []fault // of this world alone

	losses []time.Time // of the journal

	runs sync.Mutex
	cut  map[string]lost     // instances that Slurm does not reach
	on   map[uint32][]string // job -> instances of its last attempt
}

// lost is an instance that Slurm does not reach.
type lost struct {
	node string
	runs map[uint32]bool // the jobs that ran there then
}

func (p *played) some(most time.Duration) time.Duration {
	return time.Duration(p.dice.Int64N(int64(most)))
}

func (p *played) say(format string, args ...any) {
	p.t.Helper()
	p.told = append(p.told, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// orderless has orders get lost from now on, or not any more.
func (s *story) orderless(lost bool) {
	s.mu.Lock()
	s.lost = lost
	s.mu.Unlock()
}

func newPlayed(t *testing.T, seed uint64) *played { return newPlayedWith(t, seed, nil) }

// newPlayedWith is newPlayed with features of the nodes.
func newPlayedWith(t *testing.T, seed uint64, features []string) *played {
	dice := rand.New(rand.NewPCG(seed, 1))
	p := &played{dice: dice, requeue: map[uint32]bool{}, cancelled: map[uint32]bool{}, planned: map[string]string{}, doubled: map[string]bool{},
		cut: map[string]lost{}, on: map[uint32][]string{}}
	p.story = &story{world: newWorld(t, slurmtest.Options{Nodes: expand("c[1-6]"), Features: features, SuspendTime: time.Minute, SuspendTimeout: 10 * time.Second, MinJobAge: 48 * time.Hour, SlurmdTimeout: 5*time.Second + p.some(time.Minute),
		ResumeTimeout: 5 * time.Minute, ReturnToService: 2, ResetAddr: dice.IntN(2) == 0, NewResumeFile: dice.IntN(2) == 0},
		cloudtest.Options{Boot: 1 + p.some(20*time.Second), AddrDelay: p.some(10 * time.Second), Lag: 1 + p.some(10*time.Second), Shutdown: p.some(10 * time.Second),
			Choice: dice.IntN(2) == 0, Prepare: dice.IntN(4) > 0, MaxLaunch: 1 + dice.IntN(4),
			Latency: map[cloudtest.Op]time.Duration{cloudtest.Launch: p.some(5 * time.Second), cloudtest.Prepare: p.some(5 * time.Second), cloudtest.List: p.some(time.Second)}},
		[]string{fleet.SpotOnly, fleet.OnDemandOnly, fleet.SpotThenOnDemand}[dice.IntN(3)])}
	p.moody = &moody{Fake: p.fake}
	p.cloud = p.moody
	p.pool.Fleet.SpotTimeout = p.some(2 * time.Minute)
	p.pool.MaxBootFailures = dice.IntN(2) * 20
	rules := ft.Pool{Name: "p", Nodes: p.pool.Nodes,
		OnRebalance: []string{ft.Ignore, ft.Drain, ft.Replace}[dice.IntN(3)], OnMaintenance: []string{ft.Ignore, ft.Drain, ft.Reserve}[dice.IntN(3)]}
	p.rules = func(node string) (ft.Pool, bool) { return rules, slices.Contains(rules.Nodes, node) }
	p.offerings = p.pool.Fleet.Offerings()
	p.begun = time.Duration(seed%2) * time.Hour
	return p
}

func chaos(p *played, seed uint64, total *tally) {
	t := p.t
	defer p.until()
	p.start("")
	var bag []fault
	for _, f := range append(faults[:len(faults):len(faults)], p.more...) {
		bag = append(bag, slices.Repeat([]fault{f}, f.weight)...)
	}
	for range 60 {
		f := bag[p.dice.IntN(len(bag))]
		if f.do(p) {
			p.say("%s", f.name)
			total.mu.Lock()
			total.met[f.name]++
			total.mu.Unlock()
		}
		p.drain()
		time.Sleep(p.some(30 * time.Second))
		p.revive()
	}
	p.say("the faults are over")
	p.calm()
	p.check()
	if t.Failed() {
		p.events()
		t.Logf("CHAOS_SEED=%d; alone: CHAOS_SEED=%d CHAOS_TIME=20s go test -run '%s$' ./cmd/internal/crash; its story:\n%s", seed, seed, t.Name(), strings.Join(p.told, "\n"))
	}
}

// events adds what burstd tells to the story.
func (p *played) events() {
	all, err := p.life.store.Events(p.t.Context(), 0, 0)
	if err != nil {
		p.say("no events: %v", err)
	}
	for _, e := range all {
		p.told = append(p.told, fmt.Sprintf("%s     burstd: %s node=%s instance=%s job=%d %s", e.Time.Format("15:04:05.000"), e.Kind, e.Node, e.Instance, e.Job, e.Text))
	}
	slices.SortStableFunc(p.told, func(a, b string) int { return strings.Compare(a[:12], b[:12]) })
}

// revive starts burstd when it has come to its end.
func (p *played) revive() {
	if !p.isDead() {
		return
	}
	p.die()
	time.Sleep(p.some(time.Minute))
	p.start("")
	p.say("burstd is back")
}

// calm ends all faults and waits until the world is at rest.
func (p *played) calm() {
	p.orderless(false)
	p.skewed(0)
	p.life.doom(0)
	p.moody.set(false, false)
	p.ctl.Up()
	p.rejoin()
	p.fake.Heal()
	if p.other != nil {
		p.other.Heal()
	}
	if p.revive(); p.knows() {
		// What burstd was killed over while it was another account can be learnt there alone: its key is back once more, for
		// longer than a launch waits there for better credentials before it is given up and looked for.
		p.moody.set(true, true)
		time.Sleep(8 * time.Minute)
		p.moody.set(false, false)
	}
	for _, o := range p.offerings {
		p.fake.SetCapacity(o, -1)
	}
	for _, s := range p.pool.Then {
		for _, o := range s.Fleet.Offerings() {
			p.other.SetCapacity(o, -1)
		}
	}
	for _, id := range p.jobs {
		if p.dice.IntN(2) == 0 {
			p.cancel(id)
		}
	}
	waitFor := func(d time.Duration, what string, cond func() bool) {
		p.t.Helper()
		p.wait(d, what, func() bool { p.revive(); p.startPools(); return cond() })
	}
	waitFor(4*time.Hour, "every job is over", func() bool {
		for _, id := range p.jobs {
			if i, known := p.ctl.Info(id); known && (i.State == "PENDING" || i.State == "CONFIGURING" || i.State == "RUNNING" || i.State == "COMPLETING") {
				return false
			}
		}
		return true
	})
	for _, n := range p.pool.Nodes { // an admin: who drained it, and why, is forgotten with the journal
		if len(p.losses) > 0 && strings.Contains(p.ctl.Node(n), "DRAIN") {
			if _, _, err := p.ctl.Run(p.t.Context(), "scontrol", "update", "nodename="+n, "state=resume"); err != nil {
				p.t.Error(err)
			}
		}
	}
	waitFor(time.Hour, "no instance lives, the journal is closed", func() bool { return p.live()+liveIn(p.other) == 0 && p.open() == "" })
}

// startPools is the admin who starts what too many failed boots have stopped, or what is paused.
func (p *played) startPools() {
	if since, _, _ := p.life.engine.Paused(); !since.IsZero() && !p.pause(false) {
		p.say("the pause is not ended")
	}
	stopped := false
	for _, b := range p.life.engine.Health().Breakers {
		stopped = stopped || !b.Stopped.IsZero()
	}
	if !stopped {
		return
	}
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Second)
	defer cancel()
	if err := p.life.engine.StartPool(ctx, "p", "uid 0"); err != nil {
		p.say("the pool is not started: %v", err)
	}
}

// check holds the world to the promises.
func (p *played) check() {
	for node := range p.twice {
		if !p.doubled[node] {
			p.t.Errorf("node %s had two live instances at once", node)
		}
	}
	if n := p.fake.Calls(cloudtest.Launch); n > 2000 {
		p.t.Errorf("%d launches were called", n)
	}
	tokens := map[string]int{}
	for _, i := range p.fake.Instances() {
		tokens[i.Token]++
		if most := p.fake.Request(i.ID).Count; tokens[i.Token] > most {
			p.t.Errorf("token %s has %d instances, %d were asked for", i.Token, tokens[i.Token], most)
		}
	}
	for _, id := range p.jobs {
		i, known := p.ctl.Info(id)
		switch {
		case known && i.State == "COMPLETED", known && i.State == "CANCELLED" && p.cancelled[id]:
		case known && i.ExitCode == 75 && slices.ContainsFunc(p.losses, func(at time.Time) bool {
			told := i.End.Add(-leaves)
			return at.After(told) && at.Sub(i.End) < 2*time.Minute
		}):
			// That burstd told it to end, and was to requeue it, is forgotten with the journal.
		case known && !p.requeue[id] && (i.State == "NODE_FAIL" || i.State == "FAILED"):
		default:
			p.t.Errorf("job %d: known %v, %+v", id, known, i)
		}
	}
	time.Sleep(2 * time.Minute) // a round and, with a budget, the ledger book what nobody waits for
	p.booked()
	if p.t.Failed() {
		p.t.Logf("open: %.2000s", p.open())
	}
}
