package config

import (
	"os"
	"regexp"
	"strings"
)

// Boot is what a new node of a cloud does before its slurmd starts.
type Boot struct {
	MungeKey string   // "ssm:/path", "secretsmanager:name" or "image"
	Mounts   []Mount  // in the order of the file
	Setup    []string // commands, run as root in their order
	Users    []string // commands that make the site's users known
	NTP      []string // time servers; empty: the cloud's
	UserData string   // the site's own text in place of Burst's; empty: Burst's
}

// Mount is a file system that a node mounts.
type Mount struct {
	Kind    string // "nfs", "efs", "fsx", "cvmfs"
	Source  string
	Target  string
	Options string
}

var mungeKeys = regexp.MustCompile(`^(image|ssm:/[A-Za-z0-9_./-]+|secretsmanager:[A-Za-z0-9/_+=.@:-]+)$`)

// ownUserData is the keys that a site's own user data leaves without an effect.
var ownUserData = []string{"mounts", "setup", "munge_key", "users", "ntp"}

func boot(s *section, c *Config) Boot {
	if path := s.abs("user_data", ""); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			s.failAt("user_data", "cannot be read: %v", err)
		}
		s.refuse("has no effect where the site has user_data of its own: remove one of the two", ownUserData...)
		return Boot{UserData: string(text)}
	}
	b := Boot{
		MungeKey: s.text("munge_key", "image"),
		Setup:    s.texts("setup"),
		Users:    s.texts("users"),
		NTP:      s.texts("ntp"),
	}
	if !mungeKeys.MatchString(b.MungeKey) {
		s.failAt("munge_key", "%q is no place of a key: write \"ssm:/path\", \"secretsmanager:name\" or \"image\"", b.MungeKey)
	}
	for _, m := range s.tables("mounts", `{ kind = "nfs", source = "nas:/home", target = "/home" }`) {
		b.Mounts = append(b.Mounts, mount(m))
	}
	for _, server := range b.NTP {
		if !names.MatchString(server) {
			s.failAt("ntp", "%q is no name or address of a time server", server)
		}
	}
	if c.Endpoint.Listen == "" {
		s.failAt("provider", "its nodes ask burstd which node they are: add listen under [daemon], as in listen = \"head.example.org:9811\"")
	}
	return b
}

func mount(s *section) Mount {
	m := Mount{
		Kind:    s.required("kind", `"nfs"`),
		Source:  s.required("source", `"nas.example.org:/home"`),
		Target:  s.text("target", ""),
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
	if m.Target != "" && !strings.HasPrefix(m.Target, "/") {
		s.failAt("target", "%q is not an absolute path: write it from / on", m.Target)
	}
	s.done()
	return m
}
