// Package hostcheck looks at the controller itself, beside slurm.conf and the clouds:
// Slurm's version and build, MUNGE, the clock, disks, sockets, programs, and who may
// read and write what. It changes nothing, and each of its checks ends by itself.
package hostcheck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/endpoint"
	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/slurm"
	"github.com/burst-hpc/burst/slurm/conf"
)

// Patience is how long a single check may take. What it has not found by then is unknown.
const Patience = 10 * time.Second

// Site is what is to be looked at.
type Site struct {
	Path     string          // of burst.toml
	Endpoint endpoint.Config // of burst.toml
	Local    bool            // a provider's instances are processes of burstd's
	Clouds   bool            // a provider's nodes reach this host over a network
	Journals []string        // folders of providers that must outlive a reboot, and lie on a disk of this host
	Folders  []string        // others that burstd writes into, beside those of Endpoint
	Keyless  []string        // pools at a cloud whose nodes get no slurm.key, as far as burst.toml says
	Archs    []string        // of nodes that are known: "amd64", "arm64"

	Settings conf.Site         // slurmctld's, or slurm.conf's where it does not answer
	Running  map[string]string // what scontrol show config says; nil: slurmctld does not answer
	Away     error             // why it does not

	SlurmUser User // as whom slurmctld starts its programs
	Burstd    User // as whom burstd runs
}

// Host is the controller. The fields are how it is asked: New has the real ways.
type Host struct {
	Root    string // before every path
	Version string // of this burst

	Run     func(ctx context.Context, name string, args ...string) (string, error)
	Statfs  func(path string) (unix.Statfs_t, error)
	Clock   func() (synchronised bool, err error)
	Munge   func(ctx context.Context, socket string) error // makes a credential and opens it
	Status  func(ctx context.Context, socket string) (version string, err error)
	Resolve func(ctx context.Context, host string) ([]net.IP, error)
	Own     func() ([]net.IP, error) // the addresses of this host
	Name    func() (string, error)
	Agent   func(arch string) (string, error)

	Patience time.Duration // of one check; 0: the usual
}

// New is this host.
func New(e endpoint.Config) *Host {
	return &Host{
		Root: "/", Version: cli.Version,
		Run: func(ctx context.Context, name string, args ...string) (string, error) {
			run := slurm.Exec{Conf: e.SlurmConf, Timeout: Patience / 2}
			switch {
			case filepath.IsAbs(name):
				run.BinDir, name = filepath.Dir(name), filepath.Base(name)
			case name == "scontrol":
				run.BinDir = e.SlurmBin
			}
			out, said, err := run.Run(ctx, name, args...)
			if err != nil && len(said) > 0 {
				err = fmt.Errorf("%w: %s", err, slurm.Word(said))
			}
			return string(out), err
		},
		Statfs: func(path string) (s unix.Statfs_t, err error) { return s, unix.Statfs(path, &s) },
		Clock:  synchronised,
		Munge:  credential,
		Status: func(ctx context.Context, socket string) (string, error) {
			c := api.NewClient(socket)
			defer c.Close()
			s, err := c.Status(ctx)
			return s.Version, err
		},
		Resolve: func(ctx context.Context, host string) ([]net.IP, error) {
			return net.DefaultResolver.LookupIP(ctx, "ip", host)
		},
		Own:  own,
		Name: os.Hostname,
	}
}

func credential(ctx context.Context, socket string) error {
	m := munge.New(munge.Options{Socket: socket, Timeout: Patience / 3})
	text, err := m.Encode(ctx, []byte("burst check"))
	if err != nil {
		return err
	}
	_, err = m.Decode(ctx, text)
	return err
}

func own() ([]net.IP, error) {
	addrs, err := net.InterfaceAddrs()
	var all []net.IP
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok {
			all = append(all, n.IP)
		}
	}
	return all, err
}

func synchronised() (bool, error) {
	const unsynchronised = 0x40 // STA_UNSYNC
	var t unix.Timex            // no modes: it is only read
	state, err := unix.Adjtimex(&t)
	return state != unix.TIME_ERROR && t.Status&unsynchronised == 0, err
}

// Check looks at everything, at all of it at once, and returns the findings in a fixed order.
func (h *Host) Check(ctx context.Context, s Site) []conf.Finding {
	checks := []struct {
		key  string
		look func(context.Context, Site) []conf.Finding
	}{
		{"slurmctld", h.slurmctld},
		{"scontrol", h.commands},
		{"json-c", h.jsonC},
		{"MUNGE", h.munge},
		{"clock", h.clock},
		{"burst.toml", h.config},
		{"state", h.state},
		{"spool", h.spool},
		{"disk", h.disks},
		{"socket", h.socket},
		{"listen", h.listen},
		{"node_url", h.nodeURL},
		{"metrics", h.metrics},
		{"burstd.service", h.unit},
		{"burst-agent", h.agents},
	}
	looks := make([]Look, len(checks))
	for i, c := range checks {
		looks[i] = Look{c.key, func(ctx context.Context) []conf.Finding { return c.look(ctx, s) }}
	}
	return h.Together(ctx, looks)
}

// Look is a check by what it looks at.
type Look struct {
	Key  string
	Look func(context.Context) []conf.Finding
}

// Together has all look at once, each for as long as a check may take, and returns what they have found one
// after the other.
func (h *Host) Together(ctx context.Context, looks []Look) []conf.Finding {
	found := make([][]conf.Finding, len(looks))
	var wg sync.WaitGroup
	for i, look := range looks {
		wg.Go(func() { found[i] = h.within(ctx, look) })
	}
	wg.Wait()
	return slices.Concat(found...)
}

// within gives a check up that does not end: a question to a file system that hangs cannot be taken back.
func (h *Host) within(ctx context.Context, look Look) []conf.Finding {
	patience := h.Patience
	if patience == 0 {
		patience = Patience
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	done := make(chan []conf.Finding, 1)
	go func() {
		defer cancel()
		done <- look.Look(ctx)
	}()
	late := time.NewTimer(patience + time.Second/2) // a check that heeds ctx says more
	defer late.Stop()
	select {
	case found := <-done:
		return found
	case <-late.C:
		return []conf.Finding{{Level: conf.Unknown, Key: look.Key, Why: fmt.Sprintf("No answer within %s: a file system or a daemon that this asks hangs; \"dmesg\" and \"df\" may say which.", patience)}}
	}
}

// at is where a path of the host is.
func (h *Host) at(path string) string { return filepath.Join(h.Root, path) }

func ok(key, have, format string, args ...any) conf.Finding {
	return conf.Finding{Level: conf.OK, Key: key, Have: have, Why: fmt.Sprintf(format, args...)}
}

// but is the finding with another level, and the reason for it.
func but(f conf.Finding, level conf.Level, format string, args ...any) []conf.Finding {
	f.Level, f.Why = level, fmt.Sprintf(format, args...)
	return []conf.Finding{f}
}

// unseen is a finding that our own rights do not allow; other errors are wrong, with what to do. What
// burstd's own user is denied is wrong.
func (s Site) unseen(f conf.Finding, err error, mend string) []conf.Finding {
	if uid := os.Geteuid(); errors.Is(err, fs.ErrPermission) && uid != 0 && uid != s.Burstd.UID {
		return but(f, conf.Unknown, "%v: run burst check as root.", err)
	}
	return but(f, conf.Wrong, "%v: %s", err, mend)
}
