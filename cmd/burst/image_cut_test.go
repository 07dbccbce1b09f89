package main

import (
	"log/slog"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud/bootstrap/ssh/sshtest"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
)

// TestImageConnectionCut: the connection breaks off when the instance is clean and has not said so yet.
// If it lets us in again, its word holds; if not, as the keys are gone, that it has shut itself down is its word.
func TestImageConnectionCut(t *testing.T) {
	if testing.Short() {
		t.Skip("a real sshd and Vultr's lag of a minute: slow end-to-end, run by make test")
	}
	t.Parallel()
	net := sshtest.New(t)
	for name, in := range map[string]bool{"it lets us in": true, "it does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, net, `["true"]`)
			s.host.Put("/usr/local/bin/sync", []byte(`#!/bin/sh
ip link set eth0 down
: >/etc/ssh/cut
until [ -e /etc/ssh/goes_on ]; do sleep 0.1; done
`)) // the last command before the word
			s.host.Do("chmod 755 /usr/local/bin/sync")
			cfg, err := config.Load(s.toml)
			if err != nil {
				t.Fatal(err)
			}
			provider, err := openedOf(cfg).get(t.Context(), "lon")
			if err != nil {
				t.Fatal(err)
			}
			way := imaging.Way{Pool: cfg.Pools[0], Provider: provider, State: s.dir, Limit: 10 * time.Minute, Refused: 5 * time.Second, Log: slog.New(slog.DiscardHandler)}
			request, err := way.Request(t.Context(), "f00d")
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := imaging.Build(t.Context(), imaging.Config{Provider: provider, Request: request, Leases: imaging.LeasesIn(s.dir), Within: 15 * time.Minute, SetUp: way.SetUp})
				done <- err
			}()
			comes := func(what, sign string) {
				t.Helper()
				for end := time.Now().Add(2 * time.Minute); s.host.Do(sign+" 2>/dev/null || :") == ""; time.Sleep(200 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("not within 2 minutes: " + what)
					}
				}
			}
			comes("the cut", "ls /etc/ssh/cut")
			if !in {
				s.host.Do(": >/etc/ssh/test_logins")
			}
			s.host.Hang() // before the word, which else waits in the connection for the network
			s.host.Do(": >/etc/ssh/goes_on")
			comes("the setup's end", "grep -l ^ended /var/lib/burst/setup/*/status")
			s.host.Do("ip link set eth0 up")
			if err := <-done; err != nil {
				t.Error(err)
			}
			s.nothing(1)
		})
	}
}
