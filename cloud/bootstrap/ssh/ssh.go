// Package ssh sets new instances up over SSH, for clouds without a metadata
// channel: it waits until a host answers, checks its key, uploads the bootstrap
// and what goes with it, and has it run once, whatever becomes of the connection
// or of this process meanwhile.
//
//	connect -> look -> upload -> start -> follow -> ended
//	   ^         |                           |
//	   +---------+---- connection lost ------+
//
// What has been started on a host is known there alone, in a folder of the
// instance: a lock that the run holds, and how it ended. So a Runner that comes
// later, with nothing but the instance's id, goes on where another was killed.
package ssh

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Config is what all hosts have in common; zero values take the defaults.
type Config struct {
	Auth Auth
	Keys Folder // where the hosts' keys are kept
	Logs string // folder of the hosts' output, one file for each node and one older; empty: it is not kept

	Hosts    int           // that are uploaded to, or started, at once; 16
	Dials    int           // connections that are made at once; 256
	DialTime time.Duration // of one connection, until it is authenticated; 20 s
	Silence  time.Duration // of a host, after which a connection is given up; 30 s
	Poll     time.Duration // between two looks at a run; 3 s
	Pause    time.Duration // the longest pause between two attempts; 15 s
	Refused  time.Duration // so long a host may refuse the login, or a command, before it is given up: the image may make the user late; 8 min

	Log *slog.Logger
	// Step, unless nil, is told of each thing before it is done to a host; an error stands
	// for the death of this process there.
	Step func(name string) error
}

// Host is one instance.
type Host struct {
	Instance string // whose key is kept: addresses are used again
	Node     string // for words and the log's name
	Addr     netip.Addr
	Port     int    // 0: 22
	User     string // who logs in; if it is not root, it must have sudo without a password
	// HostKeys, of which the host must show one, are what the cloud's own channel has told; empty: the first that it shows is pinned.
	HostKeys []ssh.PublicKey
	// Word is what the cloud has told the host, and the host must say before the first key
	// that it shows is pinned, and anything is sent; empty: it need say nothing.
	Word string
}

func (h Host) String() string { return fmt.Sprintf("node %s (%s, %s)", h.Node, h.Instance, h.Addr) }

// File is put on the host before the run.
type File struct {
	Name string // in the run's folder, which is its working folder
	To   string // absolute path to which it is copied, owned by root; empty: it stays
	Mode fs.FileMode
	Data []byte
}

// Work is what is to be done on a host. Script is run by bash as root.
type Work struct {
	Script []byte
	Files  func(arch string) ([]File, error) // arch is "amd64" or "arm64"; nil: none
	Limit  time.Duration                     // of the run, after which its processes are killed
	Heard  func(tail []byte)                 // is told of the end of the output when there is more of it; nil: nobody is
}

var instances = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`) })

var fileNames = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9.-]{0,40}$`) })

// Failure is a run that has ended badly: nothing will mend it.
type Failure struct {
	Host Host
	Code int    // of the script; 124: it ran too long
	Why  string // one line, the script's own where it says it
	Tail string // of its output
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Host, f.Why) }

// Runner sets hosts up. Run may be called for many at once.
type Runner struct {
	cfg   Config
	hosts chan struct{}
	dials chan struct{}
}

// New makes a Runner.
func New(c Config) *Runner {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	number := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	number(&c.Hosts, 16)
	number(&c.Dials, 256)
	def(&c.DialTime, 20*time.Second)
	def(&c.Refused, 8*time.Minute)
	def(&c.Silence, 30*time.Second)
	def(&c.Poll, 3*time.Second)
	def(&c.Pause, 15*time.Second)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Runner{cfg: c, hosts: make(chan struct{}, c.Hosts), dials: make(chan struct{}, c.Dials)}
}

// ErrGivenUp is wrapped where a host was not set up, and no run has failed:
// it never answered, its key is another's, it refuses the login, or time is up.
var ErrGivenUp = errors.New("given up")

func (h Host) check() error {
	switch {
	case !instances().MatchString(h.Instance) || strings.Contains(h.Instance, ".."):
		return fmt.Errorf("%w: %q is no instance's id", ErrGivenUp, h.Instance)
	case !h.Addr.IsValid():
		return fmt.Errorf("%w: %s has no address", ErrGivenUp, h.Instance)
	case h.User == "":
		return fmt.Errorf("%w: no user is named who logs in on %s", ErrGivenUp, h)
	}
	return nil
}

// enter takes one of the places; leave gives it back.
func enter(ctx context.Context, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *Runner) step(name string) error {
	if r.cfg.Step == nil {
		return nil
	}
	return r.cfg.Step(name)
}
