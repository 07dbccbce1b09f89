package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/BurntSushi/toml"
)

// mark is an Unmarshaler that refuses: toml's error is the only thing that
// tells where a key stands.
type mark struct{}

func (*mark) UnmarshalTOML(any) error { return errors.New("marked") }

// linesOf finds the line of every key, and of each table of an array of tables.
// A table that is named only in the headers of its children stands where the first of them does.
func linesOf(text string, keys []toml.Key) map[string]int {
	lines := map[string]int{}
	var root map[string]toml.Primitive
	md, err := toml.Decode(text, &root)
	if err != nil {
		return lines
	}
	prims := map[string]map[string]toml.Primitive{"": root}
	for _, key := range keys {
		parent, found := prims[key[:len(key)-1].String()]
		if !found {
			parent = tables(&md, root, key[:len(key)-1])
			prims[key[:len(key)-1].String()] = parent
		}
		prim, found := parent[key[len(key)-1]]
		if !found {
			continue
		}
		var p toml.ParseError
		if errors.As(md.PrimitiveDecode(prim, &mark{}), &p) && p.Position.Line > 0 {
			for i := len(key); i > 0; i-- {
				if name := key[:i].String(); lines[name] == 0 {
					lines[name] = p.Position.Line
				}
			}
		}
	}
	arrays(text, lines)
	return lines
}

var header = regexp.MustCompile(`^\s*\[(\[?)\s*([A-Za-z0-9_.-]+)\s*\]`)

// arrays finds the lines of the tables of arrays, [[pool.NAME.then]], and of their keys: the
// first is pool.NAME.then.1. toml has but one place for a key of all such tables, so each is read
// as if it were the only one.
func arrays(text string, lines map[string]int) {
	count := map[string]int{}
	all := strings.SplitAfter(text, "\n")
	for at := 0; at < len(all); at++ {
		m := header.FindStringSubmatch(all[at])
		if m == nil || m[1] == "" {
			continue
		}
		count[m[2]]++
		name := fmt.Sprintf("%s.%d", m[2], count[m[2]])
		lines[name] = at + 1
		end := at + 1
		for end < len(all) {
			if next := header.FindStringSubmatch(all[end]); next != nil && !strings.HasPrefix(next[2], m[2]+".") {
				break
			}
			end++
		}
		alone := strings.Repeat("\n", at) + "[" + m[2] + "]\n" + strings.Join(all[at+1:end], "")
		var tree map[string]any
		md, err := toml.Decode(alone, &tree)
		if err != nil {
			continue // what seemed a header is a part of a text, or a comment follows it
		}
		for key, n := range linesOf(alone, md.Keys()) {
			if rest, of := strings.CutPrefix(key, m[2]+"."); of {
				lines[name+"."+rest] = n
			}
		}
		at = end - 1 // arrays within it are read
	}
}

// tables walks down to the table that path names; nil if that is none.
func tables(md *toml.MetaData, root map[string]toml.Primitive, path toml.Key) map[string]toml.Primitive {
	for _, name := range path {
		var next map[string]toml.Primitive
		if err := md.PrimitiveDecode(root[name], &next); err != nil {
			return nil
		}
		root = next
	}
	return root
}
