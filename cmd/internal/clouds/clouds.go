// Package clouds opens the providers that burst.toml names.
package clouds

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/cmd/internal/config"
)

// Kinds are the kinds of providers that Open makes.
func Kinds() []string { return []string{"aws", "local", "vultr"} }

// Open makes a provider of its configuration; it calls no cloud. conf is
// slurm.conf, empty for its usual place.
func Open(ctx context.Context, p config.Provider, conf string, log *slog.Logger) (cloud.Provider, error) {
	switch p.Kind {
	case "local":
		l := local.Config{Dir: p.Local.Dir, Conf: cmp.Or(conf, os.Getenv("SLURM_CONF"), "/etc/slurm/slurm.conf"), Slurmd: p.Local.Slurmd, Subnet: p.Local.Subnet}
		if p.Local.Network == local.NetNS {
			l.Network = local.NetNS
		}
		return local.New(l)
	case "aws":
		c := p.AWS
		c.Log = log
		return aws.New(ctx, c)
	case "vultr":
		c := p.Vultr
		c.Log = log
		return vultr.New(c)
	}
	return nil, fmt.Errorf("kind %q is not built in", p.Kind)
}
