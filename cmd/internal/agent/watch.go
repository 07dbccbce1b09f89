package agent

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/imds"
)

const (
	// pollEvery is the longest pause between two looks: with the time that
	// munge and burstd take, a notice is acted upon within 3 s.
	pollEvery = 2 * time.Second
	// pollMost is the pause that a service which keeps failing gets.
	pollMost = 10 * time.Second
	// missedMost: an event that is missing in so many looks in a row is off. A
	// service that restarts may say for a moment that there is none.
	missedMost = 3
)

// watch looks for what the service announces of one topic, until ctx ends.
func (a *Agent) watch(ctx context.Context, topic imds.Topic, turned *atomic.Int64) {
	t := newTally(a.Log.With("topic", topic.Kind), "the metadata service cannot be read: notices may come late")
	k := &known{all: map[key]*word{}}
	if topic.Kind == cloud.Maintenance {
		a.recall(k)
	}
	pause := pollEvery
	for ctx.Err() == nil {
		began := time.Now()
		turned.Store(int64(time.Since(a.born)))
		all, err := a.IMDS.Notices(ctx, topic)
		if ctx.Err() != nil {
			return
		}
		news, changed := k.look(all, err == nil, a.outbox.pending)
		if changed && topic.Kind == cloud.Maintenance {
			a.remember(k) // before burstd hears of it: else a restart would not know what to take back
		}
		for _, n := range news {
			n.Instance, n.Source, n.Received = a.instance, "imds", time.Now()
			a.Log.Warn("EC2 announces", "kind", n.Kind, "action", n.Action, "deadline", n.Deadline, "event", n.Event, "cancelled", n.Cancelled)
			a.outbox.put(ctx, n)
		}
		if err != nil {
			t.fail(err)
			pause = min(2*pause, pollMost)
		} else {
			t.ok()
			pause = pollEvery
		}
		// A look that hangs until its time is over is part of the pause.
		if sleep(ctx, max(jitter(pause)-time.Since(began), jitter(pollEvery))) != nil {
			return
		}
	}
}

// known is what the service has said so far of one topic.
type known struct{ all map[key]*word }

type word struct {
	notice  cloud.Notice
	missed  int  // looks in a row in which it was not there
	unheard bool // of a run before this one: whether burstd has it is not known
}

// look takes in what the service announces now; whole says that it is all.
// It returns the news for burstd, and whether anything that is known has
// changed. A maintenance that is gone is off, and forgotten when burstd knows.
// A spot action or a rebalance that is gone is not taken back: EC2 does not do so.
func (k *known) look(all []cloud.Notice, whole bool, pending func(key) bool) (news []cloud.Notice, changed bool) {
	there := map[key]bool{}
	say := func(w *word, n cloud.Notice) {
		changed = changed || w.notice != n
		w.notice, w.unheard = n, false
		news = append(news, n)
	}
	for _, n := range all {
		id := keyOf(n)
		there[id] = true
		if k.all[id] == nil {
			k.all[id] = &word{}
		}
		w := k.all[id]
		w.missed = 0
		if w.notice != n || w.unheard {
			say(w, n)
		}
	}
	for id, w := range k.all {
		if !whole || there[id] || id.kind != cloud.Maintenance {
			continue
		}
		w.missed++
		switch {
		case w.missed < missedMost:
		case !w.notice.Cancelled || w.unheard:
			off := w.notice
			off.Cancelled = true
			say(w, off)
		case !pending(id):
			delete(k.all, id)
			changed = true
		}
	}
	return news, changed
}

// tell brings one notice to burstd.
func (a *Agent) tell(ctx context.Context, n cloud.Notice) error {
	body, err := json.Marshal(struct {
		Instance  string           `json:"instance"`
		Kind      cloud.NoticeKind `json:"kind"`
		Action    string           `json:"action,omitempty"`
		Deadline  time.Time        `json:"deadline,omitzero"`
		Event     string           `json:"event,omitempty"`
		Cancelled bool             `json:"cancelled,omitempty"`
	}{n.Instance, n.Kind, n.Action, n.Deadline, n.Event, n.Cancelled})
	if err != nil {
		return err
	}
	_, err = a.burstd.post(ctx, "/v1/node/notice", body, true)
	return err
}
