package main

import (
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/burst-hpc/burst/cmd/internal/bench"
)

// part is one colour of the bars.
type part struct {
	name  string
	color color.Color
	of    func(bench.FTRow) float64
}

// parts add up to a case's time. What is written while heat computes on is not
// seen in it: what is left of the time beyond the iterations is the first part's.
var parts = []part{
	{"computing, and starting up", color.RGBA{0x33, 0x66, 0x99, 0xff}, func(r bench.FTRow) float64 { return max(0, r.Seconds-r.IdleSeconds-r.LostSeconds) }},
	{"computed twice", color.RGBA{0xcc, 0x44, 0x33, 0xff}, func(r bench.FTRow) float64 { return r.LostSeconds }},
	{"idle: checkpoint, requeue, restart", color.RGBA{0xee, 0xbb, 0x44, 0xff}, func(r bench.FTRow) float64 { return r.IdleSeconds }},
}

// draw writes the figure as SVG and PNG.
func draw(dir string, rows []bench.FTRow) error {
	p := plot.New()
	p.Title.Text = "heat through two evictions"
	p.Y.Label.Text = "seconds"
	p.Y.Min = 0
	var names []string
	highest := 0.0
	for _, r := range rows {
		names = append(names, r.Name())
		highest = max(highest, r.Seconds)
	}
	p.Y.Max = highest * 1.25 // room for the legend
	p.NominalX(names...)
	p.X.Tick.Label.Rotation = 0.5
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = -0.9, -0.5
	p.Legend.Top = true
	var below *plotter.BarChart
	for _, part := range parts {
		var values plotter.Values
		for _, r := range rows {
			values = append(values, part.of(r))
		}
		bars, err := plotter.NewBarChart(values, vg.Points(26))
		if err != nil {
			return fmt.Errorf("drawing the figure: %w", err)
		}
		bars.Color, bars.LineStyle.Width = part.color, 0
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
		p.Legend.Add(part.name, bars)
	}
	for _, kind := range []string{"svg", "png"} {
		if err := p.Save(vg.Length(max(len(rows), 9))*52, 320, filepath.Join(dir, "bench-ft."+kind)); err != nil {
			return fmt.Errorf("drawing the figure: %w", err)
		}
	}
	return nil
}
