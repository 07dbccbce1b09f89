package config

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cloud/vultr"
	"github.com/burst-hpc/burst/slurm/directive"
)

var vultrRegions = regexp.MustCompile(`^[a-z]{3}$`)

// vultrAccount reads the keys of a provider of kind "vultr".
func vultrAccount(s *section, state string) vultr.Config {
	c := vultr.Config{
		Name:     s.name(),
		Region:   s.required("region", `"lhr"`),
		KeyFile:  s.abs("api_key_file", ""),
		Dir:      s.abs("dir", filepath.Join(state, "vultr", s.name())),
		Endpoint: s.web("endpoint", "http://127.0.0.1:5001"),
		Proxy:    s.text("proxy", ""),
		Pools:    map[string]vultr.Pool{},
	}
	if c.Region != "" && !vultrRegions.MatchString(c.Region) {
		s.failAt("region", "%q is no region of Vultr's: write its three letters, as in \"lhr\" for London", c.Region)
	}
	if u, err := url.Parse(c.Proxy); c.Proxy != "" && (err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme)) {
		s.failAt("proxy", "is no address of a proxy: write it as in \"http://proxy:3128\"") // not its text: it may hold a password
	}
	return c
}

// formerFolder says that a provider of kind "vultr", which has got another name, is to be given the folder of its
// former one: in it is what was under way, and the secret by which nodes that boot are known.
func (c *Config) formerFolder(old, name string) string {
	p, _ := c.Provider(name)
	dir := filepath.Join(c.Endpoint.State, "vultr", old)
	if _, err := os.Stat(dir); p.Kind != "vultr" || p.Vultr.Dir == dir || err != nil {
		return ""
	}
	return fmt.Sprintf("keep its folder: burst pause, and when nothing boots set dir = %q in [provider.%s], restart burstd and burst resume", dir, name)
}

// vultrKeys are keys of a pool that only providers of kind "vultr" know.
var vultrKeys = []string{"vpc", "vpc_only", "ssh_keys", "ssh_public_key", "startup_script", "firewall_group"}

// What Vultr has in place of AWS's keys, or does not have.
var notAtVultr = map[string]string{
	"capacity_reservation": "Vultr sells no reservations: remove it",
	"efa":                  "Vultr has no EFA: remove it; MPI uses TCP there, over the network of vpc",
	"fleet":                "Vultr has one kind of launch: remove it",
	"instance_profile":     "Vultr gives instances no roles: remove it",
	"key":                  "is AWS's: write ssh_keys, keys that the account has, or ssh_public_key, a file",
	"max_price":            "limits what a spot instance costs, and Vultr's prices are fixed: remove it",
	"on_maintenance":       "Vultr announces no maintenance by its API: remove it",
	"on_rebalance":         "Vultr gives no notices: remove it",
	"placement":            "Vultr has no placement groups: remove it; all nodes are in the provider's region",
	"public_ip":            "instances of Vultr's have a public address unless vpc_only = true: remove it",
	"root":                 "a plan of Vultr's has the disk that it has: remove it, or take another plan",
	"security_groups":      "is AWS's: write firewall_group",
	"spot_timeout":         "Vultr sells nothing on a spot market: remove it",
	"subnets":              "is AWS's: write vpc",
	"threads_per_core":     "Vultr's plans have the CPUs that they have: remove it",
	"zones":                "Vultr's regions have no zones: remove it, or make a provider for each region",
}

var (
	vultrID   = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	loginName = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
)

const vultrExample = "cb676a46-66fd-4dfb-b839-443f2e6c0b60"

