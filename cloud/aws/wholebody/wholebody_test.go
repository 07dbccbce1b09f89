package wholebody

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// quick answers before it has read the body.
type quick struct{ request *http.Request }

func (q *quick) Do(r *http.Request) (*http.Response, error) {
	q.request = r
	return &http.Response{}, nil
}

func TestBodyOutlivesItsRequest(t *testing.T) {
	q := &quick{}
	for _, body := range []string{"", "Action=RunInstances"} {
		r, err := http.NewRequest(http.MethodPost, "http://ec2", struct {
			io.Reader
			io.Closer
		}{strings.NewReader(body), io.NopCloser(nil)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (Client{q}).Do(r); err != nil {
			t.Fatal(err)
		}
		if err := r.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if left, err := io.ReadAll(r.Body); err != nil || len(left) > 0 {
			t.Errorf("the request's own body still has %q, %v", left, err)
		}
		for range 2 {
			if text, err := io.ReadAll(q.request.Body); err != nil || string(text) != body {
				t.Errorf("body is %q, %v, want %q", text, err, body)
			}
			if q.request.Body, err = q.request.GetBody(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestWithoutBody(t *testing.T) {
	q := &quick{}
	r, err := http.NewRequest(http.MethodGet, "http://ec2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Client{q}).Do(r); err != nil || q.request != r {
		t.Errorf("request is %v, %v, want it as it was", q.request, err)
	}
}

func TestBodyThatCannotBeRead(t *testing.T) {
	broken := errors.New("broken")
	r, err := http.NewRequest(http.MethodPost, "http://ec2", iotest.ErrReader(broken))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Client{&quick{}}).Do(r); !errors.Is(err, broken) {
		t.Errorf("error is %v, want %v", err, broken)
	}
}
