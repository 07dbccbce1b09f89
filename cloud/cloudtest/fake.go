// Package cloudtest holds the suite that every cloud.Provider passes
// (Conformance), and a fake cloud in memory whose faults, delays and lack of
// capacity are injected (Fake).
package cloudtest

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Op names a call of a provider; the first three are cloud.Error's Op too.
type Op string

const (
	Launch      Op = "launch"
	List        Op = "list" // each page is a call
	Terminate   Op = "terminate"
	Acknowledge Op = "acknowledge"
	Assign      Op = "assign"
	Prepare     Op = "prepare"
	Account     Op = "account"
	Evict       Op = "evict"
	Clusters    Op = "clusters"
	MakeImage   Op = "image"
	Images      Op = "images"
	DeleteImage Op = "delete-image"
)

// Options are a fake cloud's constants. The zero value answers at once, from
// unlimited capacity, with instances that run from birth.
type Options struct {
	Latency   map[Op]time.Duration // waited before the call has its effect
	Boot      time.Duration        // from launch to Running
	AddrDelay time.Duration        // from launch to a known address
	Lag       time.Duration        // from launch to List
	Shutdown  time.Duration        // from Terminate to Terminated
	Keep      time.Duration        // how long a terminated instance is listed; 1 h
	Retry     time.Duration        // between two deliveries of a notice that was not handled; 100 ms
	PageSize  int                  // instances in one page of List; 1,000
	MaxLaunch int                  // Count of one Launch; 1,000
	Choice    bool                 // Limits().Choice: one launch may choose among offerings
	Prepare   bool                 // requests are completed by Prepare
	Image     time.Duration        // from MakeImage to an available image
	Name      string               // begins the instances' ids, to tell two clouds' apart, and with its first letter sets their network; "i"
}

// Fault makes calls fail.
type Fault struct {
	Err   error
	Skip  int  // calls that succeed first
	Times int  // calls that fail; 0 is one
	Lost  bool // the call has its effect, and only its answer is lost
}

// Fake is a cloud in memory. It needs no goroutine: what time changes is
// worked out when someone looks, so it works in a testing/synctest bubble.
type Fake struct {
	options Options

	mu       sync.Mutex
	ids      []string // in order of launch
	machines map[string]*machine
	launches map[string]launched
	asked    map[string]cloud.LaunchRequest // by instance
	capacity map[cloud.Offering]int
	busy     map[cloud.Offering]int // launches that are refused as too many
	refused  map[string]error       // by pool, of Prepare
	deaf     int                    // instances that will never run
	faults   map[Op][]Fault
	calls    map[Op]int
	notices  []*announced
	acked    []cloud.Notice
	changed  chan struct{} // closed and made anew when a notice comes
	moved    chan struct{} // closed and made anew when a call changes an instance
	account  string
	images   []*made // in the order in which they were made
	imaged   int     // so many were made
}

var (
	_ cloud.Provider     = (*Fake)(nil)
	_ cloud.NoticeSource = (*Fake)(nil)
	_ cloud.Acknowledger = (*Fake)(nil)
	_ cloud.Assigner     = (*Fake)(nil)
	_ cloud.Preparer     = (*Fake)(nil)
)

