package slurm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// NodeUpdate is one change to some nodes. Empty fields change nothing.
type NodeUpdate struct {
	Nodes     []string
	State     string // power_up, power_down_force, drain, down, …
	Reason    string
	Addrs     []string // NodeAddr of each of Nodes, in their order
	Hostnames []string // NodeHostname of each of Nodes, in their order
	Features  []string // that are active from now on, of those in slurm.conf
}

// PartialError says which nodes of an update were refused, and why; the
// others were updated.
type PartialError struct{ Failed map[string]string }

func (e *PartialError) Error() string {
	names := slices.Sorted(maps.Keys(e.Failed))
	if len(names) == 0 {
		return "updating nodes failed in part"
	}
	text := fmt.Sprintf("updating node %s: %s", names[0], e.Failed[names[0]])
	if len(names) > 1 {
		text += fmt.Sprintf(" (and %d more nodes)", len(names)-1)
	}
	return text
}

var (
	errNodeState = errors.New("node is in a state that does not allow it")
	errPending   = errors.New("job is pending")
)

// maxArgument is the length of our longest argument: Linux refuses one of 128 KiB.
const maxArgument = 120 << 10

// UpdateNodes carries the update out in as few calls as the length of an
// argument allows. Nodes that Slurm refuses do not keep it from the others:
// they come back in a *PartialError. Any other error means that it is not known
// which nodes were updated; to repeat the update is safe.
func (c *Client) UpdateNodes(ctx context.Context, u NodeUpdate) error {
	parts, err := cut(u)
	if err != nil {
		return fmt.Errorf("updating nodes: %w", err)
	}
	failed := map[string]string{}
	for _, part := range parts {
		if err := c.updateNodes(ctx, part, failed); err != nil {
			return fmt.Errorf("updating %d nodes from %s on: %w", len(part.Nodes), part.Nodes[0], err)
		}
	}
	if len(failed) > 0 {
		return &PartialError{Failed: failed}
	}
	return nil
}

// updateNodes makes one call. When Slurm refuses it because of some node it
// says neither which, nor whether it changed the others: so each half is tried
// on its own. To update a node twice does no harm.
func (c *Client) updateNodes(ctx context.Context, u NodeUpdate, failed map[string]string) error {
	_, err := c.run(ctx, "scontrol", u.args()...)
	if !errors.Is(err, ErrNoNode) && !errors.Is(err, errNodeState) {
		return err
	}
	if len(u.Nodes) > 1 {
		half := len(u.Nodes) / 2
		if err := c.updateNodes(ctx, u.slice(0, half), failed); err != nil {
			return err
		}
		return c.updateNodes(ctx, u.slice(half, len(u.Nodes)), failed)
	}
	name := u.Nodes[0]
	if errors.Is(err, errNodeState) && strings.EqualFold(u.State, "resume") {
		// Resume is refused to a node that has been resumed.
		nodes, readErr := c.Nodes(ctx, name)
		if readErr != nil {
			return readErr
		}
		if len(nodes) == 1 && nodes[0].resumed() {
			return nil
		}
	}
	failed[name] = err.Error()
	return nil
}

func (n Node) resumed() bool {
	return n.State.Base != "DOWN" && !n.State.Has(Drain) && !n.State.Has("FAIL")
}

func (u NodeUpdate) args() []string {
	args := []string{"update", "nodename=" + strings.Join(u.Nodes, ",")}
	add := func(key, v string) {
		if v != "" {
			args = append(args, key+"="+v)
		}
	}
	add("nodeaddr", strings.Join(u.Addrs, ","))
	add("nodehostname", strings.Join(u.Hostnames, ","))
	add("activefeatures", strings.Join(u.Features, ","))
	add("state", u.State)
	add("reason", printable(u.Reason))
	return args
}

// slice is the update for the nodes from i up to j.
func (u NodeUpdate) slice(i, j int) NodeUpdate {
	part := u
	part.Nodes = u.Nodes[i:j]
	if u.Addrs != nil {
		part.Addrs = u.Addrs[i:j]
	}
	if u.Hostnames != nil {
		part.Hostnames = u.Hostnames[i:j]
	}
	return part
}

// cut checks the update and parts it so that no argument is too long.
func cut(u NodeUpdate) ([]NodeUpdate, error) {
	for _, list := range [][]string{u.Addrs, u.Hostnames} {
		if list != nil && len(list) != len(u.Nodes) {
			return nil, fmt.Errorf("%d addresses or host names for %d nodes", len(list), len(u.Nodes))
		}
	}
	var parts []NodeUpdate
	seen := make(map[string]bool, len(u.Nodes))
	start, lengths := 0, [3]int{}
	for i, name := range u.Nodes {
		if err := checkWord(name); err != nil || strings.EqualFold(name, "all") {
			return nil, fmt.Errorf("%q is no node name", name)
		}
		if seen[name] {
			return nil, fmt.Errorf("node %s is named twice", name)
		}
		seen[name] = true
		add := [3]int{len(name) + 1}
		for k, list := range [][]string{u.Addrs, u.Hostnames} {
			if list == nil {
				continue
			}
			if err := checkWord(list[i]); err != nil {
				return nil, fmt.Errorf("address or host name of node %s: %w", name, err)
			}
			add[k+1] = len(list[i]) + 1
		}
		for k := range add {
			if lengths[k]+add[k] > maxArgument {
				parts = append(parts, u.slice(start, i))
				start, lengths = i, [3]int{}
				break
			}
		}
		for k := range add {
			lengths[k] += add[k]
		}
	}
	if start < len(u.Nodes) {
		parts = append(parts, u.slice(start, len(u.Nodes)))
	}
	return parts, nil
}

// checkWord refuses what Slurm would read as more than one name.
func checkWord(s string) error {
	if s == "" || len(s) > 1024 || strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || strings.ContainsRune(",[]=\"'\x7f", r)
	}) {
		return fmt.Errorf("%q is not one name", s)
	}
	return nil
}

// printable makes a text fit for one line of Slurm's output.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == '\x7f' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	const most = 4096
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}
