package firstfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Ask asks in a terminal for what has no answer yet; an answer that cannot be is asked for again, with the
// reason. Those that were given before, by flags, are judged first.
func Ask(ctx context.Context, in io.Reader, out io.Writer, f Found, a Answers) error {
	if err := judgeGiven(f, a); err != nil {
		return err
	}
	lines := reader{r: bufio.NewReader(in)}
	for done := map[string]bool{}; ; {
		q, more := nextOf(a, done)
		if !more {
			return nil
		}
		done[q.Name] = true
		if _, given := a[q.Name]; given {
			continue
		}
		for {
			answer, err := lines.ask(ctx, out, f, q, a)
			if err != nil {
				return err
			}
			a[q.Name] = answer
			if err = Judge(f, q, a); err == nil && q.Name == "provider" {
				if err := judgeGiven(f, a); err != nil { // flags, which no answer mends
					return err
				}
			}
			if err == nil {
				break
			}
			delete(a, q.Name)
			if _, err := fmt.Fprintf(out, "  That does not do: %v\n", err); err != nil {
				return err
			}
		}
	}
}

// nextOf is the first question that was not looked at: which there are depends on the answers before it.
func nextOf(a Answers, done map[string]bool) (Question, bool) {
	for _, q := range Asked(a) {
		if !done[q.Name] {
			return q, true
		}
	}
	return Question{}, false
}

// Fill gives all that has no answer its default, and names what has none.
func Fill(f Found, a Answers) error {
	if err := judgeGiven(f, a); err != nil {
		return err
	}
	var lacks []string
	for done := map[string]bool{}; ; {
		q, more := nextOf(a, done)
		if !more {
			break
		}
		done[q.Name] = true
		if _, given := a[q.Name]; given {
			continue
		}
		if q.Default != nil {
			a[q.Name] = q.Default(f, a)
		}
		switch {
		case a[q.Name] == "" && !q.Empty:
			delete(a, q.Name)
			lack := "--" + q.Name
			if q.None != nil && q.None(f, a) != "" {
				lack += " (" + q.None(f, a) + ")"
			}
			lacks = append(lacks, lack)
		default:
			if err := Judge(f, q, a); err != nil {
				return fmt.Errorf("--%s, by default %q: %w", q.Name, a[q.Name], err)
			}
			if q.Name == "provider" {
				if err := judgeGiven(f, a); err != nil {
					return err
				}
			}
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("provider %q needs %s too", a["provider"], strings.Join(lacks, ", "))
	}
	return nil
}

// judgeGiven refuses answers that came by flags and cannot be, or are for another provider; before the provider is known,
// and it follows from no flag, none.
func judgeGiven(f Found, a Answers) error {
	if a["provider"] == "" {
		// Whose flags these are says which.
		delete(a, "provider")
		for _, q := range Questions {
			if _, given := a[q.Name]; given && len(q.Kinds) == 1 && unique(q) {
				a["provider"] = q.Kinds[0]
			}
		}
	}
	_, known := a["provider"]
	if !known {
		return nil // it will be asked for, or be the default
	}
	if err := Judge(f, Questions[0], a); err != nil {
		return fmt.Errorf("--provider: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(a)) {
		asked := false
		for _, q := range Asked(a) {
			if q.Name != name {
				continue
			}
			asked = true
			if err := Judge(f, q, a); err != nil {
				return fmt.Errorf("--%s %q: %w", name, a[name], err)
			}
		}
		if !asked {
			return fmt.Errorf("--%s is not for provider %q: name --provider %s", name, a["provider"], strings.Join(kindsOf(name), " or "))
		}
	}
	return nil
}

// kindsOf are the kinds of providers that have a question of that name.
func kindsOf(name string) (all []string) {
	for _, q := range Questions {
		if q.Name == name {
			all = append(all, q.Kinds...)
		}
	}
	return all
}

// unique says whether one kind of provider alone has a question of that name.
func unique(q Question) bool {
	n := 0
	for _, other := range Questions {
		if other.Name == q.Name {
			n++
		}
	}
	return n == 1
}

type reader struct{ r *bufio.Reader }

// ask puts one question, and returns the answer or the default.
func (l reader) ask(ctx context.Context, out io.Writer, f Found, q Question, a Answers) (string, error) {
	def := ""
	if q.Default != nil {
		def = q.Default(f, a)
	}
	help := q.Help
	if q.None != nil && q.None(f, a) != "" {
		help += "; " + q.None(f, a)
	}
	shown := ""
	switch {
	case def != "" && q.Empty:
		shown = " [" + def + ", - for none]"
	case def != "":
		shown = " [" + def + "]"
	case q.Empty:
		shown = " [none]"
	}
	if _, err := fmt.Fprintf(out, "\n%s\n  (%s)\n%s> ", q.Ask, help, strings.TrimPrefix(shown+" ", " ")); err != nil {
		return "", err
	}
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() { // a read does not end with ctx; the process does
		text, err := l.r.ReadString('\n')
		read <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		return "", errors.New("interrupted; nothing is written")
	case got := <-read:
		text := strings.TrimSpace(got.text)
		if got.err != nil && text == "" {
			return "", errors.New("the input has ended; nothing is written")
		}
		switch {
		case text == "":
			return def, nil
		case text == "-" && q.Empty:
			return "", nil
		}
		return text, nil
	}
}
