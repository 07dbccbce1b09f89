package vultr

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vultr/govultr/v3"
)

const (
	opAssign    = "assign"
	nameWorkers = 4                // of the connections, which launches need too
	nameTimeout = 20 * time.Second // of one instance
)

// namePause is before what was refused is asked for again. A variable for tests.
var namePause = 5 * time.Second

// Assign implements cloud.Assigner: the node's name becomes the instance's
// burst:node tag, by which the instance is adopted after a lost journal. Its label
// stays, as a lost launch is found by it. One that says so already is not asked for.
// It returns at once; the tags follow in the background.
func (p *Provider) Assign(ctx context.Context, nodes map[string]string) error {
	if err := ctx.Err(); err != nil {
		return transient(opAssign, err)
	}
	p.names.Add(ctx, nodes)
	return nil
}

func (p *Provider) assign(ctx context.Context, id, node string) error {
	if !uuid.MatchString(id) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	s, ok := p.recall(id)
	if !ok {
		m, err := p.find(ctx, id)
		if err != nil || m == nil {
			return err
		}
		s.machine = *m
	}
	mine := escape(tagNode) + "=" + escape(node)
	if slices.Contains(s.tags, mine) && !s.bare {
		return nil
	}
	tags := slices.DeleteFunc(slices.Clone(s.tags), func(t string) bool { return strings.HasPrefix(t, escape(tagNode)+"=") })
	tags = append(tags, mine)
	path := "/v2/instances/" + id
	if s.metal {
		path = "/v2/bare-metals/" + id
	}
	err := call(ctx, opAssign, "naming "+id+" "+node, func(ctx context.Context) error {
		// Not the SDK's Update, which sends what is not to change as well.
		return p.request(ctx, http.MethodPatch, path, govultr.RequestBody{"tags": tags}, nil)
	})
	switch {
	case err == nil:
		p.retag(id, tags)
	case notFound(err):
		return nil
	}
	return err
}

// find asks for one machine by its id; nil: there is none of ours.
func (p *Provider) find(ctx context.Context, id string) (*machine, error) {
	for _, metal := range []bool{false, true} {
		m, err := p.get(ctx, opAssign, id, metal)
		switch {
		case err == nil:
			if m = p.claim(m); readTags(m.tags)[tagCluster] == "" {
				return nil, nil
			}
			p.see(m)
			return &m, nil
		case !notFound(err):
			return nil, err
		}
	}
	return nil, nil
}

// get asks for one machine of a kind by its id.
func (p *Provider) get(ctx context.Context, op, id string, metal bool) (m machine, err error) {
	err = call(ctx, op, "asking for "+id, func(ctx context.Context) error {
		if metal {
			b, _, err := p.api.BareMetalServer.Get(ctx, id)
			if err == nil && (b == nil || b.ID != id) {
				err = errors.New("it is no server")
			}
			if err == nil {
				m = ofMetal(*b)
			}
			return err
		}
		i, _, err := p.api.Instance.Get(ctx, id)
		if err == nil && (i == nil || i.ID != id) {
			err = errors.New("it is no instance")
		}
		if err == nil {
			m = ofCompute(*i)
		}
		return err
	})
	return m, err
}
