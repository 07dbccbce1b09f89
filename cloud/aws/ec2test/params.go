package ec2test

import (
	"hash/fnv"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// params are a request's form as the tree that its dotted keys mean:
// "Filter.1.Value.2=x" is get("Filter.1.Value.2"), or the second of the
// strings("Value") of the first of list("Filter").
type params struct {
	value  string
	fields map[string]*params
}

func parseParams(body string) (*params, error) {
	root := &params{}
	for body != "" {
		var pair string
		pair, body, _ = strings.Cut(body, "&")
		if pair == "" {
			continue
		}
		key, value, _ := strings.Cut(pair, "=")
		key, err := url.QueryUnescape(key)
		if err != nil {
			return nil, err
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return nil, err
		}
		at := root
		for part := range strings.SplitSeq(key, ".") {
			at = at.child(part)
		}
		at.value = value
	}
	return root, nil
}

func (p *params) child(name string) *params {
	if p.fields == nil {
		p.fields = map[string]*params{}
	}
	c := p.fields[name]
	if c == nil {
		c = &params{}
		p.fields[name] = c
	}
	return c
}

// at finds the part at a dotted path; nil if the request does not have it.
// The methods of a nil part say that it is empty.
func (p *params) at(path string) *params {
	for part := range strings.SplitSeq(path, ".") {
		if p == nil {
			return nil
		}
		p = p.fields[part]
	}
	return p
}

func (p *params) get(path string) string {
	if c := p.at(path); c != nil {
		return c.value
	}
	return ""
}

// number reads a number; 0 if it is missing or none.
func (p *params) number(path string) int {
	n, err := strconv.Atoi(p.get(path))
	if err != nil {
		return 0
	}
	return n
}

func (p *params) yes(path string) bool { return p.get(path) == "true" }

// list returns the parts of a list in their order.
func (p *params) list(path string) []*params {
	c := p.at(path)
	if c == nil {
		return nil
	}
	var order []int
	for name := range c.fields {
		if n, err := strconv.Atoi(name); err == nil {
			order = append(order, n)
		}
	}
	slices.Sort(order)
	all := make([]*params, len(order))
	for i, n := range order {
		all[i] = c.fields[strconv.Itoa(n)]
	}
	return all
}

func (p *params) strings(path string) []string {
	var all []string
	for _, c := range p.list(path) {
		all = append(all, c.value)
	}
	return all
}

// tags reads a list of Key and Value.
func (p *params) tags(path string) map[string]string {
	all := map[string]string{}
	for _, t := range p.list(path) {
		all[t.get("Key")] = t.get("Value")
	}
	return all
}

// tagsOf reads what TagSpecification says of one kind of resource.
func (p *params) tagsOf(kind string) map[string]string {
	for _, s := range p.list("TagSpecification") {
		if s.get("ResourceType") == kind {
			return s.tags("Tag")
		}
	}
	return map[string]string{}
}

// digest is the same for requests that ask the same under any ClientToken.
func (p *params) digest() uint64 {
	h := fnv.New64a()
	var walk func(prefix string, p *params)
	walk = func(prefix string, p *params) {
		h.Write([]byte(prefix + "=" + p.value + "\n"))
		names := make([]string, 0, len(p.fields))
		for n := range p.fields {
			if prefix != "" || n != "ClientToken" {
				names = append(names, n)
			}
		}
		slices.Sort(names)
		for _, n := range names {
			walk(prefix+"."+n, p.fields[n])
		}
	}
	walk("", p)
	return h.Sum64()
}
