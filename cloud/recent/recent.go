// Package recent keeps answers of a cloud that hold for a while: catalogs, prices, images.
package recent

import (
	"sync"
	"time"
)

// Answers are answers to one kind of question, by key. The zero Answers is empty.
type Answers[T any] struct {
	mu   sync.Mutex
	kept map[string]dated[T]
}

type dated[T any] struct {
	value T
	at    time.Time
}

// Get returns the answer for key, if there is one no older than age.
func (a *Answers[T]) Get(key string, age time.Duration) (T, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, ok := a.kept[key]
	if !ok || time.Since(d.at) > age {
		var none T
		return none, false
	}
	return d.value, true
}

// Put keeps the answer for key, as one of now.
func (a *Answers[T]) Put(key string, value T) { a.PutAt(key, value, time.Now()) }

// PutAt keeps the answer for key, as one of then.
func (a *Answers[T]) PutAt(key string, value T, then time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kept == nil {
		a.kept = map[string]dated[T]{}
	}
	a.kept[key] = dated[T]{value, then}
}

// Drop forgets the answer for key.
func (a *Answers[T]) Drop(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.kept, key)
}
