// Package vultrtest is a fake of Vultr's API v2 that runs in this process, with
// what tests want of a cloud: states as slow as the real ones, faults, and a
// record of what was asked. Paths, JSON and states are as the published
// reference, and the types of govultr v3, have them.
package vultrtest

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// What the cloud has from the start.
const (
	Key      = "VULTRTESTKEY"            // the API key
	Email    = "hpc@example.org"         // of the account
	Region   = "lhr"                     // where all plans are sold; other regions are known and empty
	Plan     = "vhp-8c-16gb-amd"         // cloud compute
	Plan2    = "vc2-2c-4gb"              // cloud compute
	Metal    = "vbm-6c-32gb"             // bare metal
	GPUPlan  = "vcg-a100-6c-60gb"        // cloud compute with a GPU, elsewhere
	Unlisted = "vcg-a40-24c-120g-48vram" // sold in Region, though the list of plans has it nowhere
	Diskless = "vx1-g-2c-8g"             // has block devices alone
	OS       = 2136                      // OSName
	OSName   = "Debian 12 x64 (bookworm)"
	VPC      = "e3f2a3de-8e57-4a0b-b9a0-3a3f4d4b7c55"
	Firewall = "fda87416-9e46-4cbb-abee-3f0a15be17b5"
	Script   = "cb676a46-66fd-4dfb-b839-443f2e6c0b60" // a startup script
)

// Options say how the cloud behaves. The zero Options answer at once, and their
// instances run as soon as they are looked at.
type Options struct {
	PageSize int           // largest page; 0: 500
	Lag      time.Duration // a new instance is missing in lists for so long
	Boot     time.Duration // from its creation until cloud compute runs
	Metal    time.Duration // the same for bare metal
	Latency  time.Duration // of each answer
	Snapshot time.Duration // from its request to a complete snapshot
	Halt     time.Duration // from the request until an instance is stopped
	Age      time.Duration // instances are said to have been made so long before they were
	// Locked is how long Vultr refuses to destroy a new instance.
	Locked time.Duration
	// Linger is how long lists still show a machine that has been destroyed.
	Linger time.Duration
	// PerSecond is how many requests within any second are answered; beyond, 429. 0: all.
	PerSecond int
	// Addr is the address of the n-th machine, from 1 on; nil: 10.x.y.z.
	Addr func(n int) string
	// ACLs are what the key's user may do; nil: what Burst needs.
	ACLs []string
	// Flat: an instance has its address in the VPC too; else 192.168.y.z.
	Flat bool
}

// Cloud is a fake of Vultr: one account.
type Cloud struct {
	options Options
	server  *http.Server
	url     string
	done    chan struct{}

	mu        sync.Mutex
	machines  []*machine // in the order of their creation
	past      []*machine // destroyed, in the order of their end
	made      int
	capacity  map[string]int // by plan; no entry: no limit
	faults    map[string][]Fault
	keys      []sshKey
	snapshots []snapshot
	hidden    string      // a machine that lists count and do not show
	requests  []time.Time // of the last second
	calls     []Call
}

// Call is one request, as it was answered.
type Call struct {
	Op     string // "POST instances"
	Path   string
	Status int // 0: the connection was cut
	At     time.Time
}

// New makes a cloud; Start lets it answer.
func New(o Options) *Cloud {
	if o.PageSize == 0 {
		o.PageSize = 500
	}
	if o.ACLs == nil {
		o.ACLs = []string{"subscriptions_view", "subscriptions", "provisioning"}
	}
	if o.Addr == nil {
		o.Addr = func(n int) string { return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255) }
	}
	return &Cloud{options: o, capacity: map[string]int{}, faults: map[string][]Fault{}}
}

// Start listens on this host.
func (c *Cloud) Start() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("starting the fake of Vultr: %w", err)
	}
	c.url = "http://" + l.Addr().String()
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
	c.done = make(chan struct{})
	go func() {
		defer close(c.done)
		_ = c.server.Serve(l) // its end is Close's
	}()
	return nil
}

// Close ends it, and all connections.
func (c *Cloud) Close() error {
	err := c.server.Close()
	<-c.done
	return err
}

// URL is where it answers.
func (c *Cloud) URL() string { return c.url }

// Calls are all requests so far.
func (c *Cloud) Calls() []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// Count is how many requests of an operation, as "POST instances", there were.
func (c *Cloud) Count(op string) int {
	n := 0
	for _, call := range c.Calls() {
		if call.Op == op {
			n++
		}
	}
	return n
}

// newID is a version 4 UUID.
func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
