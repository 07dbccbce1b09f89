package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/burst-hpc/burst/cloud"
)

const (
	opAssign = "assign"
	// nameWorkers: EC2 gives one value to all resources of a call, so each name is one. A
	// thousand take a minute and a half under its limit.
	nameWorkers = 8
)

// Assign implements cloud.Assigner: the node's name becomes the instance's Name
// tag, for the console, and its burst:node tag, by which the instance is
// adopted after a lost journal. It returns at once; the tags follow in the
// background.
func (p *Provider) Assign(ctx context.Context, nodes map[string]string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p.names.Add(ctx, nodes)
	return nil
}

func (p *Provider) tag(ctx context.Context, id, node string) error {
	_, err := p.clients.ec2.CreateTags(ctx, &ec2.CreateTagsInput{
		Resources: []string{id}, Tags: ec2Tags(map[string]string{tagName: node, tagNode: node}),
	})
	return err
}

// notAllowed says that no other instance may be tagged either.
func notAllowed(err error) bool { return callError(opAssign, err).Kind == cloud.Auth }
