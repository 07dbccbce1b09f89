// Package imdstest is an EC2 metadata service for tests: it follows the
// protocol's second version (a PUT for a token that expires, 401 without one,
// 404 where there is no notice), and can be slow, hang, fail, and answer
// rubbish.
package imdstest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Event is one entry of the scheduled maintenance.
type Event struct {
	NotBefore   string
	Code        string
	Description string
	EventID     string `json:"EventId"`
	NotAfter    string
	State       string
}

// Fault is how requests under a path fail; the zero value does not.
type Fault struct {
	Status int           // answered in place of what is there
	Body   string        // with Status
	Delay  time.Duration // before anything else
	Hang   bool          // no answer before the client leaves
	Cut    bool          // the body ends before its announced length
}

// Service is one instance's metadata service.
type Service struct {
	mu      sync.Mutex
	data    map[string]string // below /latest/meta-data/
	tokens  map[string]time.Time
	maxTTL  time.Duration
	faults  map[string]Fault // by path prefix, the longest counts
	puts    int
	gets    int
	refused int // GETs answered 401
}

// New makes the service of an instance that nothing is announced for.
func New(instance string) *Service {
	return &Service{
		data:   map[string]string{"instance-id": instance},
		tokens: map[string]time.Time{}, maxTTL: 6 * time.Hour, faults: map[string]Fault{},
	}
}

// Serve listens on this host until ctx ends, and returns the service's URL.
func (s *Service) Serve(ctx context.Context) (url string, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() { srv.Close() })
	go srv.Serve(ln) // until it is closed
	return "http://" + ln.Addr().String(), nil
}

// Paths of the notices.
const (
	SpotPath        = "spot/instance-action"
	RebalancePath   = "events/recommendations/rebalance"
	MaintenancePath = "events/maintenance/scheduled"
)

// Set puts a text under a path below /latest/meta-data/; "" takes it away.
func (s *Service) Set(path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == "" {
		delete(s.data, path)
		return
	}
	s.data[path] = text
}

// Spot announces the end of the instance; an empty action takes it back.
func (s *Service) Spot(action string, at time.Time) {
	if action == "" {
		s.Set(SpotPath, "")
		return
	}
	s.Set(SpotPath, `{"action":"`+action+`","time":"`+at.UTC().Format(time.RFC3339)+`"}`)
}

// Rebalance recommends it.
func (s *Service) Rebalance(at time.Time) {
	s.Set(RebalancePath, `{"noticeTime":"`+at.UTC().Format(time.RFC3339)+`"}`)
}

// Maintenance announces these events, and no others; with none the path is 404.
func (s *Service) Maintenance(events ...Event) {
	if len(events) == 0 {
		s.Set(MaintenancePath, "")
		return
	}
	text, _ := json.Marshal(events) // strings only: it cannot fail
	s.Set(MaintenancePath, string(text))
}

// Planned is an event as EC2 writes it.
func Planned(id, code, state string, notBefore time.Time) Event {
	const layout = "2 Jan 2006 15:04:05 GMT"
	return Event{NotBefore: notBefore.UTC().Format(layout), NotAfter: notBefore.UTC().Add(time.Hour).Format(layout),
		Code: code, Description: "scheduled " + code, EventID: id, State: state}
}

// Fail has requests for paths that begin with prefix ("/latest/api/token",
// "/latest/meta-data/spot") fail; a zero Fault ends it.
func (s *Service) Fail(prefix string, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f == (Fault{}) {
		delete(s.faults, prefix)
		return
	}
	s.faults[prefix] = f
}

// Expire makes all tokens invalid.
func (s *Service) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// LimitTTL has tokens last no longer, whatever is asked.
func (s *Service) LimitTTL(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxTTL = d
}

// Count says how many tokens were asked for, how many paths were read, and how
// many of the reads were answered 401.
func (s *Service) Count() (puts, gets, refused int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.puts, s.gets, s.refused
}

const (
	tokenHeader = "X-Aws-Ec2-Metadata-Token"
	ttlHeader   = "X-Aws-Ec2-Metadata-Token-Ttl-Seconds"
)

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := s.fault(r)
	if f.Delay > 0 {
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
		}
	}
	switch {
	case f.Hang:
		<-r.Context().Done()
	case f.Status != 0:
		http.Error(w, f.Body, f.Status)
	case f.Cut:
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`[{"NotBefore":`)) // then the connection is closed
	case r.URL.Path == "/latest/api/token":
		s.token(w, r)
	default:
		s.read(w, r)
	}
}

// fault counts a request and says how it fails.
func (s *Service) fault(r *http.Request) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodPut {
		s.puts++
	} else {
		s.gets++
	}
	var f Fault
	longest := -1
	for prefix, g := range s.faults {
		if strings.HasPrefix(r.URL.Path, prefix) && len(prefix) > longest {
			f, longest = g, len(prefix)
		}
	}
	if f.Status == http.StatusUnauthorized && r.Method == http.MethodGet {
		s.refused++
	}
	return f
}

func (s *Service) token(w http.ResponseWriter, r *http.Request) {
	values := r.Header.Values(ttlHeader)
	switch {
	case r.Method != http.MethodPut:
		http.Error(w, "", http.StatusMethodNotAllowed)
		return
	case r.Header.Get("X-Forwarded-For") != "":
		http.Error(w, "", http.StatusForbidden)
		return
	case len(values) != 1:
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || n < 1 || n > 21600 {
		http.Error(w, "", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	lasts := min(time.Duration(n)*time.Second, s.maxTTL)
	token := "AQAE" + rand.Text() + "=="
	s.tokens[token] = time.Now().Add(lasts)
	w.Header().Set(ttlHeader, strconv.Itoa(int(lasts.Seconds())))
	_, _ = w.Write([]byte(token))
}

func (s *Service) read(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	given := r.Header.Values(tokenHeader) // two of them are none
	if len(given) != 1 || !time.Now().Before(s.tokens[given[0]]) {
		s.refused++
		http.Error(w, "", http.StatusUnauthorized)
		return
	}
	text, ok := s.data[strings.TrimPrefix(r.URL.Path, "/latest/meta-data/")]
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		http.Error(w, "", http.StatusMethodNotAllowed)
	case !ok:
		http.Error(w, "", http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(text))
	}
}

// Direct is an http.RoundTripper that brings requests to a service without a
// network, so that both can be in a synctest bubble.
type Direct struct{ Service *Service }

// RoundTrip implements http.RoundTripper.
func (d Direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.Service.ServeHTTP(w, r.Clone(r.Context()))
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	resp := w.Result()
	if n, err := strconv.Atoi(resp.Header.Get("Content-Length")); err == nil && n > w.Body.Len() {
		return nil, io.ErrUnexpectedEOF
	}
	resp.Request = r
	return resp, nil
}
