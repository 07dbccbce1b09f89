package steprecord

import (
	"slices"
)

// Choice is what the parts of an attempt restart from.
type Choice struct {
	Attempt int            `json:"attempt"`
	From    int            `json:"from"` // the attempt that made the set; -1: all begin anew
	Set     map[string]int `json:"set,omitempty"`
}

// Chosen is the attempt's own.
func (r Record) Chosen() (Choice, bool) {
	i := slices.IndexFunc(r.Sets, func(c Choice) bool { return c.Attempt == r.Attempt })
	if i < 0 {
		return Choice{}, false
	}
	return r.Sets[i], true
}
