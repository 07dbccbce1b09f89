package nodeapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// What a deadline may be: beyond it somebody's clock or word is wrong.
const (
	maxPast  = 24 * time.Hour
	maxAhead = 366 * 24 * time.Hour
)

// notice passes on what the node's metadata announces.
func (s *Server) notice(ctx context.Context, q question) (any, error) {
	n, err := q.notice(time.Now())
	if err != nil {
		return nil, err
	}
	return struct {
		Answers string `json:"answers"`
	}{q.credential}, notYet(s.backend.Notice(ctx, q.addr, n))
}

// notice is the cloud's notice in a node's words, of which each is suspect.
func (q question) notice(now time.Time) (cloud.Notice, error) {
	n := cloud.Notice{Instance: q.Instance, Kind: cloud.NoticeKind(q.Kind), Deadline: q.Deadline, Received: now, Source: "imds",
		Action: oneLine(q.Action, maxWord), Event: oneLine(q.Event, maxEvent), Cancelled: q.Cancelled}
	switch n.Kind {
	case cloud.SpotInterruption, cloud.Rebalance, cloud.Maintenance:
	default: // a StateChange too: it is for the cloud alone to say
		return n, refuse(http.StatusBadRequest, "kind %.40q is none of %s, %s, %s", q.Kind, cloud.SpotInterruption, cloud.Rebalance, cloud.Maintenance)
	}
	if n.Cancelled && n.Kind != cloud.Maintenance {
		return n, refuse(http.StatusBadRequest, "kind %s: only maintenance is called off", n.Kind)
	}
	if n.Deadline.IsZero() {
		return n, nil
	}
	switch n.Deadline = n.Deadline.UTC(); {
	case n.Deadline.After(now.Add(maxAhead)):
		return n, refuse(http.StatusBadRequest, "the deadline %s is more than a year ahead", n.Deadline.Format(time.RFC3339))
	case n.Deadline.Before(now.Add(-maxPast)) && n.Kind == cloud.Maintenance:
		n.Deadline = now // what was due, and is still announced, may begin at any time
	case n.Deadline.Before(now.Add(-maxPast)):
		return n, refuse(http.StatusBadRequest, "the deadline %s is more than a day past, and the instance lives", n.Deadline.Format(time.RFC3339))
	}
	return n, nil
}

// notYet has an agent ask again where a booting node would: to it a 409 is final.
func notYet(err error) error {
	if errors.Is(err, ErrNotYet) {
		return &refusal{status: http.StatusServiceUnavailable, retry: 4 * time.Second, text: ErrNotYet.Error(), as: "not-yet"}
	}
	return err
}

// beat takes an agent's word on its node.
func (s *Server) beat(ctx context.Context, q question) (any, error) {
	every, err := s.backend.Beat(ctx, q.beat(time.Now()))
	if err != nil {
		return nil, notYet(err)
	}
	return unsigned{struct {
		Every int `json:"every"`
	}{int(every / time.Second)}}, nil
}

// beat is the node's word within bounds. What cannot be is left out: a beat
// that is refused would make its node silent.
func (q question) beat(now time.Time) Beat {
	b := Beat{Instance: q.Instance, Addr: q.addr, Version: oneLine(q.Version, maxWord), Stopped: q.Slurmd != nil && !*q.Slurmd, Spool: -1}
	if q.Spool != nil && *q.Spool >= 0 && *q.Spool <= 100 {
		b.Spool = *q.Spool
	}
	for _, t := range q.Started[max(0, len(q.Started)-maxStarts):] {
		if !t.After(now) && now.Sub(t) < time.Hour {
			b.Started = append(b.Started, t)
		}
	}
	return b
}
