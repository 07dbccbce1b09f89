package motoserver

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/burst-hpc/burst/cloud/aws/wholebody"
)

// Queue is an SQS queue in moto.
type Queue struct {
	URL string
	SQS *sqs.Client
}

// Config is for clients of the server, with credentials that no cloud would take.
func (s *Server) Config(region string) aws.Config {
	return aws.Config{
		Region: region, BaseEndpoint: &s.Endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: wholebody.Client{HTTPClient: http.DefaultClient},
		Retryer:    func() aws.Retryer { return aws.NopRetryer{} }, // what moto lacks is an HTTP 500
	}
}

// MakeQueue makes a queue as contrib/aws does; policy may be empty.
func MakeQueue(ctx context.Context, c aws.Config, name, policy string) (*Queue, error) {
	q := &Queue{SQS: sqs.NewFromConfig(c)}
	attributes := map[string]string{"MessageRetentionPeriod": "300"}
	if policy != "" {
		attributes["Policy"] = policy
	}
	out, err := q.SQS.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		return nil, fmt.Errorf("making a queue in moto: %w", err)
	}
	q.URL = aws.ToString(out.QueueUrl)
	return q, nil
}

// Send puts a message into the queue.
func (q *Queue) Send(ctx context.Context, body string) error {
	_, err := q.SQS.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &q.URL, MessageBody: &body})
	return err
}

// Left is how many messages the queue has, hidden ones too.
func (q *Queue) Left(ctx context.Context) (int, error) {
	out, err := q.SQS.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &q.URL, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		return 0, err
	}
	seen, err := strconv.Atoi(out.Attributes["ApproximateNumberOfMessages"])
	if err != nil {
		return 0, err
	}
	hidden, err := strconv.Atoi(out.Attributes["ApproximateNumberOfMessagesNotVisible"])
	return seen + hidden, err
}
