package aws

import (
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// recent remembers answers that hold for a while. The zero recent is empty.
type recent[T any] struct {
	mu   sync.Mutex
	kept map[string]dated[T]
}

type dated[T any] struct {
	value T
	at    time.Time
}

// get returns the answer for key that is no older than age.
func (r *recent[T]) get(key string, age time.Duration) (T, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.kept[key]
	if !ok || time.Since(d.at) > age {
		var none T
		return none, false
	}
	return d.value, true
}

func (r *recent[T]) put(key string, value T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = map[string]dated[T]{}
	}
	r.kept[key] = dated[T]{value, time.Now()}
}

// How long answers hold.
const (
	typesAge    = 6 * time.Hour // AWS adds types and zones by the month
	spotAge     = 5 * time.Minute
	onDemandAge = time.Hour
	quotaAge    = time.Hour
	imageAge    = 5 * time.Minute // of a parameter's value
	silenceAge  = 10 * time.Minute
	failedAge   = 15 * time.Second // of a question that nothing else answers: so often it is asked for several pools
)

// knowledge is what the provider has read of AWS's catalogs.
type knowledge struct {
	types    recent[cloud.InstanceType] // without zones, by name
	zones    recent[[]string]           // that offer a type, by its name
	spot     recent[[]spotPrice]        // by type
	onDemand recent[cloud.OfferingPrice]
	quotas   recent[limit] // by code
	// quotaTurn is held while quotas are looked at.
	quotaTurn sync.Mutex
	images    recent[string] // id, by the parameter's name
	// failed are services that could not be asked a moment ago: what they would
	// tell is done without, and said once.
	failed recent[error]
}
