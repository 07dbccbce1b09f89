package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// usageColumns are those of --csv: scripts rely on their names and their order, so that new
// ones go to the end. An amount in USD that is not known is empty.
var usageColumns = []struct {
	name string
	of   func(api.Usage) string
}{
	{"key", func(u api.Usage) string { return u.Key }},
	{"user", func(u api.Usage) string { return u.User }},
	{"account", func(u api.Usage) string { return u.Account }},
	{"instances", func(u api.Usage) string { return strconv.Itoa(u.Instances) }},
	{"seconds", func(u api.Usage) string { return csvSeconds(u.Seconds) }},
	{"usd", func(u api.Usage) string { return csvUSD(u.USD) }},
	{"unpriced_seconds", func(u api.Usage) string { return csvSeconds(u.UnpricedSeconds) }},
	{"on_demand_usd", func(u api.Usage) string { return csvUSD(u.OnDemandUSD) }},
	{"on_demand_unknown_seconds", func(u api.Usage) string { return csvSeconds(u.OnDemandUnknownSeconds) }},
	{"boot_seconds", func(u api.Usage) string { return csvSeconds(u.BootSeconds) }},
	{"boot_usd", func(u api.Usage) string { return csvUSD(&u.BootUSD) }},
	{"idle_seconds", func(u api.Usage) string { return csvSeconds(u.IdleSeconds) }},
	{"idle_usd", func(u api.Usage) string { return csvUSD(&u.IdleUSD) }},
	{"rest_seconds", func(u api.Usage) string { return csvSeconds(u.RestSeconds) }},
	{"rest_usd", func(u api.Usage) string { return csvUSD(&u.RestUSD) }},
	{"lost_seconds", func(u api.Usage) string { return csvSeconds(u.LostSeconds) }},
	{"lost_usd", func(u api.Usage) string { return csvUSD(&u.LostUSD) }},
	{"checkpoint_seconds", func(u api.Usage) string { return csvSeconds(u.CheckpointSeconds) }},
	{"checkpoint_usd", func(u api.Usage) string { return csvUSD(&u.CheckpointUSD) }},
	{"serve_seconds", func(u api.Usage) string { return csvSeconds(u.ServeSeconds) }},
	{"serve_usd", func(u api.Usage) string { return csvUSD(&u.ServeUSD) }},
	{"array_task", func(u api.Usage) string { return taskName(u.ArrayJob, u.ArrayTask) }},
}

func csvSeconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }

func csvUSD(usd *float64) string {
	if usd == nil {
		return ""
	}
	return strconv.FormatFloat(*usd, 'f', 6, 64)
}

// writeUsageCSV writes a table as RFC 4180 has it.
func writeUsageCSV(w io.Writer, usage []api.Usage) error {
	out := csv.NewWriter(w)
	out.UseCRLF = true
	line := make([]string, len(usageColumns))
	for i, c := range usageColumns {
		line[i] = c.name
	}
	err := out.Write(line)
	for _, u := range usage {
		for i, c := range usageColumns {
			line[i] = c.of(u)
		}
		err = errors.Join(err, out.Write(line))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}

// parseSpan reads --since and --until, each a time before now or a day of this host's zone.
func parseSpan(since, until string, now time.Time) (from, to time.Time, err error) {
	if from, err = time.ParseInLocation(time.DateOnly, since, now.Location()); err != nil {
		ago, err := parseAgo(since)
		if err != nil {
			return from, to, fmt.Errorf("--since is %q: write a time as in 12h or 7d, or a day as in 2026-01-31", since)
		}
		from = now.Add(-ago)
	}
	if until == "" {
		return from, to, nil
	}
	if to, err = time.ParseInLocation(time.DateOnly, until, now.Location()); err == nil {
		to = to.AddDate(0, 0, 1)
	} else {
		ago, err := parseAgo(until)
		if err != nil {
			return from, to, fmt.Errorf("--until is %q: write a time as in 12h or 7d, or a day as in 2026-01-31", until)
		}
		to = now.Add(-ago)
	}
	if !to.After(from) {
		return from, to, fmt.Errorf("--until %s is not after --since %s", until, since)
	}
	return from, to, nil
}
