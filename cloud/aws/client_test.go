package aws

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// bareEnvironment has no credentials but those of a metadata service.
func bareEnvironment(t *testing.T, metadata string) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_DISABLED"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata)
}

// A host without credentials learns it soon and as what it is, whether there
// is no metadata service, as on premises, or one that has no role for us.
func TestNoCredentials(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	for name, metadata := range map[string]string{
		"nobody answers": "http://" + silent.Addr().String(), "nobody is there": "http://127.0.0.1:1", "no role": refusing.URL,
	} {
		t.Run(name, func(t *testing.T) {
			bareEnvironment(t, metadata)
			var log bytes.Buffer
			p, err := New(t.Context(), Config{Name: "east", Region: "us-east-1", Endpoint: "http://127.0.0.1:1", Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = p.List(t.Context(), cloud.Filter{Cluster: "c"})
			if took := time.Since(start); cloud.KindOf(err) != cloud.Auth || !strings.Contains(err.Error(), "no usable credentials") || took > 3*time.Second {
				t.Errorf("after %s: %s: %v", took, cloud.KindOf(err), err)
			}
			if log.Len() > 0 {
				t.Errorf("logged: %s", &log)
			}
		})
	}
}

// What the SDK has to say goes to our log, at debug, and not to stderr.
func TestSDKLog(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer refusing.Close()
	bareEnvironment(t, refusing.URL)
	var log bytes.Buffer
	p, err := New(t.Context(), Config{Name: "east", Region: "us-east-1", Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.List(t.Context(), cloud.Filter{Cluster: "c"}); err == nil {
		t.Fatal("no error without credentials")
	}
	if !strings.Contains(log.String(), "falling back to IMDSv1") || strings.Contains(log.String(), "level=WARN") {
		t.Errorf("log: %s", &log)
	}
}

func TestProxy(t *testing.T) {
	t.Setenv("NO_PROXY", "")
	t.Setenv("HTTP_PROXY", "http://env.example:3128")
	t.Setenv("HTTPS_PROXY", "http://env.example:3128")
	for _, c := range []struct{ name, proxy, url, want string }{
		{"ours", "http://site.example:8080", "https://ec2.us-east-1.amazonaws.com/", "http://site.example:8080"},
		{"the metadata service", "http://site.example:8080", "http://169.254.169.254/latest", ""},
		{"the metadata service, by IPv6", "http://site.example:8080", "http://[fd00:ec2::254]/latest", ""},
		{"an emulator here", "http://site.example:8080", "http://localhost:5000/", ""},
		{"the environment's, and the metadata service", "", "http://169.254.169.254/latest", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			choose, err := proxyOf(Config{Proxy: c.proxy})
			if err != nil {
				t.Fatal(err)
			}
			got, err := choose(httptest.NewRequest("GET", c.url, nil))
			if err != nil || (got == nil) != (c.want == "") || got != nil && got.String() != c.want {
				t.Errorf("proxy %v, %v; want %q", got, err, c.want)
			}
		})
	}
	if _, err := proxyOf(Config{Name: "east", Proxy: "proxy:3128"}); err == nil || !strings.Contains(err.Error(), "not a URL") {
		t.Errorf("a proxy without a scheme: %v", err)
	}
}
