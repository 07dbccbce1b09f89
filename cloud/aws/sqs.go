package aws

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.NoticeSource = (*Provider)(nil)

const (
	longPoll = 20 * time.Second // the most that SQS has
	// helperPoll is that of the receivers that a storm brings: they end when it ends.
	helperPoll   = time.Second
	batchSize    = 10 // the most that SQS gives at once
	maxReceivers = 8
	// maxSettling is how many batches are worked on at once. As many messages are
	// in memory, and a handler or a deletion that hangs keeps no other notice waiting.
	maxSettling = 32
	// visibility is how long a message stays hidden after it was received, and
	// after each extension. It is short, since it is also how late a message comes
	// whose answer was lost, or whose receiver was killed.
	visibility = 9 * time.Second
	heartbeat  = visibility / 3
	// linger is how long a handled message waits for others of its batch, to be
	// deleted together.
	linger    = 50 * time.Millisecond
	queueCall = 10 * time.Second // bounds a call, beside the long poll
	firstWait = 500 * time.Millisecond
	mostWait  = 30 * time.Second
)

// queueAPI is what the source needs of SQS.
type queueAPI interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
}

func (p *Provider) newSQS() *sqs.Client {
	return sqs.NewFromConfig(p.config(), func(o *sqs.Options) { override(&o.BaseEndpoint, p.endpoint("sqs")) })
}

// Notices implements cloud.NoticeSource: it reads the queue, if there is one,
// until ctx ends. What fails is tried again, without end: a queue, a permission
// or a network that is missing today is found when it is there.
func (p *Provider) Notices(ctx context.Context, handle func(context.Context, cloud.Notice) error) error {
	if p.c.Queue == "" {
		<-ctx.Done()
		return nil
	}
	s := newSource(p.newSQS(), handle, p.meter, p.log.With("provider", p.c.Name, "queue", p.c.Queue))
	s.url = p.c.Queue
	s.listen(ctx)
	return nil
}

// source reads one queue. Its messages are counted as "message", "sqs", and one of
//
//	taken       all its notices were handled
//	ignored     a known event that announces nothing, as of an instance that starts
//	foreign     an event of something else: deleted
//	unparsable  no event: deleted
//	duplicate   received again while it was worked on
//	failed      its handling failed, which brings it back
//	undeleted   its deletion failed, which brings it back
type source struct {
	queue  queueAPI
	url    string
	handle func(context.Context, cloud.Notice) error
	meter  *meter
	say    sayer

	mu      sync.Mutex
	held    map[string]*message // being worked on, by the message's id
	helpers int                 // receivers beside the first
	work    sync.WaitGroup
	room    chan struct{} // one for each batch that is worked on
}

func newSource(queue queueAPI, handle func(context.Context, cloud.Notice) error, m *meter, log *slog.Logger) *source {
	return &source{queue: queue, handle: handle, meter: m, say: sayer{log: log}, held: map[string]*message{}, room: make(chan struct{}, maxSettling)}
}

func (s *source) count(result string) { s.meter.add("message", sourceSQS, result, 1) }

// listen has one receiver that never gives up. Where batches come full it gets helpers.
func (s *source) listen(ctx context.Context) {
	defer s.work.Wait()
	wait := firstWait
	for ctx.Err() == nil {
		n, err := s.receive(ctx, longPoll)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.say.warn("receive", "the queue of notices cannot be read; trying again", "error", failure("receive", err))
			// Full jitter within the upper half: hosts that failed together do not come together.
			sleep(ctx, wait/2+rand.N(wait/2))
			wait = min(2*wait, mostWait)
		default:
			s.say.well("receive", "the queue of notices can be read again")
			wait = firstWait
			if n == batchSize {
				s.help(ctx)
			}
		}
	}
}

// help starts a receiver that ends when it finds the queue empty, or not to be read.
func (s *source) help(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.helpers == maxReceivers-1 {
		return
	}
	s.helpers++
	s.work.Go(func() {
		for ctx.Err() == nil {
			n, err := s.receive(ctx, helperPoll)
			if n == 0 || err != nil {
				break
			}
			if n == batchSize {
				s.help(ctx)
			}
		}
		s.mu.Lock()
		s.helpers--
		s.mu.Unlock()
	})
}

// receive has one batch worked on, and says how many messages were received.
// Before, there must be room for it: what is received and waits is hidden from
// everybody.
func (s *source) receive(ctx context.Context, poll time.Duration) (int, error) {
	select {
	case s.room <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	received, err := s.fetch(ctx, poll)
	batch := s.take(received)
	if len(batch) == 0 {
		<-s.room
		return len(received), err
	}
	s.work.Go(func() {
		defer func() { <-s.room }()
		s.settle(ctx, batch)
	})
	return len(received), nil
}

func (s *source) fetch(ctx context.Context, poll time.Duration) ([]types.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, poll+queueCall)
	defer cancel()
	out, err := s.queue.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &s.url, MaxNumberOfMessages: batchSize, WaitTimeSeconds: int32(poll / time.Second),
		VisibilityTimeout:           int32(visibility / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

// take notes the messages. One that is worked on already has come again: only
// its new receipt handle counts from now on.
func (s *source) take(received []types.Message) []*message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fresh []*message
	for _, r := range received {
		id, receipt := aws.ToString(r.MessageId), aws.ToString(r.ReceiptHandle)
		if known, ok := s.held[id]; ok {
			known.receipt = receipt
			s.count("duplicate")
			continue
		}
		m := &message{id: id, receipt: receipt, body: aws.ToString(r.Body), receives: receives(r)}
		s.held[id] = m
		fresh = append(fresh, m)
	}
	return fresh
}
