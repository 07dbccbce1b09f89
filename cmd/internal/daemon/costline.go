package daemon

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/store"
)

// mostBought is how many kinds of instances of a job are named.
const mostBought = 3

// costLine says what a job has cost, or has so far; empty: it had no instance of ours.
func costLine(c store.JobCost) string {
	if len(c.Bought) == 0 {
		return ""
	}
	ran, far := "ran", ""
	if c.Open {
		ran, far = "has run", " so far"
	}
	var kinds []string
	for _, b := range c.Bought[:min(mostBought, len(c.Bought))] {
		kinds = append(kinds, fmt.Sprintf("%s %s %s", b.Provider, b.Market, b.Type))
	}
	if more := len(c.Bought) - mostBought; more > 0 {
		kinds = append(kinds, fmt.Sprintf("%d more", more))
	}
	text := fmt.Sprintf("job %d %s %s on %s (%s): ", c.Job, ran, span(c.Time()), count(c.Nodes, "node"), strings.Join(kinds, ", "))
	switch {
	case c.Unpriced >= c.Seconds:
		text += "the price is not known"
	case c.Unpriced > 0:
		text += fmt.Sprintf("%s USD%s, and %.2f h whose price is not known", dollars(c.USD), far, c.Unpriced/3600)
	default:
		text += dollars(c.USD) + " USD" + far
	}
	if c.Unknown == 0 && c.Unpriced == 0 { // else the two are not of the same time
		text += ", " + dollars(c.OnDemand) + " on demand"
	}
	if c.Evictions > 0 {
		text += "; evicted " + count(c.Evictions, "time")
		switch {
		case c.LostUnknown > 0 && c.Lost > 0:
			text += ", " + span(c.Lost) + " or more lost"
		case c.LostUnknown > 0 || c.Lost < 0:
			text += ", what is lost is not known"
		case c.Lost == 0:
			text += ", nothing lost"
		default:
			text += ", " + span(c.Lost) + " lost"
		}
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// dollars writes cents, and of less than ten what is not nothing.
func dollars(v float64) string {
	if v > 0 && math.Round(v*100) < 10 {
		return fmt.Sprintf("%.4f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// span writes a time for people: "40 s", "5m10s", "1h02m".
func span(d time.Duration) string {
	s := int(d.Round(time.Second) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	}
	return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
}
