package fleet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud"
)

var now = time.Unix(1_800_000_000, 0)

// text is a choice in words: "a/z1/spot or b/z1/spot", "wait 10s", "none, retry 30s, dear a/z1/spot".
func text(c Choice) string {
	list := func(all []cloud.Offering) string {
		var s []string
		for _, o := range all {
			s = append(s, o.String())
		}
		return strings.Join(s, ",")
	}
	var s string
	switch {
	case c.Offering != (cloud.Offering{}):
		s = c.Offering.String()
		if len(c.Or) > 0 {
			s += " or " + list(c.Or)
		}
	case !c.Wait.IsZero():
		s = fmt.Sprint("wait ", c.Wait.Sub(now))
	default:
		s = fmt.Sprint("none, retry ", c.Retry.Sub(now))
	}
	if len(c.Dear) > 0 {
		s += ", dear " + list(c.Dear)
	}
	if len(c.Unpriced) > 0 {
		s += ", no price " + list(c.Unpriced)
	}
	return s
}

func TestChoose(t *testing.T) {
	price := map[string]float64{"a/spot": 0.3, "b/spot": 0.1, "a/on-demand": 1, "b/on-demand": 0.8}
	cores := map[string]int{"a": 32, "b": 4}
	both := Config{Types: []string{"a", "b"}, Market: SpotThenOnDemand}
	with := func(c Config, change func(*Config)) Config { change(&c); return c }
	timeout := func(c *Config) { c.SpotTimeout = time.Minute }
	ordered := func(by string) func(*Config) { return func(c *Config) { c.Order = by } }
	for _, tt := range []struct {
		name   string
		c      Config
		cool   string // "a/spot 10s, b/spot pause 2s"
		waited time.Duration
		only   string // type
		price  bool
		priced string // what has a price, where one is needed: a part of each
		want   string
	}{
		{name: "the first, and the others of its market", c: both, want: "a/spot or b/spot"},
		{name: "zones", c: Config{Types: []string{"a"}, Zones: []string{"z2", "z1"}}, want: "a/z2/on-demand or a/z1/on-demand"},
		{name: "one cools", c: both, cool: "a/spot 10s", want: "b/spot"},
		{name: "one has cooled", c: both, cool: "a/spot -1s", want: "a/spot or b/spot"},
		{name: "spot cools: on-demand at once without spot_timeout", c: both, cool: "a/spot 10s, b/spot 20s", want: "a/on-demand or b/on-demand"},
		{name: "all cool", c: both, cool: "a/spot 10s, b/spot 20s, a/on-demand 7s, b/on-demand 30s", want: "none, retry 7s"},
		{name: "the first only pauses: it is waited for", c: both, cool: "a/spot pause 2s", want: "wait 2s"},
		{name: "another pauses", c: both, cool: "b/spot pause 2s", want: "a/spot"},
		{name: "what is left of spot pauses: no way to on-demand", c: both, cool: "a/spot 10s, b/spot pause 3s", want: "wait 3s"},
		{name: "on-demand pauses", c: Config{Types: []string{"a"}}, cool: "a/on-demand pause 2s", want: "wait 2s"},

		{name: "spot alone within spot_timeout", c: with(both, timeout), waited: 10 * time.Second, want: "a/spot or b/spot"},
		{name: "spot cools: waits for it", c: with(both, timeout), cool: "a/spot 10s, b/spot 20s", waited: 10 * time.Second, want: "wait 10s"},
		{name: "spot cools: waits for the timeout", c: with(both, timeout), cool: "a/spot 10s, b/spot 20s", waited: 55 * time.Second, want: "wait 5s"},
		{name: "spot_timeout is over: on-demand first", c: with(both, timeout), waited: time.Minute, want: "a/on-demand or b/on-demand"},
		{name: "spot_timeout is over, no on-demand: spot", c: with(both, timeout), cool: "a/on-demand 9s, b/on-demand 9s", waited: time.Minute, want: "a/spot or b/spot"},
		{name: "spot_timeout is over, all cool", c: with(both, timeout), cool: "a/spot 10s, b/spot 20s, a/on-demand 70s, b/on-demand 30s", waited: time.Hour, want: "none, retry 10s"},
		{name: "the clock has been set back", c: with(both, timeout), cool: "a/spot 90s, b/spot 90s", waited: -time.Hour, want: "wait 1m0s"},

		{name: "as the job's other nodes", c: both, only: "b", want: "b/spot"},
		{name: "as they are, spot cools", c: both, only: "b", cool: "b/spot 5s", want: "b/on-demand"},
		{name: "as they are, all cools", c: both, only: "b", cool: "b/spot 5s, b/on-demand 6s", want: "none, retry 5s"},

		{name: "by price", c: with(both, ordered(ByPrice)), price: true, want: "b/spot or a/spot"},
		{name: "by price per core", c: with(both, ordered(ByPricePerCore)), price: true, want: "a/spot or b/spot"},
		{name: "by price, none known", c: with(both, ordered(ByPrice)), want: "a/spot or b/spot"},
		{name: "what has no price comes last, as written", c: Config{Types: []string{"y", "b", "x", "a"}, Market: SpotOnly, Order: ByPrice}, price: true,
			want: "b/spot or a/spot,y/spot,x/spot"},

		{name: "too dear", c: with(both, func(c *Config) { c.MaxPrice = 0.2 }), price: true, want: "b/spot, dear a/spot"},
		{name: "a limit, prices not known", c: with(both, func(c *Config) { c.MaxPrice = 0.2 }), want: "a/spot or b/spot"},
		{name: "all of spot too dear: on-demand does not wait", c: with(both, func(c *Config) { c.MaxPrice, c.SpotTimeout = 0.01, time.Minute }), price: true,
			want: "a/on-demand or b/on-demand, dear a/spot,b/spot"},
		{name: "nothing but what is too dear", c: Config{Types: []string{"a"}, Market: SpotOnly, MaxPrice: 0.2}, price: true, want: "none, retry 10m0s, dear a/spot"},

		{name: "what has no price is passed over", c: both, priced: "b/", want: "b/spot"},
		{name: "and is not what cools", c: both, priced: "b/", cool: "b/spot 10s, b/on-demand 20s", want: "none, retry 10s"},
		{name: "no price of spot: it is waited for as long as spot", c: with(both, timeout), priced: "on-demand", waited: 10 * time.Second, want: "wait 50s, no price a/spot,b/spot"},
		{name: "no price of spot, spot_timeout is over", c: with(both, timeout), priced: "on-demand", waited: time.Minute, want: "a/on-demand or b/on-demand"},
		{name: "no price of spot, and no spot_timeout", c: both, priced: "on-demand", want: "a/on-demand or b/on-demand, no price a/spot,b/spot"},
		{name: "no price on demand, spot_timeout is over", c: with(both, timeout), priced: "/spot", waited: time.Minute, want: "a/spot or b/spot, no price a/on-demand,b/on-demand"},
		{name: "no price of spot, on-demand cools", c: both, priced: "on-demand", cool: "a/on-demand 10s, b/on-demand 20s",
			want: "none, retry 10s, no price a/spot,b/spot"},
		{name: "none at all", c: Config{Types: []string{"a"}, Market: SpotOnly}, priced: "b/", want: "none, retry 10m0s, no price a/spot"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := Query{Now: now, Waited: tt.waited, Cool: map[cloud.Offering]Cooldown{}}
			for _, part := range strings.FieldsFunc(tt.cool, func(r rune) bool { return r == ',' }) {
				f := strings.Fields(part)
				name, market, _ := strings.Cut(f[0], "/")
				d, err := time.ParseDuration(f[len(f)-1])
				if err != nil {
					t.Fatal(err)
				}
				cool := Cooldown{Failures: 1, Until: now.Add(d)}
				if f[1] == "pause" {
					cool.Failures = 0
				}
				q.Cool[cloud.Offering{Type: name, Market: cloud.Market(market)}] = cool
			}
			if tt.only != "" {
				q.Only = func(o cloud.Offering) bool { return o.Type == tt.only }
			}
			if tt.priced != "" {
				q.Priced = func(o cloud.Offering) bool { return strings.Contains(o.String(), tt.priced) }
			}
			if tt.price {
				q.Price = func(o cloud.Offering) (float64, bool) { p, ok := price[o.String()]; return p, ok }
				q.Cores = func(name string) (int, bool) { n, ok := cores[name]; return n, ok }
			}
			if got := text(tt.c.Choose(q)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestChooseKeepsItsPromises: whatever cools, exactly one answer is given, no
// offering that cools or pauses is chosen, no market is mixed, and every wait ends.
func TestChooseKeepsItsPromises(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Types: []string{"a", "b", "c"}, Zones: []string{"y", "z"}, Market: rapid.SampledFrom([]string{SpotOnly, OnDemandOnly, SpotThenOnDemand}).Draw(t, "market"),
			SpotTimeout: time.Duration(rapid.IntRange(0, 60).Draw(t, "timeout")) * time.Second}
		q := Query{Now: now, Waited: time.Duration(rapid.IntRange(-10, 120).Draw(t, "waited")) * time.Second, Cool: map[cloud.Offering]Cooldown{}}
		for _, o := range c.Offerings() {
			if rapid.Bool().Draw(t, "cools") {
				q.Cool[o] = Cooldown{Failures: rapid.IntRange(0, 2).Draw(t, "failures"), Until: now.Add(time.Duration(rapid.IntRange(-5, 90).Draw(t, "until")) * time.Second)}
			}
		}
		ch := c.Choose(q)
		answers := 0
		for _, is := range []bool{ch.Offering != (cloud.Offering{}), !ch.Wait.IsZero(), !ch.Retry.IsZero()} {
			if is {
				answers++
			}
		}
		if answers != 1 {
			t.Fatalf("%d answers in %+v", answers, ch)
		}
		if !ch.Wait.IsZero() && !ch.Wait.After(now) || !ch.Retry.IsZero() && !ch.Retry.After(now) {
			t.Fatalf("a wait for the past: %+v", ch)
		}
		if ch.Offering == (cloud.Offering{}) {
			return
		}
		for _, o := range append([]cloud.Offering{ch.Offering}, ch.Or...) {
			if q.Cool[o].Until.After(now) || o.Market != ch.Offering.Market {
				t.Fatalf("%s is chosen beside %s: %+v", o, ch.Offering, q.Cool[o])
			}
		}
	})
}
