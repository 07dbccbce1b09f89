package api

import (
	"context"
	"net/http"
	"time"
)

// Builder is an instance of which an image was made, or was to be, and which is gone.
type Builder struct {
	Instance string    `json:"instance"`
	Token    string    `json:"token"` // cloud.BuilderToken
	Provider string    `json:"provider"`
	Pool     string    `json:"pool"`
	Type     string    `json:"type"`
	Zone     string    `json:"zone,omitempty"`
	Market   string    `json:"market"`
	Launched time.Time `json:"launched"`
	Ended    time.Time `json:"ended"`
	Guessed  bool      `json:"guessed,omitempty"` // the cloud did not say when it ended
}

// BookBuilder is Control.BookBuilder; SlurmUser and root may.
func (c *Client) BookBuilder(ctx context.Context, b Builder) error {
	return c.call(ctx, http.MethodPost, "/v1/builders", b, &struct{}{})
}

func (s *server) postBuilder(r *http.Request) (any, error) {
	var b Builder
	if err := decode(r.Body, &b); err != nil {
		return nil, err
	}
	return struct{}{}, s.backend.BookBuilder(r.Context(), b)
}
