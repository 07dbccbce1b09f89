package vultr

import "fmt"

// spec is the provider's part of a launch request: with it the request is
// exact, whatever the configuration or the account's lists say later.
type spec struct {
	Metal    bool     `json:"metal,omitempty"` // bare metal, not cloud compute
	Region   string   `json:"region"`
	OS       int      `json:"os,omitempty"` // one of these three is the image
	Snapshot string   `json:"snapshot,omitempty"`
	Image    string   `json:"image,omitempty"` // of the marketplace
	VPC      string   `json:"vpc,omitempty"`
	VPCOnly  bool     `json:"vpc_only,omitempty"`
	SSHKeys  []string `json:"ssh_keys,omitempty"` // ids
	Limited  bool     `json:"limited,omitempty"`  // Vultr sets up "linuxuser" in place of root
	Script   string   `json:"script,omitempty"`
	Firewall string   `json:"firewall,omitempty"`
	Word     bool     `json:"word,omitempty"` // each instance is told its word
}

// imageID is what the image was resolved to, for people.
func (s spec) imageID() string {
	switch {
	case s.OS != 0:
		return fmt.Sprintf(" is operating system %d", s.OS)
	case s.Snapshot != "":
		return " is snapshot " + s.Snapshot
	}
	return ""
}
