package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/hostlist"
)

// What came of a launch can be learnt in the account alone in which it was asked for. A key that is
// exchanged holds at once, and a region may be changed while burstd is away: the same request, asked
// there, would be bought anew, and a list from there would close the launch, while what it has made
// lives on where nobody looks.

// judgedBefore says that a launch which had no effect was judged by the budget that an earlier life had: it is planned
// anew, and so judged again. What may have had an effect is called again whatever it costs: it may be there.
func (e *Engine) judgedBefore(l Launch) bool {
	_, tried := e.backoff["launch "+l.Token] // its next call is not to come sooner for that
	return e.cfg.Budget != nil && l.State == Uncalled && !tried && l.Created.Before(e.loaded)
}

// callAll calls launches beside Run. That they may have had an effect is in the journal before.
func (e *Engine) callAll(ctx context.Context, calls []Launch) error {
	var c Change
	for i, l := range calls {
		if l.State == Uncalled || e.mem.launches[l.Token].Account != l.Account {
			calls[i].State = Written
			c.Launches = append(c.Launches, calls[i])
		}
	}
	if err := e.commit(ctx, c); err != nil {
		return err
	}
	for _, l := range calls {
		again, provider := e.doubt[l.Token], e.providers[l.Provider]
		e.flying[l.Token] = true
		e.market.calling[l.Provider]++
		e.market.called[l.Token] = time.Now()
		e.beside(ctx, func(ctx context.Context) func(context.Context) {
			ctx, cancel := context.WithTimeout(ctx, launchTimeout)
			defer cancel()
			got, account, err := call(ctx, l, provider, again)
			return func(ctx context.Context) {
				e.market.calling[l.Provider]--
				if !again && !settled(err) {
					e.askedIn(ctx, l, account, begun(got, err))
				}
				e.launched(ctx, l.Token, got, err)
			}
		})
	}
	return nil
}

// call asks for a launch: again, if an earlier call may have had its effect, and then only where that
// was. account is where the call was made, of one whose outcome is open; empty: not known.
func call(ctx context.Context, l Launch, p cloud.Provider, again bool) (got []cloud.Instance, account string, err error) {
	if again {
		if err = stillAt(ctx, l, p); err == nil {
			got, err = p.Launch(ctx, l.Request)
		}
		return got, "", err
	}
	// The journal has what the last round has seen. The key may be another since: it is asked beside, as a launch must not
	// wait for that.
	asking, cancel := context.WithCancel(ctx)
	at := make(chan string, 1)
	go func() {
		account, _ := accountOf(asking, p)
		at <- account
	}()
	got, err = p.Launch(ctx, l.Request)
	if settled(err) {
		cancel()
		<-at
		return got, "", err
	}
	account = <-at
	cancel()
	return got, account, err
}

// stillAt asks where the provider's credentials look now. An error says that this is not where the
// launch was asked for, or for an hour that it is not known to be there: nothing is concluded then.
func stillAt(ctx context.Context, l Launch, p cloud.Provider) error {
	if l.Account == "" {
		return nil
	}
	account, err := accountOf(ctx, p)
	nodes := hostlist.Fold(l.Nodes)
	switch {
	case account == l.Account, err != nil && time.Since(l.Created) > forgetAccount:
		return nil
	case err != nil:
		err = fmt.Errorf("the launch of %s was asked for in account %s, and whose the credentials are is not known: %v", nodes, l.Account, err)
	default:
		err = fmt.Errorf("the launch of %s was asked for in account %s, and the credentials show %s", nodes, l.Account, account)
	}
	// Not of the kind that err has: no other launch waits for what this question was refused for.
	return &cloud.Error{Kind: cloud.Transient, Op: opLaunch, Err: err}
}

// askedIn notes where the first call of a launch was made that may have had its effect, or that one had none.
// Where a list has shown meanwhile that the account has another name, it keeps that one.
func (e *Engine) askedIn(ctx context.Context, called Launch, account string, effect bool) {
	l, open := e.mem.launches[called.Token]
	if !open || ctx.Err() != nil || l.Account != called.Account {
		return
	}
	was := l
	if effect || e.doubt[l.Token] {
		l.Account = cmp.Or(account, l.Account)
	} else if l.Account = ""; l.State == Written {
		l.State = Uncalled
	}
	if l.Account == was.Account && l.State == was.State {
		return
	}
	if err := e.commit(ctx, Change{Launches: []Launch{l}}); err != nil {
		e.log.Warn("in which account a launch was asked for could not be written", "token", l.Token, "error", err)
	}
}

// madeIn is the account of what a launch has made: where it was asked for, whatever a list has shown since.
func (e *Engine) madeIn(l Launch) string { return cmp.Or(l.Account, e.accounts[l.Provider]) }

// locate writes where a launch is asked for.
func (e *Engine) locate(ctx context.Context, l Launch, account string) (Launch, error) {
	if l.Account == account {
		return l, nil
	}
	l.Account = account
	return l, e.commit(ctx, Change{Launches: []Launch{l}})
}

// placeLaunches notes in which account the open launches of a provider were asked for, as far as a list shows it, and
// says loudly of which nothing can be learnt, as the provider's credentials show another.
func (e *Engine) placeLaunches(c *Change, l *listing, name string) {
	const foreign = "other-account"
	account, seen := l.accounts[name], map[string]bool{}
	if account == "" {
		return
	}
	for _, i := range l.lists[name] {
		seen[i.Token] = true
	}
	var lacks []Launch
	for _, token := range slices.Sorted(maps.Keys(e.mem.launches)) {
		o := e.mem.launches[token]
		switch {
		case o.Provider != name || o.Account == account:
		case seen[token], l.same[name][o.Account], o.Account == "" && e.doubt[token] && !o.Created.Before(e.loaded):
			o.Account = account
			c.Launches = append(c.Launches, o)
		case o.Account != "" && (o.State == Abandoned || e.doubt[token]):
			lacks = append(lacks, o)
		}
	}
	key := name + foreign + " of launches"
	if len(lacks) == 0 {
		delete(e.doubtedOf, key)
		return
	}
	why := fmt.Sprintf("the credentials show account %s, and %d launches (of %s is one) were asked for in %s: nothing is concluded about them, and what came of them is neither watched nor ended until the credentials of that account are back",
		account, len(lacks), hostlist.Fold(lacks[0].Nodes), lacks[0].Account)
	e.plan(Planned{Kind: "doubt", Why: fmt.Sprintf("%s: %s", name, why)})
	e.note(name, errors.New(why))
	e.log.Warn(why, "provider", name)
	if !e.doubtedOf[key] {
		e.doubtedOf[key] = true
		c.Events = append(c.Events, Event{Time: time.Now(), Kind: foreign, Text: fmt.Sprintf("provider %s: %s", name, why)})
	}
}
