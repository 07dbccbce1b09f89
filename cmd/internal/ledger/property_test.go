package ledger

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/power"
)

// life is what really happened on an instance, in seconds after its launch.
type life struct {
	length int
	jobs   []slurm.Job // as they will have been, at their ends
}

func drawLife(t *rapid.T) life {
	l := life{length: rapid.IntRange(0, 3000).Draw(t, "length")}
	for id := range rapid.IntRange(0, 6).Draw(t, "jobs") {
		start := rapid.IntRange(-100, 3000).Draw(t, "start")
		l.jobs = append(l.jobs, finished(uint32(id+1), start, start+rapid.IntRange(0, 1500).Draw(t, "runs")))
	}
	return l
}

// seen is what Slurm shows at a time: finished jobs for 300 s, and sometimes
// it has forgotten how one ended.
func (l life) seen(t *rapid.T, now int, forgets bool) *slurm.Snapshot {
	s := snapshot(now)
	for _, j := range l.jobs {
		switch {
		case at(now).Before(j.Start):
			j.State, j.End, j.Nodes = "PENDING", time.Time{}, ""
		case at(now).Before(j.End):
			j.State, j.End = "RUNNING", time.Time{}
		case at(now).Sub(j.End) > 300*time.Second, forgets && rapid.Bool().Draw(t, "forgotten"):
			continue
		}
		s.Jobs[j.ID] = j
	}
	return s
}

// TestAllTimeIsBookedOnce: whatever rounds are lost, repeated or come with the
// clock set back or ahead, an instance's time is booked once, without a gap.
func TestAllTimeIsBookedOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLife(t)
		b := &book{price: 1}
		if rapid.Bool().Draw(t, "long units") { // with a month that has its most soon
			b.bills = &price.Increment{Unit: 5 * time.Minute, Min: 10 * time.Minute, Month: time.Duration(rapid.IntRange(1, 12).Draw(t, "most")) * 5 * time.Minute}
		}
		steps := rapid.Bool().Draw(t, "clock steps")
		now := 0
		for now < l.length {
			now += rapid.SampledFrom([]int{1, 30, 30, 30, 31, 200, 900}).Draw(t, "until the next round")
			told := now
			if steps {
				told += rapid.IntRange(-100, 100).Draw(t, "clock")
			}
			s, i := l.seen(t, told, true), instance()
			b.price = rapid.SampledFrom([]float64{0, 1, 2}).Draw(t, "price")
			switch rapid.IntRange(0, 3).Draw(t, "round") {
			case 0: // lost
			case 1: // repeated, as after a crash
				b.round(s, i)
				again := b.plan(s, i)
				if before := slices.Clone(b.rows); len(again) > 0 {
					b.put(again)
					if !slices.Equal(before, b.rows) {
						t.Fatalf("booked again: %+v", again)
					}
				}
			default:
				b.round(s, i)
			}
		}
		gone := ended(instance(), l.length)
		b.round(l.seen(t, now+rapid.IntRange(0, 4000).Draw(t, "last round"), true), gone)
		if again := b.plan(snapshot(now+5000), gone); len(again) > 0 {
			t.Fatalf("booked behind the end: %+v", again)
		}
		checkTiles(t, b, gone)
	})
}

// checkTiles: the pieces lie end to end over the time that is billed, and each
// is shared out whole.
func checkTiles(t *rapid.T, b *book, i power.Instance) {
	inc := b.increment("", i.Offering)
	end := i.Launched.Add(inc.Billed(i.Ended.Sub(i.Launched)))
	rows := slices.DeleteFunc(slices.Clone(b.rows), func(r Row) bool { return r.From.Equal(r.To) })
	slices.SortStableFunc(rows, func(x, y Row) int { return x.From.Compare(y.From) })
	next, sum, free := i.Launched, 0.0, time.Duration(0)
	for k := 0; k < len(rows); {
		if !rows[k].From.Equal(next) {
			t.Fatalf("a piece begins at %s, and the one before ends at %s: %s", rows[k].From.Sub(t0), next.Sub(t0), b.text())
		}
		share, first := 0.0, rows[k]
		for ; k < len(rows) && rows[k].From.Equal(first.From); k++ {
			if !rows[k].To.Equal(first.To) || rows[k].Open {
				t.Fatalf("parts of one piece differ, or one is open: %s", b.text())
			}
			share += rows[k].Share
		}
		if math.Abs(share-1) > 1e-9 {
			t.Fatalf("the piece at %s is shared out by %v: %s", first.From.Sub(t0), share, b.text())
		}
		sum += first.To.Sub(first.From).Seconds()
		if first.Price == MonthPaid {
			free += first.To.Sub(first.From)
		}
		next = first.To
	}
	if want := end.Sub(i.Launched).Seconds(); math.Abs(sum-want) > 1e-6 {
		t.Fatalf("%v s are booked of %v: %s", sum, want, b.text())
	}
	if want := end.Sub(i.Launched) - inc.Charged(i.Launched, i.Ended); free != want {
		t.Fatalf("%s cost nothing, want %s: %s", free, want, b.text())
	}
}

// TestJobsGetWhatTheyHad: with a round each 30 s and all that Slurm knows, a
// job is booked for its time on the node and no other.
func TestJobsGetWhatTheyHad(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLife(t)
		b := &book{price: 1}
		for now := 30; now < l.length; now += 30 {
			b.round(l.seen(t, now, false), instance())
		}
		b.round(l.seen(t, l.length+60, false), ended(instance(), l.length))
		end := at(0).Add(price.PerSecond.Billed(time.Duration(l.length) * time.Second))
		for _, j := range l.jobs {
			got := time.Duration(0)
			for _, r := range b.rows {
				if r.Job == j.ID {
					got += r.To.Sub(r.From)
				}
			}
			from, to := j.Start, j.End
			if from.Before(t0) {
				from = t0
			}
			if to.After(end) {
				to = end
			}
			if want := max(0, to.Sub(from)); got != want {
				t.Fatalf("job %d of %s is booked for %s: %s", j.ID, want, got, b.text())
			}
		}
	})
}
