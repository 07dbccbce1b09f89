package fleet

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestOfferings(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    Config
		want []string
	}{
		{"on demand is the default", Config{Types: []string{"a"}}, []string{"a/on-demand"}},
		{"types before zones, as written", Config{Types: []string{"b", "a"}, Zones: []string{"z2", "z1"}, Market: SpotOnly},
			[]string{"b/z2/spot", "b/z1/spot", "a/z2/spot", "a/z1/spot"}},
		{"all spot before on demand", Config{Types: []string{"a", "b"}, Zones: []string{"z"}, Market: SpotThenOnDemand},
			[]string{"a/z/spot", "b/z/spot", "a/z/on-demand", "b/z/on-demand"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, o := range tt.c.Offerings() {
				got = append(got, o.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    Config
		ok   bool
	}{
		{"a type is enough", Config{Types: []string{"a"}}, true},
		{"no type", Config{Market: SpotOnly}, false},
		{"a market that is none", Config{Types: []string{"a"}, Market: "cheap"}, false},
		{"an order", Config{Types: []string{"a"}, Order: ByPrice}, true},
		{"an order that is none", Config{Types: []string{"a"}, Order: "size"}, false},
		{"a negative price", Config{Types: []string{"a"}, MaxPrice: -1}, false},
	} {
		if err := tt.c.Validate(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestCooldownGrows: each failure in a row cools for longer, within a fifth,
// and never for more than ten minutes; so ten minutes hold few tries.
func TestCooldownGrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "now"), 0)
		var c Cooldown
		var waits []time.Duration
		for range rapid.IntRange(1, 100).Draw(t, "failures") {
			c = c.Fail(now)
			waits = append(waits, c.Until.Sub(now))
		}
		if waits[0] < 24*time.Second || waits[0] > 30*time.Second {
			t.Fatalf("the first cooldown is %s", waits[0])
		}
		if slices.Max(waits) > 10*time.Minute || len(waits) > 6 && waits[len(waits)-1] < 8*time.Minute {
			t.Fatalf("cooldowns %v", waits)
		}
		if c.Failures != len(waits) {
			t.Fatalf("%d failures are counted as %d", len(waits), c.Failures)
		}
	})
}
