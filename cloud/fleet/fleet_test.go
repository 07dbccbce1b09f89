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

// TestWhole: what came short is remembered for launches of more, and for as long as it is
// paid for, through failures and successes of smaller ones.
func TestWhole(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	paid := now.Add(time.Hour)
	c := Cooldown{}.Fail(now)
	c.Most, c.Paid = 7, paid
	for _, tt := range []struct {
		name  string
		c     Cooldown
		nodes int
		after time.Duration
		until time.Time
	}{
		{"as many as came", c, 7, 0, c.Until},
		{"more", c, 8, 0, paid},
		{"more, of nodes that serve on their own", c, 0, 0, c.Until},
		{"more, later", c, 8, time.Hour, c.Until},
		{"after another failure", c.Fail(now), 8, 0, paid},
		{"after as many came again", c.Came(7, now), 8, 0, paid},
		{"and of as many", c.Came(7, now), 7, 0, time.Time{}},
		{"after more came", c.Came(8, now), 40, 0, time.Time{}},
		{"nothing came short", Cooldown{Failures: 1, Until: now}, 40, 0, now},
	} {
		if got := tt.c.Whole(tt.nodes, now.Add(tt.after)); !got.Until.Equal(tt.until) || got.Until.After(now) && got.Failures == 0 {
			t.Errorf("%s: %+v, want it until %s", tt.name, got, tt.until)
		}
	}
	if got := c.Came(1, paid); got != (Cooldown{}) {
		t.Errorf("when it is not paid for any more, after some came: %+v", got)
	}
}
