package vultr

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/names"
	"github.com/burst-hpc/burst/cloud/recent"
)

// Provider is one account in one region of Vultr.
type Provider struct {
	c       Config
	api     *govultr.Client
	meter   *meter
	clock   clock
	log     *slog.Logger
	started time.Time
	// known says that the folder was there when this process began: of a token that
	// is not in it nothing was ever asked for.
	known bool

	books books
	turns turns
	know  knowledge
	names *names.Writer
	// snapped is when a snapshot was asked for last, by token.
	snapped recent.Answers[time.Time]
	keys    sync.Mutex // held while a public key is looked for and given to the account

	secrets sync.Mutex
	wordKey []byte // from which words follow; nil: not read yet

	mu   sync.Mutex
	part [2]partly        // of cloud compute, and of bare metal
	seen map[string]sight // our instances, by id
	// doubted are other lists that are not whole, by what is done to read them.
	doubted map[string]doubted
	own     map[string]string // tokens that were prepared here and not launched yet
}

// New reads the configuration. It calls nothing: what is wrong with the account
// shows in the first call.
func New(c Config) (*Provider, error) {
	if c.Region == "" {
		return nil, fmt.Errorf("provider %q: region is missing", c.Name)
	}
	if c.Lag == 0 {
		c.Lag = time.Minute
	}
	p := &Provider{c: c, meter: new(meter), log: c.Log, started: time.Now(),
		books: books{dir: c.Dir}, seen: map[string]sight{}, doubted: map[string]doubted{}, own: map[string]string{}}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.names = &names.Writer{Write: p.assign, Workers: nameWorkers, Pause: namePause, Log: p.log.With("provider", c.Name)}
	if c.Dir != "" {
		_, err := os.Stat(c.Dir)
		p.known = err == nil
	}
	proxy := http.ProxyFromEnvironment
	if c.Proxy != "" {
		u, err := url.Parse(c.Proxy)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("provider %q: proxy is not a URL like http://proxy:3128", c.Name)
		}
		proxy = http.ProxyURL(u)
	}
	api, err := p.client(proxy)
	if err != nil {
		return nil, fmt.Errorf("provider %q: %w", c.Name, err)
	}
	p.api = api
	return p, nil
}

// maxLaunch is how many instances one launch may ask for. Each is a request of
// its own; so many are through, and have been looked for, within the two minutes
// that burstd gives a launch.
const maxLaunch = 100

// Limits implements cloud.Provider.
func (p *Provider) Limits() cloud.Limits {
	return cloud.Limits{Lag: p.c.Lag, MaxLaunch: maxLaunch, HardStop: true}
}

var (
	_ cloud.Provider   = (*Provider)(nil)
	_ cloud.Preparer   = (*Provider)(nil)
	_ cloud.Assigner   = (*Provider)(nil)
	_ cloud.Catalog    = (*Provider)(nil)
	_ cloud.Pricer     = (*Provider)(nil)
	_ cloud.Census     = (*Provider)(nil)
	_ cloud.Accountant = (*Provider)(nil)
	_ cloud.Meter      = (*Provider)(nil)
	_ cloud.Voucher    = (*Provider)(nil)
)
