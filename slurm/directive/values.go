package directive

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// signals are those that scancel knows by name. KILL and STOP are left out: a
// job cannot catch them, and so cannot checkpoint.
var signals = []string{"HUP", "INT", "QUIT", "ABRT", "USR1", "USR2", "ALRM", "TERM", "URG", "CONT", "TSTP", "TTIN", "TTOU", "XCPU"}

// Methods are all values of ckpt=.
func Methods() []string {
	return []string{None, DMTCP, MANA, SCR, Libburst, CRIU, BySignal, ByCommand}
}

func setMethod(d *Directive, v string) error {
	d.Method = v
	return oneOf(v, Methods()...)
}

func setStrategy(d *Directive, v string) error {
	d.Strategy = v
	return oneOf(v, None, Periodic, Preemptive, Both)
}

func setPreset(d *Directive, v string) error {
	d.Preset = v
	return oneOf(v, BLCR)
}

func setAfter(d *Directive, v string) error {
	d.After = v
	return oneOf(v, PowerDown, None)
}

func setStay(d *Directive, v string) error {
	d.Stay = v
	return oneOf(v, "yes", "no")
}

// dollars are plain digits, with cents if need be: other ways to write a number mean
// different things to different readers.
var dollars = regexp.MustCompile(`^[0-9]{1,7}(\.[0-9]{1,2})?$`)

func setBudget(d *Directive, v string) (err error) {
	if d.Budget, err = strconv.ParseFloat(v, 64); err != nil || !dollars.MatchString(v) || d.Budget <= 0 {
		d.Budget = 0
		return fmt.Errorf("%q is not an amount of USD above 0, such as 20 or 7.50", v)
	}
	return nil
}

func getBudget(d *Directive) string {
	if d.Budget == 0 {
		return ""
	}
	return strconv.FormatFloat(d.Budget, 'f', -1, 64)
}

func setContainer(d *Directive, v string) error {
	d.Container = v
	return plain(v)
}

func oneOf(v string, words ...string) error {
	if slices.Contains(words, v) {
		return nil
	}
	if len(words) == 1 {
		return fmt.Errorf("%q is not %s", v, words[0])
	}
	return fmt.Errorf("%q is not one of %s", v, strings.Join(words, ", "))
}

func setSignal(d *Directive, v string) error {
	name, batch := strings.CutPrefix(strings.ToUpper(v), "B:")
	name = strings.TrimPrefix(name, "SIG")
	if !slices.Contains(signals, name) {
		return fmt.Errorf("%q is not one of %s", v, strings.Join(signals, ", "))
	}
	d.Signal, d.Batch = name, batch
	return nil
}

func getSignal(d *Directive) string {
	if d.Batch {
		return "B:" + d.Signal
	}
	return d.Signal
}

func setGrace(d *Directive, v string) (err error) {
	d.Grace, err = span(v, maxGrace)
	return err
}

func setInterval(d *Directive, v string) (err error) {
	if d.Interval = 0; v == "auto" {
		return nil
	}
	if d.Interval, err = span(v, maxInterval); err != nil {
		return fmt.Errorf("%w, or auto", err)
	}
	return nil
}

func getInterval(d *Directive) string {
	switch {
	case !d.Periodical():
		return ""
	case d.Interval == 0:
		return "auto"
	}
	return short(d.Interval)
}

// longestTime, in bytes, is more than any time needs: job_submit.lua, for which slurmctld
// waits, reads none that is longer.
const longestTime = 64

