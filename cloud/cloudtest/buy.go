package cloudtest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Prepare implements cloud.Preparer. Without Options.Prepare it changes nothing.
func (f *Fake) Prepare(ctx context.Context, requests []cloud.LaunchRequest) []error {
	errs := make([]error, len(requests))
	if !f.options.Prepare {
		return errs
	}
	lost, err := f.begin(ctx, Prepare)
	if err = errors.Join(err, lost); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range requests {
		r := &requests[i]
		if errs[i] = f.refused[r.Pool]; errs[i] == nil {
			r.Spec = json.RawMessage(fmt.Sprintf(`{"pool":%q}`, r.Pool))
		}
	}
	return errs
}

func (f *Fake) launch(r cloud.LaunchRequest) ([]cloud.Instance, error) {
	if r.Token == "" || r.Cluster == "" || r.Count < 1 || r.Count > f.options.MaxLaunch {
		return nil, fail(Launch, cloud.Invalid, fmt.Sprintf("token %q, cluster %q, count %d of at most %d", r.Token, r.Cluster, r.Count, f.options.MaxLaunch))
	}
	if err := f.choosable(r); err != nil {
		return nil, err
	}
	l, known := f.launches[r.Token]
	request := fmt.Sprintf("%+v", r)
	if known && l.request != request {
		return nil, fail(Launch, cloud.Invalid, "token "+r.Token+" was used for another request")
	}
	var short error
	if !known {
		l = launched{request: request}
		if l.ids, short = f.buy(r, time.Now()); len(l.ids) > 0 {
			f.launches[r.Token] = l
			f.move()
		}
	}
	var live []cloud.Instance
	for _, id := range l.ids {
		if i := f.machines[id].at(time.Now()); i.State.Live() {
			live = append(live, i)
		}
	}
	if short == nil && len(live) < r.Count {
		short = fail(Launch, cloud.Capacity, fmt.Sprintf("%d of %d instances of %s", len(live), r.Count, r.Offering))
	}
	return live, short
}

// choosable refuses a choice that makes no sense.
func (f *Fake) choosable(r cloud.LaunchRequest) error {
	for _, o := range r.Or {
		if !f.options.Choice || o.Market != r.Offering.Market {
			return fail(Launch, cloud.Invalid, fmt.Sprintf("%s beside %s", o, r.Offering))
		}
	}
	return nil
}

// buy takes what there is of the offerings, in their order, and says of each
// that gave less than was wanted why. All or nothing is of one offering. A launch
// with a choice is over with its answer; one without that is refused as too many is not.
func (f *Fake) buy(r cloud.LaunchRequest, now time.Time) (ids []string, short error) {
	var errs []error
	left := r.Count
	for _, o := range r.Offerings() {
		if left == 0 {
			break
		}
		if f.busy[o] > 0 {
			f.busy[o]--
			errs = append(errs, &cloud.Error{Kind: cloud.Throttled, Op: string(Launch), Code: "Fake", Offering: o,
				Settled: len(r.Or) > 0, Err: errors.New("too many requests")})
			continue
		}
		n := left
		if room, limited := f.capacity[o]; limited {
			n = min(n, room)
			if n < left && r.AllOrNothing {
				n = 0
			}
			f.capacity[o] -= n
		}
		if n < left {
			errs = append(errs, &cloud.Error{Kind: cloud.Capacity, Op: string(Launch), Code: "Fake", Offering: o,
				Settled: true, Err: fmt.Errorf("%d of %d instances of %s", n, left, o)})
		}
		left -= n
		for range n {
			ids = append(ids, f.add(r, o, now))
		}
	}
	if left == 0 {
		return ids, nil
	}
	return ids, errors.Join(errs...)
}

func (f *Fake) add(r cloud.LaunchRequest, o cloud.Offering, now time.Time) string {
	n, name := len(f.ids)+1, cmp.Or(f.options.Name, "i")
	m := &machine{
		Instance: cloud.Instance{
			ID: fmt.Sprintf("%s-%08d", name, n), Token: r.Token, Cluster: r.Cluster, Pool: r.Pool,
			Offering: o, Launched: now,
		},
		addr:      fmt.Sprintf("%d.%d.%d.%d", 10+name[0]-'i', n>>16&255, n>>8&255, n&255), // a controller can reach no two clouds' at one address
		running:   now.Add(f.options.Boot),
		addrKnown: now.Add(f.options.AddrDelay),
		listed:    now.Add(f.options.Lag),
	}
	if f.deaf > 0 {
		f.deaf--
		m.running = now.AddDate(100, 0, 0)
	}
	f.ids = append(f.ids, m.ID)
	f.machines[m.ID] = m
	f.asked[m.ID] = r
	return m.ID
}
