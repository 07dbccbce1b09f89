package directive

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// signals are those that scancel knows by name. KILL and STOP are left out: a
// job cannot catch them, and so cannot checkpoint.
var signals = []string{"HUP", "INT", "QUIT", "ABRT", "USR1", "USR2", "ALRM", "TERM", "URG", "CONT", "TSTP", "TTIN", "TTOU", "XCPU"}

func setSignal(d *Directive, v string) error {
	name, batch := strings.CutPrefix(strings.ToUpper(v), "B:")
	name = strings.TrimPrefix(name, "SIG")
	if !slices.Contains(signals, name) {
		return fmt.Errorf("%q is not one of %s", v, strings.Join(signals, ", "))
	}
	d.Signal, d.Batch = name, batch
	return nil
}

func setGrace(d *Directive, v string) error {
	grace, err := time.ParseDuration(v)
	if seconds, numErr := strconv.ParseUint(v, 10, 32); numErr == nil {
		grace, err = time.Duration(seconds)*time.Second, nil
	}
	if err != nil || grace <= 0 || grace > maxGrace {
		return fmt.Errorf("%q is not a time such as 20s or 2m30s, above 0 and up to 24h", v)
	}
	d.Grace = grace
	return nil
}

// setting is one key=value.
type setting struct {
	line       int
	key, value string
}

// split parts a text into its settings.
func split(text string, line int) ([]setting, error) {
	var all []setting
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return all, nil
		}
		end := strings.IndexAny(text, "= \t\r\n")
		if end <= 0 || text[end] != '=' {
			word, _, _ := strings.Cut(text, " ")
			return nil, &Error{line, "", fmt.Errorf("%q is not key=value", word)}
		}
		s := setting{line: line, key: text[:end]}
		value, rest, err := unquote(text[end+1:])
		if err != nil {
			return nil, &Error{line, s.key, err}
		}
		s.value, text = value, rest
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
