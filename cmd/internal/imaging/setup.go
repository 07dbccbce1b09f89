package imaging

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/cmd/internal/clouds"
	"github.com/burst-hpc/burst/cmd/internal/config"
)

// Way is how a pool's builder is set up.
type Way struct {
	Pool     config.Pool
	Provider cloud.Provider
	State    string        // burstd's state folder
	Limit    time.Duration // of the whole setup
	Refused  time.Duration // so long the instance may refuse the login over SSH; 0: as long as a node may
	Log      *slog.Logger
}

// SetupError is a bootstrap that has failed on the builder: nothing will mend it.
type SetupError struct {
	Why  string // the failing line
	Tail string // the last lines of its output
}

func (e *SetupError) Error() string { return e.Why }

// Request is the launch of the pool's builder, all but its token: one instance of
// the pool's first type, or of the one that the provider chooses, on demand, in any of the
// pool's zones.
func (w Way) Request(ctx context.Context, cluster string) (cloud.LaunchRequest, error) {
	p := w.Pool.Power
	switch {
	case len(p.Fleet.Types) == 0:
		return cloud.LaunchRequest{}, errors.New("the pool names no instance type")
	case w.Pool.SSH == nil && len(w.Pool.Boot.URLs) == 0:
		return cloud.LaunchRequest{}, errors.New("the pool has user_data of its own, of which Burst cannot know when its work is done, nor what it leaves")
	}
	r := cloud.LaunchRequest{Cluster: cluster, Pool: p.Name, Image: p.Image, Tags: p.Tags,
		Offering: cloud.Offering{Type: p.Fleet.Types[0], Market: cloud.OnDemand}}
	if len(p.Fleet.Zones) > 0 {
		r.Offering.Zone = p.Fleet.Zones[0]
	}
	for n := 1; n < len(p.Fleet.Zones) && w.Provider.Limits().Choice; n++ {
		o := r.Offering
		o.Zone = p.Fleet.Zones[n]
		r.Or = append(r.Or, o)
	}
	if _, ok := w.Provider.(cloud.Consoler); !ok && w.Pool.SSH == nil {
		return r, errors.New("the pool's instances are set up by user data, and the provider shows no console to see the end of it")
	}
	if c, ok := w.Provider.(cloud.BuilderChooser); ok {
		chosen, err := c.BuilderType(ctx, cloud.BuilderNeeds{Types: p.Fleet.Types, Console: w.Pool.SSH == nil})
		if err != nil {
			return r, err
		}
		r.Offering.Type = chosen
		for n := range r.Or {
			r.Or[n].Type = chosen
		}
	}
	if w.Pool.SSH != nil {
		return r, nil
	}
	var err error
	r.UserData, err = bootstrap.UserData(w.Pool.Boot.ForImage())
	return r, err
}

// SetUp is a Config's.
func (w Way) SetUp(ctx context.Context, i cloud.Instance, cleaning func()) error {
	ctx, cancel := context.WithTimeout(ctx, w.Limit)
	defer cancel()
	if w.Pool.SSH == nil {
		return w.watch(ctx, i)
	}
	addr, err := netip.ParseAddr(i.Addr)
	if err != nil {
		return fmt.Errorf("the cloud's address of the instance: %w", err)
	}
	h := ssh.Host{Instance: i.ID, Node: "image-" + w.Pool.Power.Name, Addr: addr, Port: w.Pool.SSH.Port, User: w.Pool.SSH.User}
	if w.Pool.SSH.Console {
		err := w.console(ctx, i, func(text string) error {
			if h.HostKeys = ssh.ConsoleKeys(text); len(h.HostKeys) == 0 {
				return errWait
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("the instance's console has shown no host keys (is host_key = \"pin\" what you want?): %w", err)
		}
	}
	if w.Pool.SSH.Word {
		if h.Word, err = clouds.Word(ctx, w.Provider, i.ID); err != nil {
			return err
		}
	}
	boot := w.Pool.Boot.ForImage()
	if w.Provider.Limits().HardStop {
		boot = boot.ThenOff()
	}
	heard := func(tail []byte) {
		if bootstrap.ImageCleaning(tail) {
			cleaning()
		}
	}
	script, err := bootstrap.ForHost(boot, i.ID, addr)
	if err != nil {
		return fmt.Errorf("writing the bootstrap: %w", err)
	}
	runner := ssh.New(ssh.Config{Auth: w.Pool.SSH.Auth, Keys: ssh.Folder(filepath.Join(w.State, "hostkeys")), Logs: filepath.Join(w.State, "setup"), Log: w.Log, Refused: w.Refused})
	err = runner.Run(ctx, h, ssh.Work{Script: []byte(script), Limit: w.Limit, Heard: heard})
	if f := (*ssh.Failure)(nil); errors.As(err, &f) {
		return &SetupError{f.Why, f.Tail}
	}
	return err
}

// consolePace is the time between two looks at a console: EC2 shows it minutes late.
const consolePace = 15 * time.Second

// watch waits for the last word of the bootstrap on the console.
func (w Way) watch(ctx context.Context, i cloud.Instance) error {
	return w.console(ctx, i, func(text string) error {
		ended, why, tail := bootstrap.ImageEnd(text)
		switch {
		case !ended:
			return errWait
		case why != "":
			return &SetupError{why, tail}
		}
		return nil
	})
}

// errWait: the console does not show yet what is waited for.
var errWait = errors.New("the console does not show it")

// console reads the console until see has seen what it wants there.
func (w Way) console(ctx context.Context, i cloud.Instance, see func(text string) error) error {
	c, ok := w.Provider.(cloud.Consoler)
	if !ok {
		return errors.New("the provider shows no consoles")
	}
	var last error
	for {
		text, err := c.Console(ctx, i.ID)
		if err == nil {
			if err = see(text); !errors.Is(err, errWait) {
				return err
			}
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the console of %s: %w", i.ID, cmp.Or(last, context.Cause(ctx)))
		case <-time.After(consolePace*4/5 + rand.N(consolePace*2/5)):
		}
	}
}
