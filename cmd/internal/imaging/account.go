package imaging

import (
	"context"
	"fmt"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// accountTimeout bounds the question whose the credentials are.
const accountTimeout = 20 * time.Second

// whose is the account that the credentials show now; empty: the provider cannot say it.
func (b *build) whose(ctx context.Context) (string, error) {
	a, ok := b.Provider.(cloud.Accountant)
	if !ok {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	return a.Account(ctx)
}

// astray is an error while the credentials are not those, as far as is known, of the account where the builder was asked
// for: a key that is exchanged holds at once, and what another account's lists lack is not gone. Where
// that account could not be told, lists are believed.
func (b *build) astray(ctx context.Context) error {
	if b.account == "" {
		return nil
	}
	now, err := b.whose(ctx)
	switch {
	case err != nil:
		err = fmt.Errorf("launch %s was asked for in account %s, and whose the credentials are is not known: %v", b.Request.Token, b.account, err)
	case now != b.account:
		err = fmt.Errorf("launch %s was asked for in account %s, and the credentials show %s", b.Request.Token, b.account, now)
	default:
		return nil
	}
	b.unseen = time.Time{}
	return &cloud.Error{Kind: cloud.Transient, Op: "account", Err: err}
}
