package aws

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/burst-hpc/burst/cloud"
)

// heard collects notices; fail may refuse one.
type heard struct {
	mu   sync.Mutex
	all  []cloud.Notice
	fail func(n cloud.Notice, time int) error
}

func (h *heard) handle(ctx context.Context, n cloud.Notice) error {
	h.mu.Lock()
	h.all = append(h.all, n)
	times := h.timesLocked(n.Instance)
	h.mu.Unlock()
	if h.fail != nil {
		return h.fail(n, times)
	}
	return nil
}

func (h *heard) timesLocked(instance string) (n int) {
	for _, a := range h.all {
		if a.Instance == instance {
			n++
		}
	}
	return n
}

func (h *heard) times(instance string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.timesLocked(instance)
}

func spotOf(i int) string { return with(spotEvent, "i-0b662ef9931388ba0", fmt.Sprintf("i-%08x", i)) }

// listening runs a source on q for so long of virtual time.
func listening(t *testing.T, q *memoryQueue, h *heard, during time.Duration) (*meter, string) {
	t.Helper()
	var text bytes.Buffer
	m := new(meter)
	s := newSource(q, h.handle, m, slog.New(slog.NewTextHandler(&text, nil)))
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	s.listen(ctx)
	if len(s.held) != 0 || s.helpers != 0 {
		t.Errorf("after the end %d messages are held by %d helpers", len(s.held), s.helpers)
	}
	return m, text.String()
}

func counted(m *meter, result string) uint64 {
	for _, c := range m.counts() {
		if c.What == "message" && c.Which == "sqs" && c.Result == result {
			return c.N
		}
	}
	return 0
}

func TestQueueStormIsHandledAndDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, h := &memoryQueue{}, &heard{}
		for i := range 1000 {
			q.send(spotOf(i))
		}
		start := time.Now()
		var last time.Duration
		h.fail = func(cloud.Notice, int) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			last = time.Since(start)
			return nil
		}
		m, _ := listening(t, q, h, time.Minute)
		if q.left() != 0 || counted(m, "taken") != 1000 || len(h.all) != 1000 {
			t.Errorf("%d messages are left, %d notices were heard", q.left(), len(h.all))
		}
		if last > time.Second {
			t.Errorf("the last notice was heard after %s", last)
		}
		if q.receives > 200 {
			t.Errorf("%d receives in a minute: the helpers have not ended", q.receives)
		}
	})
}

// The handler takes longer than the message stays hidden: others gave up the
// message then, and worked on it twice.
func TestQueueMessageStaysHiddenWhileWorkedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, h := &memoryQueue{}, &heard{fail: func(cloud.Notice, int) error { time.Sleep(10 * visibility); return nil }}
		q.send(spotOf(1))
		m, _ := listening(t, q, h, 15*visibility)
		if q.left() != 0 || len(h.all) != 1 || counted(m, "taken") != 1 || counted(m, "duplicate") != 0 {
			t.Errorf("%d left, heard %d times, counts %v", q.left(), len(h.all), m.counts())
		}
	})
}

// A message that comes again while it is worked on has a new handle, and the
// old one deletes nothing.
func TestQueueDeletesByTheLatestHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &memoryQueue{}
		h := &heard{fail: func(cloud.Notice, int) error {
			q.mu.Lock()
			q.messages[0].hidden = time.Time{} // at least once, says SQS
			q.mu.Unlock()
			time.Sleep(time.Second)
			return nil
		}}
		q.send(spotOf(0))
		s := newSource(q, h.handle, new(meter), slog.New(slog.DiscardHandler))
		for range 2 {
			if _, err := s.receive(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		s.work.Wait()
		if q.left() != 0 || len(h.all) != 1 || counted(s.meter, "duplicate") != 1 {
			t.Errorf("%d left, heard %d times, counts %v", q.left(), len(h.all), s.meter.counts())
		}
	})
}

func TestQueueKeepsWhatTheHandlerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &memoryQueue{}
		h := &heard{fail: func(n cloud.Notice, times int) error {
			if n.Instance == "i-87654321" && times < 4 {
				return errors.New("the journal's disk is full")
			}
			return nil
		}}
		q.send(healthEvent) // two instances: one of them is refused three times
		m, log := listening(t, q, h, 2*time.Minute)
		if q.left() != 0 || h.times("i-87654321") != 4 || counted(m, "failed") != 3 || counted(m, "taken") != 1 {
			t.Errorf("%d left, heard %d times, counts %v", q.left(), h.times("i-87654321"), m.counts())
		}
		if strings.Count(log, "could not be taken") != 1 {
			t.Errorf("the log says it several times:\n%s", log)
		}
	})
}

func TestQueueDeletesWhatIsNotOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, h := &memoryQueue{}, &heard{}
		for range 500 {
			q.send("no JSON", with(spotEvent, "aws.ec2", "com.example"))
		}
		q.send(with(stateEvent, "stopping", "running"), spotEvent)
		m, log := listening(t, q, h, time.Minute)
		if q.left() != 0 || len(h.all) != 1 || counted(m, "unparsable") != 500 || counted(m, "foreign") != 500 || counted(m, "ignored") != 1 || counted(m, "taken") != 1 {
			t.Errorf("%d left, counts %v", q.left(), m.counts())
		}
		if n := strings.Count(log, "\n"); n != 2 {
			t.Errorf("%d lines of log, want one of each kind:\n%s", n, log)
		}
	})
}

// Others panicked after so many identical errors, with a counter that no
// success reset.
func TestQueueOutlastsErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := &memoryQueue{}, &heard{}
		began := time.Now()
		q.onReceive = func(n int) error {
			if at := time.Since(began); at < time.Hour || at > 2*time.Hour && at < 3*time.Hour {
				return &types.QueueDoesNotExist{Message: aws.String("not yet")}
			}
			return nil
		}
		q.send(spotOf(1))
		time.AfterFunc(150*time.Minute, func() { q.send(spotOf(2)) })
		_, log := listening(t, q, h, 4*time.Hour)
		if q.left() != 0 || h.times("i-00000001") != 1 || h.times("i-00000002") != 1 {
			t.Errorf("%d left, heard %v", q.left(), h.all)
		}
		if n := strings.Count(log, "cannot be read"); n < 4 || n > 30 {
			t.Errorf("%d lines about an hour of errors, twice:\n%s", n, log)
		}
		if strings.Count(log, "can be read again") != 2 || !strings.Contains(log, "QueueUrl") {
			t.Errorf("the log lacks the ends, or the hint:\n%s", log)
		}
	})
}

func TestQueueDeletionThatFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		refuse int
		err    error
	}{{"half of a batch", 5, nil}, {"throttled", 0, errors.New("throttled")}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q, h := &memoryQueue{}, &heard{}
				calls := 0
				q.onDelete = func(int) (int, error) {
					if calls++; calls == 1 {
						return tt.refuse, tt.err
					}
					return 0, nil
				}
				for i := range 10 {
					q.send(spotOf(i))
				}
				m, _ := listening(t, q, h, 3*visibility)
				again := tt.refuse
				if tt.err != nil {
					again = 10
				}
				if q.left() != 0 || len(h.all) != 10+again || counted(m, "undeleted") != uint64(again) {
					t.Errorf("%d left, heard %d, counts %v", q.left(), len(h.all), m.counts())
				}
			})
		})
	}
}

// burstd ends between the notice's commit and the message's deletion, or in the
// middle of the handling: what is not durable is there for the next burstd at once.
func TestQueueWhenBurstdStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &memoryQueue{}
		stop := errors.New("burstd stops")
		first := &heard{fail: func(n cloud.Notice, _ int) error {
			time.Sleep(time.Second)
			if n.Instance == "i-00000002" {
				return stop
			}
			return nil
		}}
		q.send(spotOf(1), spotOf(2))
		listening(t, q, first, 500*time.Millisecond)
		if q.left() != 1 {
			t.Fatalf("%d messages are left, want the one that was not durable", q.left())
		}
		second := &heard{}
		listening(t, q, second, time.Second)
		if q.left() != 0 || second.times("i-00000002") != 1 || len(second.all) != 1 {
			t.Errorf("%d left, the second heard %v", q.left(), second.all)
		}
	})
}
