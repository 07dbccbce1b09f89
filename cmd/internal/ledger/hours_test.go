package ledger

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm/power"
)

// A cloud that bills by the hour, and does not say when an instance ended, as
// Vultr: the begun hour is booked whole, and what no job had of it is nobody's.
func TestBegunHours(t *testing.T) {
	for _, tt := range []struct {
		name       string
		gone       int // seconds after the launch
		want, jobs time.Duration
	}{
		{"a few minutes", 700, time.Hour, 8 * time.Minute},
		{"an hour and a second", 3601, 2 * time.Hour, 8 * time.Minute},
		{"an hour", 3600, time.Hour, 8 * time.Minute},
	} {
		i := instance()
		i.Offering.Market = cloud.OnDemand
		in := Input{
			Price:     func(string, cloud.Offering) Price { return Price{USDPerHour: 0.143} },
			Increment: func(string, cloud.Offering) price.Increment { return price.PerHour },
		}
		var rows []Row
		round := func(i power.Instance, taken int) {
			in.Instances, in.Snapshot = []power.Instance{i}, snapshot(taken, finished(7, 120, 600))
			for _, r := range Book(rows, in) {
				at := -1
				for n, old := range rows {
					if old.From.Equal(r.From) && old.Job == r.Job {
						at = n
					}
				}
				if at < 0 {
					rows = append(rows, r)
				} else {
					rows[at] = r
				}
			}
		}
		round(i, 300)
		round(i, 650)
		i.State, i.Gone, i.Doomed = cloud.Terminated, at(tt.gone), "suspended" // Ended is not said
		round(i, tt.gone+10)
		var all, jobs time.Duration
		usd := 0.0
		for _, r := range rows {
			d := time.Duration(float64(r.To.Sub(r.From)) * r.Share)
			all += d
			usd += r.Price.USDPerHour * d.Hours()
			if r.Job != 0 {
				jobs += d
			}
			if r.Open {
				t.Errorf("%s: %+v is open", tt.name, r)
			}
		}
		if all != tt.want || jobs != tt.jobs || usd < 0.143*tt.want.Hours()-1e-9 || usd > 0.143*tt.want.Hours()+1e-9 {
			t.Errorf("%s: %s are booked, %s of them to the job, for %.4f USD, want %s and %s", tt.name, all, jobs, usd, tt.want, tt.jobs)
		}
	}
}

// A round that falls on the moment from which on a month is paid keeps what is before as
// it is, known or not, and after the month the price is that of the day.
func TestMonthPaid(t *testing.T) {
	bills := price.Increment{Unit: time.Hour, Min: time.Hour, Month: time.Hour}
	i := instance()
	i.Offering.Market = cloud.OnDemand
	next := i.Launched.UTC()
	next = time.Date(next.Year(), next.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	hours := int(next.Sub(i.Launched)+time.Hour-1) / int(time.Hour) // of the launch's month
	for _, before := range []float64{0, 2} {
		b := &book{price: before, bills: &bills}
		b.round(snapshot(1800), i)
		b.round(snapshot(3600), i)
		b.round(snapshot(3700), i)
		b.price = 3
		b.round(snapshot(hours*3600+60), i)
		var got []Row
		for _, r := range b.rows {
			if r.To.After(r.From) {
				got = append(got, r)
			}
		}
		if len(got) != 3 || got[0].Price.USDPerHour != before || !got[0].To.Equal(at(3600)) || got[1].Price != MonthPaid ||
			!got[1].To.Equal(at(hours*3600)) || got[2].Price.USDPerHour != 3 || !got[2].Open {
			t.Errorf("price %v: %+v", before, got)
		}
	}
}
