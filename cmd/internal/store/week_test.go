package store

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/cmd/internal/ledger"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// week is a site of two clouds, one that bills by the second and one by the hour with a most of a
// month, of which burstd's ledger sees what burstd would.
type week struct {
	*testing.T
	dice *rand.Rand
	now  time.Time
	s    *Store
	path string

	all   []*weekInstance
	nodes map[string]*weekInstance // by node, those that live
	jobs  []*weekJob
	told  map[string]bool // instances of whose end the journal has
	names int

	rounds, cuts, evicted int
}

type weekInstance struct {
	power.Instance
	job  *weekJob
	idle time.Time // since when
}

type weekJob struct {
	slurm.Job
	pool, nodes int
	runs        time.Duration
	on          []*weekInstance
}

// The pools: the plan of the second has its most of a month after 30 hours.
var (
	weekPools = []cloud.Offering{{Type: "c6i", Zone: "a", Market: cloud.Spot}, {Type: "vhp", Market: cloud.OnDemand}}
	weekPrice = []float64{0.1234, 0.143}
	weekBills = []price.Increment{price.PerSecond, {Unit: time.Hour, Min: time.Hour, Month: 30 * time.Hour}}
)

// nodeName is one of some hundred names, which come again.
func nodeName(n int) string { return fmt.Sprintf("c%d", n%300) }

func poolOf(o cloud.Offering) int {
	if o.Type == "vhp" {
		return 1
	}
	return 0
}

// due is what the provider has on its own bill: counted second by second, or hour by hour.
func (i *weekInstance) due() float64 {
	end := i.Ended
	if end.IsZero() {
		end = i.Gone // nobody was told
	}
	if pool := poolOf(i.Offering); pool == 0 {
		seconds := int64(60)
		for at := i.Launched.Add(60 * time.Second); at.Before(end); at = at.Add(time.Second) {
			seconds++
		}
		return float64(seconds) * weekPrice[pool] / 3600
	}
	usd, hours := 0.0, map[time.Month]int{}
	for at := i.Launched; at.Before(end); at = at.Add(time.Hour) {
		if m := at.UTC().Month(); hours[m] < 30 {
			hours[m]++
			usd += weekPrice[1]
		}
	}
	return usd
}

// chance is true once in so many.
func (w *week) chance(n int) bool { return w.dice.IntN(n) == 0 }

func (w *week) lasts(mean time.Duration) time.Duration {
	return time.Duration(w.dice.ExpFloat64()*float64(mean)) + time.Duration(w.dice.IntN(1e9))
}

func (w *week) submit(id uint32) {
	w.jobs = append(w.jobs, &weekJob{Job: slurm.Job{ID: id, UID: 1000 + int(id%7), User: fmt.Sprint("u", id%7), Account: "a", State: "PENDING", Submitted: w.now},
		pool: w.dice.IntN(2), nodes: 1 + w.dice.IntN(3), runs: w.lasts(40 * time.Minute)})
}

// start gives a job nodes that idle, and new ones.
func (w *week) start(j *weekJob) {
	j.on = nil
	begin := w.now
	for _, i := range w.all {
		if i.Gone.IsZero() && i.job == nil && poolOf(i.Offering) == j.pool && len(j.on) < j.nodes {
			j.on = append(j.on, i)
		}
	}
	for len(j.on) < j.nodes {
		for w.names++; w.nodes[nodeName(w.names)] != nil; {
			w.names++
		}
		i := &weekInstance{Instance: power.Instance{Provider: []string{"east", "lon"}[j.pool], Assigned: nodeName(w.names),
			Instance: cloud.Instance{ID: fmt.Sprintf("i-%06d", w.names), Pool: fmt.Sprint("p", j.pool), Offering: weekPools[j.pool], Launched: w.now}}}
		w.all, w.nodes[i.Assigned] = append(w.all, i), i
		j.on = append(j.on, i)
		begin = w.now.Add(90 * time.Second)
		w.tell(i)
	}
	var names []string
	for _, i := range j.on {
		i.job = j
		names = append(names, i.Assigned)
	}
	j.State, j.Nodes, j.Start = "RUNNING", strings.Join(names, ","), begin
}

