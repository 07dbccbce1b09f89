// Package daemon is burstd: it wires the journal, Slurm, the providers, the
// power engine and the eviction guard together, takes orders from the spool and
// the socket, and tells systemd, Prometheus and admins how it is.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/clouds"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/crash"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
	"github.com/burst-hpc/burst/cmd/internal/nodeapi"
	"github.com/burst-hpc/burst/cmd/internal/passwd"
	"github.com/burst-hpc/burst/cmd/internal/spending"
	"github.com/burst-hpc/burst/cmd/internal/store"
	"github.com/burst-hpc/burst/ft"
	"github.com/burst-hpc/burst/ft/session"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/health"
	"github.com/burst-hpc/burst/slurm/power"
)

// Options are what main knows.
type Options struct {
	Config  *config.Config
	Version string
	Log     *slog.Logger
	Point   crash.Point // nil in a daemon that is not under test
}

// Daemon is one burstd.
type Daemon struct {
	cfg     *config.Config
	version string
	log     *slog.Logger
	started time.Time
	cluster string

	store     *store.Store
	journal   crash.Journal // what is written there is in the log too
	client    *slurm.Client
	watcher   *slurm.Watcher
	engine    *power.Engine
	guard     *ft.Guard
	hub       *session.Hub
	rates     *rates
	health    *health.Monitor
	sources   map[string]cloud.NoticeSource
	providers map[string]cloud.Provider
	market    *market
	prices    *prices
	kinds     map[string]string        // of providers, also of those that have left burst.toml
	keeper    *spending.Keeper         // nil: there is no budget
	atCap     *atCap                   // nil: there is no budget
	stages    *prometheus.HistogramVec // of boots
	meters    *meters
	timeouts  timeouts
	setups    *setups // nil: no pool's nodes are set up over SSH
	overflows overflowReads
	names     passwd.Names
	explains  turns
	ended     chan struct{} // an instance has ended: the ledger is due
	drills    chan struct{} // a drill has begun
	ends      chan struct{} // a run was closed

	told map[string]string            // what was warned of last, by subject; of the spool's reader
	late map[store.Unpriced]time.Time // when rows were last looked at of what has no price; of the ledger's keeper

	booking  sync.Mutex // of builders
	mu       sync.Mutex
	slurmErr error
	bookedTo time.Time       // the latest reading up to which the ledger is booked in this life
	nodes    *nodeapi.Server // nil until booting nodes are answered
}

// minGap is the least time between two readings of Slurm: a gate sees its
// nodes registered no later than this.
const minGap = 100 * time.Millisecond

