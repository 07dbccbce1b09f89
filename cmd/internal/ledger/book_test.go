package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return t0.Add(time.Duration(seconds) * time.Second) }

// instance is i-1 as node c1, launched at 0.
func instance() power.Instance {
	return power.Instance{Provider: "east", Assigned: "c1",
		Instance: cloud.Instance{ID: "i-1", Pool: "p", Offering: cloud.Offering{Type: "m5", Market: cloud.Spot}, State: cloud.Running, Launched: t0}}
}

func ended(i power.Instance, seconds int) power.Instance {
	i.State, i.Ended, i.Gone, i.Doomed = cloud.Terminated, at(seconds), at(seconds+20), "suspended"
	return i
}

func running(id uint32, start int) slurm.Job {
	return slurm.Job{ID: id, UID: 1000 + int(id), User: fmt.Sprintf("u%d", id), Account: "a", State: "RUNNING", Nodes: "c[1-2]", Start: at(start)}
}

func finished(id uint32, start, end int) slurm.Job {
	j := running(id, start)
	j.State, j.End = "COMPLETED", at(end)
	return j
}

// requeued is the job as Slurm has it after a requeue.
func requeued(j slurm.Job, seconds int) slurm.Job {
	j.Submitted = at(seconds)
	return j
}

func snapshot(taken int, jobs ...slurm.Job) *slurm.Snapshot {
	s := &slurm.Snapshot{Taken: at(taken), Jobs: map[uint32]slurm.Job{}}
	for _, j := range jobs {
		s.Jobs[j.ID] = j
	}
	return s
}

// book is a ledger in memory, with its rows under their keys.
type book struct {
	rows  []Row
	price float64
	bills *price.Increment // nil: by the second
}

func (b *book) increment(string, cloud.Offering) price.Increment {
	if b.bills == nil {
		return price.PerSecond
	}
	return *b.bills
}

func (b *book) known(instances []power.Instance) []Row {
	var all []Row
	for _, i := range instances {
		mine := slices.DeleteFunc(slices.Clone(b.rows), func(r Row) bool { return r.Instance != i.ID })
		if !i.Gone.IsZero() {
			all = append(all, mine...)
			continue
		}
		all = append(all, slices.DeleteFunc(mine, func(r Row) bool { return !r.Open })...)
	}
	return all
}

// round books once, and a second time, which must change nothing.
func (b *book) round(s *slurm.Snapshot, instances ...power.Instance) {
	b.put(b.plan(s, instances...))
}

func (b *book) plan(s *slurm.Snapshot, instances ...power.Instance) []Row {
	return Book(b.known(instances), Input{Instances: instances, Snapshot: s,
		Price:     func(string, cloud.Offering) Price { return Price{USDPerHour: b.price, Source: "table"} },
		Increment: b.increment})
}

func (b *book) put(rows []Row) {
	for _, r := range rows {
		i := slices.IndexFunc(b.rows, func(o Row) bool { return o.Instance == r.Instance && o.From.Equal(r.From) && o.Job == r.Job })
		if i < 0 {
			b.rows = append(b.rows, r)
		} else {
			b.rows[i] = r
		}
	}
}

// text writes the rows with time as "from-to job", a "/n" where n share, a "+"
// where the row is open, and "?" where the price is not known.
func (b *book) text() string {
	var all []string
	rows := slices.Clone(b.rows)
	slices.SortStableFunc(rows, func(x, y Row) int { return x.From.Compare(y.From) })
	for _, r := range rows {
		if r.To.Equal(r.From) {
			continue
		}
		s := fmt.Sprintf("%.0f-%.0f %d", r.From.Sub(t0).Seconds(), r.To.Sub(t0).Seconds(), r.Job)
		if r.Share < 1 {
			s += fmt.Sprintf("/%.0f", 1/r.Share)
		}
		if r.Open {
			s += "+"
		}
		if !r.Price.Known() {
			s += "?"
		}
		all = append(all, s)
	}
	return strings.Join(all, ", ")
}

