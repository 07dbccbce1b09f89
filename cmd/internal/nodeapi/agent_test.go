package nodeapi

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
)

func TestNotices(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	for _, tt := range []struct {
		name, body string // without the instance
		status     int
		says       string
		want       cloud.Notice
	}{
		{"spot", `"kind":"spot-interruption","action":"terminate","deadline":"` + at(2*time.Minute) + `"`, 200, `"answers"`,
			cloud.Notice{Kind: cloud.SpotInterruption, Action: "terminate", Deadline: now.Add(2 * time.Minute)}},
		{"a spot notice that burstd was away for", `"kind":"spot-interruption","action":"stop","deadline":"` + at(-time.Hour) + `"`, 200, `"answers"`,
			cloud.Notice{Kind: cloud.SpotInterruption, Action: "stop", Deadline: now.Add(-time.Hour)}},
		{"rebalance, without a deadline", `"kind":"rebalance"`, 200, `"answers"`, cloud.Notice{Kind: cloud.Rebalance}},
		{"maintenance that is cancelled", `"kind":"maintenance","action":"system-reboot","event":"instance-event-0d","deadline":"` + at(48*time.Hour) + `","cancelled":true`, 200, `"answers"`,
			cloud.Notice{Kind: cloud.Maintenance, Action: "system-reboot", Event: "instance-event-0d", Deadline: now.Add(48 * time.Hour), Cancelled: true}},
		{"maintenance that was due last week", `"kind":"maintenance","deadline":"` + at(-170*time.Hour) + `"`, 200, `"answers"`, cloud.Notice{Kind: cloud.Maintenance, Deadline: now}},
		{"texts of no end", `"kind":"rebalance","action":"a\nb\u001b` + strings.Repeat("x", 900) + `","event":"` + strings.Repeat("ä", 900) + `"`, 200, `"answers"`,
			cloud.Notice{Kind: cloud.Rebalance, Action: "a | b " + strings.Repeat("x", 58), Event: strings.Repeat("ä", 128)}},
		{"a state, which is the cloud's to say", `"kind":"state-change","action":"terminated"`, 400, `kind \"state-change\" is none of`, cloud.Notice{}},
		{"an interruption that is off, as EC2 never says", `"kind":"spot-interruption","cancelled":true`, 400, "only maintenance is called off", cloud.Notice{}},
		{"a rebalance that is off", `"kind":"rebalance","cancelled":true`, 400, "only maintenance is called off", cloud.Notice{}},
		{"no kind", `"action":"terminate"`, 400, "is none of spot-interruption, rebalance, maintenance", cloud.Notice{}},
		{"no time", `"kind":"rebalance","deadline":"tomorrow"`, 400, "JSON", cloud.Notice{}},
		{"a deadline of long ago", `"kind":"spot-interruption","deadline":"1970-01-01T00:00:00Z"`, 400, "more than a day past", cloud.Notice{}},
		{"a deadline of another age", `"kind":"maintenance","deadline":"9999-01-01T00:00:00Z"`, 400, "more than a year ahead", cloud.Notice{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, Limits{})
			got := w.ask(request{"POST", notice, `{"instance":"i-1",` + tt.body + `}`, "own"})
			if got.status != tt.status || !strings.Contains(got.body, tt.says) || (got.credential == "") != (tt.status != 200) || tt.status != 200 && got.retry != "" {
				t.Errorf("%+v", got)
			}
			if tt.status != 200 {
				if len(w.site.notices) > 0 {
					t.Errorf("heard: %+v", w.site.notices)
				}
				return
			}
			n := w.site.notices[0]
			if since := n.Received.Sub(now); since < 0 || since > time.Minute {
				t.Errorf("received %s", n.Received)
			}
			if tt.name == "maintenance that was due last week" {
				n.Deadline = n.Deadline.Truncate(time.Minute)
				tt.want.Deadline = n.Received.UTC().Truncate(time.Minute)
			}
			n.Received, tt.want.Instance, tt.want.Source = time.Time{}, "i-1", "imds"
			if diff := cmp.Diff(tt.want, n); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBeats(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	starts := func(ago ...time.Duration) (all []time.Time) {
		for _, d := range ago {
			all = append(all, now.Add(-d))
		}
		return all
	}
	list := func(all []time.Time) string { b, _ := json.Marshal(all); return string(b) }
	var many []time.Duration
	for i := range 30 {
		many = append(many, time.Duration(40-i)*time.Minute)
	}
	for _, tt := range []struct {
		name, body string
		want       Beat
	}{
		{"whole", `"version":"1.2","slurmd_started":` + list(starts(time.Minute)) + `,"slurmd":true,"spool_used":93.5`, Beat{Version: "1.2", Started: starts(time.Minute), Spool: 93.5}},
		{"slurmd is down, the spool not known", `"slurmd":false,"spool_used":-1`, Beat{Stopped: true, Spool: -1}},
		{"of an agent that says less", `"version":"2"`, Beat{Version: "2", Spool: -1}},
		{"what cannot be", `"version":"\u0000\u001b[31m","slurmd_started":` + list(starts(-time.Hour, 2*time.Hour, time.Minute)) + `,"spool_used":1e9`,
			Beat{Version: "  [31m", Started: starts(time.Minute), Spool: -1}},
		{"more starts than are wanted", `"slurmd_started":` + list(starts(many...)), Beat{Started: starts(many[10:]...), Spool: -1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, Limits{})
			if got := w.ask(request{"POST", beat, `{"instance":"i-1",` + tt.body + `}`, "own"}); got.status != 200 || got.body != `{"every":20}` || got.credential != "" {
				t.Errorf("%+v", got)
			}
			tt.want.Instance, tt.want.Addr = "i-1", "127.0.0.1"
			if diff := cmp.Diff([]Beat{tt.want}, w.site.beats); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAnAgentAsksAgain where a booting node is told 409, which is final to an agent.
func TestAnAgentAsksAgain(t *testing.T) {
	for _, path := range []string{notice, beat, agent} {
		w := newWorld(t, Limits{})
		w.site.fail(fmt.Errorf("i-1: %w", ErrNotYet))
		got := w.ask(request{"POST", path, `{"instance":"i-1","kind":"rebalance","arch":"amd64"}`, "own"})
		if got.status != 503 || got.retry == "" || w.Requests()["not-yet"] != 1 {
			t.Errorf("%s: %+v, %v", path, got, w.Requests())
		}
		w.site.fail(fmt.Errorf("i-1 ends: %w", ErrNotYours))
		if got := w.ask(request{"POST", path, `{"instance":"i-1","kind":"rebalance","arch":"amd64"}`, "own"}); got.status != 403 || got.retry != "" {
			t.Errorf("%s of a doomed instance: %+v", path, got)
		}
	}
}

// TestBeatsAndBootsKeepNoNoticeOut: of one address, and of all.
func TestBeatsAndBootsKeepNoNoticeOut(t *testing.T) {
	w := newWorld(t, Limits{Rate: 1e-6, Burst: 1, Agents: 0.1, Opening: 1, Waiting: 1})
	body := `{"instance":"i-1","kind":"rebalance"}`
	for i := range 5 {
		want := 200
		if i > 2 { // 20 times 0.1, and one
			want = 429
		}
		if got := w.ask(request{"POST", beat, body, "own"}); got.status != want {
			t.Errorf("beat %d: %+v", i, got)
		}
	}
	for range 2 {
		w.ask(request{"POST", whoami, me, "own"})
	}
	// Beats wait for munged, as many as may.
	w.beats.turns.slots <- struct{}{}
	w.beats.turns.waiting.Store(1)
	if got := w.ask(request{"POST", notice, body, "own"}); got.status != 200 {
		t.Errorf("a notice among many beats: %+v", got)
	}
	w.beats.turns.waiting.Store(0)
	if want := map[string]uint64{"ok": 5, "too-often": 3}; !cmp.Equal(want, w.Requests()) {
		t.Errorf("%v, want %v", w.Requests(), want)
	}
}

// TestAStormOfNoticesIsTaken whole: all come before munged has opened one.
func TestAStormOfNoticesIsTaken(t *testing.T) {
	const all = 100
	w := newWorld(t, Limits{Waiting: 3, Opening: 2, PerAddr: all})
	w.munge.hold = make(chan struct{})
	var wg sync.WaitGroup
	for range all {
		wg.Go(func() {
			if got := w.ask(request{"POST", notice, `{"instance":"i-1","kind":"rebalance"}`, "own"}); got.status != 200 {
				t.Errorf("%+v", got)
			}
		})
	}
	for end := time.Now().Add(10 * time.Second); w.notices.turns.waiting.Load() < all-2; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%d wait", w.notices.turns.waiting.Load())
			break
		}
	}
	close(w.munge.hold)
	wg.Wait()
	if len(w.site.notices) != all {
		t.Errorf("%d heard", len(w.site.notices))
	}
}

// FuzzQuestion: whatever a node says, what is passed on is within bounds.
func FuzzQuestion(f *testing.F) {
	f.Add([]byte(`{"instance":"i-1","kind":"spot-interruption","action":"terminate","deadline":"2026-04-24T17:11:44Z","event":"e","cancelled":true}`))
	f.Add([]byte(`{"instance":"i-1","version":"1","slurmd_started":["2026-04-24T17:11:44Z"],"slurmd":false,"spool_used":93.5}`))
	now := time.Date(2026, 4, 24, 17, 12, 0, 0, time.UTC)
	plain := func(t *testing.T, s string, most int) {
		if len(s) > most || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && r != ' ' }) {
			t.Errorf("%q (%d bytes)", s, len(s))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var q question
		if json.Unmarshal(body, &q) != nil {
			return
		}
		b := q.beat(now)
		plain(t, b.Version, maxWord)
		if len(b.Started) > maxStarts || math.IsNaN(b.Spool) || b.Spool != -1 && (b.Spool < 0 || b.Spool > 100) {
			t.Errorf("%+v", b)
		}
		for _, s := range b.Started {
			if s.After(now) || now.Sub(s) >= time.Hour {
				t.Errorf("a start at %s", s)
			}
		}
		n, err := q.notice(now)
		if err != nil {
			return
		}
		plain(t, n.Action, maxWord)
		plain(t, n.Event, maxEvent)
		if !n.Deadline.IsZero() && (n.Deadline.Before(now.Add(-maxPast)) || n.Deadline.After(now.Add(maxAhead))) {
			t.Errorf("a deadline of %s", n.Deadline)
		}
	})
}
