package main

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// TestCSV: what is in an account's name does not break a line, and no amount is written with an exponent.
func TestCSV(t *testing.T) {
	var b bytes.Buffer
	usd := 1234567.0000001
	want := "a \"b\",\nc"
	if err := writeUsageCSV(&b, []api.Usage{{Key: want, Seconds: 1e9, USD: &usd}}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), "\r\n") {
		t.Errorf("%q", b.String())
	}
	all, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(all) != 2 || all[1][0] != want || all[1][4] != "1000000000.000" || all[1][5] != "1234567.000000" {
		t.Errorf("%q %v", all, err)
	}
}

func TestSpan(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 30, 12, 0, 0, 0, zone)
	for _, tt := range []struct{ since, until, from, to, err string }{
		{"30d", "", "2026-02-28T10:00:00Z", "", ""},
		{"2026-03-29", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", ""}, // a day of 23 hours
		{"36h", "12h", "2026-03-28T22:00:00Z", "2026-03-29T22:00:00Z", ""},
		{"7d", "0h", "", "", "--until is"},
		{"7", "", "", "", "--since is"},
		{"2026-03-29", "2026-03-28", "", "", "not after"},
	} {
		from, to, err := parseSpan(tt.since, tt.until, now)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%+v: %v", tt, err)
			}
			continue
		}
		text := func(at time.Time) string {
			if at.IsZero() {
				return ""
			}
			return at.UTC().Format(time.RFC3339)
		}
		if err != nil || text(from) != tt.from || text(to) != tt.to {
			t.Errorf("%+v: %s, %s, %v", tt, text(from), text(to), err)
		}
	}
}