func TestBook(t *testing.T) {
	i := instance()
	next := i
	next.ID, next.Launched = "i-2", at(300)
	pending := running(7, 40)
	pending.State = "PENDING"
	configuring := running(7, 40)
	configuring.State = "CONFIGURING"
	for _, tt := range []struct {
		name string
		do   func(b *book)
		want string
	}{
		{"no snapshot yet", func(b *book) { b.round(nil, i) }, ""},
		{"boot", func(b *book) { b.round(snapshot(30, configuring), i) }, "0-30 0+"},
		{"its cloud does not say since when", func(b *book) {
			i := i
			i.Launched = time.Time{}
			b.round(snapshot(30), i)
			b.round(snapshot(60), ended(i, 50))
		}, ""},
		{"a job starts between two rounds", func(b *book) {
			b.round(snapshot(30), i)
			b.round(snapshot(60, running(7, 40)), i)
		}, "0-40 0, 40-60 7+"},
		{"an open piece is extended", func(b *book) {
			for s := 30; s <= 300; s += 30 {
				b.round(snapshot(s, running(7, 40)), i)
			}
		}, "0-40 0, 40-300 7+"},
		{"a job that came and went between two rounds", func(b *book) {
			b.round(snapshot(30), i)
			b.round(snapshot(60, finished(7, 35, 50)), i)
		}, "0-35 0, 35-50 7, 50-60 0+"},
		{"one job after another", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(90, finished(7, 40, 70), running(8, 75)), i)
		}, "0-40 0, 40-70 7, 70-75 0, 75-90 8+"},
		{"two jobs share", func(b *book) {
			b.round(snapshot(60, running(7, 40), running(8, 50)), i)
			b.round(snapshot(90, running(7, 40), finished(8, 50, 80)), i)
		}, "0-40 0, 40-50 7, 50-80 7/2, 50-80 8/2, 80-90 7+"},
		{"requeued: gone without an end", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(90, pending), i)
			b.round(snapshot(120, pending), i)
		}, "0-40 0, 40-75 7, 75-120 0+"},
		{"requeued, as Slurm says", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(90, requeued(pending, 88)), i)
			b.round(snapshot(120, requeued(pending, 88)), i)
		}, "0-40 0, 40-88 7, 88-120 0+"},
		{"requeued before the last round: it was completing", func(b *book) {
			b.round(snapshot(60, requeued(running(7, 40), 55)), i)
			b.round(snapshot(62, requeued(pending, 55)), i)
		}, "0-40 0, 40-60 7, 60-62 0+"},
		{"requeued, and completing", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(80, completing(7, 80)), i)
			b.round(snapshot(90, completing(7, 91)), i)
			b.round(snapshot(120, requeued(pending, 100)), i)
		}, "0-40 0, 40-100 7, 100-120 0+"},
		{"requeued, and on the same node again", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(90, requeued(running(7, 85), 70)), i)
		}, "0-40 0, 40-70 7, 70-85 0, 85-90 7+"},
		{"requeued, and on another node", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			j := requeued(running(7, 85), 70)
			j.Nodes = "c3"
			b.round(snapshot(90, j), i)
		}, "0-40 0, 40-70 7, 70-90 0+"},
		{"requeued while burstd was away for long, perhaps more than once", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(7260, requeued(pending, 7000)), i)
		}, "0-40 0, 40-60 7, 60-7260 0+"},
		{"restarted on the same node", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(90, running(7, 85)), i)
		}, "0-40 0, 40-85 7, 85-90 7+"},
		{"burstd was away: the job runs on", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(7260, running(7, 40)), i)
		}, "0-40 0, 40-7260 7+"},
		{"burstd was away: the job is gone, nobody knows since when", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(7260), i)
		}, "0-40 0, 40-60 7, 60-7260 0+"},
		{"burstd was away: the instance is gone", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(7260, finished(7, 40, 90)), ended(i, 100))
		}, "0-40 0, 40-90 7, 90-100 0"},
		{"burstd was away for all of it", func(b *book) { b.round(snapshot(7260), ended(i, 100)) }, "0-100 0"},
		{"ended, and Slurm does not answer", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(nil, ended(i, 100))
		}, "0-40 0, 40-100 7"},
		{"ended long after the last snapshot", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(60, running(7, 40)), ended(i, 3600))
		}, "0-40 0, 40-60 7, 60-3600 0"},
		{"booked beyond the end", func(b *book) {
			b.round(snapshot(60, running(7, 40)), i)
			b.round(snapshot(120, finished(7, 40, 90)), i)
			b.round(snapshot(150), ended(i, 80))
		}, "0-40 0, 40-80 7"},
		{"at its end it is left alone", func(b *book) {
			b.round(snapshot(90), ended(i, 80))
			b.round(snapshot(120, running(7, 100)), ended(i, 80))
		}, "0-80 0"},
		{"the cloud's minimum", func(b *book) { b.round(snapshot(30), ended(i, 10)) }, "0-60 0"},
		{"never ran", func(b *book) { b.round(snapshot(30), ended(i, -5)); b.round(snapshot(60), ended(i, -5)) }, ""},
		{"ended by a clock that is behind the cloud's", func(b *book) {
			i := ended(i, -5)
			i.Guessed = true
			b.round(snapshot(-3), i)
		}, "0-60 0"},
		{"gone by a clock that is behind the cloud's", func(b *book) {
			i := ended(i, -50)
			i.Ended = time.Time{}
			b.round(snapshot(-20), i)
		}, "0-60 0"},
		{"the clock was set back", func(b *book) {
			b.round(snapshot(60), i)
			b.round(snapshot(20), i)
			b.round(snapshot(90), i)
		}, "0-90 0+"},
		{"the clock was ahead, and the cloud knows better", func(b *book) {
			b.round(snapshot(86400), i)
			b.round(snapshot(90), ended(i, 80))
		}, "0-80 0"},
		{"the cloud's clock is ahead", func(b *book) { b.round(snapshot(-30), i); b.round(snapshot(30), i) }, "0-30 0+"},
		{"the node has a new instance", func(b *book) {
			b.round(snapshot(290), i)
			b.round(snapshot(360, running(8, 320)), i, next)
			b.rows = slices.DeleteFunc(b.rows, func(r Row) bool { return r.Instance != "i-2" })
		}, "300-320 0, 320-360 8+"},
		{"the node's old instance", func(b *book) {
			b.round(snapshot(290), i)
			b.round(snapshot(360, running(8, 320)), i, next)
			b.rows = slices.DeleteFunc(b.rows, func(r Row) bool { return r.Instance != "i-1" })
		}, "0-360 0+"},
		{"no price", func(b *book) { b.price = 0; b.round(snapshot(30), i) }, "0-30 0+?"},
		{"the price becomes known", func(b *book) {
			b.price = 0
			b.round(snapshot(30), i)
			b.price = 1
			b.round(snapshot(60), i)
		}, "0-60 0+"},
		{"a new spot price", func(b *book) {
			b.round(snapshot(30), i)
			b.price = 2
			b.round(snapshot(60), i)
		}, "0-30 0, 30-60 0+"},
		{"the price is not known any more", func(b *book) {
			b.round(snapshot(30), i)
			b.price = 0
			b.round(snapshot(60), i)
		}, "0-60 0+"},
		{"on demand keeps its price", func(b *book) {
			i := i
			i.Offering.Market = cloud.OnDemand
			b.round(snapshot(30), i)
			b.price = 2
			b.round(snapshot(60), i)
			b.round(snapshot(90, running(7, 70)), i)
			if p := b.rows[len(b.rows)-1].Price.USDPerHour; p != 1 {
				t.Errorf("the price has become %v", p)
			}
		}, "0-70 0, 70-90 7+"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &book{price: 1}
			tt.do(b)
			if got := b.text(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestARowSaysWhose(t *testing.T) {
	b := &book{price: 0.5}
	b.round(snapshot(60, running(7, 40)), instance())
	if r := b.rows[1]; r.Job != 7 || r.UID != 1007 || r.User != "u7" || r.Account != "a" || r.Pool != "p" || r.Provider != "east" || r.Node != "c1" || r.Price.USDPerHour != 0.5 {
		t.Errorf("%+v", r)
	}
	if r := b.rows[0]; r.Job != 0 || r.UID != -1 || r.User+r.Account != "" {
		t.Errorf("%+v", r)
	}
}

// TestOnDemandBesideSpot: a row keeps what its instance would have cost on demand when that was first known.
func TestOnDemandBesideSpot(t *testing.T) {
	b, i, onDemand := &book{price: 1}, instance(), 0.0
	round := func(seconds int) {
		i, in := i, Input{Snapshot: snapshot(seconds), Increment: b.increment}
		in.Instances = []power.Instance{i}
		in.Price = func(_ string, o cloud.Offering) Price {
			if o.Market == cloud.OnDemand {
				return Price{USDPerHour: onDemand}
			}
			return Price{USDPerHour: b.price}
		}
		b.put(Book(b.rows, in))
	}
	round(30)
	if _, known := b.rows[0].OnDemand(); known {
		t.Errorf("%+v", b.rows)
	}
	onDemand = 3
	round(60)
	onDemand = 4
	round(90)
	b.price = 2 // another row
	round(120)
	if len(b.rows) != 2 || b.rows[0].USDPerHourOnDemand != 3 || b.rows[1].USDPerHourOnDemand != 4 {
		t.Errorf("%+v", b.rows)
	}
	r := b.rows[0]
	r.Offering.Market = cloud.OnDemand
	if usd, known := r.OnDemand(); !known || usd != 1 {
		t.Errorf("on demand it is what it cost: %v", usd)
	}
	r.Price = MonthPaid
	if usd, known := r.OnDemand(); !known || usd != 0 {
		t.Errorf("what is not charged: %v", usd)
	}
}
