package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// What happens to the world. Each is a line of the table that a run ends with.
const (
	submitJob   = "job submitted"
	cancelJob   = "job cancelled"
	evict       = "eviction with notice"
	evictNow    = "eviction with a lead of 0"
	killMachine = "eviction without notice"
	noCapacity  = "no capacity"
	slowBoot    = "slow boots"
	killBurstd  = "kill -9 of burstd"
	killSlurm   = "kill -9 of slurmctld"
	duplicate   = "duplicate order"
	foreign     = "foreign order"
	unasked     = "order that Slurm did not give"
	nonsense    = "nonsense order"
	againNotice = "duplicate notice"
	strayNotice = "foreign notice"
	brokeNotice = "broken notice"
	pause       = "launches paused"
	drill       = "drill: burst evict"
	rebalance   = "rebalance notice"
	maintenance = "maintenance notice, some cancelled"
	stateChange = "state-change notice"
	cutNode     = "network of a node cut"
	cutSlurm    = "controller unreachable for nodes"
	fullDisk    = "full disk under the journal"
)

// weights say how often a kind is drawn, beside the stream of jobs. Those of
// asRoot need root.
var (
	weights = map[string]int{
		cancelJob: 4, evict: 8, evictNow: 2, killMachine: 4, noCapacity: 3, slowBoot: 2, killBurstd: 4, killSlurm: 2,
		duplicate: 2, foreign: 2, unasked: 2, nonsense: 2, againNotice: 2, strayNotice: 2, brokeNotice: 2,
		pause: 2, drill: 3, rebalance: 2, maintenance: 2, stateChange: 2,
	}
	asRoot = map[string]int{cutNode: 3, cutSlurm: 1, fullDisk: 2}
)

// event is one thing that happens at its time.
type event struct {
	at   time.Duration // since the begin of the storm
	kind string
	pick int           // which of those that are there then, modulo their number
	last time.Duration // how long it lasts; of an eviction the lead, of a job its work
	job  job
}

// job is one that is submitted.
type job struct {
	Partition string
	Nodes     int
	Tasks     int  // of an array; 0: no array
	Signal    bool // it has a directive, and ends when it is signalled
	Stubborn  bool // it ignores SIGTERM
	NoRequeue bool // it may not be run twice
	Wide      bool // it takes whole nodes
}

// plan draws what happens in a storm of the given length from the seed, ahead:
// the same seed, length and rights give the same plan.
func plan(seed uint64, storm time.Duration, pools int, root bool) []event {
	dice := rand.New(rand.NewPCG(seed, 4))
	between := func(least, most time.Duration) time.Duration {
		return least + time.Duration(dice.Int64N(int64(most-least)))
	}
	var all []event
	for at := time.Duration(0); at < storm*9/10; at += between(500*time.Millisecond, 5*time.Second) {
		j := job{Partition: fmt.Sprint("cloud", 1+dice.IntN(pools)), Nodes: 1 + dice.IntN(3), Signal: dice.IntN(3) == 0, Stubborn: dice.IntN(6) == 0,
			NoRequeue: dice.IntN(6) == 0, Wide: dice.IntN(3) == 0}
		if dice.IntN(8) == 0 {
			j.Partition, j.Nodes = "cloud", 1+dice.IntN(2) // of whichever pools
		}
		if dice.IntN(6) == 0 {
			j.Nodes, j.Tasks = 1, 2+dice.IntN(2)
		}
		all = append(all, event{at: at, kind: submitJob, pick: dice.Int(), last: between(time.Second, 12*time.Second), job: j})
	}
	var bag []string
	for _, kinds := range []map[string]int{weights, asRoot} {
		names := make([]string, 0, len(kinds))
		for k := range kinds {
			names = append(names, k)
		}
		slices.Sort(names)
		for _, k := range names {
			if kinds[k] > 0 && (root || asRoot[k] == 0) {
				bag = append(bag, slices.Repeat([]string{k}, kinds[k])...)
			}
		}
	}
	// Dealt rather than thrown, so that a short storm has most kinds too.
	var deck []string
	for at := between(0, 5*time.Second); at < storm; at += between(200*time.Millisecond, 2*time.Second) {
		if len(deck) == 0 {
			deck = slices.Clone(bag)
			dice.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		e := event{at: at, kind: deck[0], pick: dice.Int(), last: duration(deck[0], storm, between)}
		deck = deck[1:]
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all
}

func duration(kind string, storm time.Duration, between func(least, most time.Duration) time.Duration) time.Duration {
	switch kind {
	case evict, againNotice, drill, maintenance:
		return between(time.Second, 25*time.Second)
	case killBurstd, killSlurm, brokeNotice:
		return between(100*time.Millisecond, 8*time.Second)
	case noCapacity, slowBoot, fullDisk, pause:
		return between(2*time.Second, 12*time.Second)
	case cutSlurm:
		return between(time.Second, 10*time.Second)
	case cutNode: // some for longer than Slurm waits, where there is time
		return between(time.Second, max(10*time.Second, min(storm/4, 2*slurmdTimeout)))
	}
	return 0
}

// TestCIsPlan: the seed and time of .ci/run make all kinds of events happen.
func TestCIsPlan(t *testing.T) {
	text, err := os.ReadFile("../../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`CHAOS_TIME=(\S+) CHAOS_SEED=(\d+)`).FindSubmatch(text)
	if m == nil {
		t.Fatal(".ci/run has no CHAOS_TIME and CHAOS_SEED")
	}
	whole, err := time.ParseDuration(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := strconv.ParseUint(string(m[2]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, e := range plan(seed, whole/2, pools, true) {
		kinds[e.kind] = true
	}
	for _, all := range []map[string]int{weights, asRoot} {
		for k := range all {
			if !kinds[k] {
				t.Errorf("CHAOS_SEED=%d CHAOS_TIME=%s has no %q", seed, whole, k)
			}
		}
	}
}

// TestPlansAreRepeatable: a seed is a plan, and a run of two minutes has all kinds.
func TestPlansAreRepeatable(t *testing.T) {
	for seed := range uint64(5) {
		p := plan(seed, time.Minute, 2, true)
		if !slices.Equal(p, plan(seed, time.Minute, 2, true)) {
			t.Errorf("seed %d: two plans", seed)
		}
		if slices.Equal(p, plan(seed+1, time.Minute, 2, true)) {
			t.Errorf("seeds %d and %d: one plan", seed, seed+1)
		}
		kinds := map[string]bool{}
		for _, e := range p {
			kinds[e.kind] = true
			if e.at < 0 || e.at > time.Minute {
				t.Errorf("seed %d: %+v is not in the storm", seed, e)
			}
		}
		if want := (len(weights) + len(asRoot)) * 3 / 4; len(kinds) < want {
			t.Errorf("seed %d: only the kinds %v", seed, kinds)
		}
		for _, e := range plan(seed, time.Hour, 2, false) {
			if asRoot[e.kind] > 0 {
				t.Fatalf("seed %d: %s without root", seed, e.kind)
			}
		}
	}
}
