package budget

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud/price"
)

var noon = time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)

// launch is of one instance at a dollar an hour, by the second, for d.
func launch(d time.Duration) Commitment {
	return Commitment{What: "small", Launched: noon, From: noon, Until: noon.Add(d), USDPerHour: 1, Increment: price.PerSecond,
		Owners: []Owner{{Job: 7, User: "ann", Account: "physics", Until: noon.Add(d)}}}
}

func TestTry(t *testing.T) {
	hourly := launch(10 * time.Minute)
	hourly.Increment = price.PerHour
	unpriced := launch(time.Hour)
	unpriced.USDPerHour = 0
	running := launch(5 * time.Hour)
	shared := launch(5 * time.Hour)
	shared.Owners = append(shared.Owners, Owner{Job: 8, User: "ann", Account: "physics", Until: noon.Add(2 * time.Hour)},
		Owner{Job: 9, User: "bob", Account: "bio", Until: noon.Add(2 * time.Hour)})
	day := Key{Scope{Kind: Cluster}, Day, time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC).Unix()}
	for _, c := range []struct {
		name      string
		caps      Caps
		spent     map[Key]Sum
		committed []Commitment
		launch    Commitment
		why       string // empty: it may be launched
		room      string
	}{
		{name: "no cap", launch: launch(1000 * time.Hour)},
		{name: "no cap, no price", launch: unpriced},
		{name: "it fits to the cent", caps: Caps{Cluster: Limits{Day: 5}}, launch: launch(5 * time.Hour)},
		{name: "a second too long", caps: Caps{Cluster: Limits{Day: 5}}, launch: launch(5*time.Hour + time.Second), why: "more than all of it"},
		{name: "beside what is committed", caps: Caps{Cluster: Limits{Day: 5}}, committed: []Commitment{running}, launch: launch(time.Minute),
			why: "the cluster's budget of 5.00 USD a day: 0.00 are left on 2026-01-30, and by the time limit this could cost 0.02", room: "2026-01-31"},
		{name: "beside what is spent", caps: Caps{Cluster: Limits{Day: 5}}, spent: map[Key]Sum{day: {USD: 3}}, launch: launch(2*time.Hour + time.Minute),
			why: "2.00 are left on 2026-01-30", room: "2026-01-31"},
		{name: "with what is spent", caps: Caps{Cluster: Limits{Day: 5}}, spent: map[Key]Sum{day: {USD: 3}}, launch: launch(2 * time.Hour)},
		{name: "tomorrow is too full", caps: Caps{Cluster: Limits{Day: 15}}, committed: []Commitment{launch(20 * time.Hour)}, launch: launch(16 * time.Hour), why: "on 2026-01-30", room: "2026-01-31"},
		{name: "only tomorrow", caps: Caps{Cluster: Limits{Day: 25}}, committed: []Commitment{launch(36 * time.Hour)}, launch: launch(14 * time.Hour), why: "1.00 are left on 2026-01-31", room: "2026-02-01"},
		{name: "the next month", caps: Caps{Cluster: Limits{Month: 40}}, launch: launch(100 * time.Hour), why: "64.00 in 2026-02", room: "2026-03-01"},
		{name: "the part of each month", caps: Caps{Cluster: Limits{Month: 64}}, launch: launch(100 * time.Hour)},
		{name: "the user's", caps: Caps{Users: map[string]Limits{"ann": {Day: 4}}}, launch: launch(5 * time.Hour), why: "user ann's budget of 4.00 USD a day"},
		{name: "another user's", caps: Caps{Users: map[string]Limits{"bob": {Day: 4}}}, launch: launch(5 * time.Hour)},
		{name: "the account's", caps: Caps{Accounts: map[string]Limits{"physics": {Month: 4}}}, launch: launch(5 * time.Hour), why: "account physics's budget of 4.00 USD a month"},
		{name: "the job's", caps: Caps{Jobs: map[uint32]float64{7: 4}}, launch: launch(5 * time.Hour), why: "job 7's budget of 4.00 USD: by the time limit"},
		{name: "the job's earlier attempts", caps: Caps{Jobs: map[uint32]float64{7: 6}}, spent: map[Key]Sum{{Scope{Job, "7"}, Whole, 0}: {USD: 2}}, launch: launch(5 * time.Hour),
			why: "job 7's budget of 6.00 USD: 4.00 are left, and by the time limit this could cost 5.00"},
		{name: "another job's", caps: Caps{Jobs: map[uint32]float64{8: 4}}, launch: launch(5 * time.Hour)},
		{name: "a user's jobs on one instance pay it once", caps: Caps{Users: map[string]Limits{"ann": {Day: 5}}}, launch: shared},
		{name: "one that may have it to itself pays all of it", caps: Caps{Users: map[string]Limits{"bob": {Day: 1.5}}}, launch: shared, why: "user bob's budget of 1.50 USD a day: by the time limit this could cost 2.00"},
		{name: "the begun hour", caps: Caps{Cluster: Limits{Day: 0.9}}, launch: hourly, why: "could cost 1.00"},
		{name: "no price", caps: Caps{Cluster: Limits{Day: 100}}, launch: unpriced, why: "budget of 100.00 USD a day: the price of small is not known", room: "2026-01-31"},
		{name: "no price of what runs", caps: Caps{Cluster: Limits{Day: 100}}, committed: []Commitment{unpriced}, launch: launch(time.Hour), why: "the price of small is not known"},
		{name: "no price of what ran", caps: Caps{Cluster: Limits{Day: 100}}, spent: map[Key]Sum{day: {Unpriced: 1}}, launch: launch(time.Hour), why: "part of what was used"},
		{name: "a price for what has none", caps: Caps{Cluster: Limits{Day: 5}, Unknown: 2}, committed: []Commitment{unpriced}, spent: map[Key]Sum{day: {Unpriced: 1}}, launch: launch(time.Hour)},
		{name: "and no more", caps: Caps{Cluster: Limits{Day: 5}, Unknown: 2}, committed: []Commitment{unpriced}, spent: map[Key]Sum{day: {Unpriced: 1}}, launch: launch(61 * time.Minute), why: "1.00 are left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := Open(c.caps, noon, c.spent, c.committed)
			r, ok := b.Try(c.launch)
			text := ""
			if !ok {
				text = r.String()
			}
			if ok != (c.why == "") || !strings.Contains(text, c.why) {
				t.Fatalf("%v, %q; want %q", ok, text, c.why)
			}
			if c.room != "" && r.Room().Format(time.DateOnly) != c.room {
				t.Errorf("room at %s, want %s", r.Room(), c.room)
			}
			if again, twice := b.Try(c.launch); !ok && (twice || again != r) {
				t.Errorf("what was refused is not the same again: %v", again)
			}
		})
	}
}

