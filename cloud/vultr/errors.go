package vultr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/burst-hpc/burst/cloud"
)

// Vultr's refusals have no codes: a status, and a sentence. The status says the
// kind, but for what it refuses to make: there the sentences that are known say
// it, and an unknown one is Invalid, after the region's list of available plans
// has been asked (launch.go).
var sentences = []struct {
	part string // in lower case
	kind cloud.Kind
}{
	{"rate limit", cloud.Throttled},
	{"too many requests", cloud.Throttled},

	// The account may not have more, or not now.
	{"maximum number of", cloud.Quota}, // "You have reached the maximum number of active virtual machines for this account"
	{"limit raised", cloud.Quota},
	{"limit exceeded", cloud.Quota},
	{"exceeds your limit", cloud.Quota},
	{"would exceed", cloud.Quota},
	{"monthly fee limit", cloud.Quota},
	{"insufficient funds", cloud.Quota},
	{"insufficient credit", cloud.Quota},
	{"insufficient balance", cloud.Quota},
	{"payment method", cloud.Quota},
	{"past due", cloud.Quota},

	// The plan has none left in the region now; another may.
	{"out of stock", cloud.Capacity},
	{"sold out", cloud.Capacity},
	{"no capacity", cloud.Capacity},
	{"insufficient capacity", cloud.Capacity},
	{"not enough capacity", cloud.Capacity},
	{"plan is not available", cloud.Capacity},
	{"plan is unavailable", cloud.Capacity},
	{"not available in the selected", cloud.Capacity},
	{"temporarily unavailable in", cloud.Capacity},
	{"no servers available", cloud.Capacity},
}

// hints say what to do about errors that an admin must mend, by a part of the sentence.
var hints = []struct{ part, hint string }{
	{"unauthorized ip address", "add this host's address, also its IPv6 one, to the key's access control in Vultr's console (Account, API)"},
	{"invalid api", "the key is wrong or has been renewed: write the present one into api_key_file"},
	{"maximum number of", "ask Vultr's support to raise the account's limit"},
	{"server is currently locked", "Vultr is still working on it; it is asked again"},
}

const (
	keyHint  = "docs/vultr.md says where Burst has the API key from"
	authHint = "check the API key, its permissions and its access control in Vultr's console (Account, API)"
)

// kindOf reads a status with what was said.
func kindOf(status int, said string) cloud.Kind {
	low := strings.ToLower(said)
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return cloud.Auth
	case http.StatusTooManyRequests:
		return cloud.Throttled
	case http.StatusPaymentRequired:
		return cloud.Quota
	case http.StatusRequestTimeout:
		return cloud.Transient
	}
	for _, s := range sentences {
		if strings.Contains(low, s.part) {
			return s.kind
		}
	}
	if status >= 400 && status < 500 {
		return cloud.Invalid
	}
	return cloud.Transient
}

// failure is the error of a call: a is what came of it, err the SDK's own text,
// which holds when a tells nothing.
func failure(op, what string, a answer, err error) *cloud.Error {
	var own *cloud.Error
	switch {
	case errors.Is(a.err, context.Canceled), errors.Is(a.err, context.DeadlineExceeded):
		return &cloud.Error{Kind: cloud.Transient, Op: op, Err: fmt.Errorf("%s: %w", what, a.err)}
	case errors.As(a.err, &own):
		e := *own
		e.Op = op
		return &e
	case a.err != nil:
		return &cloud.Error{Kind: cloud.Transient, Op: op, Err: fmt.Errorf("%s: %w", what, a.err)}
	case a.status < 300: // good, and not to be read
		return &cloud.Error{Kind: cloud.Transient, Op: op, Err: fmt.Errorf("%s: the answer cannot be read: %w", what, err)}
	}
	said := a.said
	if said == "" {
		said = http.StatusText(a.status)
	}
	e := &cloud.Error{Kind: kindOf(a.status, said), Op: op, Code: fmt.Sprint(a.status), RetryAfter: a.retryAfter,
		Err: &refusal{status: a.status, text: fmt.Sprintf("%s: %s", what, said)}}
	if hint := hintOf(said, e.Kind); hint != "" {
		e.Err = fmt.Errorf("%w; %s", e.Err, hint)
	}
	return e
}

func hintOf(said string, kind cloud.Kind) string {
	low := strings.ToLower(said)
	for _, h := range hints {
		if strings.Contains(low, h.part) {
			return h.hint
		}
	}
	if kind == cloud.Auth {
		return authHint
	}
	return ""
}

// refusal is what Vultr said, with its status.
type refusal struct {
	status int
	text   string
}

func (r *refusal) Error() string { return r.text }

// notFound says that Vultr does not know what a call named: by its status, or, as
// terraform-provider-vultr has met it (issue 177), in words.
func notFound(err error) bool {
	var r *refusal
	return errors.As(err, &r) && (r.status == http.StatusNotFound ||
		r.status == http.StatusBadRequest && strings.Contains(strings.ToLower(r.text), "invalid instance id"))
}

// forbidden says that the key is good, and its user may not do what was asked for.
func forbidden(err error) bool {
	var r *refusal
	return errors.As(err, &r) && r.status == http.StatusForbidden
}

// refused says that a request to make something was not carried out, by Vultr's
// own word: a status of 4xx. All else may have had its effect, whatever is said of it.
func refused(err error) bool {
	var r *refusal
	var e *cloud.Error
	return errors.As(err, &r) && r.status < 500 && errors.As(err, &e) && e.Kind != cloud.Transient
}

// faultSaid is what a server's fault (5xx) has said, and what it means, where that
// may hold for the next request too; "": there was none.
func faultSaid(err error) (string, cloud.Kind) {
	var r *refusal
	var e *cloud.Error
	if !errors.As(err, &r) || r.status < 500 || !errors.As(err, &e) || e.Kind == cloud.Throttled {
		return "", ""
	}
	return e.Err.Error(), e.Kind
}

// unsent says that a request never left: our own limit held it back, or there
// is no key.
func unsent(err error) bool {
	var r *refusal
	var e *cloud.Error
	return !errors.As(err, &r) && errors.As(err, &e) && e.Kind != cloud.Transient
}

// invalid is our own refusal of a request that can never succeed as it is.
func invalid(op, format string, args ...any) *cloud.Error {
	return &cloud.Error{Kind: cloud.Invalid, Op: op, Err: fmt.Errorf(format, args...), Settled: true}
}

// transient is a failure of our own that leaves the outcome open.
func transient(op string, err error) *cloud.Error {
	return &cloud.Error{Kind: cloud.Transient, Op: op, Err: err}
}

// noKey is an Auth error of a request without a key.
func noKey(err error) *cloud.Error {
	return &cloud.Error{Kind: cloud.Auth, Err: fmt.Errorf("there is no API key: %w; %s", err, keyHint)}
}
