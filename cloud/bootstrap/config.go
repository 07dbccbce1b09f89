package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Config is what a pool's nodes are told. It holds no secret.
type Config struct {
	URLs      []string // of burstd's listener for nodes, "http://10.0.0.5:9811"; asked in turn
	DaemonUID int      // burstd's uid on the controller; its answers are believed, and root's
	// NoCheckpoints: the site asks for checkpoints of no job, and burst-srun need not wait
	// for burstd to say so.
	NoCheckpoints bool
	ConfServers   []string // slurmctld's, "host" or "host:6817", for a configless slurmd
	SlurmVersion  string   // of the controller, "22.05.8"; empty: burstd says it
	// MungeKey says where the key is: "ssm:/name" (SecureString) or "secretsmanager:name", stored
	// in base64 and read with the instance's role; "ssh:/file" of the controller, for ForHost alone; or "image".
	MungeKey    string
	KeyEndpoint string // in place of that service's own URL, for private endpoints
	Region      string // of the key and of EFS; empty: the instance's
	Mounts      []Mount
	Export      Export
	Users       Users
	Setup       []string // commands, run by bash as root, one by one, once; they have BURST_NODE in their environment
	Packages    bool     // install what the image lacks (slurmd, MUNGE, clients of mounts)
	NTP         string   // time server; empty: 169.254.169.123, AWS's; "image": those that the image has

	Slurmd        string   // path of slurmd; empty: looked for
	SlurmdOptions []string // added to its command line
	SlurmUser     SlurmUser
	KeepHostname  bool // do not name the host after the node

	ResumeTimeout time.Duration // Slurm's: so long after its boot a node gives up asking who it is; 15 min
	SetupTimeout  time.Duration // of each command; 10 min

	image bool   // no node, but what an image is to be made of
	off   bool   // and then shuts itself down
	given string // instance and address, of a host that asks no metadata service
}

// Mount is a file system that all nodes of a pool see.
type Mount struct {
	Kind string // "nfs", "efs", "fsx" (for Lustre) or "cvmfs"
	// Source: "host:/path"; "server:NODE:/path" of a node that burstd says the address of; "fs-0123" or "fs-0123:/path"; "host@tcp:/name"; "software.eessi.io".
	Source string
	Target string // absolute; cvmfs may leave it out
	// Options replace the defaults of the kind, all but _netdev; of cvmfs: its HTTP proxies.
	Options string
}

// Export is a folder that the node serves by NFS; the zero Export: none.
type Export struct {
	Folder string
	// To are the networks that may mount it, with private addresses; none: the one of the node's own address.
	To []string
}

// Users says how the site's users come to be known on a node. Homes are a mount, or Commands' work.
type Users struct {
	SSSD     bool     // start SSSD, which the image or Commands have configured
	Commands []string // like Config.Setup, but before the mounts
	Check    string   // a user who must be known before slurmd starts; empty: nobody
}

// SlurmUser is the controller's: a slurmd obeys it by its uid. UID 0: nothing is done about it.
type SlurmUser struct {
	Name string
	UID  int
}

func (c Config) withDefaults() Config {
	if c.NTP == "" {
		c.NTP = "169.254.169.123"
	}
	if c.NTP == "image" {
		c.NTP = ""
	}
	if c.ResumeTimeout == 0 {
		c.ResumeTimeout = 15 * time.Minute
	}
	if c.SetupTimeout == 0 {
		c.SetupTimeout = 10 * time.Minute
	}
	return c
}

var (
	version   = regexp.MustCompile(`^[0-9]{2}\.[0-9]{2}(\.[0-9A-Za-z.-]+)?$`)
	name      = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	parameter = regexp.MustCompile(`^(ssm:[A-Za-z0-9_./:-]+|secretsmanager:[A-Za-z0-9/_+=.@:-]+|ssh:/.+|image)$`)
	region    = regexp.MustCompile(`^[a-z0-9-]+$`)
	efs       = regexp.MustCompile(`^fs-[0-9a-f]+(:/.*)?$`)
)