// vultrLaunch reads how the instances of a pool are launched.
func vultrLaunch(s *section, p *Pool) vultr.Pool {
	for key, why := range notAtVultr {
		if elsewhere := s.has("then") && strings.HasPrefix(key, "on_"); !elsewhere { // a notice may come of another source
			s.refuse(why, key)
		}
	}
	if m := p.Power.Fleet.Market; m == fleet.SpotOnly || m == fleet.SpotThenOnDemand {
		s.failAt("market", "Burst buys nothing of Vultr's but on demand, and Vultr gives no notice before an end: write \"on-demand\", "+
			"and have jobs make periodic checkpoints")
	}
	l := vultr.Pool{
		VPC:           vultrUUID(s, "vpc"),
		VPCOnly:       s.on("vpc_only"),
		SSHKeys:       s.texts("ssh_keys"),
		SSHPublicKey:  s.abs("ssh_public_key", ""),
		Login:         s.text("login", "root"),
		StartupScript: vultrUUID(s, "startup_script"),
		FirewallGroup: vultrUUID(s, "firewall_group"),
	}
	if image := s.required("image", `"os:Debian 12 x64 (bookworm)"`); image != "" {
		if err := vultr.CheckImage(image); err != nil {
			s.failAt("image", "%v", err)
		}
	}
	if l.VPCOnly && l.VPC == "" {
		s.failAt("vpc_only", "leaves the instances without any network: add vpc")
	}
	if !loginName.MatchString(l.Login) {
		s.failAt("login", "%q is no name of a user: write the one who logs in to the image, as in \"root\"", l.Login)
	}
	for key, value := range p.Power.Tags {
		if err := vultr.CheckTag(key, value); err != nil {
			s.failAt("tags", "%v", err)
		}
	}
	p.Slurm.Configless = true
	return l
}

func vultrUUID(s *section, key string) string {
	v := s.text(key, "")
	if v != "" && !vultrID.MatchString(v) {
		s.failAt(key, "%q is no id of Vultr's: write it as in %q", v, vultrExample)
	}
	return v
}

// vultrBoot reads what a pool's nodes do when they boot. Vultr has no metadata
// service of AWS's kind: what the site has no user data of its own for is set up over SSH.
func vultrBoot(s *section, c *Config, p *Pool) {
	if siteUserData(s, p) {
		return
	}
	b := bootConfig(s, c, p)
	if b.NTP == "" {
		b.NTP = "image" // the default is AWS's
	}
	s.choice("bootstrap", "ssh")
	p.SSH = overSSH(s, s.text("login", "root"))
	if p.SSH.Console {
		s.fail(append(s.key("ssh"), "host_key"), "is \"console\", and Vultr's API shows no console: write \"user-data\", by which an instance proves who it is, or \"pin\"")
	}
	provider, _ := c.Provider(p.Power.Provider)
	launch := provider.Vultr.Pools[p.Power.Name]
	launch.Word = p.SSH.Word
	provider.Vultr.Pools[p.Power.Name] = launch
	if launch.VPC == "" && b.Sent() != "" && !p.SSH.Public && !p.SSH.Word && !p.SSH.Console {
		s.failAt("munge_key", "would be sent to whoever answers first at a public address: write ssh = { host_key = \"user-data\" }, so that an instance proves who it is, "+
			"or have an image with the key (\"image\") or nodes in a VPC (vpc)")
	}
	p.Boot = b
	checkSent(s, b)
}

// noNotices reports pools on Vultr whose jobs would wait for a notice to make a
// checkpoint: none ever comes. What the site says of when holds for jobs that name a
// method of their own, too: so it is judged as for one of those, whatever the site's is.
func (f *file) noNotices(c *Config) {
	asks := directive.Layer{Source: directive.Source{Kind: directive.Script}, Settings: []directive.Setting{{Key: "ckpt", Value: "dmtcp"}}}
	for _, p := range c.Pools {
		i := slices.IndexFunc(p.Sources(), func(s Pool) bool {
			provider, _ := c.Provider(s.Power.Provider)
			return provider.Kind == "vultr"
		})
		if i < 0 || p.Slurm.Server {
			continue
		}
		m, err := directive.Merge(append(c.Defaults(p.Slurm.Partition, p.Power.Name).Layers, asks)...)
		if err != nil || m.Strategy != directive.Preemptive {
			continue
		}
		from := m.From["strategy"]
		f.errs = append(f.errs, Error{File: f.path, Line: max(1, from.Line), Key: append(sectionOf(from.Source), "strategy").String(),
			What: fmt.Sprintf("\"preemptive\" makes a checkpoint on a notice alone, and pool %s buys of provider %q on Vultr, which gives none before an end: "+
				"write strategy = \"periodic\" in [pool.%[1]s.checkpoint]", p.Power.Name, p.Sources()[i].Power.Provider)})
	}
}
