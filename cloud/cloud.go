// Package cloud holds what every cloud has in common: offerings, instances,
// notices, the kinds of error, and the Provider interface that cloud/aws,
// cloud/vultr, cloud/local and the fake in cloud/cloudtest implement.
package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Market says how an instance is bought.
type Market string

const (
	OnDemand Market = "on-demand"
	Spot     Market = "spot"
)

// Offering is one instance type in one zone on one market: the unit in which
// a cloud has, or lacks, capacity.
type Offering struct {
	Type   string `json:"type"`
	Zone   string `json:"zone,omitempty"`
	Market Market `json:"market"`
}

func (o Offering) String() string {
	if o.Zone == "" {
		return fmt.Sprintf("%s/%s", o.Type, o.Market)
	}
	return fmt.Sprintf("%s/%s/%s", o.Type, o.Zone, o.Market)
}

// LaunchRequest is everything that a launch says to the cloud. It is written
// to the journal, as it is, before the call, so that a repeat after a crash
// is the same request under the same token.
type LaunchRequest struct {
	Token    string            `json:"token"`   // idempotency token, unique per launch
	Cluster  string            `json:"cluster"` // the cluster's random id: marks our instances
	Pool     string            `json:"pool"`
	Offering Offering          `json:"offering"`
	Count    int               `json:"count"` // instances wanted, at least 1
	Image    string            `json:"image,omitempty"`
	UserData string            `json:"user_data,omitempty"` // holds no secret
	Tags     map[string]string `json:"tags,omitempty"`      // the site's own
	// AllOrNothing forbids a partial launch: fewer than Count is a Capacity error
	// and leaves nothing running: its Error's TakenBack tells what has come all the
	// same, and been ended. All instances are then of one type and in one zone.
	AllOrNothing bool `json:"all_or_nothing,omitempty"`
	// Or lists more offerings of the same market, best first, that may fill the
	// launch as well, for providers whose Limits say Choice.
	Or []Offering `json:"or,omitempty"`
	// MaxPrice is what a spot instance may cost at most, in USD per hour; 0: no limit.
	MaxPrice float64 `json:"max_price,omitempty"`
	// Spec is the provider's own part, which Preparer has written: with it the
	// request is exact, whatever the configuration says later.
	Spec json.RawMessage `json:"spec,omitempty"`
}

// Offerings lists all that may fill the launch, best first.
func (r LaunchRequest) Offerings() []Offering { return append([]Offering{r.Offering}, r.Or...) }

// Tags that the engine sets where it knows them, beside the site's own.
const (
	TagJob     = "burst:job"
	TagUser    = "burst:user"
	TagAccount = "burst:account"
)

// State is an instance's state in the cloud.
type State string

const (
	Pending     State = "pending"     // starting, may have no address yet
	Running     State = "running"     //
	Terminating State = "terminating" // asked to go, still there
	Terminated  State = "terminated"  // the cloud's word that it is gone
)

// Live says whether an instance in this state may run a job's processes or
// cost money.
func (s State) Live() bool { return s == Pending || s == Running || s == Terminating }

// Instance is the cloud's machine behind a node.
type Instance struct {
	ID       string   `json:"id"`
	Token    string   `json:"token"`
	Cluster  string   `json:"cluster"`
	Pool     string   `json:"pool"`
	Offering Offering `json:"offering"`
	State    State    `json:"state"`
	Addr     string   `json:"addr,omitempty"`     // for Slurm's NodeAddr; empty until known
	Hostname string   `json:"hostname,omitempty"` // for Slurm's NodeHostname; empty: the node's own name
	// Node is the node that the instance was assigned to, where the provider was
	// told (Assigner) and can say so again: it finds an instance's node after a lost journal.
	Node     string    `json:"node,omitempty"`
	Launched time.Time `json:"launched"`
	// Ended is when the cloud says that a Terminated instance stopped costing
	// money; zero where it does not say.
	Ended time.Time `json:"ended,omitzero"`
	// Why is what the cloud says of the end of one that is not Live; empty where it says nothing.
	Why string `json:"why,omitempty"`
}

