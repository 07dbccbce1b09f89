package aws

import (
	"context"
	"crypto/md5"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// TestQueueOverAWireThatFails has each fault come once or twice before a good
// answer: the source hears the notice after it, and deletes its message.
func TestQueueOverAWireThatFails(t *testing.T) {
	t.Parallel()
	refuse := func(status int, code string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"__type":"com.amazonaws.sqs#%s","message":"no"}`, code)
		}
	}
	for _, tt := range []struct {
		name, result string // as the call is counted
		fault        http.HandlerFunc
	}{
		{"throttled", "throttled", refuse(400, "RequestThrottled")},
		{"expired credentials", "auth", refuse(403, "ExpiredToken")},
		{"access denied", "auth", refuse(403, "AccessDeniedException")},
		{"no such queue", "invalid", refuse(400, "QueueDoesNotExist")},
		{"a server's fault", "transient", refuse(500, "InternalError")},
		{"a proxy's page", "transient", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>Bad Gateway</html>")
		}},
		{"bad JSON", "transient", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"Messages":[{]}`) }},
		{"cut off", "transient", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"Messages":[{"Body":"`)
		}},
		{"a body that was changed", "ok", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]any{"Messages": []map[string]string{{"MessageId": "m", "ReceiptHandle": "r", "Body": spotOf(9), "MD5OfBody": strings.Repeat("0", 32)}}})
		}},
		{"the connection closed", "transient", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var receives, given, deleted atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that the client goes
				switch _, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); {
				case op == "ReceiveMessage" && receives.Add(1) == 1:
					tt.fault(w, r)
				case op == "ReceiveMessage" && deleted.Load() == 0 && given.Add(1) == 1:
					body := spotOf(1)
					_ = json.NewEncoder(w).Encode(map[string]any{"Messages": []map[string]string{
						{"MessageId": "m", "ReceiptHandle": "r", "Body": body, "MD5OfBody": fmt.Sprintf("%x", md5.Sum([]byte(body)))}}})
				case op == "ReceiveMessage":
					select { // hangs, as a network does that lost the connection
					case <-r.Context().Done():
					case <-time.After(10 * time.Second):
					}
				case op == "DeleteMessageBatch":
					deleted.Add(1)
					_, _ = io.WriteString(w, `{"Successful":[{"Id":"0"}],"Failed":[]}`)
				default:
					http.Error(w, op, http.StatusNotImplemented)
				}
			}))
			defer server.Close()
			p, err := New(t.Context(), Config{Name: "east", Region: "us-east-1", Endpoints: map[string]string{"sqs": server.URL}, Queue: server.URL + "/123456789012/q"})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var heard atomic.Int32
			ended := make(chan error)
			go func() {
				ended <- p.Notices(ctx, func(_ context.Context, n cloud.Notice) error {
					if n.Instance == "i-00000001" {
						heard.Add(1)
					}
					return nil
				})
			}()
			for deleted.Load() == 0 && ctx.Err() == nil {
				time.Sleep(5 * time.Millisecond)
			}
			cancel() // while it hangs
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("the source ended with %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the source does not end with its context")
			}
			if heard.Load() != 1 || deleted.Load() != 1 {
				t.Errorf("heard %d times, deleted %d times", heard.Load(), deleted.Load())
			}
			found := false
			for _, c := range p.Counts() {
				found = found || c.Which == "ReceiveMessage" && c.Result == tt.result
			}
			if !found {
				t.Errorf("no receive was counted as %s: %v", tt.result, p.Counts())
			}
		})
	}
}

