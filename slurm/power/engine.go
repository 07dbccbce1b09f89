package power

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// controller is what the engine needs of Slurm.
type controller interface {
	// Fresh returns a reading that was begun at since or later.
	Fresh(ctx context.Context, since time.Time) (*slurm.Snapshot, error)
	// Needs returns what jobs ask of their nodes.
	Needs(ctx context.Context, ids []uint32) (map[uint32]slurm.Needs, error)
	UpdateNodes(ctx context.Context, u slurm.NodeUpdate) error
	UpdateJob(ctx context.Context, id uint32, u slurm.JobUpdate) error
	Release(ctx context.Context, id uint32, restarts int, start time.Time) error
	Requeue(ctx context.Context, id uint32) error
	RequeueMeant(ctx context.Context, id uint32, meant func(slurm.Job) bool) error
	CancelRunning(ctx context.Context, id uint32, meant func(slurm.Job) bool) error
	Unhold(ctx context.Context, id uint32) error
	Reserve(ctx context.Context, r slurm.Reservation) error
	Unreserve(ctx context.Context, name string) error
}

// Engine carries out orders. Everything that it decides is first committed to
// the journal and then done, so that after a crash at any point a new engine
// on the same journal goes on: a step looks at the journal's memory, at Slurm
// and at what came back from the clouds, and does what is due.
//
// One goroutine, Run, owns all decisions. Calls that take long (launches,
// terminations, releases of jobs) run beside it and hand it what they found.
type Engine struct {
	cfg       Config
	journal   journal
	slurm     controller
	providers map[string]cloud.Provider
	log       *slog.Logger
	pools     map[string]Pool
	poolOf    map[string]string // node -> pool
	renamed   map[string]string // former name of a pool -> its name
	several   bool              // some pool has several sources

	wake    chan struct{}
	results chan func(context.Context)
	calls   sync.WaitGroup

	mu     sync.Mutex // guards mem, inbox, words, spoke, troubles and the fields of Health
	mem    *memory
	inbox  []Order           // durable, not yet in mem
	bad    map[string]string // provider -> its last error
	turned time.Time         // when Run last began a step
	// troubles are what is wrong with servers of files, by node; the map is replaced, never changed.
	troubles map[string]string
	words    []word          // of nodes, not yet in the journal
	spoke    map[string]bool // instances whose first WhoAmI is among them

	// Run's own:
	reviewed  bool                 // what an earlier life left wanted has been compared with Slurm
	doubt     map[string]bool      // launches of which an earlier call may have had its effect, by token
	changed   bool                 // this step has committed something
	relabel   bool                 // nodes' active features may have to change
	flying    map[string]bool      // launches under way, by token
	backoff   map[string]backoff   // of launches, providers and steps, by name
	asked     map[string]time.Time // instance -> last Terminate that the cloud took
	batch     map[string]int       // provider -> how many instances a Terminate may name, 0: all
	stubborn  map[string]int       // instance -> calls that named it alone, and failed
	looked    map[string]time.Time // lists of some instances, by name -> the last
	freed     map[string]time.Time // node -> last power_down_force
	died      map[string]bool      // nodes that are freed since their own instance has ended, as its cloud says
	consoles  map[string]time.Time // failed instance -> since when it waits for its console
	fetching  int                  // consoles under way
	releasing map[uint32]bool
	closed    map[string]time.Time // instances that are gone, which an older list may still show
	past      map[string]bool      // instances that the last lists have shown as ended, and the journal has
	missing   map[string]sighting  // instance -> absent from the cloud's lists
	settling  map[string]sighting  // node -> action that the table wants
	bound     map[uint32]sighting  // jobs that Slurm has given up for want of nodes of a provider
	stranded  map[uint32]sighting  // jobs that Slurm has run on a node that is gone
	listed    *listing             // of the round under way
	heard     map[string]bool      // providers that have answered since the start, and whose strays are adopted
	questions questions
	watch     watch
	attempts  map[string]attempts  // by instance
	observed  time.Time            // the last reading taken into attempts
	warned    map[uint32]int       // jobs that have been told of a fence, and their restarts
	rounds    int                  // of reconciliation
	ended     int                  // instances without an owner, by this round
	callers   []caller             // for the end of a round
	unserved  map[string]sighting  // instance that serves no node
	doubtedOf map[string]bool      // providers whose lists are not believed
	heirs     map[string]time.Time // what a provider has left, by id or token -> since when it waits for its heir's list
	accounts  map[string]string    // provider -> the account that its credentials showed last
	servers   serving
	dry       dryness
	loaded    time.Time
	plans     *[]Planned // nil, but in an engine that only plans
	market    market
	next      time.Time // of the next round
}