// Filter narrows List. Empty fields do not narrow; Cluster is always set.
type Filter struct {
	Cluster string
	Tokens  []string
	IDs     []string
}

// Provider is one account in one region of one cloud. All methods may be
// called concurrently, watch ctx, and return errors that KindOf can read.
type Provider interface {
	// Launch starts up to r.Count instances. A second call with the same token
	// and request starts nothing new: it returns the instances of the first
	// call that are still live, and after a lost answer it is the way to learn them. Fewer instances
	// than asked come with an error that says why the rest did not (never with nil).
	Launch(ctx context.Context, r LaunchRequest) ([]Instance, error)

	// List returns the cluster's instances, terminated ones for as long as the
	// cloud remembers them. It is eventually consistent: an instance may be
	// missing for up to Limits().Lag after its launch. An error means no answer; an
	// incomplete list is never returned without one.
	List(ctx context.Context, f Filter) ([]Instance, error)

	// Terminate asks for the end of the instances. An id that is gone already
	// or was never known is no error. It returns before they are gone: List tells when.
	Terminate(ctx context.Context, ids []string) error

	Limits() Limits
}

// Limits are a provider's constants.
type Limits struct {
	// Lag is how long after a launch a missing instance proves nothing.
	Lag time.Duration
	// MaxLaunch is the largest Count of one Launch.
	MaxLaunch int
	// Choice says that one Launch may choose among offerings (LaunchRequest.Or).
	Choice bool
	// HardStop says that Imager stops an instance as if it were unplugged, unless it has
	// shut itself down a while after its setup has ended.
	HardStop bool
}

// NoticeKind says what a notice announces.
type NoticeKind string

const (
	SpotInterruption NoticeKind = "spot-interruption" // the instance goes at Deadline
	Rebalance        NoticeKind = "rebalance"         // it is at a higher risk of going
	Maintenance      NoticeKind = "maintenance"       // planned work from Deadline on
	// StateChange is no announcement: the cloud says that the instance's state has
	// changed. It is a reason to ask the provider, which alone is believed, and is not kept.
	StateChange NoticeKind = "state-change"
)

// Notice is the cloud's word that an instance will go, be rebalanced or
// maintained. It is plain data; (Instance, Kind) is its key.
type Notice struct {
	Instance string     `json:"instance"`
	Kind     NoticeKind `json:"kind"`
	Deadline time.Time  `json:"deadline,omitzero"`
	Received time.Time  `json:"received"`
	Source   string     `json:"source"` // "local", "imds", "sqs", "drill"
	// Action is what is to become of the instance, in the cloud's own word:
	// "terminate", "stop", "hibernate", "system-reboot", a new state, …; empty: not said.
	Action string `json:"action,omitempty"`
	// Event is the cloud's id of what it announces, where it has one: of a maintenance.
	Event string `json:"event,omitempty"`
	// Cancelled: what the notice of the same Event announced, or any of this key
	// if Event is empty, will not be.
	Cancelled bool `json:"cancelled,omitempty"`
}

// NoticeSource is met by providers that can announce evictions.
type NoticeSource interface {
	// Notices calls handle for every notice until ctx ends. A notice is given
	// again, also after a restart, until handle has returned nil for it: handle returns nil only
	// once the notice is durable. It may be called concurrently, and should be for
	// notices that come together: they are then made durable together.
	Notices(ctx context.Context, handle func(context.Context, Notice) error) error
}

// Acknowledger is met by providers to whom we can say that a notice has been
// acted upon and nothing of ours runs on the instance any more.
type Acknowledger interface {
	Acknowledge(ctx context.Context, n Notice) error
}

// Assigner is met by providers that want to know which node an instance is:
// cloud/local, whose instances wait for it, and clouds whose consoles show a name.
// It is idempotent; unknown instances are no error. After an error the nodes do not
// boot until it has been told again, and meanwhile the engine does nothing else: a
// name that is for consoles alone is written in the background.
type Assigner interface {
	Assign(ctx context.Context, nodes map[string]string) error // instance id -> node name
}
