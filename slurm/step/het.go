package step

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// mostComponents is more than Slurm lets a heterogeneous job have.
const mostComponents = 1000

// Components are those of the heterogeneous job that the step runs on, sorted: what
// --het-group says, else its first part runs on the first one, and so on.
func (c Call) Components() ([]int, error) {
	var all []int
	for i, p := range c.Parts {
		text, given := "", false
		for _, g := range p.Options {
			if g.Name == "het-group" { // the last one counts
				text, given = g.Value, true
			}
		}
		some, err := []int{i}, error(nil)
		if given {
			if some, err = components(text); err != nil {
				return nil, fmt.Errorf("--het-group=%.40s: %w", text, err)
			}
		}
		all = append(all, some...)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// components reads "0,2-4".
func components(text string) (all []int, err error) {
	for _, word := range strings.Split(strings.Trim(text, "[]"), ",") {
		from, to, isRange := strings.Cut(word, "-")
		a, err := strconv.ParseUint(from, 10, 32)
		b := a
		if isRange && err == nil {
			b, err = strconv.ParseUint(to, 10, 32)
		}
		if err != nil || b < a || b >= mostComponents {
			return nil, fmt.Errorf("%.40q names no components", word)
		}
		for n := a; n <= b; n++ {
			all = append(all, int(n))
		}
	}
	return all, nil
}
