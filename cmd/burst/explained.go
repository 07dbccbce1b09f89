package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/rehearse"
	"github.com/burst-hpc/burst/slurm/conf"
	"github.com/burst-hpc/burst/slurm/directive"
	"github.com/burst-hpc/burst/slurm/sbatch"
)

// explained is the output of explain --json.
type explained struct {
	Script    string             `json:"script,omitempty"` // empty: a job without one
	File      string             `json:"burst_toml"`
	Partition string             `json:"partition,omitempty"`
	Pool      string             `json:"pool,omitempty"`
	Settings  []explainedSetting `json:"settings"`
	Unused    []explainedSetting `json:"unused"`
	Advice    []directive.Advice `json:"advice"`
	Cloud     *api.Explained     `json:"cloud,omitempty"` // of a script: what would become of it

	comment sbatch.Option // where the job's comment stands in the script; zero: it does not
	silent  []config.Pool // of those that the job may get, the ones on a cloud that gives no notices
}

// explainedSetting is one key: what holds, or what has no effect and why.
type explainedSetting struct {
	Key   string `json:"key"`
	Value string `json:"value"` // empty: none
	From  origin `json:"from"`
	Why   string `json:"why,omitempty"`
}

// origin is where a value comes from.
type origin struct {
	directive.Source
	At   string `json:"at"`             // "job.sh:4", "--ckpt", "default"
	File string `json:"file,omitempty"` // with a line
	Line int    `json:"line,omitempty"`
}

func (e *explained) note(about, format string, args ...any) {
	e.Advice = append(e.Advice, directive.Advice{Level: directive.Note, About: about, Text: fmt.Sprintf(format, args...)})
}

// rehearsed says what a rehearsal of this very script has shown.
func (e *explained) rehearsed(m directive.Merged, j batchJob) {
	n := directive.Names{Home: os.Getenv("HOME"), User: os.Getenv("USER")}
	if c, ok := j.head.Last("chdir"); ok {
		n.Work = c.Value
	}
	if m.Method == directive.None {
		return
	}
	if r := rehearse.OfScript(m.Folder(n), m.Method, j.script); r != nil {
		e.note("rehearsal", "%s: %s: %s", r.Program.Name, r.Words(), r.Reason)
	}
}

// origin names a place as people look it up.
func (e *explained) origin(o directive.Origin) origin {
	from := origin{Source: o.Source, At: "default"}
	switch o.Kind {
	case directive.Option:
		from.At = "--ckpt"
	case directive.Comment, directive.Submitted:
		from.At = "--comment"
		if e.comment.Line > 0 {
			from.File, from.Line = e.Script, e.comment.Line
		}
	case directive.Script:
		from.File, from.Line = e.Script, o.Line
	case directive.Pool, directive.Partition, directive.Site:
		from.File, from.Line = e.File, o.Line
	}
	if from.File != "" {
		from.At = fmt.Sprintf("%s:%d", from.File, from.Line)
	}
	return from
}

// fill takes over what was merged.
func (e *explained) fill(m directive.Merged) {
	e.Unused = []explainedSetting{} // [] and not null
	for _, k := range directive.Keys() {
		e.Settings = append(e.Settings, explainedSetting{Key: k.Name, Value: m.Value(k.Name), From: e.origin(m.From[k.Name])})
	}
	for _, u := range m.Unused {
		e.Unused = append(e.Unused, explainedSetting{u.Key, u.Value, e.origin(directive.Origin{Source: u.From, Line: u.Line}), u.Why})
	}
	if e.Advice == nil {
		e.Advice = []directive.Advice{}
	}
}

