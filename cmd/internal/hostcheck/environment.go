package hostcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Environment is what burstd's unit sets for burstd.
type Environment struct {
	User   string              // as whom it runs burstd
	Values map[string]Variable // by name
	Unread []error             // files of it that could not be read
}

// Variable is one of an Environment. Its value may be a secret.
type Variable struct{ Value, From string } // From is the unit, or a file that it names

// Environment asks systemd for what burstd's unit sets; false: there is no systemd, or no unit.
func (h *Host) Environment(ctx context.Context) (Environment, bool) {
	text, err := h.Run(ctx, "systemctl", "show", service, "--property=LoadState,User,Environment,EnvironmentFiles")
	if err != nil {
		return Environment{}, false
	}
	e := Environment{User: "root", Values: map[string]Variable{}}
	loaded := false
	var files []string
	for line := range strings.Lines(text) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "LoadState":
			loaded = value == "loaded"
		case "User":
			e.User = cmp.Or(value, e.User)
		case "Environment":
			for value != "" {
				var word string
				word, value = unquote(value, " ")
				e.set(word, service)
			}
		case "EnvironmentFiles": // a line for each, in their order
			files = append(files, value)
		}
	}
	for _, f := range files { // after the unit's own, as systemd has it
		path, how, _ := strings.Cut(f, " (ignore_errors=")
		paths, err := filepath.Glob(h.at(path))
		if err != nil || len(paths) == 0 {
			paths = []string{h.at(path)}
		}
		for _, p := range paths {
			text, err := os.ReadFile(p)
			switch {
			case errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(how, "yes"): // "-PATH", which need not be there
			case err != nil:
				e.Unread = append(e.Unread, fmt.Errorf("EnvironmentFile= of %s: %w", service, err))
			default:
				e.read(string(text), "/"+relative(h.at("/"), p))
			}
		}
	}
	return e, loaded
}

// read takes the lines of an EnvironmentFile in.
func (e *Environment) read(text, from string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
		line = strings.TrimSpace(line)
		if key, value, has := strings.Cut(line, "="); has && !strings.ContainsAny(line[:1], "#;") {
			value, _ = unquote(strings.TrimSpace(value), "")
			e.set(strings.TrimSpace(key)+"="+value, from)
		}
	}
}

// set takes NAME=VALUE; what is none, as "[unprintable]" of old versions of systemctl, is nothing.
func (e *Environment) set(assignment, from string) {
	if name, value, has := strings.Cut(assignment, "="); has {
		e.Values[name] = Variable{value, from}
	}
}

// unquote reads a value in which parts are quoted as a shell does, as far as a separator that is not. rest is what
// follows the separators.
func unquote(s, separators string) (value, rest string) {
	var b strings.Builder
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && (quote == 0 || quote == '"' && strings.IndexByte("\"\\`$", s[i+1]) >= 0):
			i++
			b.WriteByte(s[i])
		case c == quote && quote != 0:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote = c
		case quote == 0 && strings.IndexByte(separators, c) >= 0:
			return b.String(), strings.TrimLeft(s[i:], separators)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}
