package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

// A screen is what every terminal shows, less the line of the next prompt.
const (
	screenWidth = 80
	screenLines = 23
	nameWidth   = 30 // of a name in the middle of a line
)

// part is a heading and the lines below it, the most important first.
type part struct {
	head  string
	lines []string
	all   int // lines that there would be
	least int // lines that it has however much the others have, if it needs them; all together fit
}

// statusScreen writes a status so that it fits: each part has the lines that it
// is promised, and what is left over goes to the first that needs it.
func statusScreen(s api.Status, now time.Time) []string {
	parts := []part{
		wrongPart(s),
		evictionPart(s, now),
		{head: "nodes      " + counts(s.Nodes)},
		poolPart(s),
		{head: fmt.Sprintf("orders     %d open, %d in the spool", s.Orders, s.Spooled)},
		waitPart(s, now),
		stepPart(s),
	}
	heads := 1
	for _, p := range parts {
		if p.head != "" {
			heads++
		}
	}
	room := screenLines - heads
	given := make([]int, len(parts))
	for i, p := range parts {
		given[i] = min(p.least, p.all)
		room -= given[i]
	}
	for i, p := range parts {
		more := min(room, p.all-given[i])
		given[i] += more
		room -= more
	}
	screen := []string{clip(headLine(s))}
	for i, p := range parts {
		if p.head == "" {
			continue
		}
		screen = append(screen, clip(p.head))
		for j, line := range p.lines[:min(given[i], len(p.lines))] {
			if last := j == given[i]-1; last && p.all > given[i] {
				line = fmt.Sprintf("… %d more: burst status --json", p.all-j)
			}
			screen = append(screen, clip("  "+line))
		}
	}
	return screen
}

// headLine has the version where there is room: that of a build between releases is long.
func headLine(s api.Status) string {
	line := "cluster " + s.Cluster
	if s.SlurmOK && s.SlurmError == "" {
		line += ", slurm ok"
	}
	if n := len(s.Providers) - len(failing(s)); n > 0 {
		line += fmt.Sprintf(", %d provider", n) + strings.Repeat("s", min(1, n-1)) + " ok"
	}
	line += ", since " + stamp(s.Started)
	if version := ", burstd " + s.Version; utf8.RuneCountInString(line+version) <= screenWidth {
		line += version
	}
	return line
}

// failing lists the providers whose last call failed.
func failing(s api.Status) []string {
	names := slices.Sorted(maps.Keys(s.Providers))
	return slices.DeleteFunc(names, func(n string) bool { return s.Providers[n] == "ok" })
}

