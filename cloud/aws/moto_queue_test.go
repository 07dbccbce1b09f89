package aws_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/mototest"
	"github.com/burst-hpc/burst/cloud/aws/mototest/motoserver"
)

// hearing runs a provider's source until end is called.
func hearing(t *testing.T, c aws.Config, handle func(context.Context, cloud.Notice) error) (p *aws.Provider, end func()) {
	t.Helper()
	p, err := aws.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Notices(ctx, handle); err != nil {
			t.Errorf("listening ended with %v", err)
		}
	})
	return p, func() { cancel(); wg.Wait() }
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for begin := time.Now(); !is(); {
		if time.Since(begin) > 45*time.Second {
			t.Fatalf("not within 45 s: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestMotoQueue has EventBridge's rules bring events into a queue: the source
// starts before the queue exists, hears what comes, keeps what the handler
// refuses or what a burstd that stopped had in hand, and empties the queue.
func TestMotoQueue(t *testing.T) {
	m := startMoto(t)
	server := motoserver.Server{Endpoint: m.Endpoint}
	cfg := aws.Config{Name: "east", Region: mototest.Region, Endpoint: m.Endpoint, Queue: m.Endpoint + "/123456789012/burst-notices"}
	var mu sync.Mutex
	heard := map[string]int{}
	times := func(id string) int { mu.Lock(); defer mu.Unlock(); return heard[id] }
	handle := func(ctx context.Context, n cloud.Notice) error {
		mu.Lock()
		defer mu.Unlock()
		heard[n.Instance]++
		if n.Instance == "i-00000bad" && heard[n.Instance] == 1 {
			return errors.New("the journal's disk is full")
		}
		return nil
	}
	p, end := hearing(t, cfg, handle)
	defer func() { end() }()
	await(t, "the source has met the lack of a queue", func() bool {
		for _, c := range p.Counts() {
			if c.Which == "ReceiveMessage" && c.Result == "invalid" {
				return true
			}
		}
		return false
	})
	q, err := motoserver.MakeQueue(t.Context(), server.Config(mototest.Region), "burst-notices", "")
	if err != nil {
		t.Fatal(err)
	}
	if got := q.URL; !strings.HasSuffix(got, "/123456789012/burst-notices") {
		t.Fatalf("moto's queue is %s", got)
	}
	events := eventbridge.NewFromConfig(server.Config(mototest.Region))
	if _, err := events.PutRule(t.Context(), &eventbridge.PutRuleInput{Name: awssdk.String("burst-spot"),
		EventPattern: awssdk.String(`{"source":["aws.ec2"],"detail-type":["EC2 Spot Instance Interruption Warning"]}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: awssdk.String("burst-spot"),
		Targets: []types.Target{{Id: awssdk.String("burst"), Arn: awssdk.String("arn:aws:sqs:us-east-1:123456789012:burst-notices")}}}); err != nil {
		t.Fatal(err)
	}
	put, err := events.PutEvents(t.Context(), &eventbridge.PutEventsInput{Entries: []types.PutEventsRequestEntry{{
		Source: awssdk.String("aws.ec2"), DetailType: awssdk.String("EC2 Spot Instance Interruption Warning"),
		Detail: awssdk.String(`{"instance-id":"i-000000e1","instance-action":"terminate"}`),
	}}})
	if err != nil || put.FailedEntryCount > 0 {
		t.Fatalf("putting an event: %+v, %v", put, err)
	}
	const body = `{"detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","time":"2026-01-01T00:00:00Z","detail":{"instance-id":%q,"instance-action":"terminate"}}`
	send := func(text string) {
		t.Helper()
		if err := q.Send(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		send(fmt.Sprintf(body, fmt.Sprintf("i-%08x", i)))
	}
	send(fmt.Sprintf(body, "i-00000bad"))
	send("no event")
	empty := func() bool {
		n, err := q.Left(t.Context())
		return err == nil && n == 0
	}
	await(t, "all are heard, and the queue is empty", func() bool { return times("i-000000e1") == 1 && times("i-00000bad") == 2 && empty() })
	for i := range 30 {
		if n := times(fmt.Sprintf("i-%08x", i)); n != 1 {
			t.Errorf("notice %d was heard %d times", i, n)
		}
	}
	end()

	// A burstd that stops in the middle of the handling.
	busy := make(chan struct{})
	_, end = hearing(t, cfg, func(ctx context.Context, n cloud.Notice) error {
		close(busy)
		<-ctx.Done()
		return ctx.Err()
	})
	send(fmt.Sprintf(body, "i-0000cafe"))
	select {
	case <-busy:
	case <-time.After(45 * time.Second):
		t.Fatal("the second burstd hears nothing")
	}
	end()
	if times("i-0000cafe") != 0 || empty() {
		t.Error("the notice that was not durable is gone")
	}
	_, end = hearing(t, cfg, handle)
	await(t, "the next burstd hears it", func() bool { return times("i-0000cafe") == 1 && empty() })
}

func TestMotoCheckQueue(t *testing.T) {
	m := startMoto(t)
	server := motoserver.Server{Endpoint: m.Endpoint}
	const policy = `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"sqs:SendMessage","Resource":"*"},
		{"Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}`
	for name, text := range map[string]string{"good": policy, "bare": ""} {
		if _, err := motoserver.MakeQueue(t.Context(), server.Config(mototest.Region), name, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		queue string
		want  []string
	}{
		{"", []string{"ok no queue"}},
		{"good", []string{"ok the queue exists", "ok the queue's policy"}},
		{"bare", []string{"ok the queue exists", "warning the queue's policy does not let EventBridge", "warning the queue's policy does not refuse"}},
		{"missing", []string{"warning the queue cannot be looked at"}},
	} {
		t.Run("queue "+tt.queue, func(t *testing.T) {
			c := aws.Config{Name: "east", Region: mototest.Region, Endpoint: m.Endpoint}
			if tt.queue != "" {
				c.Queue = m.Endpoint + "/123456789012/" + tt.queue
			}
			p, err := aws.New(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range p.Check(t.Context(), "c1", nil) {
				if f.Subject == "notices" {
					got = append(got, string(f.Level)+" "+f.Text)
				}
			}
			if len(got) != len(tt.want) {
				t.Fatalf("findings are %q, want %q", got, tt.want)
			}
			for i, w := range tt.want {
				if !strings.HasPrefix(got[i], w) {
					t.Errorf("finding %d is %q, want %q", i, got[i], w)
				}
			}
		})
	}
}
