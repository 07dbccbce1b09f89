package vultr

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"sync"
)

const opTerminate = "terminate"

// workers bounds the requests of one call that are under way at once.
const workers = 16

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// Terminate implements cloud.Provider. Each instance is a request of its own.
// Vultr refuses to destroy one that it is still setting up ("Server is currently
// locked"): the caller asks again. What this process has not seen is looked for
// first: List is to tell of its end.
func (p *Provider) Terminate(ctx context.Context, ids []string) error {
	if err := ctx.Err(); err != nil {
		return transient(opTerminate, err)
	}
	if slices.ContainsFunc(ids, func(id string) bool { _, ok := p.recall(id); return !ok && uuid.MatchString(id) }) {
		if _, err := p.ours(ctx, opTerminate); err != nil {
			p.log.Debug("what is to be ended could not be looked for", "provider", p.c.Name, "error", err)
		}
	}
	errs := make([]error, len(ids))
	each(workers, len(ids), func(n int) {
		var taken bool
		if taken, errs[n] = p.end(ctx, ids[n]); taken {
			p.destroyed(ids[n])
		}
	})
	return errors.Join(errs...)
}

// end destroys one machine, and says whether Vultr has answered that it does. Of
// which kind it is, its id does not say: what is not known from a list is asked for
// as both. Of what is in neither there is nothing to end.
func (p *Provider) end(ctx context.Context, id string) (taken bool, err error) {
	if !uuid.MatchString(id) {
		return false, nil // never one of Vultr's
	}
	kinds := []bool{false, true}
	if s, ok := p.recall(id); ok {
		kinds = []bool{s.metal}
	}
	for _, metal := range kinds {
		err := call(ctx, opTerminate, "destroying "+id, func(ctx context.Context) error {
			if metal {
				return p.api.BareMetalServer.Delete(ctx, id)
			}
			return p.api.Instance.Delete(ctx, id)
		})
		if err == nil || !notFound(err) {
			return err == nil, err
		}
	}
	return false, nil
}

// each runs do for 0 to n-1, at most so many at a time.
func each(most, n int, do func(int)) {
	due := make(chan int)
	var wg sync.WaitGroup
	for range min(most, n) {
		wg.Go(func() {
			for i := range due {
				do(i)
			}
		})
	}
	for i := range n {
		due <- i
	}
	close(due)
	wg.Wait()
}
