package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/cmd/internal/nodeapi"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/slurm/health"
	"github.com/burst-hpc/burst/slurm/power"
)

// serveNodes answers nodes on the configured address, if there is
// one. As long as it is in use, or Slurm does not say which munged it uses,
// nodes wait; nothing else does.
func (d *Daemon) serveNodes(ctx context.Context) error {
	addr := d.cfg.Endpoint.Listen
	if addr == "" {
		return nil
	}
	config, ln, err := d.openNodes(ctx, addr)
	for told := ""; err != nil; {
		if err.Error() != told && ctx.Err() == nil {
			d.log.Error("booting nodes are not answered yet", "listen", addr, "error", err)
		}
		told = err.Error()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(listenAgain):
		}
		config, ln, err = d.openNodes(ctx, addr)
	}
	n := &nodes{engine: d.engine, guard: d.guard, health: d.health}
	n.version.Store(config[slurmVersion])
	srv := nodeapi.New(n, munge.New(munge.Options{Socket: mungeSocket(config)}), nodeapi.Limits{}, d.log)
	srv.ServeJobs(&steps{hub: d.hub, cfg: d.cfg, slurm: d.watcher, store: d.store, pools: d.rates.pools})
	d.mu.Lock()
	d.nodes = srv
	d.mu.Unlock()
	d.log.Info("booting nodes are answered", "listen", ln.Addr().String())
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	wg.Go(func() { d.watchVersion(ctx, n) })
	return srv.Serve(ctx, ln)
}

// openNodes asks Slurm first: without it no node can come up.
func (d *Daemon) openNodes(ctx context.Context, addr string) (map[string]string, net.Listener, error) {
	config, err := d.client.ShowConfig(ctx)
	if err != nil {
		return nil, nil, err
	}
	ln, err := net.Listen("tcp", addr)
	return config, ln, err
}

// slurmVersion is scontrol's name for slurmctld's version.
const slurmVersion = "SLURM_VERSION"

// watchVersion follows upgrades of slurmctld until ctx ends.
func (d *Daemon) watchVersion(ctx context.Context, n *nodes) {
	tick := time.NewTicker(5 * time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if config, err := d.client.ShowConfig(ctx); err == nil { // else the watcher says that Slurm is away
			n.version.Store(config[slurmVersion])
		}
	}
}

// mungeSocket is the munged that Slurm uses; "" is the system's.
func mungeSocket(config map[string]string) string {
	for word := range strings.SplitSeq(config["AuthInfo"], ",") {
		if path, ok := strings.CutPrefix(strings.TrimSpace(word), "socket="); ok {
			return path
		}
	}
	return ""
}

// nodeRequests is how many requests of nodes were answered, by outcome.
func (d *Daemon) nodeRequests() map[string]uint64 {
	d.mu.Lock()
	srv := d.nodes
	d.mu.Unlock()
	if srv == nil {
		return nil
	}
	return srv.Requests()
}

// nodes is burstd as nodes see it.
type nodes struct {
	engine  *power.Engine
	guard   *ft.Guard
	health  *health.Monitor
	version atomic.Value // of slurmctld, a string
}

var _ nodeapi.Backend = (*nodes)(nil)

// WhoAmI implements nodeapi.Backend.
func (n *nodes) WhoAmI(ctx context.Context, instance, addr string) (nodeapi.Identity, error) {
	id, err := n.engine.WhoAmI(ctx, instance, addr)
	if err != nil {
		return nodeapi.Identity{}, forNodes(err)
	}
	version, _ := n.version.Load().(string)
	return nodeapi.Identity{Node: id.Node, Cluster: id.Cluster, Slurm: version, Servers: addresses(n.engine.Servers(id.Node))}, nil
}

// addresses writes servers as a node reads them.
func addresses(servers map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		all = append(all, name+"="+servers[name])
	}
	return strings.Join(all, " ")
}

// Report implements nodeapi.Backend.
func (n *nodes) Report(ctx context.Context, r nodeapi.Report) error {
	return forNodes(n.engine.Report(ctx, r.Instance, r.Addr, r.Stage, r.Text))
}

// Notice implements nodeapi.Backend.
func (n *nodes) Notice(ctx context.Context, addr string, c cloud.Notice) error {
	_, provider, err := n.engine.Identify(c.Instance, addr)
	if err != nil {
		return forNodes(err)
	}
	return n.guard.Hear(ctx, provider, c)
}

// Beat implements nodeapi.Backend.
func (n *nodes) Beat(ctx context.Context, b nodeapi.Beat) (time.Duration, error) {
	if err := n.Known(ctx, b.Instance, b.Addr); err != nil {
		return 0, err
	}
	n.health.Hear(health.Beat{Instance: b.Instance, At: time.Now(), Started: b.Started, Stopped: b.Stopped, Spool: b.Spool})
	return n.health.Interval(), nil
}

// Known implements nodeapi.Backend.
func (n *nodes) Known(_ context.Context, instance, addr string) error {
	_, _, err := n.engine.Identify(instance, addr)
	return forNodes(err)
}

// forNodes gives the engine's errors the listener's names.
func forNodes(err error) error {
	switch {
	case errors.Is(err, power.ErrNotYet):
		return fmt.Errorf("%w: %w", nodeapi.ErrNotYet, err)
	case errors.Is(err, power.ErrNotYours):
		return fmt.Errorf("%w: %w", nodeapi.ErrNotYours, err)
	}
	return err
}
