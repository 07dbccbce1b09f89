package cloud

import (
	"context"
	"time"
)

// Preparer is met by providers whose requests must be completed before they
// are written to the journal: images resolved, the kind of call chosen, the
// site's settings copied.
type Preparer interface {
	// Prepare completes the requests of one round in place, each with its Spec.
	// It launches nothing, and may be called again for the same requests. The errors
	// are in the requests' order: nil, or why that launch must not be tried
	// (Quota or Invalid: never as it is; Auth, Throttled, Transient: not now).
	Prepare(ctx context.Context, requests []LaunchRequest) []error
}

// GPU is one kind of accelerator of an instance type.
type GPU struct {
	Name  string `json:"name"` // as GRES has it: lower case, without blanks ("a100")
	Count int    `json:"count"`
}

// InstanceType is what a cloud says of a type.
type InstanceType struct {
	Name           string   `json:"name"`
	CPUs           int      `json:"cpus"` // vCPUs with all threads
	Cores          int      `json:"cores"`
	CoresAreVCPUs  bool     `json:"cores_are_vcpus,omitempty"` // the cloud does not say which vCPUs are threads of one core: each is counted as one
	ThreadsPerCore int      `json:"threads_per_core"`
	MemoryMiB      int      `json:"memory_mib"` // as advertised; the system takes its share
	GPUs           []GPU    `json:"gpus,omitempty"`
	GPUNote        string   `json:"gpu_note,omitempty"`  // what it has of GPUs that GPUs does not tell, and why
	Arch           string   `json:"arch"`                // "x86_64", "arm64"
	EFACards       int      `json:"efa_cards,omitempty"` // network cards that can have an EFA interface
	Spot           bool     `json:"spot"`                // is sold on the spot market
	Zones          []string `json:"zones"`               // that offer it
}

// Catalog is met by providers that know their instance types.
type Catalog interface {
	// Types describes the named types, in the order of the names. A name that
	// the cloud does not know is an Invalid error that says it.
	Types(ctx context.Context, names []string) ([]InstanceType, error)
}

// OfferingPrice is what an offering costs.
type OfferingPrice struct {
	Offering   Offering  `json:"offering"`
	USDPerHour float64   `json:"usd_per_hour"`
	Date       time.Time `json:"date"`   // when it was so
	Source     string    `json:"source"` // "spot-history", "pricing-api", "plans-api", "table"
	// USDPerMonth is the most that a calendar month costs; 0: there is none, or it is not known.
	USDPerMonth float64 `json:"usd_per_month,omitzero"`
}

// Pricer is met by providers that know prices.
type Pricer interface {
	// Prices returns those it knows, in the order of the offerings; one without a
	// price is left out, never zero. With an error, what is left out could not be
	// asked for; without one, the cloud has no price of it.
	Prices(ctx context.Context, offerings []Offering) ([]OfferingPrice, error)
}

// Consoler is met by providers that can show an instance's console.
type Consoler interface {
	// Console returns the console's last output, at most 64 KiB; empty if there is none yet.
	Console(ctx context.Context, id string) (string, error)
}

// Voucher is met by providers that can tell each new instance a word by a channel of the
// cloud's own, such as its user data, by which the instance is known whatever
// network it is reached over.
type Voucher interface {
	// Word is the instance's: of letters and digits, and always the same. Only root there
	// can read it.
	Word(ctx context.Context, id string) (string, error)
}

// Tidier is met by providers that make things beside instances (templates,
// placement groups).
type Tidier interface {
	// Tidy removes what the cluster has no more use for: of pools that are not
	// named, and what is empty. It never touches instances.
	Tidy(ctx context.Context, cluster string, pools []string) error
}

// Warmer is met by providers whose first launch would have to look things up.
type Warmer interface {
	// Warm looks up what Prepare needs for requests like these, and makes what
	// launches share, so that Prepare need not. The errors are in the requests'
	// order: nil, or what Prepare would say.
	Warm(ctx context.Context, requests []LaunchRequest) []error
}

// Evicter is met by providers that can take an instance back on demand, as the
// cloud does when it needs the room: for drills.
type Evicter interface {
	// Evict announces that the instance goes after lead, and ends it then,
	// whatever becomes of the caller.
	Evict(ctx context.Context, id string, lead time.Duration) error
}

// Census is met by providers that can tell whose instances they have: after
// the loss of journal and cluster id, their tags are all that is left.
type Census interface {
	// Clusters counts the instances of Burst that are not terminated, by the cluster's id.
	Clusters(ctx context.Context) (map[string]int, error)
}

// Accountant is met by providers that can say whose instances their credentials
// show: an empty list of the account in which an instance was launched means
// more than another one's.
type Accountant interface {
	// Account names where List looks: the same text for as long as it is the same
	// account, region and service, and another for each other. It is never empty
	// without an error.
	Account(ctx context.Context) (string, error)
}

// Count is how often something has happened since the process began.
type Count struct {
	What   string // "api", "message"
	Which  string // the operation, or the source of the message
	Result string // "ok", "throttled", "foreign", …
	N      uint64
}

// Meter is met by providers that count what they do. What, Which and Result
// are few, whatever the cloud or a user does: they become labels.
type Meter interface {
	Counts() []Count
}
