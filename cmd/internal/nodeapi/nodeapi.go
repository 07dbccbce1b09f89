// Package nodeapi is burstd's HTTP API for nodes, on a TCP address: a booting
// node asks which one it is, and reports how its boot goes; its burst-agent
// passes on what the cloud announces, and says how the node is; the burst-sruns
// of jobs open sessions (package ft/session). There is nothing else here, above
// all nothing that an admin may do.
//
//	POST /v1/node/whoami  {"instance"}                  -> {"instance","node","cluster","slurm","servers"}
//	POST /v1/node/report  {"instance","stage","text"}   -> {}
//	POST /v1/node/notice  {"instance","kind","action","deadline","event","cancelled"} -> {"answers"}: it is durable
//	POST /v1/node/beat    {"instance","version","slurmd_started","slurmd","spool_used"} -> {"every"}, in seconds
//	POST /v1/node/agent   {"instance","arch"}           -> burst-agent, packed by gzip
//	POST /v1/job/before   jobword.Asking                -> jobword.Before and "answers"
//	POST /v1/job/open     session.Hello                 -> session.Word and "answers"
//	POST /v1/job/poll     session.Question              -> session.Word and "answers", when there is something or the question has waited
//	POST /v1/job/answer   session.Given                 -> {"answers"}: it is durable
//	POST /v1/job/close    session.End                   -> {"answers"}
//
// A request carries `Authorization: MUNGE <credential>`; the payload of the
// credential is the method, the path and the SHA-256 of the body in hex, with
// one blank between, and it is root's; under /v1/job it is that of the job's
// owner. munged lets each credential pass once. The source address must be the
// instance's. An answer 200 carries the header Burst-Credential: a credential
// whose payload is the SHA-256 of the answer's body in hex; that of whoami names
// the instance, and that of a notice, and of all under /v1/job, has as "answers"
// the SHA-256 of the request's credential in hex, so that they are of no use to
// another. The answer to a beat carries none: there are many, and nothing
// follows from it. Other answers have {"error"}; those to be asked again carry
// Retry-After, in seconds. A notice that is answered 4xx without it is
// refused, and sent again only because that may be an error of somebody else's.
//
// Under /v1/job the source address is one of the job's nodes', or none of an
// instance of ours. A refusal has {"error","kind","answers"} with a credential
// too, as soon as it is known who asks: a false one would end a job's protection.
// kind is unknown, replaced, not-yours, invalid or full, session's errors; with
// none the burst-srun asks again.
package nodeapi

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// Identity says which node an instance is.
type Identity struct {
	Node    string `json:"node"`
	Cluster string `json:"cluster"`
	Slurm   string `json:"slurm"` // the controller's version, "22.05.8"; empty: not known
	// Servers are the nodes whose folders this one mounts, with their addresses, as "nfs1=10.0.0.4 nfs2=10.0.0.5";
	// one that is not up is left out.
	Servers string `json:"servers,omitempty"`
}

// Stages of a boot, in their order; failed ends it at any of them.
const (
	Reachable = "reachable" // the instance has an address and a network
	Setup     = "setup"     // the site's commands run
	Ready     = "ready"     // slurmd has been started
	Failed    = "failed"    // with the failing line as text
)

// Report is a node's word on its boot.
type Report struct {
	Instance string
	Addr     string // where it came from
	Stage    string
	Text     string // one line, at most 4 KiB
}

// Beat is an agent's word on how its node is.
type Beat struct {
	Instance string
	Addr     string // where it came from
	Version  string // of the agent
	// Started holds the starts of slurmd within the last hour by the node's
	// clock, at most 20 and none of the future; in any order.
	Started []time.Time
	Stopped bool    // slurmd does not run now
	Spool   float64 // per cent in use of the file system of slurmd's spool; -1: not known
}

// Backend knows the instances. Methods may be called concurrently. An error
// that wraps neither of the two below is ours, and the node asks again.
type Backend interface {
	WhoAmI(ctx context.Context, instance, addr string) (Identity, error)
	Report(ctx context.Context, r Report) error
	// Notice takes what the metadata of n.Instance, which speaks from addr,
	// announces; nil says that it is durable.
	Notice(ctx context.Context, addr string, n cloud.Notice) error
	// Beat says how often the agent is to beat, in whole seconds.
	Beat(ctx context.Context, b Beat) (every time.Duration, err error)
	// Known says by its error whether the instance is a node of ours at addr.
	Known(ctx context.Context, instance, addr string) error
}

// What a Backend answers with.
var (
	// ErrNotYet: the instance is not known, or not assigned, so far: it asks again.
	ErrNotYet = errors.New("the instance is not known yet")
	// ErrNotYours: the instance is none of ours, or has another address.
	ErrNotYours = errors.New("no instance of this cluster has this id and address")
)

// credentials is munged.
type credentials interface {
	EncodeFor(ctx context.Context, payload []byte, life time.Duration) (string, error)
	Decode(ctx context.Context, credential string) (munge.Credential, error)
}

// Limits of a request.
const (
	maxBody   = 16 << 10 // bytes
	maxText   = 4 << 10  // bytes of a report's text that are kept
	maxWord   = 64       // bytes of an action, and of a version
	maxEvent  = 256      // bytes of an event's id
	maxStarts = 20
)

var instanceIDs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`) })

// oneLine makes a node's text fit for an event, at most so many bytes of it:
// lines are joined, and what is no text is replaced.
func oneLine(text string, most int) string {
	text = strings.ToValidUTF8(text, "?")
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	for i, l := range lines {
		lines[i] = strings.TrimSpace(l)
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.Join(lines, " | "))
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
