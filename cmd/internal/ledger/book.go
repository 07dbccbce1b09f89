package ledger

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
	"github.com/burst-hpc/burst/slurm/power"
)

// Book returns the rows to write, all of an instance in one transaction. Known
// are the open rows and, of instances that have ended, all rows. Book is pure:
// what it returned, given back to it, is not booked again.
func Book(known []Row, in Input) []Row {
	rows := map[string][]Row{}
	for _, r := range known {
		rows[r.Instance] = append(rows[r.Instance], r)
	}
	jobs, latest := onNodes(in.Snapshot), latestOf(in.Instances)
	var all []Row
	for _, i := range in.Instances {
		if i.Launched.IsZero() {
			continue // its cloud does not say since when it costs: not since the year 1
		}
		b := booking{Instance: i, in: in, latest: latest[i.Assigned] == i.ID}
		if b.latest {
			b.jobs = jobs[i.Assigned]
		}
		all = append(all, b.book(rows[i.ID])...)
	}
	return all
}

// onNodes lists the jobs that Slurm shows on each node, in the order of their ids.
func onNodes(snap *slurm.Snapshot) map[string][]slurm.Job {
	all := map[string][]slurm.Job{}
	if snap == nil {
		return all
	}
	for _, id := range slices.Sorted(maps.Keys(snap.Jobs)) {
		j := snap.Jobs[id]
		if j.Nodes == "" || !has(j) && !over(j) {
			continue
		}
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			continue // its time is nobody's
		}
		for _, n := range names {
			all[n] = append(all[n], j)
		}
	}
	return all
}

// has says whether the job has its nodes. Of a job that is configured it is
// the nodes' boot that takes the time.
func has(j slurm.Job) bool {
	switch j.State {
	case "RUNNING", "COMPLETING", "SUSPENDED", "SIGNALING", "STAGE_OUT", "RESIZING", "STOPPED":
		return true
	}
	return false
}

// over says whether the job has ended, and its nodes are those that it had.
func over(j slurm.Job) bool {
	switch j.State {
	case "PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD":
		return false
	}
	return !has(j) && !j.End.IsZero()
}

// latestOf is each node's youngest instance: another one that is still named
// after the node has no jobs any more.
func latestOf(instances []power.Instance) map[string]string {
	young := map[string]power.Instance{}
	for _, i := range instances {
		if y, ok := young[i.Assigned]; !ok || cmp.Or(i.Launched.Compare(y.Launched), cmp.Compare(i.ID, y.ID)) > 0 {
			young[i.Assigned] = i
		}
	}
	ids := map[string]string{}
	for node, i := range young {
		ids[node] = i.ID
	}
	return ids
}

// booking is the work on one instance.
type booking struct {
	power.Instance
	in     Input
	jobs   []slurm.Job // on its node
	latest bool        // of its node
}

// end is when the instance's time ends, for the bill; ok is false while it lives.
func (b booking) end() (end time.Time, ok bool) {
	if b.Gone.IsZero() {
		return time.Time{}, false
	}
	return b.billed(endOf(b.Instance)), true
}

// billed is the end of the unit of time that an instance has begun that lives until end.
func (b booking) billed(end time.Time) time.Time {
	return b.Launched.Add(b.increment().Billed(end.Sub(b.Launched)))
}

func (b booking) increment() price.Increment { return b.in.Increment(b.Provider, b.Offering) }

func (b booking) book(known []Row) []Row {
	if len(known) > 0 && !slices.ContainsFunc(known, func(r Row) bool { return r.Open }) {
		return nil // it is at its end
	}
	end, ended := b.end()
	var past, open []Row
	for _, r := range known {
		if r.Open {
			open = append(open, r)
		} else {
			past = append(past, r)
		}
	}
	from, to := b.Launched, end
	if len(open) > 0 {
		from = open[0].To
	}
	if !ended {
		if b.in.Snapshot == nil {
			return nil
		}
		to = b.in.Snapshot.Taken
	}
	if !to.After(from) { // nothing new, or the clock was set back
		if !ended {
			return nil
		}
		return b.close(past, open, end)
	}
	pieces := b.pieces(open, from, to)
	rows := join(open, pieces)
	if ended {
		return b.close(past, rows, end)
	}
	return rows
}

// close ends an instance's rows: nothing lies behind its end.
func (b booking) close(past, rows []Row, end time.Time) []Row {
	if len(past)+len(rows) == 0 { // it has had no time at all
		r := b.row(slurm.Job{}, b.price(nil))
		r.From, r.To, r.Share = b.Launched, b.Launched, 1
		rows = []Row{r}
	}
	var all []Row
	for _, r := range past {
		if r.To.After(end) {
			all = append(all, cut(r, end))
		}
	}
	for _, r := range rows {
		r = cut(r, end)
		r.Open = false
		all = append(all, r)
	}
	return all
}

func cut(r Row, end time.Time) Row {
	if r.To.After(end) {
		r.To = end
	}
	if r.To.Before(r.From) {
		r.To = r.From
	}
	return r
}

// row is one of the instance, of the job or, for the zero job, of none.
func (b booking) row(j slurm.Job, p Price) Row {
	r := Row{Instance: b.ID, Provider: b.Provider, Pool: b.Pool, Offering: b.Offering, Node: b.Assigned, UID: -1, Price: p}
	if o := b.Offering; o.Market == cloud.Spot {
		o.Market = cloud.OnDemand
		r.USDPerHourOnDemand = b.in.Price(b.Provider, o).USDPerHour
	}
	if j.ID != 0 {
		r.Job, r.UID, r.User, r.Account = j.ID, j.UID, j.User, j.Account
	}
	return r
}

// price is the instance's from now on.
func (b booking) price(open []Row) Price {
	now := b.in.Price(b.Provider, b.Offering)
	if len(open) == 0 || !open[0].Price.Known() || open[0].Price == MonthPaid {
		return now
	}
	if old := open[0].Price; b.Offering.Market == cloud.OnDemand || !now.Known() || now.USDPerHour == old.USDPerHour {
		return old
	}
	return now
}
