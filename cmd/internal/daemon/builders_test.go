package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/local"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/clouds"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
)

// TestBuildersAtWorkLive: burstd lets an instance be of which an image is made, in round after round,
// and ends it when nobody holds it any more.
func TestBuildersAtWorkLive(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	node := "NodeName=%s CPUAlloc=0 CPUTot=1 NodeAddr=%s NodeHostName=%s State=IDLE+CLOUD+POWERED_DOWN RealMemory=500 Partitions=p\n"
	s.write("nodes", strings.ReplaceAll(node, "%s", "p1")+strings.ReplaceAll(node, "%s", "p2"), 0o644)
	s.write("bin/scontrol", "#!/bin/sh\n[ \"$1 $2 $3\" != '-o show nodes' ] || cat "+s.dir+"/nodes\n", 0o755)
	s.write("bin/squeue", "#!/bin/sh\n", 0o755)
	s.write("bin/slurmd", "#!/bin/sh\nexec sleep 1000\n", 0o755)
	t.Cleanup(func() {
		if err := local.Cleanup(local.Config{Dir: s.config.Providers[0].Local.Dir, Conf: filepath.Join(s.dir, "slurm.conf")}); err != nil {
			t.Error(err)
		}
	})
	r := s.start()
	st, err := r.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	provider, err := clouds.Open(t.Context(), s.config.Providers[0], s.config.Endpoint.SlurmConf, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}

	token := cloud.BuilderToken(time.Now().Add(time.Hour))
	leases := string(imaging.LeasesIn(s.config.Endpoint.State))
	if err := os.Mkdir(leases, 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := os.Create(filepath.Join(leases, token))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Launch(t.Context(), cloud.LaunchRequest{Token: token, Cluster: st.Cluster, Pool: "p", Count: 1,
		Offering: cloud.Offering{Type: "small", Zone: "a", Market: cloud.OnDemand}}); err != nil {
		t.Fatal(err)
	}
	lives := func() bool {
		all, err := provider.List(context.WithoutCancel(t.Context()), cloud.Filter{Cluster: st.Cluster, Tokens: []string{token}})
		if err != nil {
			t.Fatal(err)
		}
		return len(all) == 1 && all[0].State.Live()
	}
	rounds := func() {
		t.Helper()
		for range 2 {
			if _, err := r.Reconcile(t.Context(), api.ReconcileRequest{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.until("burstd hears Slurm", func() bool { st, err := r.Status(t.Context()); return err == nil && st.SlurmOK })
	r.until("burstd says of which account its instances are", func() bool {
		account, err := provider.(cloud.Accountant).Account(t.Context())
		st, serr := r.Status(t.Context())
		return err == nil && serr == nil && len(st.Accounts) == 1 && st.Accounts[s.config.Providers[0].Name] == api.AccountMark(account)
	})
	for range 2 {
		rounds()
		if !lives() {
			t.Fatalf("the builder was ended while it was held:\n%s", r.log)
		}
		r.finish()
		r = s.start() // one that starts lets it be, too
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	r.until("it is ended when nobody holds it", func() bool { rounds(); return !lives() })
}

// TestBuildersAreBooked: the ledger has the time of an instance of which an image was made, once.
func TestBuildersAreBooked(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.write("prices.csv", "type,zone,market,usd_per_hour,date\nsmall,,on-demand,0.085,2026-08-01\n", 0o644)
	s.config.Providers[0].PriceTable = filepath.Join(s.dir, "prices.csv")
	r := s.start()
	ended := endsHour(time.Now().Truncate(time.Second))
	good := api.Builder{Instance: "i-9", Token: cloud.BuilderToken(ended.Add(time.Hour)), Provider: s.config.Providers[0].Name, Pool: "p",
		Type: "small", Market: "on-demand", Launched: ended.Add(-time.Hour), Ended: ended}
	for name, with := range map[string]func(*api.Builder){
		"a node's token":   func(b *api.Builder) { b.Token = "t-1" },
		"no instance":      func(b *api.Builder) { b.Instance = "" },
		"no such provider": func(b *api.Builder) { b.Provider = "west" },
		"no launch":        func(b *api.Builder) { b.Launched = time.Time{} },
		"ended before":     func(b *api.Builder) { b.Ended = b.Launched.Add(-time.Second) },
		"ends tomorrow":    func(b *api.Builder) { b.Ended = ended.AddDate(0, 0, 1) },
	} {
		bad := good
		with(&bad)
		if e := (*api.Error)(nil); !errors.As(r.BookBuilder(t.Context(), bad), &e) || e.Status != http.StatusBadRequest {
			t.Errorf("%s is booked: %v", name, e)
		}
	}
	for range 3 { // as after lost answers
		if err := r.BookBuilder(t.Context(), good); err != nil {
			t.Fatal(err)
		}
	}
	var usage []api.Usage
	r.until("it is booked", func() bool {
		var err error
		usage, err = r.Usage(t.Context(), api.UsageQuery{By: "pool", UID: -1})
		return err == nil && len(usage) > 0
	})
	if u := usage[0]; len(usage) != 1 || u.Key != "p" || u.Seconds != 3600 || u.USD == nil || *u.USD != 0.085 || u.Instances != 1 {
		t.Errorf("%+v", usage)
	}
	events, err := r.Events(t.Context(), -10, 0)
	told := 0
	for _, e := range events {
		if e.Kind == "gone" && e.Instance == "i-9" && e.Pool == "p" {
			told++
		}
	}
	if err != nil || told != 1 {
		t.Errorf("its end is told %d times (%v): %+v", told, err, events)
	}
}
