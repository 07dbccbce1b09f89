package imaging

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/cloudtest"
)

// exchanged is a cloud whose key may become another account's.
type exchanged struct {
	*cloudtest.Fake
	abroad *cloudtest.Fake
	key    func() (abroad bool, err error)
}

func (x exchanged) at() *cloudtest.Fake {
	if abroad, _ := x.key(); abroad {
		return x.abroad
	}
	return x.Fake
}

func (x exchanged) Account(ctx context.Context) (string, error) {
	if _, err := x.key(); err != nil {
		return "", err
	}
	return x.at().Account(ctx)
}

func (x exchanged) Launch(ctx context.Context, r cloud.LaunchRequest) ([]cloud.Instance, error) {
	return x.at().Launch(ctx, r)
}

func (x exchanged) List(ctx context.Context, f cloud.Filter) ([]cloud.Instance, error) {
	return x.at().List(ctx, f)
}

func (x exchanged) Terminate(ctx context.Context, ids []string) error {
	return x.at().Terminate(ctx, ids)
}

// TestAnotherAccountAmidABuild: what the lists of another account lack has neither been ended by somebody, nor is it gone.
func TestAnotherAccountAmidABuild(t *testing.T) {
	for _, tt := range []struct {
		name     string
		from, to time.Duration // since the beginning of the setup, which takes 20 minutes
		known    bool          // whose the other key is
		stopped  bool          // the build, amid its setup
		left     bool
	}{
		{"for a while", time.Minute, 15 * time.Minute, true, false, false},
		{"for a while, and not known whose", time.Minute, 15 * time.Minute, false, false, false},
		{"for good", time.Minute, 24 * time.Hour, true, true, true},
		{"for good, and not known whose", time.Minute, 24 * time.Hour, false, true, true},
		{"until the end", time.Minute, 12 * time.Minute, true, true, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			var began time.Time
			b.Provider = exchanged{b.Fake, cloudtest.NewFake(cloudtest.Options{Lag: 5 * time.Second}), func() (bool, error) {
				if since := time.Since(began); began.IsZero() || since < tt.from || since > tt.to {
					return false, nil
				}
				if !tt.known {
					return true, errors.New("denied")
				}
				return true, nil
			}}
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			b.SetUp = func(ctx context.Context, _ cloud.Instance, _ func()) error {
				began = time.Now()
				if tt.stopped {
					time.AfterFunc(10*time.Minute, func() { cancel(errors.New("stopped")) })
				}
				return sleep(ctx, 20*time.Minute)
			}
			r, err := Build(ctx, b.Config)
			_, free := b.live()
			leases, lerr := os.ReadDir(string(b.Leases))
			home, _ := b.Fake.Account(t.Context())
			switch {
			case errors.Is(err, errEnded) || (err != nil) != tt.stopped:
				t.Errorf("%s: %v", tt.name, err)
			case !tt.left:
				b.nothing(t, map[bool]int{false: 1}[tt.stopped])
			case r.Gone || len(free) != 1 || lerr != nil || len(leases) != 1 || !strings.Contains(err.Error(), "instance "+free[0]+" of launch "+r.Token+" is perhaps left, in account "+home+"; burstd ends it"):
				t.Errorf("%s: gone %v, live %v, leases %v, %v", tt.name, r.Gone, free, leases, err)
			}
		})
	}
}

// TestALaunchIsNotRepeatedInAnotherAccount: its answer was lost in the first.
func TestALaunchIsNotRepeatedInAnotherAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		asked := 0
		b.LoseAnswer(cloudtest.Launch)
		abroad := cloudtest.NewFake(cloudtest.Options{})
		b.Step = func(name string) error {
			if name == "launch" {
				asked++
			}
			return nil
		}
		b.Provider = exchanged{b.Fake, abroad, func() (bool, error) { return asked > 1, nil }}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_, err := Build(ctx, b.Config)
		if err == nil || !strings.Contains(err.Error(), "is perhaps left, in account") || len(abroad.Instances()) != 0 {
			t.Errorf("%v; %d instances in the other account", err, len(abroad.Instances()))
		}
	})
}