// span is a time above 0.
func span(v string, most time.Duration) (time.Duration, error) {
	t, err := time.ParseDuration(v)
	if seconds, numErr := strconv.ParseUint(v, 10, 32); numErr == nil {
		t, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || len(v) > longestTime || t <= 0 || t > most {
		return 0, fmt.Errorf("%q is not a time such as 20s or 2m30s, above 0 and up to %s", v, short(most))
	}
	return t, nil
}

// short is a time without its zero units: 24h, not 24h0m0s; "" for none.
func short(t time.Duration) string {
	if t == 0 {
		return ""
	}
	text := t.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func setKeep(d *Directive, v string) (err error) {
	d.Keep, err = number(v, 1, 100)
	return err
}

func getKeep(d *Directive) string {
	if d.Keep == 0 {
		return ""
	}
	return strconv.Itoa(d.Keep)
}

func setKeepAfter(d *Directive, v string) error {
	d.KeepAfter = v == "yes"
	return oneOf(v, "yes", "no")
}

func getKeepAfter(d *Directive) string {
	if d.KeepAfter {
		return "yes"
	}
	return ""
}

func setRetries(d *Directive, v string) (err error) {
	d.Retries, err = number(v, 0, 1000)
	return err
}

func getRetries(d *Directive) string { return strconv.Itoa(d.Retries) }

func number(v string, least, most int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q is not a number from %d to %d", v, least, most)
	}
	return n, nil
}

var labels = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,62}$`) })

func setLabel(d *Directive, v string) error {
	if !labels().MatchString(v) {
		return fmt.Errorf("%q is not a name of up to 63 letters, digits, dots, dashes, plus signs and underscores, a letter or digit first", v)
	}
	d.Label = v
	return nil
}

func setFiles(d *Directive, v string) error {
	if err := plain(v); err != nil {
		return err
	}
	for _, p := range strings.Fields(v) {
		_, err := filepath.Match(p, "")
		switch clean := filepath.Clean(p); {
		case err != nil || clean == "." || clean == "/":
			return fmt.Errorf("%q is not a pattern such as \"out/*.ckpt\"", p)
		case !filepath.IsAbs(p) && !filepath.IsLocal(p):
			return fmt.Errorf("%q is not below the step's folder: name it by an absolute path", p)
		case clean != p:
			return fmt.Errorf("%q is not in its shortest form: write %q", p, clean)
		}
	}
	d.Files = v
	return nil
}

// command sets one of the commands of the command method.
func command(field func(d *Directive) *string) func(d *Directive, v string) error {
	return func(d *Directive, v string) error {
		*field(d) = v
		return plain(v)
	}
}

// plain refuses a text that is empty, or longer than a path or a command is, or that
// would be another one on the next line.
func plain(v string) error {
	switch {
	case strings.TrimSpace(v) == "":
		return errors.New("is empty")
	case len(v) > 4096:
		return errors.New("is longer than 4096 bytes")
	case strings.ContainsFunc(v, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
		return errors.New("holds a control character")
	}
	return nil
}

// split parts a text into its settings.
func split(text string, line int) ([]Setting, *Error) {
	all, _, err := splitTo("#", text, line)
	return all, err
}

// splitTo is split up to a word that begins with stop, and returns the text from there on.
func splitTo(stop, text string, line int) (all []Setting, rest string, wrong *Error) {
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" || text[0] == '#' || strings.HasPrefix(text, stop) {
			return all, text, nil
		}
		end := strings.IndexAny(text, "= \t\r\n")
		if end < 0 && text == stay || end > 0 && text[end] != '=' && text[:end] == stay {
			all = append(all, Setting{Line: line, Key: stay, Value: "yes"})
			text = text[len(stay):]
			continue
		}
		if end <= 0 || text[end] != '=' {
			word, _, _ := strings.Cut(text, " ")
			return nil, "", &Error{Line: line, Err: fmt.Errorf("%q is not key=value", word)}
		}
		s := Setting{Line: line, Key: text[:end]}
		value, rest, err := unquote(text[end+1:])
		if err != nil {
			return nil, "", &Error{Line: line, Key: s.Key, Err: err}
		}
		s.Value, text = value, rest
		all = append(all, s)
	}
}

// unquote takes one value from the front of text; parts in quotes may hold spaces.
func unquote(text string) (value, rest string, err error) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0:
			return b.String(), text[i:], nil
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case quote == '"' && c == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	if quote != 0 {
		return "", "", errors.New("a quote is not closed")
	}
	return b.String(), "", nil
}
