package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/cmd/internal/clouds"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/cmd/internal/nodeapi"
	"github.com/burst-hpc/burst/slurm/power"
)

// setups has the booting nodes of pools with bootstrap = "ssh" set up. What is
// to be done stands in the engine's journal, a booting node with an address, and
// what has been done on the instance itself: after the death of a burstd the next
// one asks each host again, and goes on.
type setups struct {
	engine interface {
		Health() power.Health
		Report(ctx context.Context, instance, addr, stage, text string) error
		SetUnready(ctx context.Context, pool, provider, why string) error
	}
	run       func(ctx context.Context, pool config.Pool, h ssh.Host, w ssh.Work) error
	pools     map[source]config.Pool // those that are set up over SSH
	providers map[string]cloud.Provider
	keys      ssh.Folder
	agent     func(arch string) (path string, err error)
	news      <-chan struct{} // nodes or instances have changed
	log       *slog.Logger

	calls sync.WaitGroup
	under map[string]visit // instances that are seen to, or were
}

// source is a pool as it buys of one of its providers.
type source struct{ pool, provider string }

// visit is at an address: the cloud may give the instance another one.
type visit struct {
	addr   string
	cancel context.CancelFunc
}

// lookAgain is how often the engine is asked where nothing is heard of it.
const lookAgain = 5 * time.Second

// newsPause is how long after news the engine is asked.
const newsPause = 100 * time.Millisecond

// leastSetup is what a node is given that is found late, as by a burstd that was away for long.
const leastSetup = time.Minute

// newSetups reads the pools' settings; nil: no pool needs any.
func (d *Daemon) newSetups(news <-chan struct{}, point crash.Point) *setups {
	s := &setups{engine: d.engine, pools: map[source]config.Pool{}, providers: d.providers, agent: nodeapi.Agent, news: news, log: d.log,
		under: map[string]visit{}}
	state := d.cfg.Endpoint.State
	s.keys = d.hostKeys()
	runners := map[source]*ssh.Runner{}
	byAuth := map[ssh.Auth]*ssh.Runner{}
	for _, p := range d.cfg.Sources() {
		if p.SSH == nil {
			continue
		}
		of := source{p.Power.Name, p.Power.Provider}
		s.pools[of] = p
		if byAuth[p.SSH.Auth] == nil {
			byAuth[p.SSH.Auth] = ssh.New(ssh.Config{Auth: p.SSH.Auth, Keys: s.keys, Logs: filepath.Join(state, "setup"), Log: d.log, Step: point})
		}
		runners[of] = byAuth[p.SSH.Auth]
	}
	if len(s.pools) == 0 {
		return nil
	}
	s.run = func(ctx context.Context, p config.Pool, h ssh.Host, w ssh.Work) error {
		return runners[source{p.Power.Name, p.Power.Provider}].Run(ctx, h, w)
	}
	return s
}

// hostKeys is where the keys are that instances have shown.
func (d *Daemon) hostKeys() ssh.Folder {
	return ssh.Folder(filepath.Join(d.cfg.Endpoint.State, "hostkeys"))
}

// pruneKeys removes the host keys of instances that are gone, also when no pool is set up over
// SSH any more.
func pruneKeys(keys ssh.Folder, engine interface{ Health() power.Health }, log *slog.Logger) {
	live := map[string]bool{}
	for _, i := range engine.Health().Instances {
		live[i.ID] = true
	}
	if err := keys.Prune(24*time.Hour, func(id string) bool { return live[id] }); err != nil {
		log.Warn("host keys of instances that are gone could not be removed", "folder", string(keys), "error", err)
	}
}

// serve works until ctx ends, and until all that it has begun has ended.
func (s *setups) serve(ctx context.Context) error {
	defer s.calls.Wait()
	go s.ready(ctx)
	tick := time.NewTicker(lookAgain)
	defer tick.Stop()
	for {
		s.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-s.news: // which the engine takes in a moment later; others come with it
			select {
			case <-ctx.Done():
			case <-time.After(newsPause):
			}
		case <-tick.C:
		}
	}
}

// look begins what is new, and ends what has become of no use.
func (s *setups) look(ctx context.Context) {
	h := s.engine.Health()
	instances := map[string]power.Instance{}
	for _, i := range h.Instances {
		instances[i.ID] = i
	}
	serves := map[string]bool{}
	for _, n := range h.Nodes {
		i, known := instances[n.Instance]
		pool, ours := s.pools[source{n.Pool, i.Provider}]
		if !known || !ours || i.Doomed != "" || n.Phase != power.Booting && n.Phase != power.Up {
			continue
		}
		serves[i.ID] = true
		// While the cloud still installs it, another system may answer, with another key.
		if n.Phase != power.Booting || i.Addr == "" || i.State != cloud.Running {
			continue
		}
		if old, begun := s.under[i.ID]; begun {
			if old.addr == i.Addr {
				continue
			}
			s.log.Info("the cloud has given an instance another address", "node", n.Name, "instance", i.ID, "old", old.addr, "addr", i.Addr)
			old.cancel()
		}
		ctx, cancel := context.WithCancel(ctx)
		s.under[i.ID] = visit{i.Addr, cancel}
		s.calls.Go(func() { s.setUp(ctx, pool, n, i) })
	}
	for id, a := range s.under {
		if !serves[id] {
			a.cancel()
			delete(s.under, id)
		}
	}
}

