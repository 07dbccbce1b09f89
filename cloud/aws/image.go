package aws

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// ssmPrefix begins an image that an SSM parameter names.
const ssmPrefix = "ssm:"

var imageID = regexp.MustCompile(`^ami-\w+$`)

// resolveImage returns the id of an image: "ami-…" as it is, "ssm:/path" as
// the parameter of that name says, AWS's public ones (/aws/service/…) among
// them. A parameter's value holds for minutes, so that a site's new image is
// taken up without a restart.
func (p *Provider) resolveImage(ctx context.Context, image string) (string, error) {
	name, byParameter := strings.CutPrefix(image, ssmPrefix)
	if !byParameter {
		if !imageID.MatchString(image) {
			return "", invalid("image", `image %q is neither an id ("ami-0123456789abcdef0") nor a parameter ("ssm:/path/of/it")`, image)
		}
		return image, nil
	}
	if name == "" {
		return "", invalid("image", `image %q names no parameter: write "ssm:/path/of/it"`, image)
	}
	if id, ok := p.know.images.Get(name, imageAge); ok {
		return id, nil
	}
	out, err := p.newSSM().GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
	if err != nil {
		return "", failure("image", fmt.Errorf("reading SSM parameter %s in %s: %w", name, p.c.Region, err))
	}
	var value string
	if out.Parameter != nil {
		value = strings.TrimSpace(aws.ToString(out.Parameter.Value))
	}
	if !imageID.MatchString(value) {
		return "", invalid("image", "SSM parameter %s is %.60q and not an image's id: AWS's own often have it below /image_id", name, value)
	}
	p.know.images.Put(name, value)
	return value, nil
}

// imageFacts is what decides whether a pool's types can boot an image.
type imageFacts struct {
	name  string
	arch  string // "x86_64", "arm64"
	root  string // the root volume's device name
	state string // "available", or why not
	// sealed are the snapshots of its volumes that are encrypted. EC2 does not say here with which key.
	sealed []string
}

// describeImage returns what EC2 says of an image that exists; one that does
// not, or is not shared with the account, is an Invalid error.
func (p *Provider) describeImage(ctx context.Context, id string) (imageFacts, error) {
	out, err := p.clients.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
	if err != nil {
		return imageFacts{}, failure("image", fmt.Errorf("describing image %s: %w", id, err))
	}
	if len(out.Images) == 0 {
		return imageFacts{}, invalid("image", "image %s does not exist in %s, or is not shared with this account", id, p.c.Region)
	}
	i := out.Images[0]
	f := imageFacts{
		name:  aws.ToString(i.Name),
		arch:  string(i.Architecture),
		root:  aws.ToString(i.RootDeviceName),
		state: string(i.State),
	}
	for _, d := range i.BlockDeviceMappings {
		if d.Ebs != nil && aws.ToBool(d.Ebs.Encrypted) {
			f.sealed = append(f.sealed, aws.ToString(d.Ebs.SnapshotId))
		}
	}
	return f, nil
}
