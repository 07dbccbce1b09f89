package vultr

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// clock is how far this host's clock is from Vultr's, by the last answer. Hours are Vultr's: nodes
// that go shortly before their hour ends go after it has begun another, where our clock is behind.
type clock struct {
	ahead atomic.Int64 // nanoseconds that ours is ahead; 0 within what is tolerated
	told  atomic.Bool
}

// clockTolerance is what the two may differ.
const clockTolerance = 30 * time.Second

// saw reads an answer that was asked for at began and came at ended. Its Date has whole seconds.
func (c *clock) saw(header http.Header, began, ended time.Time) (ahead time.Duration) {
	at, err := http.ParseTime(header.Get("Date"))
	if err != nil || header.Get("Age") != "" { // the latter: a cache's
		return 0
	}
	switch early, late := began.Sub(at.Add(time.Second)), at.Sub(ended); {
	case early > clockTolerance:
		ahead = early
	case late > clockTolerance:
		ahead = -late
	}
	c.ahead.Store(int64(ahead))
	return ahead
}

// off says in words that the clocks differ; empty: they do not, as far as is known.
func (c *clock) off() string {
	ahead := time.Duration(c.ahead.Load()).Round(time.Second)
	word := "ahead of"
	switch {
	case ahead == 0:
		return ""
	case ahead < 0:
		word, ahead = "behind", -ahead
	}
	return fmt.Sprintf("this host's clock is %s %s Vultr's, by which hours are billed: see to it with chrony or timesyncd", ahead, word)
}
