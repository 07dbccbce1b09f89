package vultr

import (
	"testing"
	"time"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud"
)

func TestState(t *testing.T) {
	now := time.Now()
	young, old := now.Add(-time.Minute), now.Add(-2*haltedAfter)
	for _, tt := range []struct {
		name string
		m    machine
		want cloud.State
	}{
		{"just asked for", machine{status: "pending", power: "running", server: "none", created: young}, cloud.Pending},
		{"active, not on yet", machine{status: "active", power: "stopped", server: "locked", created: young}, cloud.Pending},
		{"installed", machine{status: "active", power: "running", server: "installingbooting", created: young}, cloud.Pending},
		{"up", machine{status: "active", power: "running", server: "ok", created: young}, cloud.Running},
		{"stopped so early that it is its boot", machine{status: "active", power: "stopped", server: "ok", created: young}, cloud.Pending},
		{"stopped by somebody", machine{status: "active", power: "stopped", server: "ok", created: old}, cloud.Terminating},
		{"locked for long", machine{status: "active", power: "stopped", server: "locked", created: old}, cloud.Pending},
		{"suspended", machine{status: "suspended", power: "running", server: "ok", created: young}, cloud.Terminating},
		{"resized", machine{status: "resizing", power: "running", server: "ok", created: old}, cloud.Pending},
		{"metal is installed for long", machine{metal: true, status: "pending", power: "stopped", created: now.Add(-20 * time.Minute)}, cloud.Pending},
		{"metal up", machine{metal: true, status: "active", power: "running", created: old}, cloud.Running},
		{"metal up, without a word of its power", machine{metal: true, status: "active", created: young}, cloud.Running},
		{"metal up, with another one", machine{metal: true, status: "active", power: "unknown", created: young}, cloud.Running},
		{"metal stopped so early that it is its boot", machine{metal: true, status: "active", power: "stopped", created: young}, cloud.Pending},
		{"not metal, without a word of its power", machine{status: "active", server: "ok", created: young}, cloud.Pending},
		{"metal installed, without a word of its power", machine{metal: true, status: "pending", created: young}, cloud.Pending},
		{"metal stopped", machine{metal: true, status: "active", power: "stopped", created: old}, cloud.Terminating},
		{"a word of tomorrow", machine{status: "hibernating", power: "running", server: "ok"}, cloud.Pending},
		{"no date", machine{status: "active", power: "stopped", server: "ok"}, cloud.Pending},
	} {
		if got := tt.m.state(now); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestAddr(t *testing.T) {
	vpc := []govultr.VPCNetworkInfo{{ID: "x", Subnet: "10.1.96.3"}}
	for _, tt := range []struct {
		name  string
		m     machine
		inVPC bool
		want  string
	}{
		{"public", machine{mainIP: "192.0.2.1", internalIP: "10.1.96.3"}, false, "192.0.2.1"},
		{"none yet", machine{mainIP: "0.0.0.0"}, false, ""},
		{"empty", machine{}, false, ""},
		{"IPv6", machine{mainIP: "2001:db8::1"}, false, "2001:db8::1"},
		{"in the VPC", machine{mainIP: "192.0.2.1", internalIP: "10.1.96.3"}, true, "10.1.96.3"},
		{"in the VPC, by its list", machine{mainIP: "192.0.2.1", vpcs: vpc}, true, "10.1.96.3"},
		{"not in the VPC yet: not the public one", machine{mainIP: "192.0.2.1"}, true, ""},
		{"a network is no address", machine{vpcs: []govultr.VPCNetworkInfo{{Subnet: "10.1.96.0/20"}}}, true, ""},
	} {
		if got := tt.m.addr(tt.inVPC); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestWhen(t *testing.T) {
	for text, want := range map[string]int64{"2020-10-10T01:56:20+00:00": 1602294980, "2017-08-25 12:23:45": 1503663825, "2024-12-02T10:19:45-05:00": 1733152785} {
		if got := when(text).Unix(); got != want {
			t.Errorf("%s is %d, want %d", text, got, want)
		}
	}
	if !when("yesterday").IsZero() || !when("").IsZero() {
		t.Error("what is no time is one")
	}
}
