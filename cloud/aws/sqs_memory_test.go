package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// memoryQueue behaves as SQS does: every receive gives a message another
// handle, and only the latest counts.
type memoryQueue struct {
	mu       sync.Mutex
	messages []*queued
	receives int
	deleted  int
	// What goes wrong; each may be nil.
	onReceive func(n int) error
	onDelete  func(entries int) (refuse int, err error)
}

type queued struct {
	id, body string
	times    int
	handle   string
	hidden   time.Time
}

func (q *memoryQueue) send(bodies ...string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, b := range bodies {
		q.messages = append(q.messages, &queued{id: fmt.Sprint("m", len(q.messages)+q.deleted), body: b})
	}
}

func (q *memoryQueue) left() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.messages)
}

func (q *memoryQueue) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	q.mu.Lock()
	q.receives++
	n := q.receives
	q.mu.Unlock()
	if q.onReceive != nil {
		if err := q.onReceive(n); err != nil {
			return nil, err
		}
	}
	end := time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
	for {
		if out := q.visible(in); len(out.Messages) > 0 || !time.Now().Before(end) {
			return out, nil
		}
		sleep(ctx, 20*time.Millisecond)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

func (q *memoryQueue) visible(in *sqs.ReceiveMessageInput) *sqs.ReceiveMessageOutput {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := &sqs.ReceiveMessageOutput{}
	for _, m := range q.messages {
		if len(out.Messages) == int(in.MaxNumberOfMessages) || time.Now().Before(m.hidden) {
			continue
		}
		m.times++
		m.handle = fmt.Sprint(m.id, "/", m.times)
		m.hidden = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
		out.Messages = append(out.Messages, types.Message{
			MessageId: &m.id, ReceiptHandle: aws.String(m.handle), Body: &m.body,
			Attributes: map[string]string{"ApproximateReceiveCount": fmt.Sprint(m.times)},
		})
	}
	return out
}

func (q *memoryQueue) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	refuse := 0
	if q.onDelete != nil {
		var err error
		if refuse, err = q.onDelete(len(in.Entries)); err != nil {
			return nil, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	out := &sqs.DeleteMessageBatchOutput{}
	for i, e := range in.Entries {
		if i < refuse {
			out.Failed = append(out.Failed, types.BatchResultErrorEntry{Id: e.Id, Code: aws.String("InternalError"), Message: aws.String("try again")})
			continue
		}
		for j, m := range q.messages {
			if m.handle == *e.ReceiptHandle {
				q.messages = append(q.messages[:j], q.messages[j+1:]...)
				q.deleted++
				break
			}
		}
	}
	return out, ctx.Err()
}

func (q *memoryQueue) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, _ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range in.Entries {
		for _, m := range q.messages {
			if m.handle == *e.ReceiptHandle {
				m.hidden = time.Now().Add(time.Duration(e.VisibilityTimeout) * time.Second)
			}
		}
	}
	return &sqs.ChangeMessageVisibilityBatchOutput{}, ctx.Err()
}