// NewFake makes an empty cloud.
func NewFake(o Options) *Fake {
	setDefault(&o.Keep, time.Hour)
	setDefault(&o.Retry, 100*time.Millisecond)
	setDefault(&o.PageSize, 1000)
	setDefault(&o.MaxLaunch, 1000)
	o.Latency = maps.Clone(o.Latency)
	return &Fake{
		options:  o,
		machines: map[string]*machine{},
		launches: map[string]launched{},
		asked:    map[string]cloud.LaunchRequest{},
		capacity: map[cloud.Offering]int{},
		busy:     map[cloud.Offering]int{},
		refused:  map[string]error{},
		faults:   map[Op][]Fault{},
		calls:    map[Op]int{},
		changed:  make(chan struct{}),
		moved:    make(chan struct{}),
		account:  rand.Text(),
	}
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// machine is an instance with the times at which it changes.
type machine struct {
	cloud.Instance // State, Addr and Ended are filled by at
	addr           string
	node           string
	running        time.Time
	addrKnown      time.Time
	listed         time.Time
	ends, ended    time.Time // zero: no end in sight
}

// at returns the instance as the cloud sees it now.
func (m *machine) at(now time.Time) cloud.Instance {
	i := m.Instance
	i.Node = m.node
	if !now.Before(m.addrKnown) {
		i.Addr = m.addr
	}
	switch {
	case !m.ends.IsZero() && !now.Before(m.ended):
		i.State, i.Ended = cloud.Terminated, m.ended
	case !m.ends.IsZero() && !now.Before(m.ends):
		i.State = cloud.Terminating
	case now.Before(m.running):
		i.State = cloud.Pending
	default:
		i.State = cloud.Running
	}
	return i
}

// end brings the instance's end forward to t; it never puts it off.
func (m *machine) end(t time.Time, shutdown time.Duration) {
	if m.ends.IsZero() || t.Before(m.ends) {
		m.ends, m.ended = t, t.Add(shutdown)
	}
}

// launched is the memory of a token.
type launched struct {
	request string
	ids     []string
}

// Launch implements cloud.Provider.
func (f *Fake) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	lost, err := f.begin(ctx, Launch)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	instances, err := f.launch(r)
	if lost != nil {
		return nil, lost
	}
	return instances, err
}

// List implements cloud.Provider. It reads page by page, as real clouds are read.
func (f *Fake) List(ctx context.Context, filter cloud.Filter) ([]cloud.Instance, error) {
	if filter.Cluster == "" {
		return nil, fail(List, cloud.Invalid, "no cluster")
	}
	keep := matcher(filter)
	var found []cloud.Instance
	for first := 0; ; first += f.options.PageSize {
		lost, err := f.begin(ctx, List)
		if err != nil {
			return nil, err
		}
		if lost != nil {
			return nil, lost
		}
		f.mu.Lock()
		now := time.Now()
		last := min(first+f.options.PageSize, len(f.ids))
		for _, id := range f.ids[first:last] {
			m := f.machines[id]
			i := m.at(now)
			forgotten := i.State == cloud.Terminated && now.Sub(i.Ended) > f.options.Keep
			if !now.Before(m.listed) && !forgotten && keep(i) {
				found = append(found, i)
			}
		}
		end := last == len(f.ids)
		f.mu.Unlock()
		if end {
			return found, nil
		}
	}
}

// Terminate implements cloud.Provider.
func (f *Fake) Terminate(ctx context.Context, ids []string) error {
	lost, err := f.begin(ctx, Terminate)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if m := f.machines[id]; m != nil {
			m.end(time.Now(), f.options.Shutdown)
		}
	}
	f.move()
	return lost
}

// Limits implements cloud.Provider.
func (f *Fake) Limits() cloud.Limits {
	return cloud.Limits{Lag: f.options.Lag, MaxLaunch: f.options.MaxLaunch, Choice: f.options.Choice}
}

// begin counts a call, waits its latency and meets its fault: err fails the
// call before its effect, lost after.
func (f *Fake) begin(ctx context.Context, op Op) (lost, err error) {
	f.mu.Lock()
	f.calls[op]++
	fault := f.nextFault(op)
	f.mu.Unlock()
	if d := f.options.Latency[op]; d > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, &cloud.Error{Kind: cloud.Transient, Op: string(op), Err: err}
	}
	if fault.Lost {
		return fault.Err, nil
	}
	return nil, fault.Err
}

func fail(op Op, kind cloud.Kind, text string) error {
	return &cloud.Error{Kind: kind, Op: string(op), Code: "Fake", Err: errors.New(text)}
}
