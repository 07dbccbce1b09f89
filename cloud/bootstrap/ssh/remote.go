package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed" // for the host's part
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"
)

//go:embed host.sh
var hostScript string

// place is the folder on hosts that has one for each instance.
const place = "/var/lib/burst/setup"

// maxOutput is how much of a run's output one answer has at most, in bytes, as host.sh knows.
const maxOutput = 64 << 10

// maxAnswer is more than host.sh ever says, in bytes.
const maxAnswer = 256 << 10

// asRoot feeds a script to a shell, by sudo where the user is another, whatever the login shell is.
const asRoot = `sh -c 'if [ "$(id -u)" = 0 ]; then exec sh -s -- "$@"; else exec sudo -n sh -s -- "$@"; fi' sh`

// answer is what host.sh has said.
type answer struct {
	state  string // "none", "running", "ended" or "lost"
	number int    // of "ended": the exit code; of "lost": how often it was started
	free   int64  // KiB
	arch   string // uname's
	word   string
	files  map[string]string
	from   int64 // where output begins
	output []byte
}

// verbTime is how long a host may take for one thing, as with a disk that hangs:
// then the connection is given up, and with it the place that it takes.
const verbTime = 3 * time.Minute

// verb has host.sh do one thing on the host.
func (c *connection) verb(ctx context.Context, h Host, words ...string) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, verbTime, fmt.Errorf("the host does not %s within %s", words[0], verbTime))
	defer cancel()
	mark := "burst-" + rand.Text()
	command := asRoot + " " + mark + " " + path.Join(place, h.Instance)
	for _, w := range words {
		command += " " + w // names, numbers and digests: a shell changes none of them
	}
	out, errText, err := c.exec(ctx, command, hostScript)
	a, aerr := parse(mark, out)
	var exit *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case ctx.Err() != nil:
		return answer{}, cause(ctx, err)
	case errors.As(aerr, new(said)):
		return answer{}, refused{fmt.Errorf("the host says: %w", aerr)}
	case errors.As(err, &missing), err != nil && !errors.As(err, &exit):
		return answer{}, fmt.Errorf("the connection broke off: %w", err)
	case err != nil || aerr != nil:
		return answer{}, refused{fmt.Errorf("user %s cannot run commands there as root (%w): the host says %q", h.User, errors.Join(err, aerr), oneLine(string(errText)+" "+string(out)))}
	}
	return a, nil
}

// exec runs a command with a text as its input; of what it says no more than maxAnswer is kept.
func (c *connection) exec(ctx context.Context, command, input string) (out, errOut []byte, err error) {
	stop := context.AfterFunc(ctx, c.close) // also where the host never answers that it opens a session
	defer stop()
	s, err := c.NewSession()
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	var o, e limited
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader(input), &o, &e
	err = s.Run(command)
	return o.Bytes(), e.Bytes(), err
}

// limited takes all, and keeps the first of it. The library writes from goroutines of its own.
type limited struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *limited) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.Buffer.Write(text[:min(len(text), maxAnswer-l.Len())])
	return len(text), err
}

// ReadFrom keeps io.Copy from bytes.Buffer's own, which knows no limit.
func (l *limited) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{l}, r)
}

// said is an error in host.sh's words.
type said string

func (s said) Error() string { return string(s) }

// parse reads what host.sh has printed under mark. What stands before "begin"
// is the host's own affair.
func parse(mark string, out []byte) (answer, error) {
	a := answer{files: map[string]string{}}
	begun := false
	for len(out) > 0 {
		line, rest, whole := bytes.Cut(out, []byte("\n"))
		if !whole {
			break
		}
		out = rest
		text, ours := strings.CutPrefix(string(line), mark+" ")
		if !ours {
			continue
		}
		word, value, _ := strings.Cut(text, " ")
		var err error
		switch word {
		case "begin":
			begun = true
		case "error":
			return a, said(oneLine(value))
		case "end":
			if begun {
				return a, nil
			}
		case "state":
			err = a.readState(value)
		case "free":
			a.free, _ = strconv.ParseInt(value, 10, 64) // of use in words only
		case "arch":
			a.arch = oneLine(value)
		case "word":
			a.word = value
		case "file":
			name, digest, _ := strings.Cut(value, " ")
			a.files[name] = digest
		case "output":
			var n int64
			if _, err := fmt.Sscanf(value, "%d %d", &a.from, &n); err != nil || n < 0 || a.from < 0 || n > int64(len(out)) || !begun || a.state == "" {
				return a, errors.New("its answer is cut off")
			}
			a.output = out[:n]
			return a, nil
		}
		if err != nil {
			return a, err
		}
	}
	return a, errors.New("it gives no answer that can be read")
}

func (a *answer) readState(text string) (err error) {
	var number string
	a.state, number, _ = strings.Cut(text, " ")
	switch a.state {
	case "none", "running":
	case "ended", "lost":
		if a.number, err = strconv.Atoi(number); err != nil || a.number < 0 {
			return fmt.Errorf("its state %q cannot be read", oneLine(text))
		}
	default:
		return fmt.Errorf("its state %q cannot be read", oneLine(text))
	}
	return nil
}

// oneLine makes one short line of what a host says, without what a terminal would obey.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(printable(text)), " ")
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

// printable leaves text, its lines and tabs.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) && r != unicode.ReplacementChar {
			return r
		}
		return -1
	}, text)
}
