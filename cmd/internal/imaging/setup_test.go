package imaging

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cloud/cloudtest"
	"github.com/burst-hpc/burst/cloud/fleet"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/power"
)

// screen is a cloud whose instances' consoles show the next text at each look.
type screen struct {
	*cloudtest.Fake
	texts []string
}

var notYet = &cloud.Error{Kind: cloud.Transient, Op: "console", Err: errors.New("no console yet")}

func (s *screen) Console(context.Context, string) (string, error) {
	text := s.texts[0]
	if len(s.texts) > 1 {
		s.texts = s.texts[1:]
	}
	if text == "" {
		return "", notYet
	}
	return text, nil
}

func byUserData() config.Pool {
	return config.Pool{Power: power.Pool{Name: "p", Image: "ami-1", Fleet: fleet.Config{Types: []string{"small", "big"}, Zones: []string{"a", "b"}}, Tags: map[string]string{"k": "v"}},
		Boot: bootstrap.Config{URLs: []string{"http://10.0.0.5:9811"}, ConfServers: []string{"ctl"}, MungeKey: "ssm:/key", Setup: []string{"make"}}}
}

// TestWatch: the console tells, late or after errors, how the setup has ended.
func TestWatch(t *testing.T) {
	for name, tt := range map[string]struct {
		texts []string
		err   string // "": none
		tail  string
	}{
		"ready":      {[]string{"", "boot", "burst-bootstrap: step setup\n", "x\nburst-bootstrap: image ready\n"}, "", ""},
		"failed":     {[]string{"burst-bootstrap: step setup\n", "burst-bootstrap: FAILED: step setup: setup line 1: \"make\": exit 2\nno rule\n"}, `setup line 1: "make": exit 2`, "no rule"},
		"never":      {[]string{"burst-bootstrap: step setup\n"}, "the console does not show it", ""},
		"no console": {[]string{""}, "no console yet", ""},
		"another's":  {[]string{"burst-bootstrap: image ready? not yet\n"}, "the console does not show it", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := Way{Pool: byUserData(), Provider: &screen{cloudtest.NewFake(cloudtest.Options{}), tt.texts}, Limit: time.Hour}
				err := w.SetUp(t.Context(), cloud.Instance{ID: "i-1", Addr: "10.0.0.9"}, func() {})
				if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("%v, want %q", err, tt.err)
				}
				var failed *SetupError
				if errors.As(err, &failed) != (tt.tail != "") || failed != nil && failed.Tail != tt.tail {
					t.Errorf("the output is %+v, want %q", failed, tt.tail)
				}
			})
		})
	}
}

func TestRequest(t *testing.T) {
	fake := cloudtest.NewFake(cloudtest.Options{Choice: true})
	r, err := Way{Pool: byUserData(), Provider: &screen{Fake: fake}}.Request(t.Context(), "c")
	b := cloud.Offering{Type: "small", Zone: "b", Market: cloud.OnDemand}
	if err != nil || r.Offering != small || len(r.Or) != 1 || r.Or[0] != b || r.Cluster != "c" || r.Pool != "p" || r.Image != "ami-1" || r.Tags["k"] != "v" {
		t.Errorf("%+v, %v", r, err)
	}
	want, err := bootstrap.UserData(byUserData().Boot.ForImage())
	node, nerr := bootstrap.UserData(byUserData().Boot)
	if err != nil || nerr != nil || r.UserData != want || want == node {
		t.Errorf("the user data is not the image's: %v, %v", err, nerr)
	}
	overSSH := byUserData()
	overSSH.SSH = &config.SSH{User: "root"}
	if r, err := (Way{Pool: overSSH, Provider: cloudtest.NewFake(cloudtest.Options{})}).Request(t.Context(), "c"); err != nil || r.UserData != "" || len(r.Or) != 0 {
		t.Errorf("over SSH, without a choice: %+v, %v", r, err)
	}
	own, none := byUserData(), byUserData()
	own.Boot = bootstrap.Config{}
	none.Power.Fleet.Types = nil
	for want, w := range map[string]Way{
		"user_data of its own":    {Pool: own, Provider: &screen{Fake: fake}},
		"names no instance type":  {Pool: none, Provider: &screen{Fake: fake}},
		"shows no console to see": {Pool: byUserData(), Provider: fake},
	} {
		if _, err := w.Request(t.Context(), "c"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// TestBuilderType: the provider chooses among the pool's types, in all zones alike.
func TestBuilderType(t *testing.T) {
	fake := cloudtest.NewFake(cloudtest.Options{Choice: true})
	c := &choosing{screen: &screen{Fake: fake}, chosen: "big"}
	r, err := Way{Pool: byUserData(), Provider: c}.Request(t.Context(), "c")
	if err != nil || r.Offering.Type != "big" || len(r.Or) != 1 || r.Or[0].Type != "big" || !c.needs.Console || !slices.Equal(c.needs.Types, []string{"small", "big"}) {
		t.Errorf("%+v, %v; asked for %+v", r, err, c.needs)
	}
	overSSH := byUserData()
	overSSH.SSH = &config.SSH{User: "root"}
	if _, err := (Way{Pool: overSSH, Provider: c}).Request(t.Context(), "c"); err != nil || c.needs.Console {
		t.Errorf("over SSH: %v; asked for %+v", err, c.needs)
	}
	c.chosen = ""
	if _, err := (Way{Pool: byUserData(), Provider: c}).Request(t.Context(), "c"); !errors.Is(err, notYet) {
		t.Error(err)
	}
}

type choosing struct {
	*screen
	chosen string
	needs  cloud.BuilderNeeds
}

func (c *choosing) BuilderType(_ context.Context, n cloud.BuilderNeeds) (string, error) {
	c.needs = n
	if c.chosen == "" {
		return "", notYet
	}
	return c.chosen, nil
}
