package budget

import (
	"fmt"
	"time"
)

// Refusal is the cap that keeps a launch from being made.
type Refusal struct {
	Scope
	Period
	Cap, Left, Needs float64 // USD; Left may be below 0
	Spent            float64 // USD that are booked
	// Unpriced names what has no known price and counts under the cap; empty: nothing.
	Unpriced string
}

// Room is when the cap counts anew; zero: by itself it never has room, as it is a job's own.
func (r Refusal) Room() time.Time { return r.To }

// Never says that the launch would be too much though nothing else were spent.
func (r Refusal) Never() bool { return r.Unpriced == "" && r.Needs > r.Cap+roundoff }

// Gone says that all of the cap is booked: nothing that ends before its time makes room.
func (r Refusal) Gone() bool { return r.Spent >= r.Cap-roundoff }

// longer says that r stands in the way longer than o.
func (r Refusal) longer(o Refusal) bool {
	if r.Never() != o.Never() {
		return r.Never()
	}
	return !o.To.IsZero() && (r.To.IsZero() || r.To.After(o.To))
}

// whose is the cap's owner.
func (r Refusal) whose() string {
	if r.Kind == Cluster {
		return "the cluster's"
	}
	return fmt.Sprintf("%s %s's", r.Kind, r.Name)
}

// cap names the cap.
func (r Refusal) cap() string {
	text := fmt.Sprintf("%s budget of %.2f USD", r.whose(), r.Cap)
	switch r.Length {
	case Day:
		text += " a day"
	case Month:
		text += " a month"
	}
	return text
}

// title is the cap with its period.
func (r Refusal) title() string { return r.cap() + r.in() }

// Public is what a job is told, which all users can read: no amounts.
func (r Refusal) Public() string {
	text := r.whose() + " budget"
	if in := r.in(); in != "" {
		text += " for " + in[len(" on "):]
	}
	switch {
	case r.Unpriced != "":
		return text + fmt.Sprintf(": the price of %s is not known, and there is no unknown_price", r.Unpriced)
	case r.Never():
		return text + ": by the time limit this could cost more than all of it"
	case r.Left < 0.005:
		return text + " is used up"
	}
	return text + ": by the time limit this could cost more than is left of it"
}

// String is for those who may know the amounts.
func (r Refusal) String() string {
	text := r.cap()
	switch {
	case r.Unpriced != "":
		return text + fmt.Sprintf(": the price of %s is not known, and there is no unknown_price", r.Unpriced)
	case r.Never():
		return text + fmt.Sprintf(": by the time limit this could cost %.2f%s, more than all of it", r.Needs, r.in())
	}
	return text + fmt.Sprintf(": %.2f are left%s, and by the time limit this could cost %.2f", max(0, r.Left), r.in(), r.Needs)
}

// in names the period, in the zone of the budget.
func (r Refusal) in() string {
	switch r.Length {
	case Day:
		return " on " + r.From.In(r.From.Location()).Format(time.DateOnly)
	case Month:
		return " in " + r.From.In(r.From.Location()).Format("2006-01")
	}
	return ""
}
