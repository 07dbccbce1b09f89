package conf

import "testing"

// TestLockedMemory: with EFA ranks have slurmd's limit of locked memory, and what the site says of
// other limits stays.
func TestLockedMemory(t *testing.T) {
	for _, c := range []struct {
		except, only string
		level        Level
		key, want    string
	}{
		{"", "", Missing, except, "MEMLOCK"},
		{"", "ALL", Missing, except, "MEMLOCK"}, // as slurmctld shows the default
		{"MEMLOCK", "", OK, except, "MEMLOCK"},
		{"rlimit_memlock,CORE", "", OK, except, "rlimit_memlock,CORE"},
		{"ALL", "", OK, except, "ALL"},
		{"CORE", "", Wrong, except, "CORE,MEMLOCK"},
		{"NONE", "", Wrong, except, "MEMLOCK"},
		{"", "NONE", OK, only, "NONE"},
		{"", "STACK,NOFILE", OK, only, "STACK,NOFILE"},
		{"", "STACK,MEMLOCK", Wrong, only, "STACK"},
		{"", "MEMLOCK", Wrong, only, "NONE"},
	} {
		in := input()
		site := Site{Settings: map[string]string{"propagateresourcelimitsexcept": c.except, "propagateresourcelimits": c.only}}
		if got := memlock(site, in); len(got) > 0 {
			t.Errorf("%+v, without EFA: %+v", c, got)
		}
		if hands := HandsOnMemlock(site); hands != (c.level != OK) {
			t.Errorf("%+v: handed on: %t", c, hands)
		}
		in.Pools[1].EFA = true
		got := memlock(site, in)
		if len(got) != 1 || got[0].Level != c.level || got[0].Key != c.key || got[0].Want != c.want {
			t.Errorf("%+v: %+v", c, got)
			continue
		}
		// With the fragment the site is as it should be, and its fragment the same.
		have := map[string]string{"propagateresourcelimitsexcept": c.except, "propagateresourcelimits": c.only}
		if c.key == except {
			have["propagateresourcelimitsexcept"] = got[0].Want
		} else {
			have["propagateresourcelimits"] = got[0].Want
		}
		if again := memlock(Site{Settings: have}, in); len(again) != 1 || again[0].Level != OK || again[0].Key != c.key || again[0].Want != c.want {
			t.Errorf("%+v, with the fragment: %+v", c, again)
		}
	}
}
