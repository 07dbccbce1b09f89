package bootstrap

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
)

// folder is what exports(5) takes as it is.
var folder = regexp.MustCompile(`^(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$`)

// system are folders whose export would hand out the node itself.
var system = regexp.MustCompile(`^/(bin|boot|dev|etc|lib|lib32|lib64|proc|root|run|sbin|sys|usr|var/lib/burst)(/|$)`)

func (e Export) validate() error {
	if e.Folder == "" {
		if len(e.To) > 0 {
			return errors.New("networks are given, and no folder")
		}
		return nil
	}
	if !folder.MatchString(e.Folder) || path.Clean(e.Folder) != e.Folder {
		return errors.New("want an absolute path of letters, digits, dots, dashes and underscores, as in /shared")
	}
	if system.MatchString(e.Folder) {
		return errors.New("is of the operating system: take another, as in /shared")
	}
	for _, text := range e.To {
		if err := CheckNetwork(text); err != nil {
			return err
		}
	}
	return nil
}

// carriers is a network of private addresses that VPNs use too.
var carriers = netip.MustParsePrefix("100.64.0.0/10")

// CheckNetwork says why a folder cannot be exported to a network: it is none, or not a private one.
func CheckNetwork(text string) error {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil || !p.Addr().Is4():
		return fmt.Errorf("%q is no network: write it as in \"10.1.96.0/20\"", text)
	case p.Masked() != p:
		return fmt.Errorf("%q names a host, not the network: write %q", text, p.Masked())
	case p.Bits() < 8 || !p.Addr().IsPrivate() && !carriers.Contains(p.Addr()) || carriers.Contains(p.Addr()) && p.Bits() < carriers.Bits(),
		p.Addr().As4()[0] == 172 && p.Bits() < 12, p.Addr().As4()[0] == 192 && p.Bits() < 16:
		return fmt.Errorf("%q is not a private network, and the folder is for nodes alone", text)
	}
	return nil
}
