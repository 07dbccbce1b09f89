// Package directive reads what a job's user asks of Burst: the
// `#BURST key=value …` lines of a batch script, `burst: key=value …` in the
// job's comment, and burst-srun's --ckpt; and merges it with what the site says.
//
// The lines stand in the head of the script, before the first command, as
// sbatch wants its #SBATCH lines. A value with spaces is put in quotes, single or
// double; within double quotes a backslash keeps the next character; a word that
// begins with # ends the line. Keys returns every key and what it means.
package directive

import (
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Directive is what a job asks of Burst. The zero value asks nothing; Merge fills
// in what was written and the defaults.
type Directive struct {
	Method   string        `json:"ckpt,omitempty"`     // None or another of Methods
	Strategy string        `json:"strategy,omitempty"` // None, Periodic, Preemptive or Both
	Interval time.Duration `json:"interval,omitempty"` // between periodic checkpoints; 0: auto
	Dir      string        `json:"dir,omitempty"`      // where generations go, as written: see Folder
	Keep     int           `json:"keep,omitempty"`     // generations that are kept
	// KeepAfter says that they are kept when the job has ended well, too.
	KeepAfter bool          `json:"keep_after,omitempty"`
	Signal    string        `json:"signal,omitempty"`  // name without SIG; "" is none
	Batch     bool          `json:"batch,omitempty"`   // signal the batch script only
	Grace     time.Duration `json:"grace,omitempty"`   // from the signal to the requeue
	Retries   int           `json:"retries,omitempty"` // requeues by Burst at most
	Label     string        `json:"label,omitempty"`   // "" is the job's name
	Files     string        `json:"files,omitempty"`   // of the signal method: see Globs
	// The commands of the command method.
	Setup      string `json:"setup,omitempty"`
	Run        string `json:"run,omitempty"` // "" is the step's own command
	Checkpoint string `json:"checkpoint,omitempty"`
	Restart    string `json:"restart,omitempty"`
	Preset     string `json:"preset,omitempty"` // "" or BLCR: commands that are not given are this tool's
	After      string `json:"after,omitempty"`  // "", None or PowerDown
	Stay       string `json:"stay,omitempty"`   // "", "yes" or "no": whether rules of overflow may move the job
	// Container is the image of the steps, as written; "" or None: they run on the host.
	Container string `json:"container,omitempty"`
	// Budget is what the job's instances may cost in USD over all its attempts; 0: as much as the site allows.
	Budget float64 `json:"budget,omitempty"`
}

// None is the method that makes no checkpoint, and the strategy.
const None = "none"

// Methods of a checkpoint, beside None.
const (
	DMTCP       = "dmtcp"
	MANA        = "mana"
	SCR         = "scr"
	Libburst    = "libburst"
	CRIU        = "criu"
	BySignal    = "signal"  // the application writes it when it gets Signal
	ByCommand   = "command" // commands of the user's do it
	BLCR        = "blcr"    // a preset of ByCommand
	PowerDown   = "power_down"
	defaultDir  = "burst-checkpoints"
	defaultKeep = 2
)

// Strategies, beside None.
const (
	Periodic   = "periodic"
	Preemptive = "preemptive" // on a notice
	Both       = "both"
)

const (
	defaultGrace   = 20 * time.Second
	defaultRetries = 5
	maxGrace       = 24 * time.Hour
	maxInterval    = 7 * 24 * time.Hour
)

// Periodical says whether checkpoints are due at intervals.
func (d Directive) Periodical() bool { return d.Strategy == Periodic || d.Strategy == Both }

// OnNotice says whether a notice asks for a checkpoint.
func (d Directive) OnNotice() bool { return d.Strategy == Preemptive || d.Strategy == Both }

// Globs are the patterns of Files, relative to the step's working directory where
// they do not begin with "/".
func (d Directive) Globs() []string { return strings.Fields(d.Files) }

// Error says where a directive is wrong.
type Error struct {
	From Source
	Line int    // of the script, or of burst.toml, from 1; 0 for others
	Key  string // "" when there is none
	Err  error
}

func (e *Error) Error() string {
	where := e.From.String()
	switch e.From.Kind {
	case Script:
		where = fmt.Sprintf("line %d: #BURST", e.Line)
	case Option:
		where = "--ckpt"
	case Pool, Partition, Site:
		where = Origin{e.From, e.Line}.String()
	}
	return where + e.What()
}

// What is wrong, without where: " key: …".
func (e *Error) What() string {
	text := ": " + e.Err.Error()
	if e.Key != "" {
		text = " " + e.Key + text
	}
	return clip(text)
}

// clip makes a text that others wrote one line of a log.
func clip(text string) string {
	const most = 400
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

func (e *Error) Unwrap() error { return e.Err }

// directive is what a layer asks, without any defaults.
func (l Layer) directive() Directive {
	var d Directive
	for _, s := range l.Settings {
		if k := keyNamed(s.Key); k == nil || k.set(&d, s.Value) != nil {
			return Directive{} // not of this package's readers
		}
	}
	return d
}
