package aws

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

const opTerminate = "terminate"

// maxTerminate is how many instances one call may name.
const maxTerminate = 1000

// Terminate implements cloud.Provider. EC2 refuses a whole call for one bad
// id: the others are asked for again without it.
func (p *Provider) Terminate(ctx context.Context, ids []string) error {
	var errs []error
	for part := range slices.Chunk(ids, maxTerminate) {
		errs = append(errs, p.end(ctx, part))
	}
	return errors.Join(errs...)
}

var instanceID = regexp.MustCompile(`\bi-[0-9a-zA-Z-]+`)

func (p *Provider) end(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := p.clients.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	unknown := isCode(err, "InvalidInstanceID")
	switch {
	case err == nil, unknown && len(ids) == 1:
		return nil
	case unknown:
		named := instanceID.FindAllString(err.Error(), -1)
		if rest := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(named, id) }); len(rest) < len(ids) {
			return p.end(ctx, rest)
		}
		return p.endHalves(ctx, ids)
	case isCode(err, "OperationNotPermitted") && len(ids) > 1: // one has termination protection
		return p.endHalves(ctx, ids)
	}
	return failure(opTerminate, fmt.Errorf("terminating %d instances, %s first: %w", len(ids), ids[0], err))
}

// endHalves finds the ids that EC2 refuses in few calls.
func (p *Provider) endHalves(ctx context.Context, ids []string) error {
	half := len(ids) / 2
	return errors.Join(p.end(ctx, ids[:half]), p.end(ctx, ids[half:]))
}