// New makes an engine. Providers are by name, as the pools have them.
func New(cfg Config, j journal, s controller, providers map[string]cloud.Provider, log *slog.Logger) *Engine {
	if cfg.Reconcile == 0 {
		cfg.Reconcile = 30 * time.Second
	}
	if cfg.BootTimeout == 0 {
		cfg.BootTimeout = 15 * time.Minute
	}
	if cfg.MaxTerminate == 0 {
		cfg.MaxTerminate = 20
	}
	e := &Engine{
		cfg: cfg, journal: j, slurm: s, providers: providers, log: log,
		pools: map[string]Pool{}, poolOf: map[string]string{}, mem: newMemory(State{}), bad: map[string]string{},
		wake: make(chan struct{}, 1), results: make(chan func(context.Context), 64),
		flying: map[string]bool{}, doubt: map[string]bool{}, backoff: map[string]backoff{}, asked: map[string]time.Time{}, looked: map[string]time.Time{}, freed: map[string]time.Time{}, died: map[string]bool{},
		releasing: map[uint32]bool{}, closed: map[string]time.Time{}, missing: map[string]sighting{}, settling: map[string]sighting{}, heard: map[string]bool{}, market: newMarket(),
		spoke: map[string]bool{}, consoles: map[string]time.Time{},
		questions: questions{open: map[string]bool{}, last: map[string]time.Time{}},
		watch:     watch{doubted: map[string]sighting{}}, attempts: map[string]attempts{}, warned: map[uint32]int{},
		dry:     newDryness(cfg.Pools),
		servers: newServing(cfg.Pools), unserved: map[string]sighting{}, doubtedOf: map[string]bool{}, heirs: map[string]time.Time{}, accounts: map[string]string{}, batch: map[string]int{}, stubborn: map[string]int{},
	}
	for _, p := range cfg.Pools {
		e.pools[p.Name] = p
		if len(p.Then) > 0 {
			e.several, e.market.kept[p.Name] = true, aside{} // an earlier burstd may have left it
		}
		for _, n := range p.Nodes {
			e.poolOf[n] = p.Name
		}
	}
	return e
}

// AddOrder makes an order durable and has it carried out. The same id again
// is no error and does nothing.
func (e *Engine) AddOrder(ctx context.Context, o Order) error {
	// A client that gives up must not part the journal from what Run knows: the
	// order's second copy is no news to the journal.
	fresh, err := e.journal.AddOrder(context.WithoutCancel(ctx), o)
	if err != nil || !fresh {
		return err
	}
	e.mu.Lock()
	e.inbox = append(e.inbox, o)
	e.mu.Unlock()
	e.Wake()
	return nil
}

// Owns says whether the node is one of a pool's.
func (e *Engine) Owns(node string) bool { return e.poolOf[node] != "" }

// Load takes up what the journal holds open. It comes before Run, and before
// orders are added.
func (e *Engine) Load(ctx context.Context) error {
	st, err := e.journal.LoadPower(ctx)
	if err != nil {
		return err
	}
	now := time.Now()
	if err := e.renamePools(ctx, &st); err != nil {
		return err
	}
	for _, l := range st.Launches {
		e.doubt[l.Token] = l.State != Uncalled
		if _, ok := e.providers[l.Provider]; !ok {
			e.log.Warn("a launch's provider has left the configuration: what came of it cannot be learnt, and its nodes are not launched until it is back",
				"provider", l.Provider, "token", l.Token, "nodes", hostlist.Fold(l.Nodes))
		}
	}
	for _, i := range st.Instances {
		if _, ok := e.providers[i.Provider]; !ok {
			e.log.Warn("an instance's provider has left the configuration: it cannot be watched nor ended until it is back",
				"provider", i.Provider, "instance", i.ID, "node", i.Assigned)
		}
	}
	e.mu.Lock()
	e.mem = newMemory(anewBudget(notAfter(st, now), now, e.cfg.Budget != nil))
	e.attempts = blanks(e.mem)
	e.loaded = now
	e.mu.Unlock()
	return nil
}
