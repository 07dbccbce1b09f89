package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
)

// owned is a provider that says whose it is.
type owned struct {
	cloud.Provider
	account string
	err     error
}

func (l owned) Account(context.Context) (string, error) { return l.account, l.err }

// TestSameAccount: credentials of another account than burstd's launch nothing.
func TestSameAccount(t *testing.T) {
	t.Parallel()
	b := new(apitest.Backend)
	cfg := twoSources(t, vultrFake(t), b)
	for _, tt := range []struct {
		name  string
		here  cloud.Provider
		there string
		want  string // "": it may
		said  bool
	}{
		{"the same", owned{account: "A"}, "A", "", false},
		{"another", owned{account: "A"}, "B", "are of account A here and of another in the burstd that runs", false},
		{"burstd does not know", owned{account: "A"}, "", "burstd does not say of which its are", false},
		{"burstd waits for Slurm", owned{account: "A"}, "", "it waits for Slurm", false},
		{"it cannot be told here", owned{err: errors.New("you may not")}, "B", "is not known: you may not", false},
		{"nobody can tell", owned{err: errors.New("you may not")}, "", "", true},
		{"it has no accounts", struct{ cloud.Provider }{}, "", "", false},
	} {
		s := api.Status{Accounts: map[string]string{}, SlurmOK: tt.name != "burstd waits for Slurm"}
		if tt.there != "" {
			s.Accounts["lon"] = api.AccountMark(tt.there)
		}
		b.SetStatus(s)
		var said strings.Builder
		err := sameAccount(t.Context(), &said, cfg, "lon", tt.here)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) || (said.Len() > 0) != tt.said {
			t.Errorf("%s: %v, said %q; want %q", tt.name, err, said.String(), tt.want)
		}
	}
}

// TestStopAllWithAnotherAccount: a provider of which the command has another account than burstd is not asked, as all that it said would be
// of that account.
func TestStopAllWithAnotherAccount(t *testing.T) {
	t.Parallel()
	b := new(apitest.Backend)
	cfg := twoSources(t, vultrFake(t), b)
	for there, asked := range map[string]bool{"A": true, "B": false, "": true} {
		s := api.Status{Accounts: map[string]string{}, SlurmOK: true}
		if there != "" {
			s.Accounts["lon"] = api.AccountMark(there)
		}
		b.SetStatus(s)
		button := &button{cfg: cfg, client: api.NewClient(cfg.Endpoint.Socket), failed: map[string]error{}, providers: map[string]cloud.Provider{"lon": owned{account: "A"}, "none": struct{ cloud.Provider }{}}}
		button.foreign(t.Context())
		button.client.Close()
		if _, is := button.providers["lon"]; is != asked || (button.failed["lon"] == nil) != asked || len(button.failed) > 1 {
			t.Errorf("burstd is of %q: asked %v, %v", there, is, button.failed)
		}
	}
}

// TestBuildWithAnotherAccount: the command asks before anything is launched.
func TestBuildWithAnotherAccount(t *testing.T) {
	t.Parallel()
	b, fake := new(apitest.Backend), vultrFake(t)
	cfg := twoSources(t, fake, b)
	s := heardBy(cfg)
	s.Accounts["lon"] = api.AccountMark("somebody else")
	b.SetStatus(s)
	var said strings.Builder
	err := runImageBuild(t.Context(), streams{&said, &said}, imageBuildOptions{config: cfg.Path, pool: "v", provider: "lon", within: time.Hour})
	if err == nil || !strings.Contains(err.Error(), "of another in the burstd that runs") {
		t.Error(err)
	}
	if n := fake.Count("POST instances"); n != 0 {
		t.Errorf("%d launches", n)
	}
}
