package config

import (
	"regexp"

	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
)

// SSH says how a pool's instances are set up by burstd.
type SSH struct {
	User string
	Auth ssh.Auth
	Port int
	// Console: the host keys are those that the cloud's console shows; else the first that
	// an instance shows is pinned.
	Console bool
	// Public: of those that are pinned also one with a public address gets the MUNGE key, though
	// anybody on the way there may have answered in its place.
	Public bool
	// Word: an instance's first key is pinned when it has said the word that its user data tells it.
	Word bool
}

// sshKey is the private key by which burstd logs in, where the file names none.
const sshKey = "/etc/burst/id_ed25519"

// overSSH reads how burstd logs in on a pool's instances, as user.
func overSSH(s *section, user string) *SSH {
	sub := s.sub("ssh")
	policy := sub.choice("host_key", "pin", "pin-public", "console", "user-data")
	c := &SSH{User: user, Port: sub.number("port", "", "22"), Console: policy == "console", Public: policy == "pin-public", Word: policy == "user-data"}
	c.Auth.Agent = sub.abs("agent", "")
	c.Auth.KeyFile = sub.abs("key", "")
	if c.Auth.KeyFile == "" && c.Auth.Agent == "" {
		c.Auth.KeyFile = sshKey
	}
	if c.Port > 65535 {
		sub.failAt("port", "is %d: write a number from 1 to 65535", c.Port)
	}
	sub.done()
	return c
}

var sentKeys = regexp.MustCompile(`^(image|ssh:/.+)$`)

// checkSent reports what is wrong with a bootstrap that goes over SSH.
func checkSent(s *section, b bootstrap.Config) {
	if !sentKeys.MatchString(b.MungeKey) {
		s.failAt("munge_key", "%q is no place of a key: write \"ssh:/etc/burst/munge.key\", a file of this host that is sent over SSH, or \"image\"", b.MungeKey)
		return
	}
	if len(b.URLs) > 0 && b.URLs[0] == "" {
		return // reported, and nothing can be said of the rest
	}
	if err := b.Validate(); err != nil {
		failEach(s, err)
	}
}