// setUp sees to one node until it is set up, or burstd knows that it will not be.
func (s *setups) setUp(ctx context.Context, pool config.Pool, n power.Node, i power.Instance) {
	end := n.Since.Add(pool.Slurm.ResumeTimeout)
	if least := time.Now().Add(leastSetup); end.Before(least) {
		end = least
	}
	limited, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	s.log.Info("a node is set up over SSH", "node", n.Name, "instance", i.ID, "addr", i.Addr)
	err := s.try(limited, pool, n, i)
	switch {
	case err == nil:
		s.log.Info("a node is set up", "node", n.Name, "instance", i.ID)
		return
	case ctx.Err() != nil:
		return // its instance is given up, or the next burstd goes on
	}
	s.log.Warn("a node could not be set up", "node", n.Name, "instance", i.ID, "error", err)
	for pause := time.Second; ; pause = min(2*pause, 30*time.Second) {
		rerr := s.engine.Report(ctx, i.ID, i.Addr, power.ReportFailed, told(err))
		if rerr == nil || errors.Is(rerr, power.ErrNotYours) || ctx.Err() != nil {
			return
		}
		s.log.Debug("a failed setup could not be written down", "node", n.Name, "error", rerr)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// told is what an admin reads of a failure: the node and the line, then the output's end.
func told(err error) string {
	var f *ssh.Failure
	if errors.As(err, &f) && f.Tail != "" {
		return f.Why + "\n" + f.Tail
	}
	return err.Error()
}

func (s *setups) try(ctx context.Context, pool config.Pool, n power.Node, i power.Instance) error {
	addr, err := netip.ParseAddr(i.Addr)
	if err != nil {
		return fmt.Errorf("the cloud's address of the instance: %w", err)
	}
	h := ssh.Host{Instance: i.ID, Node: n.Name, Addr: addr, Port: pool.SSH.Port, User: pool.SSH.User}
	if pool.SSH.Console {
		if h.HostKeys, err = s.shown(ctx, i); err != nil {
			return err
		}
	}
	if pool.SSH.Word {
		if h.Word, err = clouds.Word(ctx, s.providers[i.Provider], i.ID); err != nil {
			return fmt.Errorf("provider %s: %w", i.Provider, err)
		}
	}
	if pool.Boot.Sent() != "" && len(h.HostKeys) == 0 && h.Word == "" && !pool.SSH.Public && !private(addr) {
		return fmt.Errorf("%s is a public address, where anybody on the way may answer first, and would get the MUNGE key: see host_key in docs/ssh-bootstrap.md", addr)
	}
	script, err := bootstrap.ForHost(pool.Boot, i.ID, addr)
	if err != nil {
		return fmt.Errorf("writing the bootstrap: %w", err)
	}
	return s.run(ctx, pool, h, ssh.Work{Script: []byte(script), Limit: pool.Slurm.ResumeTimeout,
		Files: func(arch string) ([]ssh.File, error) { return s.files(pool.Boot, arch) }})
}

// files are what goes with the script: burst-agent, and the MUNGE key where the site sends it.
func (s *setups) files(b bootstrap.Config, arch string) (all []ssh.File, err error) {
	path, err := s.agent(arch)
	switch {
	case err == nil:
		program, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		all = append(all, ssh.File{Name: "burst-agent", To: "/usr/local/sbin/burst-agent", Mode: 0o755, Data: program})
	case !errors.Is(err, fs.ErrNotExist): // without one the image must have it, or the node says that it lacks it
		return nil, err
	}
	if path := b.Sent(); path != "" {
		key, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading the MUNGE key that is sent to nodes: %w", err)
		}
		all = append(all, ssh.File{Name: bootstrap.KeyFile, Mode: 0o400, Data: key})
	}
	return all, nil
}

// heard is a journal that tells of news of nodes and instances.
type heard struct {
	crash.Journal
	news chan<- struct{}
}

func (j heard) CommitPower(ctx context.Context, c power.Change) error {
	if err := j.Journal.CommitPower(ctx, c); err != nil {
		return err
	}
	if len(c.Nodes)+len(c.DropNodes)+len(c.Instances) > 0 {
		select {
		case j.news <- struct{}{}:
		default: // it is told already
		}
	}
	return nil
}