func (e *explained) print(w io.Writer) error {
	job := e.Script
	if job == "" {
		job = "a job of salloc or srun"
	}
	for _, p := range []struct{ what, name string }{{"partition", e.Partition}, {"pool", e.Pool}} {
		if p.name != "" {
			job += ", " + p.what + " " + p.name
		}
	}
	if _, err := fmt.Fprintf(w, "%s\n\n", printable(job)); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	rows := [][]string{{"KEY", "VALUE", "FROM"}}
	for _, s := range e.Settings {
		if s.Value != "" || s.From.Kind != directive.Default {
			rows = append(rows, []string{s.Key, orDash(s.Value), s.From.place()})
		}
	}
	if len(e.Unused) > 0 {
		rows = append(rows, nil, []string{"NOT USED", "VALUE", "FROM", "WHY"})
	}
	for _, u := range e.Unused {
		rows = append(rows, []string{u.Key, u.Value, u.From.place(), u.Why})
	}
	if err := writeTable(w, rows); err != nil {
		return err
	}
	for i, a := range e.Advice {
		text := fmt.Sprintf("%s: %s: %s", a.Level, a.About, a.Text)
		if i == 0 {
			fmt.Fprintln(w) // the line after it has the error
		}
		if _, err := fmt.Fprintln(w, printable(text)); err != nil {
			return fmt.Errorf("writing: %w", err)
		}
	}
	if e.Cloud == nil {
		return nil
	}
	if _, err := fmt.Fprintf(w, "\n%s\n", printable("the job "+e.Cloud.Line)); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return writeCloud(w, *e.Cloud)
}

// place is the origin with the section of burst.toml.
func (o origin) place() string {
	switch o.Kind {
	case directive.Site:
		return o.At + " [checkpoint]"
	case directive.Pool, directive.Partition:
		return fmt.Sprintf("%s [%s.%s.checkpoint]", o.At, o.Kind, o.Name)
	case directive.Submitted:
		return o.At + ", the site's part"
	}
	return o.At
}

// jobOf is what the script and Slurm's configuration tell of a job.
func jobOf(ctx context.Context, cfg *config.Config, b batchJob) directive.Job {
	j := directive.Job{Interactive: b.name == "", Het: b.head.Parts > 1, Protected: directive.No, Margin: cfg.Checkpoint.Margin}
	site := slurmSite(ctx, cfg)
	if s, ok := b.head.Last("requeue", "no-requeue"); ok {
		j.Requeue = answer(s.Name == "requeue")
	} else if v := site.Get("JobRequeue"); v != "" {
		j.Requeue = answer(v != "0")
	}
	if mode, ok := b.head.Last("open-mode"); ok {
		j.Append = answer(strings.HasPrefix(strings.ToLower(mode.Value), "a"))
	} else if v := site.Get("JobFileAppend"); v != "" {
		j.Append = answer(v == "1")
	}
	if seconds, err := strconv.Atoi(site.Get("KillWait")); err == nil {
		j.KillWait = time.Duration(seconds) * time.Second
	}
	_, j.Array = b.head.Last("array")
	if n, ok := b.head.Last("nodes"); ok {
		least, _, _ := strings.Cut(n.Value, "-")
		j.Nodes, _ = strconv.Atoi(least) // other ways to write it say nothing of the least
	}
	if n, ok := b.head.Last("ntasks"); ok {
		j.Tasks, _ = strconv.Atoi(n.Value)
	} else if n, ok := b.head.Last("ntasks-per-node"); ok {
		perNode, _ := strconv.Atoi(n.Value)
		j.Tasks = perNode * max(1, j.Nodes)
	}
	if v := site.Get("TaskProlog"); v != "(null)" {
		j.TaskProlog = v
	}
	if s, ok := b.head.Last("signal"); ok {
		j.Signal = s.Value
	}
	for line := range strings.Lines(b.script) {
		code, _, _ := strings.Cut(line, "#")
		if strings.Contains(code, "burst-srun") || strings.Contains(code, "burst env") {
			j.Protected = directive.Yes
		}
		j.Launches = j.Launches || strings.Contains(code, "mpirun") || strings.Contains(code, "mpiexec")
	}
	return j
}

func answer(yes bool) directive.Known {
	if yes {
		return directive.Yes
	}
	return directive.No
}

// slurmSite is what Slurm is configured to do, as slurmctld says, else its file;
// empty where neither can be read.
func slurmSite(ctx context.Context, cfg *config.Config) conf.Site {
	const patience = 4 * time.Second // without it, a few warnings are less sure
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	both, err := readSites(ctx, cfg)
	switch {
	case err != nil:
		return conf.Site{}
	case both.askErr == nil:
		return both.running
	}
	site := conf.Site{Settings: map[string]string{"jobrequeue": "1", "jobfileappend": "0", "killwait": "30"}} // Slurm's defaults
	maps.Copy(site.Settings, both.file.Settings)
	return site
}