// Validate says all that is wrong, a line each.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(c.URLs) == 0 {
		wrong("urls of burstd are missing: nodes ask there which node they are")
	}
	for _, u := range append(slices.Clone(c.URLs), c.KeyEndpoint) {
		p, err := url.Parse(u)
		if u != "" && (err != nil || (p.Scheme != "http" && p.Scheme != "https") || p.Host == "" || strings.Trim(p.Path, "/") != "" || p.RawQuery != "" || p.User != nil) {
			wrong("url %q: want http://host:port", u)
		}
	}
	if slices.Contains(c.URLs, "") {
		wrong("a url of burstd is empty")
	}
	if len(c.ConfServers) == 0 {
		wrong("conf servers are missing: name the hosts of slurmctld")
	}
	for _, s := range c.ConfServers {
		if !hostPort(s) {
			wrong("conf server %q: want host or host:port", s)
		}
	}
	if c.SlurmVersion != "" && !version.MatchString(c.SlurmVersion) {
		wrong("slurm version %q: want one like 22.05.8", c.SlurmVersion)
	}
	if !parameter.MatchString(c.MungeKey) {
		wrong("munge key %q: want ssm:/name, secretsmanager:name or image", c.MungeKey)
	}
	if c.Region != "" && !region.MatchString(c.Region) {
		wrong("region %q: want one like us-east-1", c.Region)
	}
	if c.NTP != "" && c.NTP != "image" && !hostPort(c.NTP) {
		wrong("ntp %q: want a host or an address", c.NTP)
	}
	if c.Slurmd != "" && !path.IsAbs(c.Slurmd) {
		wrong("slurmd %q: want an absolute path", c.Slurmd)
	}
	if c.DaemonUID < 0 || c.SlurmUser.UID < 0 {
		wrong("a uid is below zero")
	}
	if c.SlurmUser.UID != 0 && !name.MatchString(c.SlurmUser.Name) {
		wrong("slurm user %q with uid %d: want its name", c.SlurmUser.Name, c.SlurmUser.UID)
	}
	if c.Users.Check != "" && strings.HasPrefix(c.Users.Check, "-") {
		wrong("user %q: begins with a dash", c.Users.Check)
	}
	if c.ResumeTimeout < 0 || c.SetupTimeout < 0 {
		wrong("a timeout is below zero")
	}
	for _, m := range c.Mounts {
		if err := m.validate(); err != nil {
			wrong("mount %s %s: %w", m.Kind, m.Source, err)
		}
	}
	if err := c.Export.validate(); err != nil {
		wrong("export %s: %w", c.Export.Folder, err)
	}
	errs = append(errs, c.texts()...)
	return errors.Join(errs...)
}

func hostPort(s string) bool {
	host, port := s, ""
	if h, p, err := net.SplitHostPort(s); err == nil {
		host, port = h, p
	}
	n, err := strconv.Atoi(port)
	return (name.MatchString(host) || net.ParseIP(host) != nil) && (port == "" && !strings.HasSuffix(s, ":") || err == nil && n > 0 && n < 1<<16)
}

func (m Mount) validate() error {
	if !path.IsAbs(m.Target) && !(m.Kind == "cvmfs" && m.Target == "") {
		return fmt.Errorf("target %q: want an absolute path", m.Target)
	}
	if path.Clean(m.Target) == "/" {
		return errors.New("target /: the root cannot be hidden")
	}
	if strings.HasPrefix(m.Source, "-") || strings.HasPrefix(m.Options, "-") {
		return errors.New("source and options must not begin with a dash")
	}
	host, remote, _ := strings.Cut(m.Source, ":/")
	switch m.Kind {
	case "nfs":
		if host == "" || !strings.Contains(m.Source, ":/") {
			return errors.New("source: want host:/path")
		}
		if node, ok := strings.CutPrefix(host, "server:"); ok && !name.MatchString(node) {
			return errors.New("source: want server:NODE:/path")
		}
	case "efs":
		if !efs.MatchString(m.Source) {
			return errors.New("source: want fs-0123 or fs-0123:/path")
		}
	case "fsx":
		if !strings.Contains(host, "@") || remote == "" {
			return errors.New("source: want host@tcp:/name, as FSx shows it under Attach")
		}
	case "cvmfs":
		if !name.MatchString(m.Source) {
			return errors.New("source: want the name of a repository, like software.eessi.io")
		}
		if m.Target != "" && m.Target != "/cvmfs/"+m.Source {
			return fmt.Errorf("target %q: CVMFS has it at /cvmfs/%s", m.Target, m.Source)
		}
	default:
		return fmt.Errorf("kind %q: want nfs, efs, fsx or cvmfs", m.Kind)
	}
	return nil
}

// texts checks every value that goes to the shell. A command may have lines.
func (c Config) texts() (errs []error) {
	check := func(what string, lines bool, values ...string) {
		for _, v := range values {
			switch {
			case !utf8.ValidString(v):
				errs = append(errs, fmt.Errorf("%s %q: is no UTF-8", what, v))
			case strings.ContainsFunc(v, func(r rune) bool { return unicode.IsControl(r) && !(lines && (r == '\n' || r == '\t')) }):
				errs = append(errs, fmt.Errorf("%s %q: has a control character or a newline", what, v))
			case lines && strings.TrimSpace(v) == "":
				errs = append(errs, fmt.Errorf("%s: a command is empty", what))
			}
		}
	}
	check("setup", true, c.Setup...)
	check("users", true, c.Users.Commands...)
	check("user", false, c.Users.Check)
	check("slurmd", false, append(slices.Clone(c.SlurmdOptions), c.Slurmd)...)
	check("url", false, c.URLs...)
	for _, m := range c.Mounts {
		check("mount", false, m.Source, m.Target, m.Options)
		if m.Kind == "cvmfs" && strings.ContainsAny(m.Options, "'\\") {
			errs = append(errs, fmt.Errorf("mount %s: options %q: want proxies like http://squid:3128;DIRECT", m.Source, m.Options))
		}
	}
	return errs
}
