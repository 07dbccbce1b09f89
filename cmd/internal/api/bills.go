package api

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Bill is an instance's time as its provider told it, beside what the ledger has booked.
type Bill struct {
	Instance string    `json:"instance"`
	Provider string    `json:"provider"`
	Pool     string    `json:"pool"`
	Offering string    `json:"offering"`
	Node     string    `json:"node"`
	Launched time.Time `json:"launched"`
	Ended    time.Time `json:"ended"`
	// Guessed says that the provider never told when it ended: Ended is when burstd learned of it.
	Guessed bool   `json:"guessed"`
	Billing string `json:"billing"` // how its time is counted, as "second, at least 60"
	// Seconds are what the provider bills by these times, and of that, as of a calendar month no more than
	// a most may be, charges; and the same as booked.
	BilledSeconds       float64  `json:"billed_seconds"`
	ChargedSeconds      float64  `json:"charged_seconds"`
	BookedSeconds       float64  `json:"booked_seconds"`
	BookedChargeSeconds float64  `json:"booked_charged_seconds"`
	USD                 *float64 `json:"usd"` // booked; null: no price is known
	// Differs says that what is booked is not what the provider charges, to the millisecond.
	Differs bool `json:"differs"`
}

// Bills is Backend.Bills.
func (c *Client) Bills(ctx context.Context, since time.Time) (b []Bill, err error) {
	v := url.Values{"since": {since.UTC().Format(time.RFC3339Nano)}}
	err = c.call(ctx, http.MethodGet, "/v1/bills?"+v.Encode(), nil, &b)
	return b, err
}

func (s *server) getBills(r *http.Request) (any, error) {
	since, err := time.Parse(time.RFC3339Nano, r.URL.Query().Get("since"))
	if err != nil {
		return nil, &Error{http.StatusBadRequest, "since is not a time as in 2026-01-31T00:00:00Z"}
	}
	return s.backend.Bills(r.Context(), since)
}
