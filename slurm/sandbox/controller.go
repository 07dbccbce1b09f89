package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
)

// StartController starts slurmctld with the state that it left, if any, and
// returns when it answers.
func (c *Cluster) StartController(ctx context.Context) error {
	if c.ctld != nil {
		return errors.New("slurmctld is running already")
	}
	// Its own log file is for what it says once it has read its configuration;
	// in the foreground it also says everything on stderr.
	out := filepath.Join(c.Dir, "log", "slurmctld.out")
	d, err := c.spawnLogged("slurmctld", out, c.daemonCommand("slurmctld", "-D", "-f", c.Conf))
	if err != nil {
		return err
	}
	c.ctld = d
	return d.await(ctx, "slurmctld answers", func() bool {
		// An error may mean not yet; the words say more than the exit code.
		text, err := c.Command(ctx, "scontrol", "ping").Output()
		return err == nil && strings.Contains(string(text), " is UP")
	})
}

// StopController stops slurmctld, which saves its state. Jobs run on. If ctx
// ends first, slurmctld is killed.
func (c *Cluster) StopController(ctx context.Context) error {
	return c.endController(func(d *daemon) error { return d.stop(ctx) })
}

// KillController kills slurmctld with SIGKILL, as a crash would.
func (c *Cluster) KillController() error { return c.endController((*daemon).kill) }

// RestartController stops and starts slurmctld.
func (c *Cluster) RestartController(ctx context.Context) error {
	if err := c.StopController(ctx); err != nil {
		return err
	}
	return c.StartController(ctx)
}

func (c *Cluster) endController(end func(*daemon) error) error {
	if c.ctld == nil {
		return errors.New("slurmctld is not running")
	}
	d := c.ctld
	c.ctld = nil
	return end(d)
}
