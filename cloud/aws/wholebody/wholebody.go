// Package wholebody gives an HTTP client's transport each request's body whole
// and in memory, so that a quick answer is not lost.
package wholebody

import (
	"bytes"
	"errors"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Client is an HTTP client for the AWS SDK.
//
// The SDK closes its request's body as soon as the answer begins. Go's
// transport has then sent all of it, but may still be about to look for its
// end; the SDK's closed body answers that with an error, and the transport
// closes the connection under the answer ("use of closed network connection").
// It happens where the answer comes within a millisecond or this host is busy.
// A body in memory is the transport's own, and is sent with the headers at once.
type Client struct{ aws.HTTPClient }

// Do implements aws.HTTPClient.
func (c Client) Do(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return c.HTTPClient.Do(r)
	}
	text, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	whole := r.WithContext(r.Context()) // a copy
	whole.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	whole.Body, _ = whole.GetBody() // it has no error
	return c.HTTPClient.Do(whole)
}