// wrongPart is what somebody has to look at.
func wrongPart(s api.Status) part {
	var lines []string
	switch {
	case s.SlurmError != "":
		lines = append(lines, "slurm does not answer: "+s.SlurmError)
	case !s.SlurmOK:
		lines = append(lines, "slurm has not answered yet")
	}
	if s.Paused != nil {
		lines = append(lines, fmt.Sprintf("no pool launches since %s: paused: %s", stamp(s.Paused.Since), s.Paused.Why))
	}
	for _, name := range failing(s) {
		lines = append(lines, "provider "+short(name, nameWidth)+" fails: "+s.Providers[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Left)) {
		lines = append(lines, s.Left[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Stopped)) {
		lines = append(lines, "pool "+short(name, nameWidth)+" is stopped: "+s.Stopped[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Servers)) {
		lines = append(lines, "server "+short(name, nameWidth)+": "+s.Servers[name])
	}
	if s.Spooled > 0 {
		lines = append(lines, fmt.Sprintf("%d orders of Slurm wait in the spool: burstd has not taken them", s.Spooled))
	}
	if len(lines) == 0 {
		return part{}
	}
	return part{head: "WRONG", lines: lines, all: len(lines), least: 4}
}

// evictionPart is what goes soonest.
func evictionPart(s api.Status, now time.Time) part {
	p := part{head: fmt.Sprintf("evictions  %d under way", s.Evictions), all: len(s.Evicting), least: 4}
	for _, e := range s.Evicting {
		left := "no deadline"
		switch d := e.Deadline.Sub(now).Round(time.Second); {
		case e.Deadline.IsZero():
		case d < 0:
			left = "over for " + (-d).String()
		default:
			left = d.String() + " left"
		}
		line := fmt.Sprintf("%-12s %-14s ", short(cmp.Or(e.Node, e.Instance), nameWidth), left)
		for _, j := range e.Jobs {
			line += fmt.Sprintf("job %d %s; ", j.Job, j.Stage)
		}
		p.lines = append(p.lines, line+e.Kind+", "+e.Stage)
	}
	return p
}

// poolPart is what runs and costs: pools with instances or nodes, the dearest first.
func poolPart(s api.Status) part {
	head := fmt.Sprintf("instances  %d", s.Instances)
	if s.USDPerHour != nil {
		head += fmt.Sprintf(", %.2f USD per hour", *s.USDPerHour)
	}
	if s.Unpriced > 0 {
		head += fmt.Sprintf(" and %d without a known price", s.Unpriced)
	}
	pools := slices.DeleteFunc(slices.Clone(s.Pools), func(p api.PoolLoad) bool { return p.Instances == 0 && len(p.Nodes) == 0 })
	slices.SortStableFunc(pools, func(a, b api.PoolLoad) int {
		return cmp.Or(cmp.Compare(b.USDPerHour, a.USDPerHour), cmp.Compare(b.Instances, a.Instances))
	})
	p := part{head: head, all: len(pools), least: 3}
	for _, l := range pools {
		line := fmt.Sprintf("%-12s %4d instances %9.2f USD/h  ", short(l.Pool, nameWidth), l.Instances, l.USDPerHour)
		if l.Ending > 0 {
			line += fmt.Sprintf("%d ending, ", l.Ending)
		}
		line += counts(l.Nodes)
		if l.Unused {
			line += fmt.Sprintf(", unused: %.2f USD/day", 24*l.USDPerHour)
		}
		p.lines = append(p.lines, line)
	}
	return p
}

// waitPart is which jobs cannot have nodes, and why.
func waitPart(s api.Status, now time.Time) part {
	if s.Wait == 0 {
		return part{}
	}
	p := part{head: fmt.Sprintf("waiting    %d for nodes", s.Wait), all: len(s.Waiting), least: 2}
	for _, w := range s.Waiting {
		again := "tried again now"
		if d := w.Until.Sub(now).Round(time.Second); d > 0 {
			again = "again in " + d.String()
		}
		p.lines = append(p.lines, fmt.Sprintf("%-12d %-15s %s", w.Job, again, w.Why))
	}
	return p
}

// stepPart is which steps run, and what they would lose, those first that have most to.
func stepPart(s api.Status) part {
	if s.Running == 0 {
		return part{}
	}
	p := part{head: fmt.Sprintf("steps      %d under burst-srun", s.Running), all: s.Running, least: 2}
	for _, st := range s.Steps {
		p.lines = append(p.lines, fmt.Sprintf("%-12s %-8s ", fmt.Sprintf("%d.%s", st.Job, short(st.Step, nameWidth)), cmp.Or(st.Method, "-"))+howFar(st))
	}
	return p
}

// howFar says what of a step is safe, and how far it is.
func howFar(s api.Step) string {
	text := "no checkpoint yet"
	switch c := s.Checkpoint; {
	case c != nil:
		text = fmt.Sprintf("checkpoint %d of attempt %d, %s old", c.Generation, c.Attempt, span(&c.SinceSeconds))
	case s.Silent:
		text = "not heard of since burstd was started"
	}
	if s.Iteration != nil {
		text += fmt.Sprintf(", iteration %d", *s.Iteration)
	}
	if s.Iterations != nil {
		text += fmt.Sprintf(" of %d", *s.Iterations)
	}
	return text
}

// counts writes {"up": 2, "booting": 1} as "1 booting, 2 up".
func counts(by map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all = append(all, fmt.Sprintf("%d %s", by[name], name))
	}
	if len(all) == 0 {
		return "none powered up"
	}
	return strings.Join(all, ", ")
}

// clip cuts a line to the screen's width.
func clip(line string) string { return short(strings.TrimRight(printable(line), " "), screenWidth) }

// short cuts a text to so many columns.
func short(text string, most int) string {
	width, fits := 0, 0
	for i, r := range text {
		if width += columns(r); width > most {
			return text[:fits] + "…"
		}
		if width < most {
			fits = i + utf8.RuneLen(r)
		}
	}
	return text
}

// columns are those that a terminal gives a letter.
func columns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		r >= 0x3000 && r <= 0x303F, r >= 0xFF01 && r <= 0xFF60, r >= 0x1F300 && r <= 0x1FAFF:
		return 2
	}
	return 1
}

func writeLines(w io.Writer, lines []string) error {
	if _, err := fmt.Fprintln(w, strings.Join(lines, "\n")); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
