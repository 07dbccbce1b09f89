package step

import (
	"fmt"
	"strings"
)

// UnknownError says that a word is no option that is known, or stands for
// several: of the site's plugins, of another version, or a mistake. Where the
// program begins cannot be told then.
type UnknownError struct{ Word string }

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%q is no option of srun that is known", e.Word)
}

// Given is an option as it was given.
type Given struct {
	Option
	Value string
	Has   bool // it has a value
}

// Part is one component of a step: most steps have one, those of heterogeneous
// jobs are parted by words ":".
type Part struct {
	Options []Given
	// Program is where the user's command begins in Call.Args, and End where it
	// ends; equal: there is none.
	Program, End int
}

// Call is a command line of srun.
type Call struct {
	Args  []string // as srun is to have them: without its name, and without Own options
	Own   []Given
	Parts []Part // one at least
}

// Parse reads the arguments that follow srun's name as getopt_long does for
// srun: abbreviated long options, joined letters, no option after the program.
// Own options may stand among srun's, before the first program.
func Parse(args []string, options []Option) (Call, error) {
	var c Call
	p := parser{options: options, left: args}
	for {
		part, err := p.part(&c)
		if err != nil {
			return Call{}, err
		}
		c.Parts = append(c.Parts, part)
		if len(p.left) == 0 {
			return c, nil
		}
		c.Args, p.left = append(c.Args, p.left[0]), p.left[1:] // ":"
	}
}

type parser struct {
	options []Option
	left    []string
}

// part reads one component, up to the ":" that follows it.
func (p *parser) part(c *Call) (Part, error) {
	var part Part
	for len(p.left) > 0 {
		word := p.left[0]
		if len(word) < 2 || word[0] != '-' {
			break
		}
		if word == "--" {
			c.Args, p.left = append(c.Args, word), p.left[1:]
			break
		}
		read := p.short
		if strings.HasPrefix(word, "--") {
			read = p.long
		}
		given, used, err := read()
		if err != nil {
			return Part{}, err
		}
		if given[0].Own {
			if len(c.Parts) > 0 {
				return Part{}, &UnknownError{word}
			}
			c.Own = append(c.Own, given[0])
		} else {
			c.Args = append(c.Args, p.left[:used]...)
			part.Options = append(part.Options, given...)
		}
		p.left = p.left[used:]
	}
	part.Program = len(c.Args)
	for len(p.left) > 0 && p.left[0] != ":" {
		c.Args, p.left = append(c.Args, p.left[0]), p.left[1:]
	}
	part.End = len(c.Args)
	return part, nil
}

// long reads --name, --name=value or --name value, and how many words it is.
func (p *parser) long() ([]Given, int, error) {
	word := p.left[0]
	name, value, has := strings.Cut(word[2:], "=")
	o, err := p.named(name)
	if err != nil {
		return nil, 0, err
	}
	g := Given{o, value, has}
	switch {
	case o.Arg == NoArg && has:
		return nil, 0, fmt.Errorf("--%s takes no argument, and has %q", o.Name, value)
	case o.Arg != Required || has:
		return []Given{g}, 1, nil
	case len(p.left) < 2:
		return nil, 0, fmt.Errorf("--%s needs an argument", o.Name)
	}
	g.Value, g.Has = p.left[1], true
	return []Given{g}, 2, nil
}

// named finds an option by its name, or by the beginning of one.
func (p *parser) named(name string) (Option, error) {
	var found []Option
	for _, o := range p.options {
		switch {
		case o.Name == name:
			return o, nil
		case !o.Own && strings.HasPrefix(o.Name, name):
			found = append(found, o)
		}
	}
	if len(found) != 1 {
		return Option{}, &UnknownError{"--" + name}
	}
	return found[0], nil
}

// short reads the letters of one word, of which the last may have an argument.
func (p *parser) short() ([]Given, int, error) {
	word := p.left[0]
	var all []Given
	for i := 1; i < len(word); i++ {
		o, ok := p.lettered(word[i])
		if !ok {
			return nil, 0, &UnknownError{"-" + word[i:i+1]}
		}
		g := Given{Option: o}
		rest := word[i+1:]
		switch {
		case o.Arg == NoArg:
			all = append(all, g)
			continue
		case rest != "":
			g.Value, g.Has = rest, true
		case o.Arg == Required && len(p.left) < 2:
			return nil, 0, fmt.Errorf("-%c needs an argument", o.Short)
		case o.Arg == Required:
			g.Value, g.Has = p.left[1], true
			return append(all, g), 2, nil
		}
		return append(all, g), 1, nil
	}
	return all, 1, nil
}

func (p *parser) lettered(letter byte) (Option, bool) {
	for _, o := range p.options {
		if o.Short == letter && letter != 0 {
			return o, true
		}
	}
	return Option{}, false
}