// TestPublic: what all users can read has no amounts.
func TestPublic(t *testing.T) {
	month := Caps{}.Month(noon)
	for want, r := range map[string]Refusal{
		"account physics's budget for 2026-01 is used up":                                                {Scope: Scope{Account, "physics"}, Period: month, Cap: 300, Left: -1, Needs: 20},
		"the cluster's budget for 2026-01-30: by the time limit this could cost more than is left of it": {Scope: Scope{Kind: Cluster}, Period: Caps{}.Day(noon), Cap: 300, Left: 10, Needs: 20},
		"job 7's budget: by the time limit this could cost more than all of it":                          {Scope: Scope{Job, "7"}, Period: Period{Length: Whole}, Cap: 30, Left: 30, Needs: 45},
		"user ann's budget for 2026-01: the price of x is not known, and there is no unknown_price":      {Scope: Scope{User, "ann"}, Period: month, Cap: 300, Left: 10, Unpriced: "x"},
	} {
		if got := r.Public(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestVeryLongLimits: no limit is looked into for more than some months.
func TestVeryLongLimits(t *testing.T) {
	b := Open(Caps{Cluster: Limits{Day: 25, Month: 800}}, noon, nil, []Commitment{launch(200 * 365 * 24 * time.Hour)})
	if n := len(b.held); n < 13*30 || n > 14*32 {
		t.Errorf("it is committed in %d periods", n)
	}
	if r, ok := b.Try(launch(364 * 24 * time.Hour)); ok || r.To.Sub(noon) < 362*24*time.Hour {
		t.Errorf("%v, %v", r, ok)
	}
}

// TestTogether: the launches of a job are committed all or none.
func TestTogether(t *testing.T) {
	b := Open(Caps{Cluster: Limits{Day: 5}}, noon, nil, nil)
	if _, ok := b.Try(launch(3*time.Hour), launch(3*time.Hour)); ok {
		t.Error("both are launched")
	}
	if r, ok := b.Try(launch(5 * time.Hour)); !ok {
		t.Errorf("of what was refused something is committed: %s", r)
	}
}

// TestPeriods: each moment lies in one day and one month, and they follow each other, also where
// clocks are set at midnight.
func TestPeriods(t *testing.T) {
	var zones []*time.Location
	for _, name := range []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Africa/Cairo", "Asia/Beirut", "Pacific/Apia"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		zones = append(zones, zone)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := Caps{Location: rapid.SampledFrom(zones).Draw(t, "zone")}
		at := time.Unix(rapid.Int64Range(1262304000, 1893456000).Draw(t, "at"), 0)
		if rapid.Bool().Draw(t, "at a boundary") {
			at = c.Day(at).To.Add(time.Duration(rapid.Int64Range(-7200, 7200).Draw(t, "off")) * time.Second)
		}
		for _, of := range []func(time.Time) Period{c.Day, c.Month} {
			p := of(at)
			if at.Before(p.From) || !at.Before(p.To) {
				t.Fatalf("%s does not lie in %v", at, p)
			}
			if next := of(p.To); !next.From.Equal(p.To) || of(p.From) != p || of(p.To.Add(-1)) != p {
				t.Fatalf("after %v comes %v", p, next)
			}
		}
	})
}

// TestNeverOver: whatever is launched after it was tried, and ends before or at its limit,
// does not cost more than a cap in any period, though the ledger books it at any time.
func TestNeverOver(t *testing.T) {
	type instance struct {
		Commitment
		end time.Time
	}
	users := []string{"ann", "bob"}
	fourWeeks := price.PerHour.UpTo(1, 672)
	rapid.Check(t, func(t *rapid.T) {
		usd := func(what string) float64 {
			return rapid.SampledFrom([]float64{0, 0, 3, 10, 50, 400}).Draw(t, what)
		}
		caps := Caps{Cluster: Limits{usd("day"), usd("month")}, Users: map[string]Limits{"ann": {usd("ann's day"), usd("ann's month")}}, Jobs: map[uint32]float64{1: usd("job 1")}}
		now := noon.Add(time.Duration(rapid.IntRange(0, 48*60).Draw(t, "start")) * time.Minute)
		var all []instance
		// cost is what the cloud bills up to a time, the plain way: unit by unit.
		cost := func(i instance, upTo time.Time, p Period) (usd float64) {
			to := i.Launched.Add(i.Increment.Billed(i.end.Sub(i.Launched)))
			if upTo.Before(to) {
				to = upTo
			}
			months := map[time.Month]time.Duration{}
			for at := i.Launched; at.Before(to); at = at.Add(time.Hour) {
				hour := min(time.Hour, to.Sub(at))
				if i.Increment.Month > 0 {
					if m := at.UTC().Month(); months[m] >= i.Increment.Month {
						continue
					} else {
						months[m] += time.Hour
					}
				}
				from, till := at, at.Add(hour)
				if p.Length != Whole {
					from, till = later(from, p.From), sooner(till, p.To)
				}
				if till.After(from) {
					usd += till.Sub(from).Hours() * i.USDPerHour
				}
			}
			return usd
		}
		books := func() *Books {
			spent, committed := map[Key]Sum{}, []Commitment{}
			for _, i := range all {
				// The ledger has booked some of what is over, and all of what ended an hour ago.
				booked := i.Launched.Add(time.Duration(rapid.Int64Range(0, int64(now.Sub(i.Launched))).Draw(t, "booked")))
				closed := now.After(i.end) && (rapid.Bool().Draw(t, "closed") || now.Sub(i.end) > time.Hour)
				if closed || booked.After(i.end) {
					booked = i.end.Add(1000 * time.Hour) // the rest of the begun unit too
				}
				b := &Books{caps: caps}
				for _, s := range []Scope{{Kind: Cluster}, {User, i.Owners[0].User}, {Job, "1"}} {
					if s.Kind == Job && i.Owners[0].Job != 1 {
						continue
					}
					for _, p := range b.periods(s, i.Launched, i.end.Add(time.Hour)) {
						spent[KeyOf(s, p)] = spent[KeyOf(s, p)].plus(Sum{USD: cost(i, booked, p)})
					}
				}
				if !closed && !booked.After(i.end) {
					c := i.Commitment
					c.From = booked
					if now.After(i.end) { // it has ended
						c.Until = i.end
						c.Owners = []Owner{{Job: i.Owners[0].Job, User: i.Owners[0].User, Until: i.end}}
					}
					committed = append(committed, c)
				}
			}
			return Open(caps, now, spent, committed)
		}
		for range rapid.IntRange(1, 25).Draw(t, "orders") {
			now = now.Add(time.Duration(rapid.IntRange(0, 12*60).Draw(t, "wait")) * time.Minute)
			d := time.Duration(rapid.IntRange(1, 72*60).Draw(t, "limit")) * time.Minute
			c := Commitment{What: "x", Launched: now, From: now, Until: now.Add(d), USDPerHour: rapid.SampledFrom([]float64{0.1, 1, 7}).Draw(t, "price"),
				Increment: rapid.SampledFrom([]price.Increment{price.PerSecond, price.PerHour, fourWeeks}).Draw(t, "increment"),
				Owners:    []Owner{{Job: rapid.Uint32Range(1, 3).Draw(t, "job"), User: rapid.SampledFrom(users).Draw(t, "user"), Until: now.Add(d)}}}
			if _, ok := books().Try(c); ok {
				life := time.Duration(rapid.Int64Range(1, int64(d)).Draw(t, "life"))
				all = append(all, instance{c, now.Add(life)})
			}
		}
		check := func(s Scope, cap float64, p Period) {
			sum := 0.0
			for _, i := range all {
				if s.Kind == User && i.Owners[0].User != s.Name || s.Kind == Job && i.Owners[0].Job != 1 {
					continue
				}
				sum += cost(i, i.end.Add(1000*time.Hour), p)
			}
			if cap > 0 && sum > cap+1e-6 {
				t.Fatalf("%v costs %.4f in %v, and its cap is %.2f", s, sum, p, cap)
			}
		}
		for at := noon.AddDate(0, 0, -1); at.Before(now.AddDate(0, 0, 5)); at = at.AddDate(0, 0, 1) {
			check(Scope{Kind: Cluster}, caps.Cluster.Day, caps.Day(at))
			check(Scope{Kind: Cluster}, caps.Cluster.Month, caps.Month(at))
			check(Scope{User, "ann"}, caps.Users["ann"].Day, caps.Day(at))
			check(Scope{User, "ann"}, caps.Users["ann"].Month, caps.Month(at))
		}
		check(Scope{Job, "1"}, caps.Jobs[1], Period{Length: Whole})
	})
}

// TestBookingMovesNothing: what is booked is committed no more, to the cent.
func TestBookingMovesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := launch(time.Duration(rapid.IntRange(1, 60*24*60).Draw(t, "limit")) * time.Minute)
		c.Increment = rapid.SampledFrom([]price.Increment{price.PerSecond, price.PerHour, price.PerHour.UpTo(1, 672)}).Draw(t, "increment")
		p := Caps{}.Day(noon.AddDate(0, 0, rapid.IntRange(0, 60).Draw(t, "day")))
		if rapid.Bool().Draw(t, "month") {
			p = Caps{}.Month(p.From)
		}
		end := c.end(c.Until)
		cut := noon.Add(time.Duration(rapid.Int64Range(0, int64(end.Sub(noon))).Draw(t, "booked")))
		after := c
		after.From = cut
		rows := 0.0 // as the ledger has them: from noon to the cut, without what is free
		from, to := later(noon, p.From), sooner(cut, p.To)
		if to.After(from) {
			rows = to.Sub(from).Hours()
			for _, s := range c.Increment.Free(noon, from, to) {
				rows -= s.To.Sub(s.From).Hours()
			}
		}
		if whole, sum := c.hours(p, c.Until), rows+after.hours(p, c.Until); math.Abs(whole-sum) > 1e-9 {
			t.Fatalf("%g hours in %v, and %g when %s is booked", whole, p, sum, cut)
		}
	})
}

