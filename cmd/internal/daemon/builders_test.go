package daemon

import (
	"context"
	"log/slog"
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
