package directive

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is a kind of place that says something about a job's checkpoints.
type Kind string

// The places, those before over those after: Merge goes by this order. What a user
// wrote is over what an admin did: the job's user knows the program. What is said of
// less is over what is said of more: burst-srun's --ckpt is about one step, a
// comment about one submission, as sbatch's options are over its #SBATCH lines. A pool
// is a part of its partition, and that a part of the site.
const (
	Option    Kind = "option" // burst-srun --ckpt
	Comment   Kind = "comment"
	Script    Kind = "script"    // #BURST lines
	Pool      Kind = "pool"      // [pool.NAME.checkpoint] of burst.toml
	Submitted Kind = "submitted" // the site's words in a comment: job_submit.lua's defaults of a partition
	Partition Kind = "partition" // [partition.NAME.checkpoint]
	Site      Kind = "site"      // [checkpoint]
	Default   Kind = "default"   // Burst's own
)

// Order is the precedence of layers, the strongest first.
func Order() []Kind {
	return []Kind{Option, Comment, Script, Pool, Submitted, Partition, Site, Default}
}

func (k Kind) rank() int { return slices.Index(Order(), k) }

// byAdmin says that the place is not the user's.
func (k Kind) byAdmin() bool { return k.rank() >= Pool.rank() }

// author is the same for places whose settings are meant together: a user's all
// are, an admin's of one section.
func (k Kind) author() int { return max(k.rank(), Script.rank()) }

// Source is a place.
type Source struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"` // of the pool or partition
}

func (s Source) String() string {
	switch s.Kind {
	case Option:
		return "option --ckpt"
	case Comment:
		return "job comment"
	case Submitted:
		return "site's part of the job comment"
	case Default:
		return "Burst's default"
	}
	return strings.TrimSpace(string(s.Kind) + " " + s.Name)
}

// Origin is where a value comes from.
type Origin struct {
	Source
	Line int `json:"line,omitempty"` // of the script, or of burst.toml
}

func (o Origin) String() string {
	switch {
	case o.Line == 0:
		return o.Source.String()
	case o.Kind.byAdmin():
		return fmt.Sprintf("%s, line %d of burst.toml", o.Source, o.Line)
	}
	return fmt.Sprintf("%s, line %d", o.Source, o.Line)
}

// Setting is one key=value.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	Line  int    `json:"line,omitempty"`
}

// Layer is what one place says: only what is written there, so that a value which
// happens to be the default is told from one that is not set. It is plain data,
// to be sent to where it is merged; the zero value says nothing.
type Layer struct {
	Source
	Settings []Setting `json:"settings,omitempty"`
}

// Value is what the layer says of a key.
func (l Layer) Value(key string) (Setting, bool) {
	i := slices.IndexFunc(l.Settings, func(s Setting) bool { return s.Key == key })
	if i < 0 {
		return Setting{}, false
	}
	return l.Settings[i], true
}

// ReadScript reads the #BURST lines of a batch script. An error is an *Error.
func ReadScript(script string) (Layer, error) {
	l := Layer{Source: Source{Kind: Script}}
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
		if err := l.read(text, number); err != nil {
			return Layer{}, err
		}
	}
	return l.checked()
}

// ReadComment reads a job's comment: what its user says in it, from "burst:" on, and what
// the site has put before that, which begins with "burst-site:". A comment that begins
// with neither says nothing. An error is an *Error.
func ReadComment(comment string) (user, site Layer, err error) {
	user.Source, site.Source = Source{Kind: Comment}, Source{Kind: Submitted}
	text := strings.TrimSpace(comment)
	if part, ok := strings.CutPrefix(text, "burst-site:"); ok {
		var wrong *Error
		if site.Settings, text, wrong = splitTo("burst:", part, 0); wrong != nil {
			wrong.From = user.Source
			return Layer{}, Layer{}, wrong
		}
	}
	if text, ok := strings.CutPrefix(text, "burst:"); ok {
		if err := user.read(text, 0); err != nil {
			return Layer{}, Layer{}, err
		}
	}
	user, err = user.checked()
	return user, site, err
}

// ReadOptions reads the values of --ckpt: each is key=value …, where a first
// word without "=" is the method, as in --ckpt "dmtcp interval=10m". An error is an *Error.
func ReadOptions(values ...string) (Layer, error) {
	l := Layer{Source: Source{Kind: Option}}
	for _, v := range values {
		v = strings.TrimSpace(v)
		if words := strings.Fields(v); len(words) > 0 && !strings.Contains(words[0], "=") {
			v = "ckpt=" + v
		}
		if err := l.read(v, 0); err != nil {
			return Layer{}, err
		}
	}
	return l.checked()
}

// Check says what is wrong with a value, in one line.
func Check(key, value string) error {
	k := keyNamed(key)
	if k == nil {
		return fmt.Errorf("unknown key; known are %s", known())
	}
	return k.set(new(Directive), value)
}

// foreign says that the layer may have come from another version of Burst.
func (l Layer) foreign() bool { return l.Kind.byAdmin() || l.Kind.rank() < 0 }

// takes says why a setting of the layer can have no effect.
func (l Layer) takes(s Setting) error {
	if l.Kind.rank() < 0 {
		return errors.New("this version of Burst knows no such place")
	}
	return Check(s.Key, s.Value)
}

func (l *Layer) read(text string, line int) error {
	settings, err := split(text, line)
	l.Settings = append(l.Settings, settings...)
	if err != nil {
		err.From = l.Source
		return err
	}
	return nil
}

// checked is the layer if each of its settings can be, and stands once.
func (l Layer) checked() (Layer, error) {
	seen := map[string]int{}
	for _, s := range l.Settings {
		err := Check(s.Key, s.Value)
		if err == nil && l.Kind == Option && (s.Key == "after" || s.Key == stay || s.Key == "budget") {
			err = errors.New("is for the whole job, not for a step: write it in the script or in the job's comment")
		}
		if first, twice := seen[s.Key]; twice && err == nil {
			err = errors.New("is set twice")
			if first != s.Line {
				err = fmt.Errorf("is set already in line %d", first)
			}
		}
		if err != nil {
			return Layer{}, &Error{l.Source, s.Line, s.Key, err}
		}
		seen[s.Key] = s.Line
	}
	return l, nil
}
