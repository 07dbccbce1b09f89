package srun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/munge"
	"github.com/burst-hpc/burst/ft/session"
)

// clear are credentials that anybody can read: "uid number payload".
type clear struct{ uid, made int }

func (c *clear) Encode(_ context.Context, payload []byte) (string, error) {
	c.made++
	return fmt.Sprintf("%d %d %s", c.uid, c.made, payload), nil
}

func (c *clear) Decode(_ context.Context, credential string) (munge.Credential, error) {
	var m munge.Credential
	var n int
	if _, err := fmt.Sscanf(credential, "%d %d", &m.UID, &n); err != nil {
		return m, munge.ErrInvalid
	}
	m.Payload = []byte(strings.SplitN(credential, " ", 3)[2])
	return m, nil
}

// listener answers as burstd does, but for what wrong changes.
type listener struct {
	t      *testing.T
	uid    int
	status int
	kind   string
	wrong  string
}

func (l listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		l.t.Error(err)
	}
	credential := strings.TrimPrefix(r.Header.Get("Authorization"), "MUNGE ")
	if want := "POST /v1/job/poll " + hexSum(body); !strings.HasSuffix(credential, want) {
		l.t.Errorf("credential %q of another request", credential)
	}
	answers := hexSum([]byte(credential))
	if l.wrong == "answer" {
		answers = hexSum([]byte("another"))
	}
	text, err := json.Marshal(map[string]any{"interval": time.Minute, "answers": answers, "error": "said", "kind": l.kind})
	if err != nil {
		l.t.Error(err)
	}
	signed := string(text)
	if l.wrong == "body" {
		signed += " "
	}
	if l.wrong != "unsigned" {
		w.Header().Set("Burst-Credential", fmt.Sprintf("%d 1 %s", l.uid, hexSum([]byte(signed))))
	}
	if l.wrong == "redirect" {
		w.Header().Set("Location", "http://127.0.0.1:1/")
	}
	w.Header().Set("Retry-After", "7")
	w.WriteHeader(l.status)
	_, _ = w.Write(text)
}

func TestBurstd(t *testing.T) {
	for _, c := range []struct {
		name string
		listener
		want  error
		wrong string // in the error's text
	}{
		{"root's answer", listener{status: 200}, nil, ""},
		{"burstd's answer", listener{status: 200, uid: 42}, nil, ""},
		{"another user's", listener{status: 200, uid: 43}, nil, "signed by uid 43"},
		{"unsigned", listener{status: 200, wrong: "unsigned"}, nil, "not believed"},
		{"signed, and changed", listener{status: 200, wrong: "body"}, nil, "not what its credential says"},
		{"to another request", listener{status: 200, wrong: "answer"}, nil, "another request"},
		{"no session", listener{status: 404, kind: "unknown"}, session.ErrUnknown, "404"},
		{"another's job", listener{status: 403, kind: "not-yours"}, session.ErrNotYours, "403"},
		{"a refusal that is not signed", listener{status: 403, kind: "not-yours", wrong: "unsigned"}, nil, "403"},
		{"a refusal that is another's", listener{status: 403, kind: "not-yours", uid: 43}, nil, "not believed"},
		{"busy", listener{status: 503}, nil, "503"},
		{"sent elsewhere", listener{status: 302, wrong: "redirect"}, nil, "302"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.listener.t = t
			server := httptest.NewServer(c.listener)
			defer server.Close()
			b := newBurstd(where{urls: []string{"http://127.0.0.1:1", server.URL}, uid: 42}, &clear{uid: 7})
			var w session.Word
			err := b.Do(t.Context(), session.PathPoll, session.Question{}, &w)
			if c.wrong == "" {
				if err != nil || w.Interval != time.Minute {
					t.Errorf("%+v, %v", w, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.wrong) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v, want %v, %q", err, c.want, c.wrong)
			}
			for _, kind := range kinds {
				if errors.Is(err, kind) && kind != c.want {
					t.Errorf("%v is believed to be %v", err, kind)
				}
			}
		})
	}
}

func TestFindBurstd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agent.env")
	if err := os.WriteFile(file, []byte("BURST_URLS=http://a:1/,http://b:1\nBURST_DAEMON_UID=42\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "agent.env")
	if err := os.WriteFile(none, []byte("BURST_URLS=http://a:1\nBURST_DAEMON_UID=42\nBURST_CHECKPOINTS=none\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		env, file, want string
	}{
		{"", file, "{[http://a:1 http://b:1] 42 false}"},
		{"BURST_URLS=http://c:2 BURST_DAEMON_UID=9", file, "{[http://c:2] 9 false}"},
		{"BURST_URLS=http://c:2 BURST_DAEMON_UID=-9", file, "{[http://c:2] 0 false}"},
		{"", none, "{[http://a:1] 42 true}"},
		{"", file + "x", "{[] 0 false}"},
	} {
		w, err := findBurstd(vars(c.env), c.file)
		if got := fmt.Sprint(w); got != c.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", c.env, got, err, c.want)
		}
	}
}
