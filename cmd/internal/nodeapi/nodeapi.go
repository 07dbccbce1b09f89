// Package nodeapi is burstd's HTTP API for booting nodes, on a TCP address: a
// node asks which one it is, and reports how its boot goes. There is nothing
// else here, above all nothing that an admin may do.
//
//	POST /v1/node/whoami  {"instance"}                  -> {"instance","node","cluster","slurm"}
//	POST /v1/node/report  {"instance","stage","text"}   -> {}
//
// A request carries `Authorization: MUNGE <credential>`; the payload of the
// credential is the method, the path and the SHA-256 of the body in hex, with
// one blank between, and it is root's. munged lets each credential pass once.
// The source address must be the instance's. An answer 200 carries the header
// Burst-Credential: a credential whose payload is the SHA-256 of the answer's
// body in hex; that of whoami names the instance, so that it is of no use to
// another. Other answers have {"error"}; those to be asked again carry
// Retry-After, in seconds.
package nodeapi

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// Identity says which node an instance is.
type Identity struct {
	Node    string `json:"node"`
	Cluster string `json:"cluster"`
	Slurm   string `json:"slurm"` // the controller's version, "22.05.8"; empty: not known
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

// Backend knows the instances. Methods may be called concurrently. An error
// that wraps neither of the two below is ours, and the node asks again.
type Backend interface {
	WhoAmI(ctx context.Context, instance, addr string) (Identity, error)
	Report(ctx context.Context, r Report) error
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
	Encode(ctx context.Context, payload []byte) (string, error)
	Decode(ctx context.Context, credential string) (munge.Credential, error)
}

// Limits of a request.
const (
	maxBody = 16 << 10 // bytes
	maxText = 4 << 10  // bytes of a report's text that are kept
)

var instanceIDs = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`)

// oneLine makes a node's text fit for an event: lines are joined, and what is
// no text is replaced.
func oneLine(text string) string {
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
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
