package aws

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	smithymiddleware "github.com/aws/smithy-go/middleware"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/wholebody"
)

// The times and sizes of our HTTP client. A RunInstances of 1,000 instances
// takes several seconds, so an answer may take a minute; connecting may not.
const (
	dialTimeout   = 10 * time.Second
	answerTimeout = 60 * time.Second
	callTimeout   = 90 * time.Second // with the body
	maxConns      = 64               // 50 calls in parallel, and some to spare
)

// loadConfig reads the default credential chain. It makes no call: missing or
// expired credentials are an Auth error of the first call that needs them, and
// a profile that is not there is one at once.
func loadConfig(ctx context.Context, c Config) (aws.Config, error) {
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	proxy, err := proxyOf(c)
	if err != nil {
		return aws.Config{}, err
	}
	client := awshttp.NewBuildableClient().
		WithTimeout(callTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) {
			t.Proxy = proxy
			t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = maxConns, maxConns, maxConns
			t.ResponseHeaderTimeout = answerTimeout
		})
	options := []func(*awsconfig.LoadOptions) error{
		awsconfig.WithRegion(c.Region),
		awsconfig.WithHTTPClient(client),
		awsconfig.WithLogger(sdkLog(log)),
		// slurm/power retries, and nobody else: two places would multiply.
		awsconfig.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		awsconfig.WithAPIOptions([]func(*smithymiddleware.Stack) error{middleware.AddUserAgentKey("burst-hpc")}),
	}
	if c.Profile != "" {
		options = append(options, awsconfig.WithSharedConfigProfile(c.Profile))
	}
	if c.Endpoint != "" {
		options = append(options, awsconfig.WithBaseEndpoint(c.Endpoint))
	}
	cfg, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, &cloud.Error{Kind: cloud.Auth, Op: "configuration",
			Err: fmt.Errorf("reading the AWS configuration of provider %q (profile %q, region %q): %w", c.Name, c.Profile, c.Region, err)}
	}
	// Only now: AWS_CA_BUNDLE wants the SDK's own client.
	cfg.HTTPClient = wholebody.Client{HTTPClient: cfg.HTTPClient}
	if cfg.Credentials != nil {
		cfg.Credentials = credentials{cfg.Credentials}
	}
	return cfg, nil
}

// sdkLog takes what the SDK would write to stderr: its warnings are about what
// our errors say as well, so they are for debugging.
func sdkLog(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(level logging.Classification, format string, args ...any) {
		log.Debug("the AWS SDK says", "severity", string(level), "text", fmt.Sprintf(format, args...))
	})
}

// metadataIPv6 is the metadata service's other address.
var metadataIPv6 = net.ParseIP("fd00:ec2::254")

// proxyOf chooses the proxy of a request. The instance metadata service and
// emulators on this host are never asked through one: a proxy in AWS would give
// us its own role.
func proxyOf(c Config) (func(*http.Request) (*url.URL, error), error) {
	choose := http.ProxyFromEnvironment
	if c.Proxy != "" {
		proxy, err := url.Parse(c.Proxy)
		if err != nil || proxy.Host == "" {
			return nil, fmt.Errorf("provider %q: proxy %q is not a URL like http://proxy:3128", c.Name, c.Proxy)
		}
		choose = http.ProxyURL(proxy)
	}
	return func(r *http.Request) (*url.URL, error) {
		host := r.URL.Hostname()
		ip := net.ParseIP(host)
		if host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.Equal(metadataIPv6)) {
			return nil, nil
		}
		return choose(r)
	}, nil
}

// clients are the service clients that most calls need; the rarer ones are
// made by methods.
type clients struct {
	ec2 *ec2.Client
}

// config is what the provider's clients share: credentials, region, transport.
func (p *Provider) config() aws.Config { return p.aws }

// endpoint is the override for a service by its id ("ec2", "ssm", …); nil: none.
func (p *Provider) endpoint(service string) *string {
	if e := p.c.Endpoints[service]; e != "" {
		return &e
	}
	if p.c.Endpoint != "" {
		return &p.c.Endpoint
	}
	return nil
}

// newEC2 makes the one EC2 client: all its calls pass the limiter.
func (p *Provider) newEC2() *ec2.Client {
	return ec2.NewFromConfig(p.config(), func(o *ec2.Options) {
		override(&o.BaseEndpoint, p.endpoint("ec2"))
		o.APIOptions = append(o.APIOptions, p.limits.middleware)
	})
}

func (p *Provider) newSSM() *ssm.Client {
	return ssm.NewFromConfig(p.config(), func(o *ssm.Options) { override(&o.BaseEndpoint, p.endpoint("ssm")) })
}

func (p *Provider) newSTS() *sts.Client {
	return sts.NewFromConfig(p.config(), func(o *sts.Options) { override(&o.BaseEndpoint, p.endpoint("sts")) })
}

// newPricing makes a client for region, as the price list has few homes
// ("us-east-1" for all commercial regions).
func (p *Provider) newPricing(region string) *pricing.Client {
	return pricing.NewFromConfig(p.config(), func(o *pricing.Options) {
		o.Region = region
		override(&o.BaseEndpoint, p.endpoint("pricing"))
	})
}

func (p *Provider) newQuotas() *servicequotas.Client {
	return servicequotas.NewFromConfig(p.config(), func(o *servicequotas.Options) {
		override(&o.BaseEndpoint, p.endpoint("servicequotas"))
	})
}

// override keeps the SDK's own choice where the site made none.
func override(base **string, endpoint *string) {
	if endpoint != nil {
		*base = endpoint
	}
}
