// Package vultr is the provider for Vultr: it launches cloud compute and bare
// metal by plan, lists and ends them by their tags, and knows plans and prices.
// All of Vultr's SDK that Burst uses is here.
//
// Vultr knows no launch tokens. What stands for them: each instance has a label
// of its launch's token and its number in it; the provider writes down in a
// folder of its own that it is about to ask for a label, and what came of it
// (book.go); a label whose answer was lost is looked for before it is asked for
// again (launch.go). Should one request still take effect twice, the second
// instance has the cluster's tags and no node: reconciliation ends it.
package vultr

import (
	"log/slog"
	"time"
)

// Config is one account in one region, as burst.toml's [provider.NAME] has it.
type Config struct {
	Name    string // of the provider, for messages
	Region  string // "lhr"; required
	KeyFile string // of the API key; empty: the environment's VULTR_API_KEY
	// Dir is where launches are written down before they are asked for; empty: in
	// memory alone, for programs that launch nothing.
	Dir      string
	Endpoint string // replaces https://api.vultr.com, for tests
	Proxy    string // "http://proxy:3128"; empty: HTTPS_PROXY and NO_PROXY of the environment
	// Lag is how long a request whose answer was lost may still take effect, and a
	// new instance be missing in lists; 0: one minute.
	Lag time.Duration
	// Pools holds the launch settings of the pools on this provider, by name.
	Pools map[string]Pool
	Log   *slog.Logger // nil: none
}

// Pool is how a pool's instances are launched. The image, plans and tags are
// in the launch request.
type Pool struct {
	VPC           string   // id of a VPC network of the region; empty: none
	VPCOnly       bool     // no public address: the VPC is the way out
	SSHKeys       []string // ids or names of keys that the account has
	SSHPublicKey  string   // path of a public key, which the account is given if it lacks it
	Login         string   // user who logs in; "linuxuser" makes Vultr set that up in place of root; empty: "root"
	StartupScript string   // id of a startup script that the account has; empty: none
	FirewallGroup string   // id; empty: none
	Word          bool     // the instances' user data tells each its word; they have none else
}

// LimitedUser is the login user that Vultr can set up in place of root.
const LimitedUser = "linuxuser"
