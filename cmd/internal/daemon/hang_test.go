package daemon

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
)

// hole is a server that takes connections and never says a word, as a cloud
// behind a broken network does.
func hole(t *testing.T) (url string, asked *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	asked = new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			asked.Add(1)
		}
	}()
	return "http://" + l.Addr().String(), asked
}

// cloudy is a pool on AWS whose choice needs prices and types, so that all
// that burstd asks a cloud of its own accord is asked.
const cloudy = `
[provider.east]
kind = "aws"
region = "us-east-1"
endpoint = "ENDPOINT"
[pool.c6i]
provider = "east"
nodes = "c[1-2]"
partition = "cloud"
instance_types = ["c6i.large", "c5.large"]
zones = ["us-east-1a"]
market = "spot-then-on-demand"
order = "price-per-core"
max_price = "0.20"
image = "ami-0123456789abcdef0"
subnets = ["subnet-0a"]
cpus = 1
real_memory = 500
`

// TestHungCloud: a cloud that never answers, or whose credentials never come,
// keeps burstd neither from its work for others nor from stopping.
func TestHungCloud(t *testing.T) {
	for _, tt := range []struct {
		name  string
		key   string // "": the credentials are asked for at the instance's metadata
		calls int32  // that hang at once, at least
	}{{"its API", "AKIAEXAMPLE", 3}, {"its credentials", "", 1}} {
		t.Run(tt.name, func(t *testing.T) {
			url, asked := hole(t)
			for name, value := range map[string]string{
				"AWS_ACCESS_KEY_ID": tt.key, "AWS_SECRET_ACCESS_KEY": tt.key, "AWS_EC2_METADATA_SERVICE_ENDPOINT": url,
				"AWS_EC2_METADATA_DISABLED": "false", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
			} {
				t.Setenv(name, value)
			}
			s := newSite(t)
			s.write("burst.toml", strings.NewReplacer("DIR", s.dir, "USER", s.config.Endpoint.SlurmUser, "METRICS", s.metrics, "ENDPOINT", url, "[provider.here]", "listen = \"127.0.0.1:1\"\n[provider.here]").Replace(text+cloudy), 0o644)
			var err error
			if s.config, err = config.Load(s.dir + "/burst.toml"); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			r := s.start()
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("burstd answered after %s", took)
			}
			r.until("the cloud has been asked", func() bool { return asked.Load() >= tt.calls })
			begun = time.Now()
			st, err := r.Status(t.Context())
			if err != nil || st.Providers["here"] != "ok" {
				t.Errorf("status: %+v, %v", st, err)
			}
			if err := r.AddOrder(t.Context(), api.NewOrder(api.Resume, "p1", "")); err != nil {
				t.Errorf("an order: %v", err)
			}
			if _, err := r.Usage(t.Context(), api.UsageQuery{By: "job"}); err != nil {
				t.Errorf("usage: %v", err)
			}
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("three answers took %s", took)
			}
			r.finish()
		})
	}
}
