package config

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// longest is more than any timeout makes sense for, and fits Slurm's 16 bits
// of seconds.
const longest = 18 * time.Hour

// duration is of whole seconds.
func (s *section) duration(key string, def time.Duration) time.Duration {
	d := s.span(key, longest)
	if d == 0 {
		return def
	}
	return d
}

// span is of whole seconds, at most so many; 0 if it is not there.
func (s *section) span(key string, most time.Duration) time.Duration {
	v := s.value(key)
	if v == nil {
		return 0
	}
	text, ok := v.(string)
	if !ok {
		s.failAt(key, "is %s: write a duration with its unit in quotes, as in \"600s\" or \"10m\"", kind(v))
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		s.failAt(key, "%q is no duration: write it with its unit, as in \"600s\" or \"10m\"", text)
		return 0
	}
	if d < time.Second || d > most || d%time.Second != 0 {
		s.failAt(key, "is %q: write whole seconds, from \"1s\" to \"%s\"", text, strings.TrimSuffix(most.String(), "0m0s"))
		return 0
	}
	return d
}

// choice is one of the words; empty if it is not there.
func (s *section) choice(key string, words ...string) string {
	v := s.text(key, "")
	if v == "" || slices.Contains(words, v) {
		return v
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strconv.Quote(w)
	}
	s.failAt(key, "%q is not known: write %s", v, strings.Join(quoted, " or "))
	return ""
}

// flag is true or false; nil if it is not there.
func (s *section) flag(key string) *bool {
	switch v := s.value(key).(type) {
	case nil:
	case bool:
		return &v
	default:
		s.failAt(key, "is %s: write true or false, without quotes", kind(v))
	}
	return nil
}

// on is a flag that is off where it is not there.
func (s *section) on(key string) bool {
	v := s.flag(key)
	return v != nil && *v
}

// dollars is a price in USD per hour, above zero; 0 if it is not there.
func (s *section) dollars(key string) float64 {
	var usd float64
	switch v := s.value(key).(type) {
	case nil:
		return 0
	case string:
		n, err := strconv.ParseFloat(v, 64)
		if err != nil {
			n = -1
		}
		usd = n
	case float64:
		usd = v
	case int64:
		usd = float64(v)
	default:
		usd = -1
	}
	if !(usd > 0) || math.IsInf(usd, 0) {
		s.failAt(key, "is no price: write USD per hour, as in %s = \"0.20\"", key)
		return 0
	}
	return usd
}

// measured is a number above zero; 0 if it is not there.
func (s *section) measured(key string) (n float64) {
	switch v := s.value(key).(type) {
	case nil:
		return 0
	case float64:
		n = v
	case int64:
		n = float64(v)
	}
	if !(n > 0) || math.IsInf(n, 0) {
		s.failAt(key, "is no number above 0: write what you have measured, as in %s = 12.5, or leave it out", key)
		return 0
	}
	return n
}

var sizes = regexp.MustCompile(`^([1-9][0-9]{0,6})([GT])(?:i?B)?$`)

// gibibytes is a size such as "100G" (of 1024^3 bytes) or "2T"; 0 if it is not there.
func (s *section) gibibytes(key string) int {
	v := s.text(key, "")
	if v == "" {
		return 0
	}
	m := sizes.FindStringSubmatch(v)
	if m == nil {
		s.failAt(key, "%q is no size: write it in whole units of GiB or TiB, as in \"100G\" or \"2T\"", v)
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		s.failAt(key, "%q: %v", v, err)
	}
	if m[2] == "T" {
		n *= 1024
	}
	return n
}

// web is the address of a server with its scheme.
func (s *section) web(key, example string) string {
	v := s.text(key, "")
	if v != "" && !isWeb(v) {
		s.failAt(key, "%q is no address of a server: write it as in %q", v, example)
	}
	return v
}

func isWeb(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// ids is a list of a cloud's ids, each of the form that pattern says.
func (s *section) ids(key string, pattern *regexp.Regexp, example string) []string {
	all := s.texts(key)
	for i, id := range all {
		switch {
		case !pattern.MatchString(id):
			s.failAt(key, "%q is no id: write it as in %q", id, example)
			return nil
		case slices.Contains(all[:i], id):
			s.failAt(key, "names %s twice", id)
			return nil
		}
	}
	return all
}

// tables are the items of a list of tables, such as mounts = [ { … }, … ].
func (s *section) tables(key, example string) []*section {
	var items []any
	switch v := s.value(key).(type) {
	case nil:
		return nil
	case []any:
		items = v
	case []map[string]any:
		for _, item := range v {
			items = append(items, item)
		}
	default:
		s.failAt(key, "is %s: write a list of tables, as in %s = [ %s ]", kind(v), key, example)
		return nil
	}
	var all []*section
	for i, item := range items {
		table, ok := item.(map[string]any)
		if !ok {
			s.failAt(key, "holds %s: write tables, as in %s = [ %s ]", kind(item), key, example)
			return nil
		}
		all = append(all, &section{file: s.file, at: append(s.key(key), fmt.Sprint(i+1)), table: table})
	}
	return all
}

// refuse reports keys that are there but have no place, and why.
func (s *section) refuse(why string, keys ...string) {
	for _, key := range slices.Sorted(maps.Keys(s.table)) {
		if slices.Contains(keys, key) {
			s.failAt(key, "%s", why)
			s.refused = append(s.refused, key)
		}
	}
}
