// Package agent is what burst-agent does on a cloud node: it reads the
// instance's metadata for notices and brings each to burstd, for as long as
// that takes, and it reports the node's health.
//
//	metadata service --watch, one for each topic--> outbox, one courier for each notice --> burstd
//	/proc, statfs    --sampler--> beat --> burstd
//
// None of them waits for another.
package agent

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/imds"
	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// Config says where everything is; zero fields take the defaults in brackets.
type Config struct {
	URLs      []string // of burstd's listener for nodes, "http://10.0.0.5:9811"; asked in turn
	DaemonUID int      // burstd's uid; its answers are believed, and root's
	Spool     string   // slurmd's spool, whose file system is looked at [that of Conf, else /var/spool/slurmd]
	Conf      string   // the link that a configless slurmd makes to its copy of slurm.conf, in its spool [/run/slurm/conf]
	State     string   // file that outlives a restart: the maintenances that burstd was told of; empty: none
	Proc      string   // [/proc]
	Version   string
	IMDS      Metadata
	Munge     Credentials
	Log       *slog.Logger
	// Notify tells systemd; nil: nobody is told.
	Notify func(state string) error
	// Watchdog is how often at least systemd wants to hear; 0: never.
	Watchdog time.Duration

	transport http.RoundTripper // tests have their own
}

// Metadata is the instance's metadata service: an *imds.Client.
type Metadata interface {
	InstanceID(ctx context.Context) (string, error)
	Notices(ctx context.Context, t imds.Topic) ([]cloud.Notice, error)
}

// Credentials is munged: a *munge.Munge.
type Credentials interface {
	Encode(ctx context.Context, payload []byte) (string, error)
	Decode(ctx context.Context, credential string) (munge.Credential, error)
}

func (c Config) withDefaults() Config {
	if c.Conf == "" {
		c.Conf = "/run/slurm/conf"
	}
	if c.Proc == "" {
		c.Proc = "/proc"
	}
	if c.Notify == nil {
		c.Notify = func(string) error { return nil }
	}
	return c
}

// Agent is one run.
type Agent struct {
	Config
	instance string
	burstd   *burstd
	outbox   *outbox
	starts   *starts
	born     time.Time
	turned   []atomic.Int64 // of each topic: when its watch has last turned, ns since born
}

// Run runs the agent until ctx ends. There is nothing that it gives up for.
func Run(ctx context.Context, c Config) error {
	a := newAgent(c)
	if a.identify(ctx) != nil { // ctx has ended
		return a.Notify("STOPPING=1")
	}
	a.Log = a.Log.With("instance", a.instance)
	a.Log.Info("burst-agent watches this instance", "burstd", a.URLs, "version", a.Version)
	a.outbox = newOutbox(a.tell, a.Log)
	var wg sync.WaitGroup
	for i, topic := range imds.Topics() {
		wg.Go(func() { a.watch(ctx, topic, &a.turned[i]) })
	}
	wg.Go(func() { a.sample(ctx) })
	wg.Go(func() { a.beats(ctx) })
	wg.Go(func() { a.systemd(ctx) })
	wg.Wait()
	a.outbox.wait()
	return a.Notify("STOPPING=1")
}

func newAgent(c Config) *Agent {
	c = c.withDefaults()
	return &Agent{
		Config: c, burstd: newBurstd(c), starts: &starts{proc: c.Proc}, born: time.Now(),
		turned: make([]atomic.Int64, len(imds.Topics())),
	}
}

// identify asks for the instance's id until there is one.
func (a *Agent) identify(ctx context.Context) (err error) {
	t := newTally(a.Log, "the metadata service does not say which instance this is: is this an EC2 instance?")
	return insist(ctx, t, func() error {
		a.instance, err = a.IMDS.InstanceID(ctx)
		return err
	})
}

// insist tries until do succeeds or ctx ends, with growing pauses.
func insist(ctx context.Context, t *tally, do func() error) error {
	pause := time.Second
	for {
		err := do()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			t.ok()
			return nil
		}
		t.fail(err)
		if err := sleep(ctx, jitter(pause)); err != nil {
			return err
		}
		pause = min(2*pause, 10*time.Second)
	}
}

// systemd says READY once munge has answered too, and that the agent lives as
// long as every watch turns.
func (a *Agent) systemd(ctx context.Context) {
	t := newTally(a.Log, "munge makes no credential: is munged running?")
	err := insist(ctx, t, func() error {
		_, err := a.Munge.Encode(ctx, []byte("burst-agent"))
		return err
	})
	if err != nil {
		return
	}
	a.notify("READY=1")
	if a.Watchdog <= 0 {
		return
	}
	for sleep(ctx, a.Watchdog/3) == nil {
		if a.turns() {
			a.notify("WATCHDOG=1")
		}
	}
}

// turns says whether every watch has turned within systemd's patience.
func (a *Agent) turns() bool {
	for i := range a.turned {
		if time.Since(a.born)-time.Duration(a.turned[i].Load()) > a.Watchdog {
			return false
		}
	}
	return true
}

func (a *Agent) notify(state string) {
	if err := a.Notify(state); err != nil {
		a.Log.Warn("systemd could not be told", "state", state, "error", err)
	}
}
