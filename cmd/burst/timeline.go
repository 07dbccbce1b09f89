package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// runTimeline shows the seconds of each stage of nodes' ways up, and below
// them the medians of those that came up.
func runTimeline(ctx context.Context, w io.Writer, client *api.Client, o eventsOptions) error {
	boots, err := client.Boots(ctx, "", o.job, o.last)
	if err != nil {
		return explain(err)
	}
	if o.json {
		return writeJSON(w, append([]api.Boot{}, boots...)) // [] in JSON, not null
	}
	head := []string{"ORDERED", "NODE", "POOL", "JOB"}
	for _, s := range api.BootStages {
		head = append(head, strings.ToUpper(s))
	}
	rows := [][]string{append(head, "TOTAL", "OUTCOME")}
	by := map[string][]float64{}
	var totals []float64
	for _, b := range boots {
		row := []string{stamp(b.Ordered), b.Node, cmp.Or(b.Pool, "-"), cmp.Or(jobID(b.Job), "-")}
		for _, s := range api.BootStages {
			row = append(row, stage(b.Stages, s))
			if took, ok := b.Stages[s]; ok && b.Outcome == "up" {
				by[s] = append(by[s], took)
			}
		}
		if b.Outcome == "up" {
			totals = append(totals, b.Seconds)
		}
		rows = append(rows, append(row, seconds(b.Seconds), cmp.Or(b.Outcome, "on its way")))
	}
	medians := []string{"median of those up", "", "", ""}
	for _, s := range api.BootStages {
		medians = append(medians, median(by[s]))
	}
	return writeTable(w, append(rows, append(medians, median(totals), strconv.Itoa(len(totals)))))
}

func stage(stages map[string]float64, name string) string {
	if took, ok := stages[name]; ok {
		return seconds(took)
	}
	return "-"
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 1, 64) }

func median(all []float64) string {
	if len(all) == 0 {
		return "-"
	}
	slices.Sort(all)
	mid := len(all) / 2
	if len(all)%2 == 1 {
		return seconds(all[mid])
	}
	return seconds((all[mid-1] + all[mid]) / 2)
}
