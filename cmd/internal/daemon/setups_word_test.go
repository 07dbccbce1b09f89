package daemon

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/bootstrap/ssh"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/power"
)

// vouchers is a provider that has told its instances words.
type vouchers struct {
	cloud.Provider
	fails int
}

func (v *vouchers) Word(_ context.Context, id string) (string, error) {
	if v.fails--; v.fails >= 0 {
		return "", errors.New("no list")
	}
	return "WORD" + id, nil
}

// TestWords: who says the instance's word gets the MUNGE key, wherever he is; who cannot be told it gets nothing.
func TestWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBootWorld()
		s := w.setups()
		var hosts []ssh.Host
		s.run = func(_ context.Context, _ config.Pool, h ssh.Host, _ ssh.Work) error {
			hosts = append(hosts, h)
			return nil
		}
		s.providers = map[string]cloud.Provider{"p": &vouchers{fails: 3}, "none": nil}
		pool := s.pools[source{"a", "p"}]
		pool.Boot.MungeKey, pool.SSH.Word = "ssh:/k", true
		i := power.Instance{Instance: cloud.Instance{ID: "i-1", Addr: "192.0.2.1"}, Provider: "p"}
		if err := s.try(t.Context(), pool, power.Node{Name: "c1"}, i); err != nil || len(hosts) != 1 || hosts[0].Word != "WORDi-1" {
			t.Errorf("%v, %+v", err, hosts)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for provider, want := range map[string]string{"none": "tells instances no words", "broken": "no list"} {
			s.providers["broken"], i.Provider = &vouchers{fails: 1e6}, provider
			if err := s.try(ctx, pool, power.Node{Name: "c1"}, i); err == nil || !strings.Contains(err.Error(), want) || len(hosts) != 1 {
				t.Errorf("%s: %v, %+v", provider, err, hosts)
			}
		}
	})
}