// Run serves until ctx ends, and returns when all work has stopped. The
// journal is left so that the next burstd goes on.
func Run(ctx context.Context, o Options) error {
	ep := o.Config.Endpoint
	unlock, err := lock(filepath.Join(ep.State, "burstd.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	var st *store.Store
	err = whileStarting(startLong/3, o.Log, func() (err error) {
		st, err = store.Open(ctx, ep.DB())
		return err
	})
	if errors.Is(err, store.ErrNewer) { // trying again does not mend it: the unit does not
		return cli.UsageError(err, fmt.Sprintf("install the later burstd again, or restore the journal from before the upgrade, then systemctl start burstd; until then nobody watches the instances (burstd %s)", o.Version))
	}
	if err != nil {
		return err
	}
	defer st.Close()
	d, err := build(ctx, o, st)
	if err != nil {
		return err
	}
	if err := d.startPaused(ctx); err != nil {
		return err
	}
	if err := d.engine.Load(ctx); err != nil {
		return err
	}
	if err := d.hub.Load(ctx); err != nil {
		return err
	}
	// The spool first: its orders are older than what the socket will bring.
	if err := d.drainSpool(ctx); err != nil {
		return err
	}
	ln, err := api.Listen(ep.Socket)
	if err != nil {
		return err
	}
	srv := api.NewServer(d, api.Authz{SlurmUID: d.slurmUID()}, d.log)
	return d.serve(ctx, srv, ln)
}

func build(ctx context.Context, o Options, st *store.Store) (*Daemon, error) {
	d := &Daemon{cfg: o.Config, version: o.Version, log: o.Log, started: time.Now(), store: st,
		sources: map[string]cloud.NoticeSource{}, ended: make(chan struct{}, 1), drills: make(chan struct{}, 1), ends: make(chan struct{}, 1), told: map[string]string{}}
	id, err := st.ClusterID(ctx)
	if err != nil {
		return nil, err
	}
	d.cluster = id
	ep := o.Config.Endpoint
	var runner slurm.Runner = slurm.Exec{Conf: ep.SlurmConf, BinDir: ep.SlurmBin, Log: o.Log}
	var journal crash.Journal = st
	if o.Point != nil {
		runner, journal = crash.InRunner(runner, o.Point), crash.InJournal(journal, o.Point)
	}
	d.client = slurm.New(runner)
	d.watcher = slurm.NewWatcher(d.read, minGap)
	providers := map[string]cloud.Provider{}
	for _, p := range o.Config.Providers {
		prov, err := clouds.Open(ctx, p, ep.SlurmConf, o.Log)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", p.Name, err)
		}
		if o.Point != nil {
			prov = crash.InProvider(prov, o.Point)
		}
		providers[p.Name] = prov
		if s, ok := prov.(cloud.NoticeSource); ok {
			d.sources[p.Name] = s
		}
	}
	d.providers = providers
	d.prices = newPrices(o.Config.Providers, providers, o.Log)
	if err := d.recall(ctx); err != nil {
		return nil, err
	}
	news := make(chan struct{}, 1)
	journal = heard{watched{journal, d.ended}, news}
	d.stages = newBootStages()
	pools := map[string]bool{}
	for _, p := range o.Config.Pools {
		pools[p.Power.Name] = true
	}
	d.meters = newMeters(o.Config.Sources(), d.watcher.Latest)
	journal = metered{timed{journal, d.stages, pools}, d.meters}
	d.journal = logged{journal, o.Log}
	ctl := controller{d.client, d.watcher}
	d.market = newMarket(o.Config.Sources(), d.prices.tables, providers, o.Log)
	engine := o.Config.Power(id)
	engine.Price, engine.Cores, engine.Tried = d.market.price, d.market.coresOf, d.meters.Tried
	engine.Begun, engine.ResumeTimeout = d.begun, d.timeouts.get
	builders := imaging.LeasesIn(ep.State)
	engine.Held = func(i cloud.Instance) bool { return builders.Held(i.Token, time.Now()) }
	engine.Kept, engine.Paid = d.kept, d.newHours().keeps
	if d.keeper = d.newKeeper(ctx); d.keeper != nil {
		d.market.all(o.Config.Sources(), o.Config.Budget.Caps.Unknown > 0)
		engine.Budget, engine.Priced = d.keeper.Open, d.keeper.Priced
	}
	d.engine = power.New(engine, fallen{journal, d}, ctl, providers, o.Log)
	d.market.news = d.engine.Wake
	d.setups = d.newSetups(news, o.Point)
	d.rates = newRates(d, o.Config.Pools)
	d.hub = session.NewHub(session.HubConfig{AtOnce: o.Config.Checkpoint.AtOnce, Interval: d.rates.interval}, d.journal, o.Log)
	rules := ft.Config{Signal: o.Config.Checkpoint.Signal, Grace: o.Config.Checkpoint.Grace, Margin: o.Config.Checkpoint.Margin, Pools: poolRules(o.Config),
		Sessions: ft.SessionsOf(d.hub, d.store),
		Ask:      func(instance string) { d.engine.Ask(instance) },
		Scarce:   d.engine.Scarce}
	if d.keeper != nil {
		rules.Afford = d.affordInPlaceOf
	}
	if d.atCap = newAtCap(d); d.atCap != nil && o.Config.Budget.AtCap != "" {
		rules.Spent = d.atCap
	}
	d.guard = ft.New(rules, d.journal, ctl, providers, o.Log)
	sick := o.Config.Health
	d.health = health.New(health.Limits{SlurmdRestarts: sick.SlurmdRestarts, SlurmdWindow: sick.SlurmdWindow, SpoolFull: sick.SpoolFull,
		AgentSilent: sick.AgentSilent}, wards{d.engine, d.journal}, ctl, o.Log)
	return d, nil
}

// controller is Slurm as the engine and the guard see it.
type controller struct {
	*slurm.Client
	watcher *slurm.Watcher
}

func (c controller) Fresh(ctx context.Context, since time.Time) (*slurm.Snapshot, error) {
	return c.watcher.Fresh(ctx, since)
}

// read is the watcher's reading; it notes whether Slurm answers.
func (d *Daemon) read(ctx context.Context) (*slurm.Snapshot, error) {
	snap, err := d.client.Snapshot(ctx)
	if ctx.Err() != nil {
		return snap, err // those who asked have gone: that says nothing of Slurm
	}
	d.mu.Lock()
	d.slurmErr = err
	d.mu.Unlock()
	return snap, err
}

// slurmUID is the user, beside root, who may give orders.
func (d *Daemon) slurmUID() int {
	u, err := passwd.ByName(context.Background(), d.cfg.Endpoint.SlurmUser)
	if err != nil {
		d.log.Warn("only root and this user may give orders: SlurmUser is not known here", "user", d.cfg.Endpoint.SlurmUser, "error", err)
		return os.Getuid()
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return os.Getuid()
	}
	return uid
}

// userName is the user's name as Slurm knows it from a job, else as this host does; empty: it is not known.
func (d *Daemon) userName(ctx context.Context, uid int) string {
	if snap := d.watcher.Latest(); snap != nil {
		for _, j := range snap.Jobs {
			if j.UID == uid && j.User != "" && j.User != "nobody" { // as Slurm calls those whose name it did not find
				return j.User
			}
		}
	}
	return d.names.Of(ctx, uid)
}

// lock keeps a second burstd off the journal.
func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, cli.WithHint(fmt.Errorf("opening the state folder: %w", err),
			"%s must be a folder on a local disk that uid %d may write to ([daemon] state)", filepath.Dir(path), os.Getuid())
	}
	// A command that a killed burstd was about to start has the lock until it runs.
	for end := time.Now().Add(time.Second); ; time.Sleep(20 * time.Millisecond) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || time.Now().After(end) {
			break
		}
	}
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		f.Close()
		return nil, cli.WithHint(fmt.Errorf("another burstd has %s", path), "it uses the same [daemon] state: systemctl status burstd")
	case err != nil:
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
