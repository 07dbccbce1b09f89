package config

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"os"
	"os/user"
	"regexp"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
)

var mungeKeys = regexp.MustCompile(`^(image|ssm:/[A-Za-z0-9_./-]+|secretsmanager:[A-Za-z0-9/_+=.@:-]+)$`)

// boot reads what a pool's nodes do when they boot, and writes their user data.
func boot(s *section, c *Config, account aws.Config, p *Pool) {
	if siteUserData(s, p) {
		return
	}
	before := len(s.errs)
	b := bootConfig(s, c, p)
	b.Region = account.Region
	if s.choice("bootstrap", "user-data", "ssh") == "ssh" {
		p.SSH = overSSH(s, s.required("login", `"ec2-user"`)) // the image says who: of AWS's own none lets root in
		if p.SSH.Word {
			s.fail(append(s.key("ssh"), "host_key"), "is \"user-data\", which Burst has on Vultr alone: write \"console\", where AWS shows the host keys")
		}
		p.Boot = b
		checkSent(s, b)
		return
	}
	s.refuse("is for pools with bootstrap = \"ssh\": add that, or remove it", "ssh", "login")
	if !mungeKeys.MatchString(b.MungeKey) {
		s.failAt("munge_key", "%q is no place of a key: write \"ssm:/path\", \"secretsmanager:name\" or \"image\"", b.MungeKey)
	}
	b.KeyEndpoint = keyEndpoint(account, b.MungeKey)
	p.Boot = b
	if len(s.errs) > before {
		return // their user data would be wrong for the same reasons
	}
	text, err := bootstrap.UserData(b)
	if err != nil {
		failEach(s, err)
	}
	p.Power.UserData = text
}

// siteUserData reads the site's own user data; false: it has none.
func siteUserData(s *section, p *Pool) bool {
	path := s.abs("user_data", "")
	if path == "" {
		return false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		s.failAt("user_data", "cannot be read: %v", err)
	}
	if len(text) > bootstrap.Limit {
		s.failAt("user_data", "is %d bytes long: the cloud takes %d", len(text), bootstrap.Limit)
	}
	s.refuse("has no effect where the site has user_data of its own: remove one of the two", bootKeys[1:]...)
	p.Power.UserData = string(text)
	return true
}

// bootConfig reads what is the same on every cloud.
func bootConfig(s *section, c *Config, p *Pool) bootstrap.Config {
	b := bootstrap.Config{
		ConfServers:   c.controllers,
		DaemonUID:     os.Getuid(),
		NoCheckpoints: !c.checkpoints,
		MungeKey:      s.text("munge_key", "image"),
		Users:         bootstrap.Users{SSSD: s.on("sssd"), Commands: s.texts("users"), Check: s.text("wait_for_user", "")},
		Setup:         s.texts("setup"),
		Packages:      s.on("packages"),
		NTP:           s.text("ntp", ""),
		SlurmUser:     slurmUser(c.Endpoint.SlurmUser),
		Slurmd:        s.abs("slurmd", ""),
		SlurmdOptions: s.texts("slurmd_options"),
		KeepHostname:  s.on("keep_hostname"),
		ResumeTimeout: p.Slurm.ResumeTimeout,
	}
	for _, m := range s.tables("mounts", `{ kind = "nfs", source = "nas:/home", target = "/home" }`) {
		b.Mounts = append(b.Mounts, mount(m, c, p))
	}
	b.Export = export(s)
	at, host, why := reached(c.Endpoint)
	if why != "" {
		s.failAt("provider", "its nodes ask burstd which node they are: %s [daemon], as in listen = \"head.example.org:9811\"", why)
	}
	b.URLs = []string{at}
	if len(b.ConfServers) == 0 {
		b.ConfServers = []string{host}
	}
	return b
}

// failEach reports why nodes cannot be told how to boot, each reason by itself.
func failEach(s *section, err error) {
	reasons := []error{err}
	var all interface{ Unwrap() []error }
	if errors.As(err, &all) {
		reasons = all.Unwrap()
	}
	for _, e := range reasons {
		s.failAt("provider", "its nodes cannot be told how to boot: %v", e)
	}
}

// reached is where nodes find burstd, and its host, or why they do not.
func reached(e endpoint.Config) (at, host, why string) {
	if e.Listen == "" {
		return "", "", "add listen under"
	}
	at = cmp.Or(e.NodeURL, "http://"+e.Listen)
	host, _, err := net.SplitHostPort(strings.TrimPrefix(at, "http://"))
	if addr, bad := netip.ParseAddr(host); err != nil || host == "" || bad == nil && addr.IsUnspecified() {
		return "", "", "name this host, as they know it, in listen or node_url under"
	}
	return at, host, ""
}

// slurmUser is the user whom a slurmd obeys; none where this host does not know it.
func slurmUser(name string) bootstrap.SlurmUser {
	u, err := user.Lookup(name)
	if err != nil {
		return bootstrap.SlurmUser{}
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return bootstrap.SlurmUser{}
	}
	return bootstrap.SlurmUser{Name: name, UID: uid}
}

// keyEndpoint is where the MUNGE key's service answers, if the file says.
func keyEndpoint(account aws.Config, key string) string {
	for _, service := range []string{"ssm", "secretsmanager"} {
		if len(key) > len(service) && key[:len(service)+1] == service+":" {
			if own := account.Endpoints[service]; own != "" {
				return own
			}
			return account.Endpoint
		}
	}
	return ""
}

func mount(s *section, c *Config, p *Pool) bootstrap.Mount {
	m := bootstrap.Mount{
		Kind:    s.required("kind", `"nfs"`),
		Source:  s.required("source", `"nas.example.org:/home"`),
		Target:  s.abs("target", ""),
		Options: s.text("options", ""),
	}
	switch m.Kind {
	case "", "cvmfs":
	case "nfs", "efs", "fsx":
		if m.Target == "" {
			s.failAt("target", "is missing: add it, as in target = \"/home\"")
		}
	default:
		s.failAt("kind", "%q is not known: write \"nfs\", \"efs\", \"fsx\" or \"cvmfs\"", m.Kind)
	}
	fromServer(s, c, p, &m)
	s.done()
	return m
}
