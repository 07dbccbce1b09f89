package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// file collects the errors of one burst.toml.
type file struct {
	path  string
	lines map[string]int // toml.Key.String() -> line
	errs  Errors
}

func (f *file) fail(key toml.Key, format string, args ...any) {
	f.errs = append(f.errs, Error{File: f.path, Line: f.lines[key.String()], Key: key.String(), What: fmt.Sprintf(format, args...)})
}

// section is a table of the file. Its getters check the type, report what is
// wrong and then return the default; done reports keys that nobody asked for.
type section struct {
	*file
	at      toml.Key
	table   map[string]any
	known   []string
	refused []string // reported already
}

// sub is the table key of s, empty if it is not there.
func (s *section) sub(key string) *section {
	table, ok := s.value(key).(map[string]any)
	if v := s.value(key); v != nil && !ok {
		s.failAt(key, "is %s: write a section, as in [%s]", kind(v), s.key(key))
	}
	return &section{file: s.file, at: s.key(key), table: table}
}

// named are the tables [key.NAME] in the order of the file.
func (s *section) named(key string) []*section {
	all, ok := s.value(key).(map[string]any)
	if v := s.value(key); v != nil && !ok {
		s.failAt(key, "has no name: write [%s.NAME]", key)
	}
	var subs []*section
	for name, v := range all {
		sub := &section{file: s.file, at: toml.Key{key, name}}
		if sub.table, ok = v.(map[string]any); !ok {
			s.fail(sub.at, "is %s: write a section, as in [%s.NAME]", kind(v), key)
			continue
		}
		subs = append(subs, sub)
	}
	slices.SortFunc(subs, func(a, b *section) int {
		if d := s.lines[a.at.String()] - s.lines[b.at.String()]; d != 0 {
			return d
		}
		return strings.Compare(a.name(), b.name())
	})
	return subs
}

func (s *section) name() string { return s.at[len(s.at)-1] }

func (s *section) key(key string) toml.Key { return append(slices.Clone(s.at), key) }

// failAt reports an error of a key; one that is missing where its section stands.
func (s *section) failAt(key, format string, args ...any) {
	s.fail(s.key(key), format, args...)
	last := &s.errs[len(s.errs)-1]
	for at := s.at; last.Line == 0 && len(at) > 0; at = at[:len(at)-1] {
		last.Line = s.lines[at.String()]
	}
	last.Line = max(1, last.Line)
}

func (s *section) value(key string) any {
	if !slices.Contains(s.known, key) {
		s.known = append(s.known, key)
	}
	return s.table[key]
}

func (s *section) has(key string) bool { _, ok := s.table[key]; return ok }

// text is a string; empty counts as not there.
func (s *section) text(key, def string) string {
	switch v := s.value(key).(type) {
	case nil:
	case string:
		if v != "" {
			return v
		}
	default:
		s.failAt(key, "is %s: write a string in quotes", kind(v))
	}
	return def
}

// required is a text that must be there.
func (s *section) required(key, example string) string {
	v := s.text(key, "")
	if _, wrongType := s.value(key).(string); v == "" && (wrongType || !s.has(key)) {
		s.failAt(key, "is missing: add it, as in %s = %s", key, example)
	}
	return v
}

// abs is an absolute path.
func (s *section) abs(key, def string) string {
	v := s.text(key, def)
	if v != "" && !filepath.IsAbs(v) {
		s.failAt(key, "%q is not an absolute path: write it from / on", v)
	}
	return v
}

// texts is a list of strings.
func (s *section) texts(key string) []string {
	v := s.value(key)
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		s.failAt(key, "is %s: write a list, as in %s = [\"a\", \"b\"]", kind(v), key)
		return nil
	}
	var all []string
	for _, item := range list {
		text, ok := item.(string)
		if !ok || text == "" {
			s.failAt(key, "holds %s: write strings in quotes only", kind(item))
			return nil
		}
		all = append(all, text)
	}
	return all
}

// strings is a table of strings.
func (s *section) strings(key string) map[string]string {
	v := s.value(key)
	if v == nil {
		return nil
	}
	table, ok := v.(map[string]any)
	if !ok {
		s.failAt(key, "is %s: write a table, as in %s = { project = \"x\" }", kind(v), key)
		return nil
	}
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		text, ok := table[name].(string)
		if !ok {
			s.fail(append(s.key(key), name), "is %s: write a string in quotes", kind(table[name]))
		}
		all[name] = text
	}
	return all
}

// count is a whole number of at least 1 that must be there.
func (s *section) count(key, unit, example string) int {
	if s.value(key) == nil {
		s.failAt(key, "is missing: add it, as in %s = %s", key, example)
		return 0
	}
	return s.number(key, unit, example)
}

// number is a whole number of at least 1; 0 if it is not there.
func (s *section) number(key, unit, example string) int {
	const most = 1 << 30
	switch v := s.value(key).(type) {
	case nil:
	case int64:
		if v >= 1 && v <= most {
			return int(v)
		}
		s.failAt(key, "is %d: write a number%s from 1 to %d", v, unit, most)
	default:
		s.failAt(key, "is %s: write a number%s, as in %s = %s", kind(v), unit, key, example)
	}
	return 0
}

// limit is a whole number of at least 0, which sets no limit.
func (s *section) limit(key string, def int) int {
	if v, ok := s.value(key).(int64); ok && v == 0 {
		return 0
	}
	if !s.has(key) {
		return def
	}
	return s.number(key, "", fmt.Sprint(def))
}

// done reports the keys of the table that no getter was asked for.
func (s *section) done() {
	for _, key := range slices.Sorted(maps.Keys(s.table)) {
		if slices.Contains(s.known, key) || slices.Contains(s.refused, key) {
			continue
		}
		if near := nearest(key, s.known); near != "" {
			s.failAt(key, "is not known: did you mean %s?", near)
			continue
		}
		s.failAt(key, "is not known: remove it; known here are %s", strings.Join(slices.Sorted(slices.Values(s.known)), ", "))
	}
}

// kind names the type of a TOML value.
func kind(v any) string {
	switch v.(type) {
	case string:
		return "a string"
	case int64, float64:
		return "a number"
	case bool:
		return "true or false"
	case time.Time:
		return "a date"
	case []any, []map[string]any:
		return "a list"
	}
	return "a table"
}
