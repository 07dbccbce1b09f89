package imds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/burst-hpc/burst/cloud"
)

// Topic is one thing that the service announces. Its name is that of the
// notices' kind.
type Topic struct {
	Kind  cloud.NoticeKind
	path  string
	parse func([]byte) ([]cloud.Notice, error)
}

// Topics are all, the most urgent first.
func Topics() []Topic {
	return []Topic{
		{cloud.SpotInterruption, "spot/instance-action", parseSpot},
		{cloud.Rebalance, "events/recommendations/rebalance", parseRebalance},
		{cloud.Maintenance, "events/maintenance/scheduled", parseMaintenance},
	}
}

// Notices reads what is announced now, none if nothing is. Instance,
// Received and Source are left to the caller. Events are each there once. With
// an error the list may lack some, but what is in it holds.
func (c *Client) Notices(ctx context.Context, t Topic) ([]cloud.Notice, error) {
	text, err := c.Get(ctx, t.path)
	if errors.Is(err, ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	all, err := t.parse(text)
	if err != nil {
		return all, fmt.Errorf("reading what the metadata service says under %s: %w", t.path, err)
	}
	return all, nil
}

// parseSpot reads {"action":"terminate","time":"2026-04-24T17:11:44Z"}. An
// action whose time cannot be read is a notice without a deadline, and an
// error: the instance goes all the same.
func parseSpot(text []byte) ([]cloud.Notice, error) {
	var v struct{ Action, Time string }
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, broken(text, err)
	}
	if !plain(v.Action) || v.Action == "" {
		return nil, broken(text, errors.New("no action"))
	}
	n := cloud.Notice{Kind: cloud.SpotInterruption, Action: v.Action}
	at, err := time.Parse(time.RFC3339, v.Time)
	if err != nil {
		return []cloud.Notice{n}, broken(text, err)
	}
	n.Deadline = at.UTC()
	return []cloud.Notice{n}, nil
}

// parseRebalance reads {"noticeTime":"2026-10-16T19:18:24Z"}. When it was said
// is of no use to us, so that it may be unreadable; nothing goes at that time.
func parseRebalance(text []byte) ([]cloud.Notice, error) {
	var v struct{ NoticeTime *string }
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, broken(text, err)
	}
	if v.NoticeTime == nil {
		return nil, broken(text, errors.New("no noticeTime"))
	}
	return []cloud.Notice{{Kind: cloud.Rebalance}}, nil
}

// maintenanceTime is how the service writes the times of a maintenance.
const maintenanceTime = "2 Jan 2006 15:04:05 GMT"

// maxEvents is far beyond what one instance has.
const maxEvents = 64

// parseMaintenance reads an array of events. One that cannot be read does not
// hide the others.
func parseMaintenance(text []byte) ([]cloud.Notice, error) {
	var events []json.RawMessage
	if err := json.Unmarshal(text, &events); err != nil {
		return nil, broken(text, err)
	}
	var errs []error
	if len(events) > maxEvents {
		errs = append(errs, fmt.Errorf("%d events, of which %d are taken", len(events), maxEvents))
		events = events[:maxEvents]
	}
	var all []cloud.Notice
	for _, e := range events {
		n, err := parseEvent(e)
		if err != nil {
			errs = append(errs, broken(e, err))
			continue
		}
		i := slices.IndexFunc(all, func(o cloud.Notice) bool { return o.Event == n.Event })
		switch {
		case i < 0:
			all = append(all, n)
		case sooner(n, all[i]):
			all[i] = n
		}
	}
	return all, errors.Join(errs...)
}

// sooner says whether a is to be believed rather than b, of the same event.
func sooner(a, b cloud.Notice) bool {
	if a.Cancelled != b.Cancelled {
		return b.Cancelled
	}
	return a.Deadline.Before(b.Deadline)
}

// parseEvent reads
// {"NotBefore":"21 Jan 2026 09:00:43 GMT","Code":"system-reboot","EventId":"instance-event-1","State":"active", …}.
// An event of which nobody says that it is over is still to come.
func parseEvent(text []byte) (cloud.Notice, error) {
	var v struct{ NotBefore, Code, EventID, State string }
	if err := json.Unmarshal(text, &v); err != nil {
		return cloud.Notice{}, err
	}
	if v.EventID == "" || !plain(v.EventID) || !plain(v.Code) {
		return cloud.Notice{}, errors.New("no EventId, or no proper Code")
	}
	n := cloud.Notice{Kind: cloud.Maintenance, Action: v.Code, Event: v.EventID}
	switch strings.ToLower(v.State) {
	case "canceled", "cancelled", "completed":
		n.Cancelled = true
	}
	at, err := time.Parse(maintenanceTime, v.NotBefore)
	if err != nil && !n.Cancelled {
		return cloud.Notice{}, err
	}
	if err == nil {
		n.Deadline = at.UTC()
	}
	return n, nil
}

// plain says whether a word of the service may go into messages and events.
func plain(s string) bool {
	return len(s) <= 128 && !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) })
}

func broken(text []byte, err error) error {
	return fmt.Errorf("%.120q is not what EC2 writes there: %w", text, err)
}
