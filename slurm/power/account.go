package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// accountTimeout bounds the question whose instances a list shows: where it has
// no answer a round must not wait for it.
const accountTimeout = 5 * time.Second

// accountOf asks a provider whose instances it shows.
func accountOf(ctx context.Context, p cloud.Provider) (string, error) {
	a, ok := p.(cloud.Accountant)
	if !ok {
		return "", errors.ErrUnsupported
	}
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	return a.Account(ctx)
}

// place notes in which account a list has shown instances of the journal; c
// has what else the list says of them. An account may get another name, as when the key
// of a Vultr account is another user's: what lists of both names show proves it, and the rest follows. What ends proves
// nothing: a provider may tell of that from its own memory, in whichever account its key looks now.
func (e *Engine) place(c *Change, l *listing, name string) {
	account := l.accounts[name]
	if account == "" {
		return
	}
	e.mu.Lock()
	e.accounts[name] = account
	e.mu.Unlock()
	at, listed, same := map[string]int{}, map[string]bool{}, map[string]bool{account: true}
	for n, i := range c.Instances {
		at[i.ID] = n
	}
	for _, i := range l.lists[name] {
		if i.State == cloud.Terminating || i.State == cloud.Terminated {
			continue
		}
		rec := e.mem.instances[i.ID]
		if listed[i.ID] = true; rec.Shown && rec.Account != "" && (rec.Provider == name || e.providers[rec.Provider] == nil) {
			same[rec.Account] = true
		}
	}
	l.same[name] = same
	for _, id := range slices.Sorted(maps.Keys(e.mem.instances)) {
		rec := e.mem.instances[id]
		if rec.Provider != name || !listed[id] && !same[rec.Account] { // another provider may look at the same place
			continue
		}
		shown := rec.Shown || listed[id]
		switch n, changes := at[id]; {
		case changes:
			c.Instances[n].Account, c.Instances[n].Shown = account, shown
		case rec.Account != account || rec.Shown != shown:
			rec.Account, rec.Shown = account, shown
			c.Instances = append(c.Instances, rec)
		}
	}
}

// elsewhere says that the provider's credentials show another account than
// the one in which the instance was launched, and here that they show that one.
func (l *listing) elsewhere(i Instance) bool {
	return l.accounts[i.Provider] != "" && i.Account != "" && !l.here(i)
}

func (l *listing) here(i Instance) bool {
	return l.accounts[i.Provider] != "" && (l.accounts[i.Provider] == i.Account || l.same[i.Provider][i.Account])
}

// suspect says loudly that a provider's list shows less than it should, or
// another account; lacks are the instances of which nothing is concluded.
func (e *Engine) suspect(c *Change, l *listing, name string, lacks []Instance) {
	const doubt, foreign = "list-doubted", "other-account"
	if len(lacks) == 0 {
		delete(e.doubtedOf, name+doubt)
		delete(e.doubtedOf, name+foreign)
		return
	}
	one := slices.MinFunc(lacks, func(a, b Instance) int {
		return cmp.Or(before(l.elsewhere(a), l.elsewhere(b)), strings.Compare(a.ID, b.ID))
	})
	what := fmt.Sprintf("%d instances of the journal (%s, node %s, is one)", len(lacks), one.ID, one.Assigned)
	kind, why := doubt, fmt.Sprintf("the list lacks %s and shows no older one: another account, or an outage? Nothing is concluded from it", what)
	switch err := l.accountErrs[name]; {
	case l.elsewhere(one):
		kind, why = foreign, fmt.Sprintf("the credentials show account %s, and the list lacks %s, which was launched in %s: nothing is concluded about it, and it can be neither watched nor ended until the credentials of that account are back",
			l.accounts[name], what, one.Account)
	case l.here(one):
		why = fmt.Sprintf("the list lacks %s, while Slurm has their nodes answer: an outage? Nothing is concluded from it", what)
	case err != nil && !errors.Is(err, errors.ErrUnsupported):
		why += fmt.Sprintf(" (whose account it is, is not known: %v)", err)
	}
	e.plan(Planned{Kind: "doubt", Why: fmt.Sprintf("%s: %s", name, why)})
	e.note(name, errors.New(why))
	e.log.Warn(why, "provider", name)
	if !e.doubtedOf[name+kind] {
		e.doubtedOf[name+kind] = true
		c.Events = append(c.Events, Event{Time: time.Now(), Kind: kind, Text: fmt.Sprintf("provider %s: %s", name, why)})
	}
}
