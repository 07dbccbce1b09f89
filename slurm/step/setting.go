package step

import (
	"slices"
	"strings"
)

// Setting is one thing that is put to a step beside what its user wrote. What the user
// has set stays as it is: who makes settings leaves it out, or has it as Kept.
type Setting struct {
	Variable string   // NAME=value, put into the environment
	Option   string   // of srun's, one word, put before the user's
	Before   []string // words put before the user's program, and what they begin comes first
	Launcher []string // takes the place of srun and all its options: mpirun with its arguments
	Kept     string   // nothing is put: what the user has set, NAME=value or an option
	Why      string   // in a line, for --explain
}

// Text is what the setting puts, in a line.
func (s Setting) Text() string {
	switch {
	case s.Variable != "":
		return s.Variable
	case s.Option != "":
		return s.Option
	case s.Kept != "":
		return s.Kept
	case len(s.Launcher) > 0:
		return strings.Join(s.Launcher, " ")
	}
	return strings.Join(s.Before, " ")
}

// Settings are in the order in which they were made.
type Settings []Setting

// Line puts the settings to a command line: args begin with srun, and the user's program
// is at. It returns the line, and where what srun or the launcher starts begins in it.
func (s Settings) Line(args []string, at int) ([]string, int) {
	head, program := slices.Clone(args[:at]), slices.Clone(args[at:])
	options := 1
	for _, one := range s {
		switch {
		case one.Option != "":
			head = slices.Insert(head, options, one.Option)
			options++
		case len(one.Before) > 0:
			program = slices.Concat(one.Before, program)
		}
	}
	for _, one := range s {
		if len(one.Launcher) > 0 {
			head = slices.Clone(one.Launcher)
		}
	}
	return slices.Concat(head, program), len(head)
}

// Environ puts the settings to an environment: a variable that is there is replaced.
func (s Settings) Environ(environ []string) []string {
	environ = slices.Clone(environ)
	for _, one := range s {
		if name, _, ok := strings.Cut(one.Variable, "="); ok {
			environ = slices.DeleteFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
			environ = append(environ, one.Variable)
		}
	}
	return environ
}
