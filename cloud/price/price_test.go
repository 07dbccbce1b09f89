package price

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"pgregory.net/rapid"
)

const small = `# a comment
type,zone,market,usd_per_hour,date
c6i.large,us-east-1a,spot,0.031,2026-08-01
# another
c6i.large,,spot,0.040,2026-08-02
 c6i.large, us-east-1a ,on-demand,8.5e-2, 2026-08-01
`

func TestHourly(t *testing.T) {
	table, err := Parse(strings.NewReader(small), "small.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    cloud.Offering
		usd  float64
		ok   bool
	}{
		{"exact zone", cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.Spot}, 0.031, true},
		{"other zone falls back", cloud.Offering{Type: "c6i.large", Zone: "us-east-1b", Market: cloud.Spot}, 0.040, true},
		{"no zone", cloud.Offering{Type: "c6i.large", Market: cloud.Spot}, 0.040, true},
		{"blanks around fields", cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand}, 0.085, true},
		{"no price for all zones", cloud.Offering{Type: "c6i.large", Zone: "us-east-1b", Market: cloud.OnDemand}, 0, false},
		{"unknown type", cloud.Offering{Type: "c7i.large", Market: cloud.Spot}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if usd, ok := table.Hourly(c.o); usd != c.usd || ok != c.ok {
				t.Errorf("Hourly(%s) = %v, %v; want %v, %v", c.o, usd, ok, c.usd, c.ok)
			}
		})
	}
	if _, ok := (Table{}).Hourly(cloud.Offering{Type: "c6i.large"}); ok {
		t.Error("the zero Table knows a price")
	}
	p, _ := table.Price(cloud.Offering{Type: "c6i.large", Market: cloud.Spot})
	if want := time.Date(2026, 8, 2, 0, 0, 0, 0, time.UTC); !p.Date.Equal(want) {
		t.Errorf("Date = %v, want %v", p.Date, want)
	}
}

func TestParseErrors(t *testing.T) {
	const head = "type,zone,market,usd_per_hour,date\n"
	for _, c := range []struct {
		name, text, want string
	}{
		{"empty", "", "f.csv: the table is empty"},
		{"only comments", "# a\n# b\n", "f.csv: the table is empty"},
		{"no header", "\n\nx,,spot,1,2026-01-01\n", "f.csv:3: the first line must be type,zone,market,usd_per_hour,date"},
		{"too few fields", head + "x,spot,1\n", "f.csv:2: 3 fields where 5 are due"},
		{"no type", head + ",,spot,1,2026-01-01\n", "f.csv:2: type is missing"},
		{"market", head + "x,,Spot,1,2026-01-01\n", `f.csv:2: market "Spot" is neither "spot" nor "on-demand"`},
		{"price is no number", head + "x,,spot,$1,2026-01-01\n", `f.csv:2: usd_per_hour "$1" is not a number above zero`},
		{"price zero", head + "x,,spot,0,2026-01-01\n", "is not a number above zero"},
		{"price below zero", head + "x,,spot,-1,2026-01-01\n", "is not a number above zero"},
		{"price NaN", head + "x,,spot,NaN,2026-01-01\n", "is not a number above zero"},
		{"price infinite", head + "x,,spot,Inf,2026-01-01\n", "is not a number above zero"},
		{"price too large", head + "x,,spot,1e999,2026-01-01\n", "is not a number above zero"},
		{"date", head + "x,,spot,1,01/02/2026\n", `f.csv:2: date "01/02/2026" is not a day as in 2026-01-31`},
		{"twice", head + "x,,spot,1,2026-01-01\n# c\nx,,spot,2,2026-01-02\n", "f.csv:4: x/spot has a price already, in line 2"},
		{"quote", head + "x,\"a,spot,1,2026-01-01\n", "f.csv:2: extraneous or missing \" in quoted-field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(strings.NewReader(c.text), "f.csv")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
	if _, err := Parse(iotest.ErrReader(os.ErrDeadlineExceeded), "f.csv"); err == nil || !strings.Contains(err.Error(), "reading prices from f.csv: ") {
		t.Errorf("a reader's error came as %v", err)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prices.csv")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("missing file: error %v, want its path in it", err)
	}
	if err := os.WriteFile(path, []byte(small+"bad\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), path+":7: ") {
		t.Errorf("bad line: error %v, want %s:7 before it", err, path)
	}
}

func TestLocal(t *testing.T) {
	table, err := Local()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"local.small", "local.large"} {
		for _, zone := range []string{"", "a", "b"} {
			full, ok := table.Hourly(cloud.Offering{Type: kind, Zone: zone, Market: cloud.OnDemand})
			spot, ok2 := table.Hourly(cloud.Offering{Type: kind, Zone: zone, Market: cloud.Spot})
			if !ok || !ok2 || spot < 0.25*full || spot > 0.35*full {
				t.Errorf("%s in zone %q: spot %v (%v), on-demand %v (%v); want about 0.3 of it", kind, zone, spot, ok2, full, ok)
			}
		}
	}
}

func TestCost(t *testing.T) {
	for _, c := range []struct {
		name string
		d    time.Duration
		inc  Increment
		want time.Duration
	}{
		{"never ran", 0, PerHour, 0},
		{"clock went back", -time.Second, PerSecond, 0},
		{"under the minimum", time.Second, PerSecond, time.Minute},
		{"the minimum", time.Minute, PerSecond, time.Minute},
		{"a second begun", 90*time.Second + 1, PerSecond, 91 * time.Second},
		{"whole seconds", 90 * time.Second, PerSecond, 90 * time.Second},
		{"an hour begun", time.Second, PerHour, time.Hour},
		{"a whole hour", time.Hour, PerHour, time.Hour},
		{"a second hour begun", time.Hour + 1, PerHour, 2 * time.Hour},
		{"no unit", 1500 * time.Millisecond, Increment{}, 1500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.inc.Billed(c.d); got != c.want {
				t.Errorf("Billed(%v) = %v, want %v", c.d, got, c.want)
			}
			at := time.Date(2026, 8, 2, 0, 0, 0, 0, time.UTC)
			if got, want := c.inc.Cost(0.36, at, at.Add(c.d)), 0.36*c.want.Hours(); math.Abs(got-want) > 1e-12 {
				t.Errorf("Cost = %v, want %v", got, want)
			}
		})
	}
}

// What is billed is never less than what ran, is whole units from the minimum
// on, and does not shrink when the time grows.
func TestBilledProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inc := rapid.SampledFrom([]Increment{PerSecond, PerHour}).Draw(t, "increment")
		d := time.Duration(rapid.Int64Range(1, int64(10_000*time.Hour)).Draw(t, "time"))
		got := inc.Billed(d)
		if got < d || got-d >= max(inc.Unit, inc.Min) || got%inc.Unit != 0 {
			t.Errorf("Billed(%v) = %v", d, got)
		}
		if later := inc.Billed(d + 1); later < got {
			t.Errorf("Billed(%v) = %v, and a nanosecond more %v", d, got, later)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add(small)
	f.Add(string(localCSV))
	f.Add("type,zone,market,usd_per_hour,date\n\"x\",,spot,0x1p-2,2026-02-29\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Parse(strings.NewReader(text), "f.csv")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.csv:") {
				t.Errorf("error without the file's name: %v", err)
			}
			return
		}
		for o, p := range table.prices {
			usd, ok := table.Hourly(o)
			if !ok || usd != p.USDPerHour || !(usd > 0) || math.IsInf(usd, 0) {
				t.Errorf("%s has price %v, %v", o, p, ok)
			}
		}
	})
}
