package nodeapi

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// A question of a burst-srun waits for half a minute, and thousands of them do at
// once. The HTTP server's goroutine and buffers of its connection, which are three
// times what the rest needs, are given back meanwhile: the connection is taken
// from it, and the answer is written when there is one.

// later answers a request by what work returns, which may take long; its context
// ends when the client goes. When the server stops there is no answer: whoever
// asks again at once finds the next one.
func (s *Server) later(w http.ResponseWriter, r *http.Request, work func(ctx context.Context) reply) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil { // as of a test's writer
		s.answer(w, r, work(r.Context()))
		return
	}
	light := &http.Request{Method: r.Method, URL: &url.URL{Path: r.URL.Path}, RemoteAddr: r.RemoteAddr}
	if !s.goLate(func() { s.late(conn, light, work) }) {
		_ = conn.Close() // the server has stopped
	}
}

// goLate runs f, which Serve waits for, unless the server has stopped.
func (s *Server) goLate(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.lates.Go(f)
	}
	return !s.ended
}

// endLates waits until all have ended, as life has; none begins any more.
func (s *Server) endLates() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.lates.Wait()
}

func (s *Server) late(conn net.Conn, r *http.Request, work func(ctx context.Context) reply) {
	defer conn.Close()
	ctx, gone := context.WithCancel(s.life)
	defer gone()
	if conn.SetDeadline(time.Time{}) != nil {
		return // it has gone
	}
	go func() {
		defer gone()
		_, _ = conn.Read(make([]byte, 1)) // a client says nothing more: it has gone, or does not keep to the rules
	}()
	a := work(ctx)
	if ctx.Err() != nil || conn.SetWriteDeadline(time.Now().Add(answerTimeout)) != nil {
		return
	}
	l := &lateWriter{header: http.Header{}, status: http.StatusOK}
	s.answer(l, r.WithContext(ctx), a)
	l.send(conn)
}

// lateWriter keeps an answer until it is sent.
type lateWriter struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (l *lateWriter) Header() http.Header                  { return l.header }
func (l *lateWriter) WriteHeader(status int)               { l.status = status }
func (l *lateWriter) Write(text []byte) (n int, err error) { return l.body.Write(text) }

func (l *lateWriter) send(conn net.Conn) {
	l.header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	var text bytes.Buffer
	response := http.Response{StatusCode: l.status, ProtoMajor: 1, ProtoMinor: 1, Header: l.header, Close: true,
		Body: io.NopCloser(&l.body), ContentLength: int64(l.body.Len())}
	if response.Write(&text) == nil {
		_, _ = conn.Write(text.Bytes()) // a client that has gone asks again
	}
}
