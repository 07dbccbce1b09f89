package firstfile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/burst-hpc/burst/slurm/conf"
)

// Stock is an image without Slurm, whose own packages bring a slurmd of one release.
type Stock struct {
	Name   string
	Slurmd conf.Release
	marks  []string // such images begin with one, or with os: and one
	image  map[string]string
}

// stocks are those whose slurmd is known, the first choice first.
var stocks = []Stock{
	{"Debian 12", conf.Release{Major: 22, Minor: 5}, []string{"ssm:/aws/service/debian/release/12/", "Debian 12 "},
		map[string]string{"aws": "ssm:/aws/service/debian/release/12/latest/amd64", "vultr": "os:Debian 12 x64 (bookworm)"}},
	{"Debian 13", conf.Release{Major: 24, Minor: 11}, []string{"ssm:/aws/service/debian/release/13/", "Debian 13 "},
		map[string]string{"aws": "ssm:/aws/service/debian/release/13/latest/amd64", "vultr": "os:Debian 13 x64 (trixie)"}},
	{"Ubuntu 24.04", conf.Release{Major: 23, Minor: 11}, []string{"ssm:/aws/service/canonical/ubuntu/server/24.04/", "Ubuntu 24.04 "},
		map[string]string{"aws": "ssm:/aws/service/canonical/ubuntu/server/24.04/stable/current/amd64/hvm/ebs-gp3/ami-id", "vultr": "os:Ubuntu 24.04 LTS x64"}},
	{"Ubuntu 22.04", conf.Release{Major: 21, Minor: 8}, []string{"ssm:/aws/service/canonical/ubuntu/server/22.04/", "Ubuntu 22.04 "}, nil},
}

// StockOf is the stock that an image of burst.toml is of.
func StockOf(image string) (Stock, bool) {
	for _, s := range stocks {
		for _, mark := range s.marks {
			if strings.HasPrefix(strings.TrimPrefix(image, "os:"), mark) {
				return s, true
			}
		}
	}
	return Stock{}, false
}

// StockFor is the image at a kind of provider whose packages bring a slurmd for slurmctld; "" if none does. For one that is not
// known it is the first.
func StockFor(kind string, ctld conf.Release) string {
	for _, s := range stocks {
		if image := s.image[kind]; image != "" && (ctld == conf.Release{} || s.Slurmd.Fits(ctld)) {
			return image
		}
	}
	return ""
}

// StockInstead is StockFor of the architecture of the image that it is to replace; "" also if none of that is known.
func StockInstead(image, kind string, ctld conf.Release) string {
	instead := StockFor(kind, ctld)
	if !strings.Contains(image, "arm64") {
		return instead
	}
	if arm := strings.Replace(instead, "/amd64", "/arm64", 1); arm != instead {
		return arm
	}
	return ""
}

// noStock says why there is no default for the image, "" if there is one.
func noStock(f Found, a Answers) string {
	if StockFor(a["provider"], f.Slurm) != "" {
		return ""
	}
	return fmt.Sprintf("no stock image has a slurmd for slurmctld %s here: name an image of yours with Slurm %[1]s; \"burst image build\" makes one of a pool whose setup installs it", f.Slurm)
}

// slurmctlds are where slurmctld is, as slurmConfs.
var slurmctlds = []string{"/usr/sbin/slurmctld", "/usr/local/sbin/slurmctld", "/opt/slurm/sbin/slurmctld"}

// release is that of slurmctld on this host, the zero value where none says.
func release(ctx context.Context, root string) conf.Release {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, path := range slurmctlds {
		path = filepath.Join(root, path)
		if _, err := os.Stat(path); err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, path, "-V")
		cmd.WaitDelay = time.Second
		if out, err := cmd.Output(); err == nil {
			return conf.ParseRelease(string(out))
		}
	}
	return conf.Release{}
}
