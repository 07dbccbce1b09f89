package cloud

import (
	"context"
	"errors"
	"time"
)

// Imager is met by providers that can make machine images of instances.
type Imager interface {
	// MakeImage begins an image of a running instance, and returns before it is
	// done: Images tells. A second call with the same token makes no second one: it returns the
	// first, and after a lost answer it is the way to learn it, with the same provider at least.
	// The instance may be stopped or restarted by it.
	MakeImage(ctx context.Context, r ImageRequest) (Image, error)

	// Images returns the cluster's images, and what is left of those whose removal
	// was cut off, in the order in which they were made. An incomplete list is never returned without
	// an error.
	Images(ctx context.Context, cluster string) ([]Image, error)

	// DeleteImage removes an image of the cluster's, by the ID that Images gives,
	// with all that belongs to it. It refuses as Invalid what is not the cluster's. Where it is cut
	// off between two steps, Images still shows what is left, as Remains.
	DeleteImage(ctx context.Context, cluster, id string) error
}

// ImageRequest says of what an image is made.
type ImageRequest struct {
	Token    string // idempotency token: the builder's (BuilderToken)
	Cluster  string
	Pool     string // whose settings the image is made with
	Source   string // the image, as the pool names it, that the instance was made of
	Instance string
	// OwnStop says that only the instance's own end shows that all was done on it: an image is
	// made once it has shut itself down, and what does not is ErrNotItsEnd. For clouds with HardStop.
	OwnStop bool
}

// ErrNotItsEnd is wrapped, by an error of kind Invalid, when no image is made as the instance has not ended by itself.
var ErrNotItsEnd = errors.New("it has not shut itself down")

// ImageState is an image's state.
type ImageState string

const (
	ImagePending   ImageState = "pending"   // being made
	ImageAvailable ImageState = "available" // instances can be made of it
	ImageFailed    ImageState = "failed"    // it will never be available
	ImageRemains   ImageState = "remains"   // no image, but what belonged to one, and costs
)

// Image is a machine image that Burst has made.
type Image struct {
	ID       string     `json:"id"` // as a pool's image names it, unless it Remains
	Token    string     `json:"token"`
	Cluster  string     `json:"cluster"`
	Pool     string     `json:"pool"`
	Source   string     `json:"source"`
	State    ImageState `json:"state"`
	Progress int        `json:"progress"`        // per cent of a pending one; -1: the cloud does not say
	Bytes    int64      `json:"bytes,omitempty"` // of its disks; 0: not known
	Made     time.Time  `json:"made"`
	Why      string     `json:"why,omitempty"` // of a failed one, in the cloud's words
}
