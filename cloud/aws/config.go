// Package aws is the provider for Amazon EC2: it launches instances by
// RunInstances or by instant fleets, lists and ends them by their tags, and
// knows types, prices and quotas. All of the AWS SDK that Burst uses is here.
package aws

import "log/slog"

// Config is one account in one region, as burst.toml's [provider.NAME] has it.
type Config struct {
	Name    string // of the provider, for messages
	Region  string // "us-east-1"; required
	Profile string // of the shared credentials file; empty: the default chain
	// Endpoint replaces the address of every service ("http://127.0.0.1:5000"), for
	// emulators; Endpoints that of single ones, by service id ("ec2", "ssm",
	// "sts", "pricing", "servicequotas", "sqs"), for private endpoints.
	Endpoint  string
	Endpoints map[string]string
	Queue     string // URL of the SQS queue of notices; empty: none
	Proxy     string // "http://proxy:3128"; empty: HTTPS_PROXY and NO_PROXY of the environment
	// Pools holds the launch settings of the pools on this provider, by name.
	Pools map[string]Pool
	Log   *slog.Logger // nil: none
}

// Pool is how a pool's instances are launched. The image, types, zones,
// market and tags are in the launch request.
type Pool struct {
	Subnets        []string // at least one; the launch takes the one of its zone
	SecurityGroups []string // ids
	Key            string   // name of a key pair; empty: none
	Profile        string   // IAM instance profile, name or ARN; empty: none
	Root           Root
	EFA            bool   // an EFA interface on each network card that can have one
	Placement      string // "" or "cluster": a cluster placement group for the pool in each zone
	Reservation    string // capacity reservation, id or resource group ARN; empty: open ones; on-demand only
	ThreadsPerCore int    // 1 or 2; 0: the type's own
	PublicIP       bool   // ask for a public address; without EFA on several cards only
	// Fleet chooses the kind of call: "" by Burst's rule (docs/aws.md), "always" or "never".
	Fleet string
}

// Root is the root volume; zero values leave what the image says.
type Root struct {
	GiB        int
	Type       string // "gp3", "io2", …
	IOPS       int
	Throughput int   // MiB/s
	Encrypted  *bool // nil: what the image, or the account's default, says
	KMSKey     string
}