func TestNoticesWithoutAQueue(t *testing.T) {
	p, err := New(t.Context(), Config{Name: "east", Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = p.Notices(ctx, func(context.Context, cloud.Notice) error { t.Error("a notice"); return nil })
	if err != nil || ctx.Err() == nil {
		t.Errorf("returned %v before the context's end", err)
	}
}

func TestCheckQueueURL(t *testing.T) {
	for url, want := range map[string]string{
		"https://sqs.us-east-1.amazonaws.com/123456789012/burst-notices":      "",
		"https://sqs-fips.us-east-1.amazonaws.com/123456789012/burst-notices": "",
		"https://us-east-1.queue.amazonaws.com/123456789012/burst-notices":    "",
		"https://queue.amazonaws.com/123456789012/burst-notices":              "",
		"http://127.0.0.1:5000/123456789012/burst-notices":                    "",
		"https://vpce-1.sqs.us-east-1.vpce.amazonaws.com/123456789012/q":      "",
		"https://sqs.eu-west-1.amazonaws.com/123456789012/burst-notices":      "in the region eu-west-1",
		"https://sqs.cn-north-1.amazonaws.com.cn/123456789012/q":              "in the region cn-north-1",
		"https://sqs.us-east-1.amazonaws.com/burst-notices":                   "has no path",
		"https://sqs.us-east-1.amazonaws.com/123456789012/q.fifo":             "FIFO",
	} {
		if err := CheckQueue(url, "us-east-1"); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

func TestCheckQueuePolicy(t *testing.T) {
	const (
		events = `{"Effect":"Allow","Principal":{"Service":"events.amazonaws.com"},"Action":"sqs:SendMessage"}`
		tls    = `{"Effect":"Deny","Principal":"*","Action":"sqs:*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}`
		list   = `{"Effect":"Allow","Principal":{"Service":["sns.amazonaws.com","events.amazonaws.com"]},"Action":["SQS:SendMessage"]}`
		any    = `{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"sqs:*"}`
	)
	for _, tt := range []struct{ name, policy, want string }{
		{"both", `{"Statement":[` + events + "," + tls + `]}`, "ok the queue's policy lets"},
		{"lists", `{"Statement":[` + list + "," + tls + `]}`, "ok the queue's policy lets"},
		{"anybody", `{"Statement":[` + any + "," + events + "," + tls + `]}`, "warning the queue's policy lets anybody"},
		{"without TLS", `{"Statement":[` + events + `]}`, "warning the queue's policy does not refuse"},
		{"denied", `{"Statement":[` + strings.Replace(events, "Allow", "Deny", 1) + "," + tls + `]}`, "warning the queue's policy does not let EventBridge"},
		{"one statement, without a list", `{"Statement":` + events + `}`, "warning the queue's policy does not refuse"},
		{"wildcards", `{"Statement":[` + strings.Replace(events, "sqs:SendMessage", "SQS:Send*", 1) + "," + tls + `]}`, "ok the queue's policy lets"},
		{"anybody, by a wildcard", `{"Statement":[` + strings.Replace(any, "sqs:*", "sqs:S?nd*", 1) + "," + events + "," + tls + `]}`, "warning the queue's policy lets anybody"},
		{"other actions", `{"Statement":[` + strings.Replace(events, "sqs:SendMessage", "sqs:Receive*", 1) + "," + tls + `]}`, "warning the queue's policy does not let EventBridge"},
		{"odd shapes", `{"Statement":[{"Effect":"Allow","Principal":[1,null],"Action":{"a":1},"Condition":null},{}]}`, "warning the queue's policy does not let EventBridge"},
		{"a pattern that is none", `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:[a"}]}`, "warning the queue's policy does not let EventBridge"},
		{"a statement that is none", `{"Statement":"Allow"}`, "unknown the queue's policy cannot be read"},
		{"no policy", "", "warning the queue's policy does not let EventBridge"},
		{"no JSON", "{", "unknown the queue's policy cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all findings
			checkQueuePolicy(&all, "notices", tt.policy)
			if got := string(all[0].Level) + " " + all[0].Text; !strings.HasPrefix(got, tt.want) {
				t.Errorf("the first finding is %q, want %q", got, tt.want)
			}
		})
	}
}