// tell writes the instance to the journal.
func (w *week) tell(i *weekInstance) {
	w.told[i.ID] = !i.Gone.IsZero()
	putInstances(w.T, w.s, i.Instance)
}

// end is the instance's; how says whether the provider tells when.
func (w *week) end(i *weekInstance, tells bool) {
	i.Gone, i.State = w.now, cloud.Terminated
	if tells {
		i.Ended = w.now.Add(-time.Duration(w.dice.IntN(2e9)))
		if !i.Ended.After(i.Launched) {
			i.Ended = w.now
		}
	} else {
		i.Ended, i.Guessed = i.Gone, true // as the engine does
	}
	i.Ended, i.Gone = i.Ended.Truncate(time.Microsecond), i.Gone.Truncate(time.Microsecond)
	delete(w.nodes, i.Assigned)
}

// step lets some time pass, in which things happen; away: burstd does not run.
func (w *week) step(away bool) {
	w.now = w.now.Add(time.Duration(20e9 + w.dice.Int64N(80e9))).Truncate(time.Microsecond)
	for _, j := range w.jobs {
		switch {
		case j.State == "PENDING" && !away:
			w.start(j)
		case j.State == "RUNNING" && w.now.Sub(j.Start) >= j.runs:
			j.State, j.End = "COMPLETED", j.Start.Add(j.runs)
			for _, i := range j.on {
				i.job, i.idle = nil, j.End
			}
		case j.State == "RUNNING" && j.pool == 0 && w.chance(150): // evicted
			w.evicted++
			w.end(j.on[0], true)
			for _, i := range j.on {
				i.job, i.idle = nil, w.now
			}
			j.State, j.Nodes, j.Submitted, j.Start = "PENDING", "", w.now, time.Time{}
		}
	}
	for _, i := range w.all {
		if !away && i.Gone.IsZero() && i.job == nil && w.now.Sub(i.idle) > 10*time.Minute {
			w.end(i, i.Provider == "east" || w.chance(2))
		}
		if !away && !i.Gone.IsZero() && !w.told[i.ID] {
			w.tell(i)
		}
	}
	live := w.jobs[:0]
	for _, j := range w.jobs {
		if j.State != "COMPLETED" || w.now.Sub(j.End) < 300*time.Second {
			live = append(live, j)
		}
	}
	w.jobs = live
}

