package vultr

import (
	"context"
	"errors"

	"github.com/vultr/govultr/v3"
)

// Account implements cloud.Accountant: the address of the user whose the
// key is, the region, and the endpoint if it is not Vultr's own. Vultr gives accounts no number.
func (p *Provider) Account(ctx context.Context) (string, error) {
	var a *govultr.Account
	err := call(ctx, "account", "asking whose the key is", func(ctx context.Context) (err error) {
		a, _, err = p.api.Account.Get(ctx)
		if err == nil && (a == nil || a.Email == "") {
			err = errors.New("it names no account")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	name := a.Email + " in " + p.c.Region
	if p.c.Endpoint != "" {
		name += " at " + p.c.Endpoint
	}
	return name, nil
}
