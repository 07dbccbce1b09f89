package aws

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/names"
)

// Provider is one account in one region of AWS.
type Provider struct {
	c       Config
	aws     aws.Config
	clients clients
	limits  *limits
	meter   *meter
	know    knowledge
	log     *slog.Logger

	facts      facts
	templates  templates
	placements placements
	names      *names.Writer
	told       sync.Map // warnings that have been logged
	started    time.Time
}

// New reads the configuration and the default credential chain. It calls
// nothing: what is wrong with the account shows in `burst aws check` and in
// the first call.
func New(ctx context.Context, c Config) (*Provider, error) {
	if c.Region == "" {
		return nil, fmt.Errorf("provider %q: region is missing", c.Name)
	}
	cfg, err := loadConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	p := &Provider{c: c, aws: cfg, limits: limitsOf(c), meter: new(meter), log: c.Log, started: time.Now()}
	p.aws.APIOptions = append(p.aws.APIOptions, p.meter.middleware)
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.clients = clients{ec2: p.newEC2()}
	p.names = &names.Writer{Write: p.tag, Hopeless: notAllowed, Workers: nameWorkers, Log: p.log.With("provider", c.Name)}
	return p, nil
}

// lag is how long EC2 may hide a new instance: its Describe calls are
// eventually consistent, as a rule for seconds.
const lag = 60 * time.Second

// maxLaunch is how many instances one launch may ask for: the resource bucket's size.
const maxLaunch = 1000

// Limits implements cloud.Provider.
func (p *Provider) Limits() cloud.Limits {
	return cloud.Limits{Lag: lag, MaxLaunch: maxLaunch, Choice: true}
}

var (
	_ cloud.Provider = (*Provider)(nil)
	_ cloud.Preparer = (*Provider)(nil)
	_ cloud.Assigner = (*Provider)(nil)
	_ cloud.Tidier   = (*Provider)(nil)
)
