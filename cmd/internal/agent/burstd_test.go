package agent

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/munge"
)

// TestRefusals: what is refused is sent again, now and then: whoever answers
// need not be burstd, and an instance's address may be wrong there for a while.
func TestRefusals(t *testing.T) {
	answers := func(code int, header ...string) func(*http.Request, []byte) (*http.Response, error) {
		return func(*http.Request, []byte) (*http.Response, error) {
			resp := status(code, `{"error":"because"}`, nil)
			for i := 0; i+1 < len(header); i += 2 {
				resp.Header.Set(header[i], header[i+1])
			}
			return resp, nil
		}
	}
	for _, tt := range []struct {
		name  string
		fail  func(*http.Request, []byte) (*http.Response, error)
		aloud bool // it is said to be refused
	}{
		{"400", answers(400), true},
		{"403", answers(403), true},
		{"404", answers(404), true},
		{"413", answers(413), true},
		{"401: clocks may be set", answers(401), false},
		{"408", answers(408), false},
		{"409 to be asked again", answers(409, "Retry-After", "4"), false},
		{"425", answers(425), false},
		{"429", answers(429), false},
		{"500", answers(500), false},
		{"503", answers(503, "Retry-After", "99999999999999999999"), false},
		{"503, later", answers(503, "Retry-After", "99999"), false},
		{"a redirect", answers(307, "Location", "http://two:9811/"), false},
		{"a page of a proxy", func(*http.Request, []byte) (*http.Response, error) { return status(502, "<html>", nil), nil }, false},
		{"an answer that nobody has signed", answers(200), false},
		{"nobody there", down, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.burstd.set(func(c *controller) { c.fail = only("spot-interruption", tt.fail) })
				end := secs(600)
				w.service.Spot("terminate", end)
				w.service.Rebalance(time.Now())
				time.Sleep(5 * time.Minute)
				w.want(cloud.Notice{Kind: cloud.Rebalance}) // which it does not touch
				w.burstd.set(func(c *controller) { c.fail = nil })
				time.Sleep(time.Minute)
				w.want(cloud.Notice{Kind: cloud.Rebalance}, spot(end))
				if n := w.log.count("burstd refuses a notice"); (n > 0) != tt.aloud || n > 1 {
					w.Errorf("said %d times:\n%s", n, w.log.text.String())
				}
			})
		})
	}
}

// TestTrust: an answer that burstd has not signed is none.
func TestTrust(t *testing.T) {
	for _, tt := range []struct {
		name  string
		after func(w *world) func(*http.Response) (*http.Response, error)
	}{
		{"altered", func(*world) func(*http.Response) (*http.Response, error) {
			return func(r *http.Response) (*http.Response, error) {
				r.Body = status(200, `{"ok":1}`, nil).Body
				return r, nil
			}
		}},
		{"no credential", func(*world) func(*http.Response) (*http.Response, error) {
			return func(r *http.Response) (*http.Response, error) {
				r.Header.Del("Burst-Credential")
				return r, nil
			}
		}},
		{"replayed", func(*world) func(*http.Response) (*http.Response, error) {
			return func(r *http.Response) (*http.Response, error) {
				r.Header.Set("Burst-Credential", "MUNGE:1:") // opened already, with the first request
				return r, nil
			}
		}},
		{"another node's, that it has not opened yet", func(w *world) func(*http.Response) (*http.Response, error) {
			return func(r *http.Response) (*http.Response, error) {
				text := answerTo("MUNGE:theirs:")
				r.Body = status(200, text, nil).Body
				w.munge.set(func(m *minted) {
					m.open["MUNGE:stolen:"] = munge.Credential{UID: 0, Payload: []byte(sum([]byte(text)))}
				})
				r.Header.Set("Burst-Credential", "MUNGE:stolen:")
				return r, nil
			}
		}},
		{"a user's", func(w *world) func(*http.Response) (*http.Response, error) {
			return func(r *http.Response) (*http.Response, error) {
				w.munge.set(func(m *minted) {
					c := m.open[r.Header.Get("Burst-Credential")]
					c.UID = 1000
					m.open[r.Header.Get("Burst-Credential")] = c
				})
				return r, nil
			}
		}},
		{"endless", func(*world) func(*http.Response) (*http.Response, error) {
			return func(r *http.Response) (*http.Response, error) {
				r.Body = status(200, strings.Repeat("x", 1<<20), nil).Body
				return r, nil
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.burstd.set(func(c *controller) { c.after = tt.after(w) })
				w.service.Spot("terminate", secs(120))
				time.Sleep(time.Minute)
				if got, _ := w.burstd.heard(); len(got) < 5 {
					w.Errorf("it has been sent %d times in a minute", len(got))
				}
				if w.log.count("burstd has the notice") > 0 {
					w.Errorf("the answer was believed:\n%s", w.log.text.String())
				}
			})
		})
	}
}

func TestDaemonUID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.DaemonUID = 64030
		w.munge.asUID = 64030
		w.run()
		w.service.Spot("terminate", secs(120))
		time.Sleep(time.Minute)
		w.stop()
		if got, _ := w.burstd.heard(); len(got) != 1 {
			t.Errorf("%d notices", len(got))
		}
	})
}

// TestSeveralURLs: one that is away costs little and is not asked first
// again, and what one of them says is not the word of the others.
func TestSeveralURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.config.URLs = []string{"http://one:9811/", "http://two:9811"}
		hosts := map[string]int{}
		w.burstd.set(func(c *controller) {
			c.fail = func(r *http.Request, _ []byte) (*http.Response, error) {
				c.mu.Lock()
				hosts[r.URL.Host]++
				c.mu.Unlock()
				if r.URL.Host == "one:9811" {
					return nil, errDown
				}
				return nil, nil
			}
		})
		w.run()
		end := secs(600)
		w.service.Spot("terminate", end)
		time.Sleep(time.Hour)
		w.want(spot(end))
		w.burstd.set(func(c *controller) {
			if hosts["one:9811"] > 3 || hosts["two:9811"] < 100 {
				t.Errorf("asked were %v", hosts)
			}
			c.fail = func(r *http.Request, _ []byte) (*http.Response, error) {
				if r.URL.Host == "one:9811" {
					return status(404, "", nil), nil
				}
				return nil, errDown
			}
		})
		w.service.Rebalance(time.Now())
		time.Sleep(time.Minute)
		w.burstd.set(func(c *controller) { c.fail = nil })
		time.Sleep(time.Minute)
		w.stop()
		w.want(spot(end), cloud.Notice{Kind: cloud.Rebalance})
	})
}
