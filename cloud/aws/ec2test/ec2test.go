// Package ec2test is a fake of EC2 in this process: an HTTP server that reads
// the Query requests of the real SDK and answers as EC2 does, with latency,
// request buckets, capacity, eventual consistency and faults to choose. Parameters
// of SSM and the caller's identity of STS are served beside it.
package ec2test

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// Options are a cloud's constants. The zero value has three zones with a
// subnet each, and instances that run and are seen at once.
type Options struct {
	Region string // "us-east-1"
	// Subnets are where instances may be; by default one of 10.N.0.0/16 in each
	// of the zones a, b, c, and SubnetElsewhere.
	Subnets    []Subnet
	Types      []Type            // DefaultTypes
	Images     []Image           // DefaultImages
	Parameters map[string]string // of SSM, by name; by default Parameter -> ImageX86

	// Latency is how long an action takes, by its name; Default is for the others, 1 ms.
	// The effect is there after half of it. Less than 1 ms is made 1 ms: the SDK
	// trips over answers that come before it has sent the whole request.
	Latency map[string]time.Duration
	Default time.Duration

	Boot      time.Duration // from launch to running
	Lag       time.Duration // from launch to the first Describe that shows it
	AddrDelay time.Duration // from launch to a known address
	Shutdown  time.Duration // from TerminateInstances to terminated
	Image     time.Duration // from CreateImage to an available image
	Keep      time.Duration // how long a terminated instance is shown; 1 h
	PageSize  int           // the largest page of DescribeInstances; 1,000
	Throttle  bool          // EC2's token buckets, at their real sizes

	Now func() time.Time // time.Now
}

// Cloud is one account in one region. It needs no goroutine but the server's:
// what time changes is worked out when someone looks.
type Cloud struct {
	o       Options
	server  *http.Server
	url     string
	done    chan struct{}
	subnets map[string]*Subnet
	types   map[string]Type
	images  map[string]Image

	mu         sync.Mutex
	ahead      time.Duration // Advance
	serial     int           // of all ids
	machines   []*machine    // in order of launch
	byID       map[string]*machine
	ending     []*machine // not yet terminated
	taken      map[netip.Addr]bool
	tokens     map[string]*remembered
	templates  map[string]*template // by id
	groups     map[string]*group    // placement groups, by name
	capacity   map[Pool]int
	poolFaults map[Pool]string
	quota      map[bool]int // vCPUs by spot
	faults     map[string][]Fault
	account    string        // error code of every call
	skew       time.Duration // of our clock against the caller's
	boots      []Boot
	spotPrices map[Pool]float64
	buckets    map[string]*bucket
	log        []Call
	busy, peak int
	made       []*made // images of instances, in the order in which they were made
}

// What is there by default, beside SubnetIn.
const (
	ImageX86        = "ami-0a0000000000000a1"
	ImageARM        = "ami-0a0000000000000a2"
	Parameter       = "/burst/image"
	VPC             = "vpc-0a0000000000000a1"
	SecurityGroup   = "sg-0a0000000000000a1"
	VPCElsewhere    = "vpc-0b0000000000000b1"
	GroupElsewhere  = "sg-0b0000000000000b1"
	SubnetElsewhere = "subnet-0b0000000000000b1"
	KeyPair         = "admin"
	Account         = "123456789012"
)

// New makes a cloud without instances.
func New(o Options) *Cloud {
	setDefault(&o.Region, "us-east-1")
	setDefault(&o.Default, time.Millisecond)
	setDefault(&o.Keep, time.Hour)
	setDefault(&o.PageSize, 1000)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Subnets == nil {
		o.Subnets = defaultSubnets(o.Region)
	}
	if o.Types == nil {
		o.Types = DefaultTypes()
	}
	if o.Images == nil {
		o.Images = DefaultImages()
	}
	if o.Parameters == nil {
		o.Parameters = map[string]string{Parameter: ImageX86}
	}
	c := &Cloud{
		o: o, done: make(chan struct{}),
		subnets: map[string]*Subnet{}, types: map[string]Type{}, images: map[string]Image{},
		byID: map[string]*machine{}, taken: map[netip.Addr]bool{},
		tokens: map[string]*remembered{}, templates: map[string]*template{}, groups: map[string]*group{},
		capacity: map[Pool]int{}, poolFaults: map[Pool]string{}, quota: map[bool]int{},
		faults: map[string][]Fault{}, spotPrices: map[Pool]float64{}, buckets: map[string]*bucket{},
	}
	for _, s := range o.Subnets {
		s.next = s.CIDR.Masked().Addr()
		c.subnets[s.ID] = &s
	}
	for _, t := range o.Types {
		c.types[t.Name] = t
	}
	for _, i := range o.Images {
		c.images[i.ID] = i
	}
	return c
}

func setDefault[T comparable](v *T, def T) {
	var zero T
	if *v == zero {
		*v = def
	}
}

// Start serves on a free port of 127.0.0.1.
func (c *Cloud) Start() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.url = "http://" + l.Addr().String()
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = c.server.Serve(l) }() // returns when Close is called
	return nil
}

// Close ends the server and all calls.
func (c *Cloud) Close() error {
	close(c.done)
	return c.server.Close()
}

// URL is the endpoint of EC2, SSM and STS.
func (c *Cloud) URL() string { return c.url }

// Advance moves the cloud's clock on: boots, lags and buckets go by it,
// latency does not. The caller's clock is then wrong by as much, unless the
// cloud forgives it: only SetSkew makes calls fail for their time.
func (c *Cloud) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// now is called with the lock held.
func (c *Cloud) now() time.Time { return c.o.Now().Add(c.ahead) }
