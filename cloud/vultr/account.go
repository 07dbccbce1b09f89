package vultr

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vultr/govultr/v3"
)

// Account implements cloud.Accountant: the address of the user whose the
// key is, the region, and the endpoint if it is not Vultr's own. Vultr gives accounts no number.
func (p *Provider) Account(ctx context.Context) (string, error) {
	a, err := p.account(ctx)
	if err != nil {
		return "", err
	}
	return p.nameOf(a), nil
}

func (p *Provider) account(ctx context.Context) (a *govultr.Account, err error) {
	err = call(ctx, "account", "asking whose the key is", func(ctx context.Context) (err error) {
		a, _, err = p.api.Account.Get(ctx)
		if err == nil && (a == nil || a.Email == "") {
			err = errors.New("it names no account")
		}
		return err
	})
	return a, err
}

func (p *Provider) nameOf(a *govultr.Account) string {
	name := a.Email + " in " + p.c.Region
	if p.c.Endpoint != "" {
		name += " at " + p.c.Endpoint
	}
	return name
}

// What Vultr calls the permissions of a user that Burst needs, in its console and in its API.
// https://docs.vultr.com/support/platform/users/what-permissions-can-be-granted-to-users
var needed = []struct{ name, acl, without string }{
	{"Deploy New Servers", "provisioning", "Burst cannot launch instances"},
	{"Manage Servers", "subscriptions", "Burst cannot end instances, and what it launches costs on"},
}

// rights are the permissions that the key's user lacks. Who may manage users may do everything; a list that names
// none says nothing.
func rights(acls []string) (all []Finding) {
	if len(acls) == 0 || slices.Contains(acls, "manage_users") {
		return nil
	}
	for _, n := range needed {
		if !slices.Contains(acls, n.acl) {
			all = append(all, Finding{LevelWrong, "permissions", fmt.Sprintf("the key's user lacks %q (%s): %s", n.name, n.acl, n.without)})
		}
	}
	return all
}