// round books, whole or, as with a kill, a part of it, after which burstd starts anew.
func (w *week) round() {
	w.Helper()
	w.rounds++
	instances, rows, err := w.s.LoadUsage(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	snap := &slurm.Snapshot{Taken: w.now, Jobs: map[uint32]slurm.Job{}}
	for _, j := range w.jobs {
		snap.Jobs[j.ID] = j.Job
	}
	written := ledger.Book(rows, ledger.Input{Instances: instances, Snapshot: snap,
		Price: func(_ string, o cloud.Offering) ledger.Price {
			return ledger.Price{USDPerHour: weekPrice[poolOf(o)], Source: "table"}
		},
		Increment: func(_ string, o cloud.Offering) price.Increment { return weekBills[poolOf(o)] }})
	if !w.chance(20) {
		putRows(w.T, w.s, written...)
		return
	}
	w.cuts++
	cut := 0
	for n := range written { // a transaction has all rows of an instance
		if n > 0 && written[n].Instance != written[n-1].Instance && w.chance(4) {
			cut = n
		}
	}
	putRows(w.T, w.s, written[:cut]...)
	if err := w.s.Close(); err != nil {
		w.Fatal(err)
	}
	if w.s, err = Open(w.Context(), w.path); err != nil {
		w.Fatal(err)
	}
	w.quick()
}

// quick has the journal not wait for the disk: what is lost with the host's power is not tried here.
func (w *week) quick() {
	if _, err := w.s.db.Exec("PRAGMA synchronous = OFF"); err != nil {
		w.Fatal(err)
	}
}

// TestAWeekIsBookedToTheCent: after a week of jobs with evictions, rounds that were cut short, and
// times without burstd, each instance costs in the ledger what its provider has on its own bill.
func TestAWeekIsBookedToTheCent(t *testing.T) {
	jobs, length := 5000, 7*24*time.Hour
	if testing.Short() {
		jobs, length = 350, 12*time.Hour
	}
	path := filepath.Join(t.TempDir(), "burst.db")
	w := &week{T: t, dice: rand.New(rand.NewPCG(8, 5000)), now: time.Date(2026, 10, 28, 9, 0, 0, 0, time.UTC), s: open(t, path), path: path, // over a month's end
		nodes: map[string]*weekInstance{}, told: map[string]bool{}}
	defer func() {
		if err := w.s.Close(); err != nil {
			t.Error(err)
		}
	}()
	w.quick()
	begin, back := w.now, w.now
	for id, last := 0, w.now; ; {
		for ; id < jobs && w.now.Sub(begin) >= length*time.Duration(id)/time.Duration(jobs); id++ {
			w.submit(uint32(id + 1))
		}
		away := w.now.Before(back)
		w.step(away)
		if away {
			continue
		}
		if w.now.Sub(last) > time.Duration(w.dice.Int64N(int64(45*time.Minute))) {
			w.round()
			last = w.now
		}
		if w.chance(500) {
			back = w.now.Add(w.lasts(30 * time.Minute))
		}
		if id == jobs && len(w.jobs) == 0 && len(w.nodes) == 0 {
			break
		}
	}
	for range 3 { // one may be cut
		w.now = w.now.Add(time.Minute)
		w.round()
	}
	w.check(jobs)
}

func (w *week) check(jobs int) {
	bills, err := w.s.Bills(w.Context(), time.Time{}, w.now.Add(time.Hour))
	if err != nil {
		w.Fatal(err)
	}
	byID := map[string]Bill{}
	for _, b := range bills {
		byID[b.ID] = b
	}
	sum, guessed, free := 0.0, 0, 0
	for _, i := range w.all {
		b, want := byID[i.ID], i.due()
		sum += want
		if math.Abs(b.USD-want) > 1e-6 || b.Unknown != 0 {
			w.Errorf("%s of %s, %s to %s: booked %.6f USD, its provider charges %.6f", i.ID, i.Provider, i.Launched, i.Ended, b.USD, want)
		}
		billed, charged, told := ledger.Due(i.Instance, weekBills[poolOf(i.Offering)])
		if b.Booked != billed || b.Charged != charged {
			w.Errorf("%s: booked %s, of which %s cost; told were %s and %s", i.ID, b.Booked, b.Charged, billed, charged)
		}
		if !told {
			guessed++
		}
		if b.Guessed == told {
			w.Errorf("%s: the end was told: %v; the journal has the contrary", i.ID, told)
		}
		if charged < billed {
			free++
		}
	}
	for _, by := range []string{"job", "user", "account", "pool", "provider", "offering", "day"} {
		all, err := w.s.Usage(w.Context(), UsageQuery{By: by, UID: -1})
		got := 0.0
		for _, u := range all {
			got += u.USD
		}
		if err != nil || math.Abs(got-sum) > 1e-6 {
			w.Errorf("by %s it is %.6f USD, all bills come to %.6f: %v", by, got, sum, err)
		}
	}
	if w.cuts == 0 || w.evicted == 0 || guessed == 0 || free == 0 && !testing.Short() || len(w.all) < jobs/4 {
		w.Error(errors.New("too little has happened"))
	}
	w.Logf("%d jobs, %d instances for %.2f USD, %d evictions, %d rounds of which %d were cut, %d ends not told, %d paid by their month",
		jobs, len(w.all), sum, w.evicted, w.rounds, w.cuts, guessed, free)
}
