// Package local is a cloud on this host: its instances are real slurmd
// processes that boot, register, run jobs and die. A site tries its own
// configuration on it before it spends money.
//
// An instance is a folder under Config.Dir and a process, the machine, which
// is this program started again (see Main). The folder is complete before the
// process exists, and the process outlives whoever launched it. Everything is
// said through files, so that any process may list, evict or kill (Control):
//
//	lock                      held while something is launched or refused
//	launches/<hash>.json      a token, its request and the ids it got
//	notices/<id>.json         a notice that nobody has handled yet
//	notices/<id>.end.json     so that it ended, and Terminate was not asked for it
//	control/                  capacity refused, boot delay
//	instances/<id>/
//	    instance.json         what it is; never changes
//	    lock, machine.json    the process: held, and its pid and phase
//	    node                  which node it is (Assign)
//	    notice.json, ack      its eviction, and that it was acted upon
//	    terminate             it must end, and never start
//	    ended                 nothing of it is left
//	    machine.log, slurmd.log, slurmd.out
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// NetNS gives each instance a network namespace of its own; for root only.
const NetNS = "netns"

const (
	defaultSubnet = "10.231.0.0/16"
	maxLaunch     = 500
	// grace is how long a launched instance may have no process: its launcher
	// may be about to start it.
	grace = 5 * time.Second
	// keep is how long an ended instance is listed.
	keep = time.Hour
)

// Config is where the instances live and what they run.
type Config struct {
	Dir     string `toml:"dir"`     // state, logs and control files
	Conf    string `toml:"conf"`    // slurm.conf
	Slurmd  string `toml:"slurmd"`  // "" looks for slurmd in PATH, /usr/sbin and /usr/local/sbin
	Network string `toml:"network"` // "": this host's loopback address and name; or "netns"
	Subnet  string `toml:"subnet"`  // for "netns"; default 10.231.0.0/16, whose first address is the host's
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if !filepath.IsAbs(c.Dir) {
		return fmt.Errorf("dir %q is not an absolute path", c.Dir)
	}
	if !filepath.IsAbs(c.Conf) {
		return fmt.Errorf("conf %q is not the absolute path of slurm.conf", c.Conf)
	}
	switch c.Network {
	case "":
		if c.Subnet != "" {
			return fmt.Errorf("subnet %q is only for network %q", c.Subnet, NetNS)
		}
	case NetNS:
		_, err := c.subnet()
		return err
	default:
		return fmt.Errorf("network %q is neither empty nor %q", c.Network, NetNS)
	}
	return nil
}

func (c Config) subnet() (netip.Prefix, error) {
	text := c.Subnet
	if text == "" {
		text = defaultSubnet
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("subnet: %w", err)
	}
	if !p.Addr().Is4() || p.Bits() > 30 || p.Masked() != p {
		return p, fmt.Errorf("subnet %s is not an IPv4 network of at least four addresses, such as %s", text, defaultSubnet)
	}
	return p, nil
}

// Provider launches and ends instances on this host.
type Provider struct {
	cfg   Config
	store store
	host  string
}

var (
	_ cloud.Provider     = (*Provider)(nil)
	_ cloud.NoticeSource = (*Provider)(nil)
	_ cloud.Acknowledger = (*Provider)(nil)
	_ cloud.Assigner     = (*Provider)(nil)
)

// New opens, or makes, the folder of instances.
func New(cfg Config) (*Provider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Network == NetNS && os.Geteuid() != 0 {
		return nil, fmt.Errorf("network %q needs root", NetNS)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("reading this host's name: %w", err)
	}
	s := store{cfg.Dir}
	if err := s.make(); err != nil {
		return nil, err
	}
	return &Provider{cfg, s, host}, nil
}

// Limits implements cloud.Provider. There is no lag: the files are the truth.
func (p *Provider) Limits() cloud.Limits { return cloud.Limits{MaxLaunch: maxLaunch} }

// List implements cloud.Provider. It also brings to an end what has died
// without a word, and forgets what ended more than an hour ago.
func (p *Provider) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	if f.Cluster == "" {
		return nil, wrap("list", cloud.Invalid, errors.New("no cluster"))
	}
	all, err := p.list(ctx, f)
	if err != nil {
		return nil, wrap("list", cloud.Transient, err)
	}
	return all, nil
}

func (p *Provider) list(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	ids, err := p.store.ids()
	if err != nil {
		return nil, err
	}
	idWanted, tokenWanted := wanted(f.IDs), wanted(f.Tokens)
	var found []cloud.Instance
	var old bool
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if !idWanted(id) {
			continue
		}
		r, ok, err := p.store.record(id)
		if err != nil {
			return nil, err
		}
		if !ok || r.Cluster != f.Cluster || !tokenWanted(r.Token) {
			continue
		}
		i, err := p.store.look(r)
		if err != nil {
			return nil, err
		}
		if i.State == cloud.Terminated && time.Since(i.Ended) > keep {
			old = true
			continue
		}
		found = append(found, i)
	}
	if old {
		err = p.store.prune(ctx)
	}
	return found, err
}

// wanted returns what a list of a filter keeps: all, if it is empty.
func wanted(list []string) func(string) bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return func(s string) bool { return len(set) == 0 || set[s] }
}

// Terminate implements cloud.Provider: it tells the machines, which end at once.
func (p *Provider) Terminate(ctx context.Context, ids []string) error {
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return wrap("terminate", cloud.Transient, err)
		}
		if err := p.store.terminate(id, byTerminate); err != nil {
			return wrap("terminate", cloud.Transient, err)
		}
	}
	return nil
}

// Assign implements cloud.Assigner. An instance that is one node already
// cannot become another.
func (p *Provider) Assign(ctx context.Context, nodes map[string]string) error {
	for id, node := range nodes {
		if err := ctx.Err(); err != nil {
			return wrap("assign", cloud.Transient, err)
		}
		if node == "" || filepath.Base(node) != node {
			return wrap("assign", cloud.Invalid, fmt.Errorf("%q cannot be a node's name", node))
		}
		if known, err := p.store.has(id, instanceFile); err != nil || !known {
			if err != nil {
				return wrap("assign", cloud.Transient, err)
			}
			continue
		}
		if _, err := createOnce(p.store.path(id, nodeFile), []byte(node+"\n")); err != nil {
			return wrap("assign", cloud.Transient, err)
		}
		is, err := p.store.node(id)
		if err != nil {
			return wrap("assign", cloud.Transient, err)
		}
		if is != node {
			return wrap("assign", cloud.Invalid, fmt.Errorf("instance %s cannot be node %s: it is %s", id, node, is))
		}
	}
	return nil
}

// Acknowledge implements cloud.Acknowledger: Control.List shows it.
func (p *Provider) Acknowledge(ctx context.Context, n cloud.Notice) error {
	if err := ctx.Err(); err != nil {
		return wrap("acknowledge", cloud.Transient, err)
	}
	if known, err := p.store.has(n.Instance, instanceFile); err != nil || !known {
		return wrap("acknowledge", cloud.Transient, err)
	}
	data, err := json.Marshal(time.Now())
	if err == nil {
		_, err = createOnce(p.store.path(n.Instance, ackFile), data)
	}
	return wrap("acknowledge", cloud.Transient, err)
}

// wrap gives err, if any, a kind.
func wrap(op string, kind cloud.Kind, err error) error {
	if err == nil {
		return nil
	}
	return &cloud.Error{Kind: kind, Op: op, Err: err}
}
