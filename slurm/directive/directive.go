// Package directive reads what a job's user asks of Burst: the
// `#BURST key=value …` lines of a batch script, or `burst: key=value …` in the
// job's comment.
//
// The lines stand in the head of the script, before the first command, as
// sbatch wants its #SBATCH lines. A value with spaces is put in quotes, single or double;
// within double quotes a backslash keeps the next character. Keys:
//
//	signal=[B:]NAME   the signal that tells the job to checkpoint: USR1, or B:USR1
//	                  to reach the batch script only
//	grace=TIME        how long the job may take for it: 20s, 2m30s, 90; 20s by default
package directive

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Directive is what a job asks of Burst. The zero value asks nothing.
type Directive struct {
	Signal string        `json:"signal,omitempty"` // name without SIG; "" is none
	Batch  bool          `json:"batch,omitempty"`  // signal the batch script only
	Grace  time.Duration `json:"grace,omitempty"`  // from the signal to the requeue
}

const (
	defaultGrace = 20 * time.Second
	maxGrace     = 24 * time.Hour
)

// keys is every key and how it is read. A new key is one line here.
var keys = map[string]func(d *Directive, value string) error{
	"signal": setSignal,
	"grace":  setGrace,
}

// Error says where a directive is wrong.
type Error struct {
	Line int    // of the script, from 1; 0 for a comment
	Key  string // "" when there is none
	Err  error
}

func (e *Error) Error() string {
	where := "job comment"
	if e.Line > 0 {
		where = fmt.Sprintf("line %d: #BURST", e.Line)
	}
	if e.Key != "" {
		where += " " + e.Key
	}
	return where + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Parse reads the #BURST lines of a batch script. Each key may stand once.
func Parse(script string) (Directive, error) {
	var all []setting
	number := 0
	for line := range strings.Lines(script) {
		number++
		line = strings.TrimSpace(line)
		if line != "" && line[0] != '#' {
			break // the first command
		}
		text, ok := strings.CutPrefix(line, "#BURST")
		if !ok || (text != "" && text[0] != ' ' && text[0] != '\t') {
			continue
		}
		settings, err := split(text, number)
		if err != nil {
			return Directive{}, err
		}
		all = append(all, settings...)
	}
	return build(all)
}

// ParseComment reads a job's comment. A comment that does not begin with
// "burst:" asks nothing.
func ParseComment(comment string) (Directive, error) {
	text, ok := strings.CutPrefix(strings.TrimSpace(comment), "burst:")
	if !ok {
		return Directive{}, nil
	}
	settings, err := split(text, 0)
	if err != nil {
		return Directive{}, err
	}
	return build(settings)
}

func build(settings []setting) (Directive, error) {
	var d Directive
	seen := map[string]int{}
	for _, s := range settings {
		set := keys[s.key]
		if set == nil {
			return Directive{}, &Error{s.line, s.key, fmt.Errorf("unknown key; known are %s", known())}
		}
		if first, ok := seen[s.key]; ok {
			err := fmt.Errorf("is set twice")
			if first != s.line {
				err = fmt.Errorf("is set already in line %d", first)
			}
			return Directive{}, &Error{s.line, s.key, err}
		}
		seen[s.key] = s.line
		if err := set(&d, s.value); err != nil {
			return Directive{}, &Error{s.line, s.key, err}
		}
	}
	if line, ok := seen["grace"]; ok && d.Signal == "" {
		return Directive{}, &Error{line, "grace", fmt.Errorf("needs a signal: add signal=USR1 or another")}
	} else if !ok && d.Signal != "" {
		d.Grace = defaultGrace
	}
	return d, nil
}

func known() string {
	names := make([]string, 0, len(keys))
	for name := range keys {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
