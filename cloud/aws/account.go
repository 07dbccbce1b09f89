package aws

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.Accountant = (*Provider)(nil)

// Account implements cloud.Accountant: the account's number, the region, and
// the endpoint if EC2 is not AWS's own. STS needs no permission for it.
func (p *Provider) Account(ctx context.Context) (string, error) {
	out, err := p.newSTS().GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", failure("account", err)
	}
	number := aws.ToString(out.Account)
	if number == "" {
		return "", failure("account", errors.New("STS names no account"))
	}
	name := number + " in " + p.c.Region
	if e := p.endpoint("ec2"); e != nil {
		// An interface endpoint in the site's own network is another way to the same EC2.
		if u, err := url.Parse(*e); err != nil || !strings.HasSuffix(u.Hostname(), ".amazonaws.com") {
			name += " at " + *e
		}
	}
	return name, nil
}
