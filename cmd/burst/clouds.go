package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/clouds"
	"github.com/burst-hpc/burst/cmd/internal/config"
)

// cloudTimeout is how long all of a command's questions to clouds may take.
const cloudTimeout = 60 * time.Second

// opened are the providers that a command has needed so far.
type opened struct {
	cfg       *config.Config
	mu        sync.Mutex
	providers map[string]cloud.Provider
}

func openedOf(cfg *config.Config) *opened {
	return &opened{cfg: cfg, providers: map[string]cloud.Provider{}}
}

// get opens the named provider, which Load has found in the file, or returns it again.
func (o *opened) get(ctx context.Context, name string) (cloud.Provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p, ok := o.providers[name]; ok {
		return p, nil
	}
	c, _ := o.cfg.Provider(name)
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	p, err := clouds.Open(ctx, c, o.cfg.Endpoint.SlurmConf, log)
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", name, err)
	}
	o.providers[name] = p
	return p, nil
}
