package progtest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Command is one simple command of a shell's text.
type Command struct {
	Words []string // without quotes; what a shell would put in stays, as $HOME
	Line  int      // of its first word, from 0
}

// Name is the program's, without its folder.
func (c Command) Name() string { return filepath.Base(c.Words[0]) }

func where(file string, line int) string { return file + ":" + strconv.Itoa(line) }

// Shell finds the simple commands of a text that a shell accepts: also those in
// $(...), and behind sudo, exec, env, if and their like. It knows what our pages
// use of a shell, which is not all of it.
func Shell(text string) []Command {
	s := &shell{text: text}
	for s.at < len(s.text) {
		s.list() // a subshell's parenthesis ends one
	}
	return s.found
}

type shell struct {
	text  string
	at    int // in text
	line  int
	found []Command

	words   []string
	began   int // the line of words[0]
	word    *strings.Builder
	discard bool // the word is a redirection's
}

// list reads up to the end, or to the parenthesis that closes the list.
func (s *shell) list() {
	for s.at < len(s.text) {
		c := s.text[s.at]
		s.at++
		switch {
		case c == '\\' && s.at < len(s.text):
			if s.text[s.at] == '\n' {
				s.line++
			} else {
				s.add(s.text[s.at : s.at+1])
			}
			s.at++
		case c == '\'' || c == '"':
			s.quoted(c)
		case c == '$' && strings.HasPrefix(s.text[s.at:], "(") && !strings.HasPrefix(s.text[s.at:], "(("):
			s.at++
			s.inner()
		case c == '#' && s.word == nil:
			for s.at < len(s.text) && s.text[s.at] != '\n' {
				s.at++
			}
		case c == ')':
			s.end()
			return
		case c == ' ' || c == '\t':
			s.endWord()
		case c == '<' || c == '>':
			if s.word != nil && strings.Trim(s.word.String(), "0123456789") == "" {
				s.word = nil // 2>
			}
			s.endWord()
			s.discard = true
		case c == '&' && s.discard && s.word == nil: // >&2
		case strings.IndexByte("\n;|&(", c) >= 0:
			s.end()
			if c == '\n' {
				s.line++
			}
		default:
			s.add(string(c))
		}
	}
	s.end()
}

func (s *shell) add(text string) {
	if s.word == nil {
		s.word = &strings.Builder{}
		if len(s.words) == 0 {
			s.began = s.line
		}
	}
	s.word.WriteString(text)
}

func (s *shell) quoted(quote byte) {
	s.add("")
	for s.at < len(s.text) && s.text[s.at] != quote {
		switch {
		case quote == '"' && s.text[s.at] == '\\' && s.at+1 < len(s.text):
			s.at++
			s.add(s.text[s.at : s.at+1])
			s.at++
		case quote == '"' && strings.HasPrefix(s.text[s.at:], "$(") && !strings.HasPrefix(s.text[s.at:], "$(("):
			s.at += 2
			s.inner()
		default:
			if s.text[s.at] == '\n' {
				s.line++
			}
			s.add(s.text[s.at : s.at+1])
			s.at++
		}
	}
	s.at++
}

// inner reads a list in $(...), whose output is a part of the word.
func (s *shell) inner() {
	in := &shell{text: s.text, at: s.at, line: s.line}
	in.list()
	s.at, s.line, s.found = in.at, in.line, append(s.found, in.found...)
	s.add("$()")
}

func (s *shell) endWord() {
	if s.word != nil && !s.discard {
		s.words = append(s.words, s.word.String())
	}
	if s.word != nil {
		s.discard = false
	}
	s.word = nil
}

func (s *shell) end() {
	s.endWord()
	if words := program(s.words); len(words) > 0 {
		s.found = append(s.found, Command{words, s.began})
	}
	s.words, s.discard = nil, false
}

var (
	assignment = regexp.MustCompile(`^[A-Za-z_]\w*=`)
	before     = []string{"if", "then", "else", "elif", "do", "while", "until", "!", "{", "exec", "env", "sudo", "time", "nohup"}
)

// program cuts what stands before a command's name.
func program(words []string) []string {
	for len(words) > 0 {
		switch {
		case words[0] == "-u" && len(words) > 1: // sudo's
			words = words[2:]
		case assignment.MatchString(words[0]) || slices.Contains(before, words[0]):
			words = words[1:]
		default:
			return words
		}
	}
	return nil
}
