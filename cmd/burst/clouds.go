package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/cmd/internal/clouds"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/hostcheck"
)

// cloudTimeout is how long all of a command's questions to clouds may take.
const cloudTimeout = 60 * time.Second

// opened are the providers that a command has needed so far.
type opened struct {
	cfg       *config.Config
	mu        sync.Mutex
	providers map[string]cloud.Provider
	env       *borrowed // nil: no cloud was needed
}

func openedOf(cfg *config.Config) *opened {
	return &opened{cfg: cfg, providers: map[string]cloud.Provider{}}
}

// get opens the named provider, which Load has found in the file, or returns it again. A cloud is asked as burstd asks
// it, where the caller has not said otherwise.
func (o *opened) get(ctx context.Context, name string) (cloud.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, ok := o.providers[name]; ok {
		return p, nil
	}
	c, _ := o.cfg.Provider(name)
	if o.env == nil && c.Kind != "local" {
		env := borrow(ctx, hostcheck.New(o.cfg.Endpoint), os.Stderr)
		env.shape = needsOf(o.cfg)
		o.env = &env
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	p, err := clouds.Open(ctx, c, o.cfg.Endpoint.SlurmConf, log)
	if err != nil {
		err = fmt.Errorf("provider %s: %w", name, err)
		if o.env != nil {
			err = cli.WithHint(err, "%s", o.env.hint())
		}
		return nil, err
	}
	o.providers[name] = p
	return p, nil
}

// hint says what to do where a cloud did not answer as it answers burstd; "" if no cloud was needed.
func (o *opened) hint() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.env == nil {
		return ""
	}
	return o.env.hint()
}
