package ledger

import (
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud/price"
	"github.com/burst-hpc/burst/slurm"
)

// span is a time in which a job had the node.
type span struct {
	job      slurm.Job
	from, to time.Time
}

// pieces cuts the time from from to to at every start and end of a job, and of what
// is not charged. The rows of a piece stand together, and the pieces in their order.
func (b booking) pieces(open []Row, from, to time.Time) []Row {
	spans := b.spans(open, from, to)
	cuts := []time.Time{from, to}
	for _, s := range spans {
		cuts = append(cuts, s.from, s.to)
	}
	free := b.increment().Free(b.Launched, from, to)
	for _, s := range free {
		cuts = append(cuts, s.From, s.To)
	}
	slices.SortFunc(cuts, time.Time.Compare)
	cuts = slices.CompactFunc(cuts, time.Time.Equal)
	usual := b.price(open)
	var all []Row
	for i := range len(cuts) - 1 {
		p := usual
		if slices.ContainsFunc(free, func(s price.Span) bool { return !s.From.After(cuts[i]) && !s.To.Before(cuts[i+1]) }) {
			p = MonthPaid
		}
		var piece []Row
		for _, s := range spans {
			if !s.from.After(cuts[i]) && !s.to.Before(cuts[i+1]) && !slices.ContainsFunc(piece, func(r Row) bool { return r.Job == s.job.ID }) {
				piece = append(piece, b.row(s.job, p))
			}
		}
		if len(piece) == 0 {
			piece = []Row{b.row(slurm.Job{}, p)}
		}
		for _, r := range piece {
			r.From, r.To, r.Share, r.Open = cuts[i], cuts[i+1], 1/float64(len(piece)), i == len(cuts)-2
			all = append(all, r)
		}
	}
	return all
}

// spans are the jobs' times between from and to.
func (b booking) spans(open []Row, from, to time.Time) []span {
	var all []span
	add := func(j slurm.Job, start, end time.Time) {
		if start.Before(from) {
			start = from
		}
		if end.After(to) {
			end = to
		}
		if start.Before(end) {
			all = append(all, span{j, start, end})
		}
	}
	told := map[uint32]bool{} // jobs of which Slurm says how they had the time from from on
	for _, j := range b.jobs {
		start := b.start(j)
		if j.State == "COMPLETING" && slices.ContainsFunc(open, func(r Row) bool { return r.Job == j.ID }) {
			start = from // of one that is requeued Slurm has the present as the start
		}
		told[j.ID] = !start.After(from)
		if over(j) {
			add(j, start, j.End)
		} else {
			add(j, start, b.until(to))
		}
	}
	for _, r := range open {
		if r.Job != 0 && !told[r.Job] {
			last := slurm.Job{ID: r.Job, UID: r.UID, User: r.User, Account: r.Account}
			if end := b.lost(r, from, to); end.Sub(from) <= Doubt {
				add(last, from, end)
			}
		}
	}
	return all
}

// start is when the job came to this node, as far as Slurm says.
func (b booking) start(j slurm.Job) time.Time {
	if j.Start.Before(b.Launched) {
		return b.Launched
	}
	return j.Start
}

// until is how long a job that the snapshot shows had the node: beyond the
// snapshot, at the end of an instance, only as far as Doubt.
func (b booking) until(to time.Time) time.Time {
	if seen := b.in.Snapshot.Taken; to.Sub(seen) > Doubt {
		return seen
	}
	return to
}

// lost is when the job of an open row has left the node without Slurm saying when: it
// was requeued, which is when Slurm has it as submitted since the row began; it has
// started anew; or a snapshot lacks it and it is taken to have had half of the time
// between.
func (b booking) lost(r Row, from, to time.Time) time.Time {
	if at := b.submitted(r.Job); at.After(r.From) && !at.After(to) {
		return at
	}
	for _, j := range b.jobs {
		if j.ID == r.Job && j.Start.Before(to) {
			return j.Start
		}
	}
	if s := b.in.Snapshot; s != nil && s.Taken.After(from) && !s.Taken.After(to) {
		if s.Taken.Sub(from) > Doubt {
			return from
		}
		return from.Add(s.Taken.Sub(from) / 2).Truncate(time.Microsecond)
	}
	return to
}

// submitted is when the job was, or was requeued, as Slurm has it now.
func (b booking) submitted(id uint32) time.Time {
	if b.in.Snapshot == nil {
		return time.Time{}
	}
	return b.in.Snapshot.Jobs[id].Submitted
}

// join extends the open piece by the first new one if nothing else has
// changed, and closes it if not.
func join(open, pieces []Row) []Row {
	n := 0 // rows of the first piece
	for n < len(pieces) && pieces[n].From.Equal(pieces[0].From) {
		n++
	}
	if first := pieces[:n]; same(open, first) {
		longer := slices.Clone(open)
		for i := range longer {
			longer[i].To, longer[i].Open, longer[i].Price = first[0].To, first[0].Open, first[0].Price
			if longer[i].USDPerHourOnDemand == 0 { // it has become known
				longer[i].USDPerHourOnDemand = first[0].USDPerHourOnDemand
			}
		}
		return append(longer, pieces[n:]...)
	}
	closed := slices.Clone(open)
	for i := range closed {
		closed[i].Open = false
	}
	return append(closed, pieces...)
}

// same says whether two pieces differ in nothing but their times. A price that
// has become known holds for the open piece too.
func same(open, next []Row) bool {
	if len(open) != len(next) {
		return false
	}
	for _, n := range next {
		if !slices.ContainsFunc(open, func(o Row) bool {
			return o.Job == n.Job && o.Node == n.Node && (o.Price == n.Price || !o.Price.Known() && n.Price != MonthPaid)
		}) {
			return false
		}
	}
	return true
}