func TestRows(t *testing.T) {
	caps := Caps{Cluster: Limits{Day: 20, Month: 100}, Accounts: map[string]Limits{"physics": {Month: 50}}, Jobs: map[uint32]float64{7: 30}}
	spent := map[Key]Sum{KeyOf(Scope{Kind: Cluster}, caps.Day(noon)): {USD: 4}, KeyOf(Scope{Kind: Cluster}, caps.Month(noon)): {USD: 40, Unpriced: 1}}
	rows := Open(caps, noon, spent, []Commitment{launch(16 * time.Hour)}).Rows()
	if len(rows) != 4 {
		t.Fatalf("%+v", rows)
	}
	for n, want := range []Row{
		{Scope: Scope{Kind: Cluster}, Cap: 20, Spent: 4, Committed: 12},
		{Scope: Scope{Kind: Cluster}, Cap: 100, Spent: 40, Committed: 16, Unpriced: 1},
		{Scope: Scope{Account, "physics"}, Cap: 50, Committed: 16},
		{Scope: Scope{Job, "7"}, Cap: 30, Committed: 16},
	} {
		got := rows[n]
		want.Period = got.Period
		if got != want {
			t.Errorf("row %d is %+v, want %+v", n, got, want)
		}
	}
	if r := rows[0]; r.Left() != 4 || r.Used() != 80 {
		t.Errorf("%g left, %g %% used", r.Left(), r.Used())
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
