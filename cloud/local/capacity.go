package local

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Refusal says how much room some offerings have.
type Refusal struct {
	Pattern string `json:"pattern"` // type, type/zone or type/zone/market; "*" matches within a part
	Room    int    `json:"room"`    // instances that are still granted
}

// Refuse grants offerings that match the pattern room more instances, and
// refuses capacity from then on. A negative room lifts the refusal.
func (c Control) Refuse(pattern string, room int) error {
	if _, err := matches(pattern, cloud.Offering{}); err != nil {
		return err
	}
	s := store{c.Dir}
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := s.refusals()
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(r Refusal) bool { return r.Pattern == pattern })
	if room >= 0 {
		all = append(all, Refusal{pattern, room})
	}
	return writeJSON(s.refusalsPath(), all)
}

// Refusals lists what is in force.
func (c Control) Refusals() ([]Refusal, error) { return store{c.Dir}.refusals() }

func (s store) refusalsPath() string { return filepath.Join(s.dir, "control", "refuse.json") }

func (s store) refusals() ([]Refusal, error) {
	var all []Refusal
	_, err := readJSON(s.refusalsPath(), &all)
	return all, err
}

// matches says whether an offering matches a pattern.
func matches(pattern string, o cloud.Offering) (bool, error) {
	parts := strings.Split(pattern, "/")
	values := []string{o.Type, o.Zone, string(o.Market)}
	if pattern == "" || len(parts) > len(values) {
		return false, fmt.Errorf("offering %q is not type, type/zone or type/zone/market", pattern)
	}
	all := true
	for n, part := range parts {
		ok, err := filepath.Match(part, values[n])
		if err != nil {
			return false, fmt.Errorf("offering %q: %w", pattern, err)
		}
		all = all && ok
	}
	return all, nil
}

// take grants up to n instances of an offering, and remembers that they are
// taken. The caller holds the lock.
func (s store) take(o cloud.Offering, n int, allOrNothing bool) (int, error) {
	all, err := s.refusals()
	if err != nil || len(all) == 0 {
		return n, err
	}
	granted := n
	var hit []int
	for k, r := range all {
		ok, err := matches(r.Pattern, o)
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", s.refusalsPath(), err)
		}
		if ok {
			hit = append(hit, k)
			granted = min(granted, max(r.Room, 0))
		}
	}
	if granted < n && allOrNothing {
		granted = 0
	}
	if len(hit) == 0 || granted == 0 {
		return granted, nil
	}
	for _, k := range hit {
		all[k].Room -= granted
	}
	return granted, writeJSON(s.refusalsPath(), all)
}

// SetBoot slows the boot of instances that are launched from now on; 0 undoes it.
func (c Control) SetBoot(delay time.Duration) error {
	if delay < 0 {
		return fmt.Errorf("the boot delay %s is negative", delay)
	}
	return writeJSON(store{c.Dir}.bootPath(), delay.String())
}

func (s store) bootPath() string { return filepath.Join(s.dir, "control", "boot.json") }

// boot reads the boot delay, "" for none.
func (s store) boot() (string, error) {
	var delay string
	ok, err := readJSON(s.bootPath(), &delay)
	if err != nil || !ok {
		return "", err
	}
	if _, err := time.ParseDuration(delay); err != nil {
		return "", fmt.Errorf("reading %s: %w", s.bootPath(), err)
	}
	return delay, nil
}
