// Package price knows what an instance costs: tables of hourly prices, and
// the increments in which clouds bill.
package price

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Price is what one offering costs.
type Price struct {
	USDPerHour float64   // above zero
	Date       time.Time // the day, in UTC, on which the price was seen
}

// Table holds prices by offering. The zero Table knows none. A price with an
// empty zone holds for every zone that has no price of its own.
type Table struct {
	prices map[cloud.Offering]Price
}

//go:embed local.csv
var localCSV []byte

// Local returns the prices of cloud/local's instance types: a demo's figures,
// not a cloud's.
func Local() (Table, error) {
	return Parse(bytes.NewReader(localCSV), "local.csv")
}

// LocalCSV is the text of that table, for a site's configuration.
func LocalCSV() []byte { return bytes.Clone(localCSV) }

// Load reads a table from a file in Parse's format.
func Load(path string) (Table, error) {
	f, err := os.Open(path)
	if err != nil {
		return Table{}, fmt.Errorf("reading prices: %w", err)
	}
	defer f.Close()
	return Parse(f, path)
}

var header = []string{"type", "zone", "market", "usd_per_hour", "date"}

// Parse reads a table: CSV whose first line is
//
//	type,zone,market,usd_per_hour,date
//
// zone may be empty, market is spot or on-demand, date is YYYY-MM-DD. Lines
// that begin with # are comments. An error names the line of the file, which
// is called name in it.
func Parse(r io.Reader, name string) (Table, error) {
	t := Table{prices: map[cloud.Offering]Price{}}
	lines := map[cloud.Offering]int{}
	in := csv.NewReader(r)
	in.Comment = '#'
	in.TrimLeadingSpace = true
	in.FieldsPerRecord = -1
	for first := true; ; first = false {
		record, err := in.Read()
		if err == io.EOF {
			if first {
				return Table{}, fmt.Errorf("%s: the table is empty: its first line must be %s", name, strings.Join(header, ","))
			}
			return t, nil
		}
		if err != nil {
			return Table{}, readError(err, name)
		}
		line, _ := in.FieldPos(0)
		if first {
			if !slices.Equal(record, header) {
				return Table{}, fmt.Errorf("%s:%d: the first line must be %s", name, line, strings.Join(header, ","))
			}
			continue
		}
		o, p, err := parseRecord(record)
		if err != nil {
			return Table{}, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		if before, ok := lines[o]; ok {
			return Table{}, fmt.Errorf("%s:%d: %s has a price already, in line %d", name, line, o, before)
		}
		lines[o] = line
		t.prices[o] = p
	}
}

// readError gives the errors of package csv, and of the file, our form.
func readError(err error, name string) error {
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%s:%d: %w", name, syntax.Line, syntax.Err)
	}
	return fmt.Errorf("reading prices from %s: %w", name, err)
}

func parseRecord(record []string) (cloud.Offering, Price, error) {
	fail := func(format string, args ...any) (cloud.Offering, Price, error) {
		return cloud.Offering{}, Price{}, fmt.Errorf(format, args...)
	}
	if len(record) != len(header) {
		return fail("%d fields where %d are due: %s", len(record), len(header), strings.Join(header, ","))
	}
	for i := range record {
		record[i] = strings.TrimSpace(record[i])
	}
	o := cloud.Offering{Type: record[0], Zone: record[1], Market: cloud.Market(record[2])}
	if o.Type == "" {
		return fail("type is missing")
	}
	if o.Market != cloud.Spot && o.Market != cloud.OnDemand {
		return fail("market %q is neither %q nor %q", o.Market, cloud.Spot, cloud.OnDemand)
	}
	usd, err := strconv.ParseFloat(record[3], 64)
	if err != nil || math.IsInf(usd, 0) || !(usd > 0) {
		return fail("usd_per_hour %q is not a number above zero", record[3])
	}
	date, err := time.Parse(time.DateOnly, record[4])
	if err != nil {
		return fail("date %q is not a day as in 2026-01-31", record[4])
	}
	return o, Price{USDPerHour: usd, Date: date}, nil
}

// Price returns the price of an offering: that of its zone, else the one that
// holds for all zones. ok is false if the table has neither; an unknown price
// is never zero.
func (t Table) Price(o cloud.Offering) (p Price, ok bool) {
	if p, ok = t.prices[o]; ok {
		return p, true
	}
	o.Zone = ""
	p, ok = t.prices[o]
	return p, ok
}

// Hourly returns the price of an offering in USD per hour, as Price finds it.
func (t Table) Hourly(o cloud.Offering) (usd float64, ok bool) {
	p, ok := t.Price(o)
	return p.USDPerHour, ok
}
