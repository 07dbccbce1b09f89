package clouds

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cmd/internal/config"
)

// TestKinds: Open knows each kind that is said to be built in.
func TestKinds(t *testing.T) {
	for _, kind := range Kinds() {
		if _, err := Open(t.Context(), config.Provider{Name: "p", Kind: kind}, "", slog.New(slog.DiscardHandler)); err != nil && strings.Contains(err.Error(), "built in") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestOpen(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	dir := t.TempDir()
	for _, test := range []struct {
		name     string
		provider config.Provider
		catalog  bool
		err      string
	}{
		{"local", config.Provider{Name: "l", Kind: "local", Local: config.Local{Dir: dir, Slurmd: "/usr/sbin/slurmd", Network: "host"}}, false, ""},
		{"aws", config.Provider{Name: "a", Kind: "aws", AWS: aws.Config{Name: "a", Region: "us-east-1", Endpoint: "http://127.0.0.1:1"}}, true, ""},
		{"aws without a region", config.Provider{Name: "a", Kind: "aws"}, false, "region"},
		{"vultr", config.Provider{Name: "v", Kind: "vultr", Vultr: vultr.Config{Name: "v", Region: "lhr", Endpoint: "http://127.0.0.1:1"}}, true, ""},
		{"vultr without a region", config.Provider{Name: "v", Kind: "vultr"}, false, "region"},
		{"unknown", config.Provider{Name: "x", Kind: "abacus"}, false, `kind "abacus" is not built in`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := Open(t.Context(), test.provider, "/etc/slurm/slurm.conf", log)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("Open: %v, want an error with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := p.(cloud.Catalog); ok != test.catalog {
				t.Errorf("is a catalog: %v, want %v", ok, test.catalog)
			}
		})
	}
}
