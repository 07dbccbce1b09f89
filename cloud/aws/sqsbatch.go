package aws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// A message's way:
//
//	received -> handled (durable) -> deleted
//	   |  ^         \-> deletion failed: it comes back, and is handled again, which does no harm
//	   |  | hidden for longer while the handler works
//	   \-> the handler failed: hidden for a short while, then it comes back
type message struct {
	id, body string
	receives int
	receipt  string // of the latest receive; under source.mu
}

// receives is how often a message has been received, at least once.
func receives(m types.Message) int {
	n, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// ending is how the handling of a message ended.
type ending struct {
	*message
	err error
}

// parting bounds what is said to the queue after the end of the context.
const parting = 3 * time.Second

// settle handles the messages of one batch, all at once, and returns when each
// is deleted or given back. Meanwhile those that are worked on are kept hidden.
func (s *source) settle(ctx context.Context, batch []*message) {
	outcomes := make(chan ending, len(batch))
	for _, m := range batch {
		s.work.Go(func() { outcomes <- ending{m, s.read(ctx, m)} })
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	var due <-chan time.Time // when what is ended is said
	var ended []ending
	for open := slices.Clone(batch); len(open) > 0 || len(ended) > 0; {
		select {
		case o := <-outcomes:
			ended = append(ended, o)
			open = slices.DeleteFunc(open, func(m *message) bool { return m == o.message })
			if len(open) > 0 && due == nil {
				due = time.After(linger)
			}
		case <-due:
			due = nil
			s.end(ctx, ended)
			ended = nil
		case <-beat.C:
			s.hide(ctx, open, func(*message) time.Duration { return visibility })
		}
		if len(open) == 0 {
			s.end(ctx, ended)
			ended = nil
		}
	}
}

// maxAtOnce bounds the notices of one message that are handled at once.
const maxAtOnce = 32

// read gives all notices of a message to the handler. nil: the message is done with.
func (s *source) read(ctx context.Context, m *message) error {
	notices, err := readEvent([]byte(m.body))
	m.body = "" // which may be a mebibyte, and the handler slow
	switch {
	case errors.Is(err, errForeign):
		s.say.warn("foreign", "a message in the queue of notices is deleted: no rule for Burst sends such", "message", m.id, "error", err)
		s.count("foreign")
		return nil
	case err != nil:
		s.say.warn("unparsable", "a message in the queue of notices is deleted: it cannot be read", "message", m.id, "error", err)
		s.count("unparsable")
		return nil
	case len(notices) == 0:
		s.count("ignored")
		return nil
	}
	errs := make([]error, len(notices))
	room := make(chan struct{}, maxAtOnce)
	var all sync.WaitGroup
	for i, n := range notices {
		n.Received = time.Now()
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			errs[i] = s.handle(ctx, n)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		if ctx.Err() == nil {
			s.say.warn("handle", "a notice could not be taken and will come again", "message", m.id, "error", errors.Join(errs[:min(len(errs), 3)]...))
			s.count("failed")
		}
		return err
	}
	s.say.well("handle", "notices can be taken again")
	s.count("taken")
	return nil
}

// end deletes what has been handled and gives back the rest, soon after a first
// failure, later after more. After the end of ctx it is given back at once, for
// the next burstd.
func (s *source) end(ctx context.Context, ended []ending) {
	stopping := ctx.Err() != nil
	if stopping {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), parting)
		defer cancel()
	}
	var done, failed []*message
	for _, o := range ended {
		if o.err == nil {
			done = append(done, o.message)
		} else {
			failed = append(failed, o.message)
		}
	}
	s.remove(ctx, done)
	s.hide(ctx, failed, func(m *message) time.Duration {
		if stopping {
			return 0
		}
		return again(m.receives)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range ended {
		delete(s.held, o.id)
	}
}

// again is how long a message whose handling failed stays hidden: whole
// seconds, as SQS has it; half of it is jitter.
func again(receives int) time.Duration {
	most := min(time.Second<<min(receives, 5), mostWait)
	return (most/2 + rand.N(most/2)).Round(time.Second)
}

// remove deletes messages. One that is not deleted comes back, is handled again and then deleted.
func (s *source) remove(ctx context.Context, all []*message) {
	if len(all) == 0 {
		return
	}
	in := &sqs.DeleteMessageBatchInput{QueueUrl: &s.url}
	for i, receipt := range s.receipts(all) {
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &receipt})
	}
	ctx, cancel := context.WithTimeout(ctx, queueCall)
	defer cancel()
	out, err := s.queue.DeleteMessageBatch(ctx, in)
	failed := len(all)
	if err == nil {
		failed = len(out.Failed)
		err = refused(out.Failed)
	}
	for range failed {
		s.count("undeleted")
	}
	if err != nil {
		s.say.warn("delete", "messages could not be deleted; they will come again, which does no harm", "messages", failed, "error", failure("delete", err))
		return
	}
	s.say.well("delete", "messages can be deleted again")
}

// hide has messages stay hidden for so long from now on. Where it fails they come back sooner or later.
func (s *source) hide(ctx context.Context, all []*message, as func(*message) time.Duration) {
	if len(all) == 0 {
		return
	}
	in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &s.url}
	for i, receipt := range s.receipts(all) {
		in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &receipt, VisibilityTimeout: int32(as(all[i]) / time.Second),
		})
	}
	ctx, cancel := context.WithTimeout(ctx, queueCall)
	defer cancel()
	out, err := s.queue.ChangeMessageVisibilityBatch(ctx, in)
	if err == nil {
		err = refused(out.Failed)
	}
	if err != nil && ctx.Err() == nil {
		s.say.warn("hide", "messages could not be kept hidden; they may come twice, which does no harm", "messages", len(all), "error", failure("hide", err))
	}
}

// receipts are the handles of the latest receives, which alone count.
func (s *source) receipts(all []*message) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	handles := make([]string, len(all))
	for i, m := range all {
		handles[i] = m.receipt
	}
	return handles
}

// refused is what a batch's answer says of the entries that failed; nil: none did.
func refused(failed []types.BatchResultErrorEntry) error {
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d refused, the first with %s: %s", len(failed), aws.ToString(failed[0].Code), aws.ToString(failed[0].Message))
}
