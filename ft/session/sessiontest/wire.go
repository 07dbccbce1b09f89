package sessiontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/burst-hpc/burst/ft/session"
)

// ErrLost is what a Client sees of words that are lost, and of a burstd that is away.
var ErrLost = errors.New("burstd is not reached")

// Wire carries a Client's words to a hub as HTTP does: by JSON, and at a loss.
type Wire struct {
	UID int
	Hub func() *session.Hub // the one that lives now; nil: none does
	// Fault, if it is set, is asked before words are delivered, and before their
	// answer is: an error is what the client sees instead.
	Fault func(path string, answer bool) error
}

var _ session.Transport = Wire{}

// Do implements session.Transport.
func (w Wire) Do(ctx context.Context, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if err := w.fault(path, false); err != nil {
		return err
	}
	h := w.Hub()
	if h == nil {
		return ErrLost
	}
	word, err := w.hand(ctx, h, path, text)
	if w.Hub() != h {
		return ErrLost // it has died meanwhile, whatever it says
	}
	if ferr := w.fault(path, true); ferr != nil {
		return ferr
	}
	if err != nil || out == nil {
		return err
	}
	if text, err = json.Marshal(word); err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

func (w Wire) fault(path string, answer bool) error {
	if w.Fault == nil {
		return nil
	}
	return w.Fault(path, answer)
}

func (w Wire) hand(ctx context.Context, h *session.Hub, path string, text []byte) (word session.Word, err error) {
	var (
		hello session.Hello
		q     session.Question
		given session.Given
		end   session.End
	)
	into, ok := map[string]any{session.PathOpen: &hello, session.PathPoll: &q, session.PathAnswer: &given, session.PathClose: &end}[path]
	if !ok {
		return word, fmt.Errorf("nothing is at %s", path)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return word, err
	}
	switch path {
	case session.PathOpen:
		return h.Open(ctx, w.UID, hello)
	case session.PathPoll:
		return h.Poll(ctx, w.UID, q)
	case session.PathAnswer:
		return word, h.Answer(ctx, w.UID, given)
	}
	return word, h.Close(ctx, w.UID, end)
}
