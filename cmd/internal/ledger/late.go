package ledger

import (
	"time"
)

// Later marks the source of a price that may not be that of the time it is booked for.
const Later = ", later"

// Late prices rows that were closed while their price was not to be had: with the price that their
// instance had nearest to that time, or that an instance of its offering has now. It returns those
// to write. Rows are sorted by instance, and all that there are of each.
func Late(rows []Row, now Price) []Row {
	var all []Row
	for i, r := range rows {
		if r.Open || r.Price.Known() {
			continue
		}
		p := nearest(rows, i)
		if !p.Known() {
			p = now
		}
		if !p.Known() {
			continue
		}
		if p.Date.IsZero() || p.Date.After(r.From) { // else it was so already
			p.Source += Later
		}
		r.Price = p
		all = append(all, r)
	}
	return all
}

// nearest is the price of the row of the same instance that has one and is nearest to the i-th.
func nearest(rows []Row, i int) (p Price) {
	var least time.Duration
	look := func(o Row) bool {
		if o.Instance != rows[i].Instance {
			return false
		}
		if o.Price.Known() && o.Price != MonthPaid {
			if d := o.From.Sub(rows[i].From).Abs(); !p.Known() || d < least {
				p, least = o.Price, d
			}
			return false // those beyond are farther
		}
		return true
	}
	for n := i - 1; n >= 0 && look(rows[n]); n-- {
	}
	for n := i + 1; n < len(rows) && look(rows[n]); n++ {
	}
	return p
}
