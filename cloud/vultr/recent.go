package vultr

import (
	"sync"
	"time"

	"github.com/vultr/govultr/v3"
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

func (r *recent[T]) drop(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, key)
}

// How long answers hold.
const (
	listsAge     = time.Hour // plans with their prices, operating systems
	imageAge     = 5 * time.Minute
	availableAge = 30 * time.Second
)

// knowledge is what the provider has read of Vultr's lists.
type knowledge struct {
	plans     recent[[]plan]
	available recent[map[string]bool] // plans that the region has, by their kind
	systems   recent[[]govultr.OS]
	snapshots recent[string] // id, by what the pool names
	sshKeys   recent[[]govultr.SSHKey]
}
