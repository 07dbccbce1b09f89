package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

var _ cloud.Imager = (*Provider)(nil)

const (
	opImage       = "image"
	opImages      = "images"
	opDeleteImage = "delete-image"
)

// tagImage marks images of ours and their snapshots; its value is the image
// that they were made from. Snapshots that others make of our volumes may have the
// volumes' tags, which lack it.
const tagImage = "burst:image"

// MakeImage implements cloud.Imager. CreateImage has no token, but an image's
// name is given once in an account: the token is in it. EC2 restarts the instance, so
// that its file systems are whole in the snapshots.
func (p *Provider) MakeImage(ctx context.Context, r cloud.ImageRequest) (cloud.Image, error) {
	if r.Token == "" || r.Cluster == "" || r.Instance == "" {
		return cloud.Image{}, invalid(opImage, "an image needs a token, a cluster and an instance")
	}
	made, found, err := p.imageOf(ctx, r)
	if err != nil || found {
		return made, err
	}
	tags := ec2Tags(map[string]string{tagCluster: r.Cluster, tagPool: r.Pool, tagToken: r.Token, tagImage: r.Source, tagName: "burst " + r.Pool})
	out, err := p.clients.ec2.CreateImage(ctx, &ec2.CreateImageInput{
		InstanceId: &r.Instance, Name: aws.String(imageName(r.Token)), Description: aws.String("made by Burst for pool " + plainText(r.Pool)),
		TagSpecifications: tagged(tags, types.ResourceTypeImage, types.ResourceTypeSnapshot),
	})
	switch {
	case err == nil:
		return cloud.Image{ID: aws.ToString(out.ImageId), Token: r.Token, Cluster: r.Cluster, Pool: r.Pool, Source: r.Source,
			State: cloud.ImagePending, Progress: -1, Made: time.Now()}, nil
	case !isCode(err, "InvalidAMIName.Duplicate"):
		return cloud.Image{}, failure(opImage, fmt.Errorf("making an image of %s: %w", r.Instance, err))
	}
	// An earlier call, ours or one that the SDK has repeated, has made it.
	if made, found, err := p.imageOf(ctx, r); err != nil || found {
		return made, err
	}
	return cloud.Image{}, &cloud.Error{Kind: cloud.Transient, Op: opImage, Err: fmt.Errorf("image %s has been made, and EC2 does not show it yet", imageName(r.Token))}
}

func imageName(token string) string { return "burst-" + token }

// plainText leaves what EC2 takes in a description: ASCII.
func plainText(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s)
}

// imageOf finds the image of a request that was made before.
func (p *Provider) imageOf(ctx context.Context, r cloud.ImageRequest) (cloud.Image, bool, error) {
	all, err := p.ourImages(ctx, r.Cluster, filter("tag:"+tagToken, literal(r.Token)))
	if err != nil {
		return cloud.Image{}, false, failure(opImage, fmt.Errorf("looking for the image of %s: %w", r.Token, err))
	}
	if len(all) == 0 {
		return cloud.Image{}, false, nil
	}
	return imageAs(all[0]), true, nil
}

// ours are the filters of the cluster's images and their snapshots.
func ours(cluster string, more ...types.Filter) []types.Filter {
	return append([]types.Filter{filter("tag:"+tagCluster, literal(cluster)), filter("tag-key", tagImage)}, more...)
}

func (p *Provider) ourImages(ctx context.Context, cluster string, more ...types.Filter) ([]types.Image, error) {
	var all []types.Image
	pages := ec2.NewDescribeImagesPaginator(p.clients.ec2, &ec2.DescribeImagesInput{
		Owners: []string{"self"}, Filters: ours(cluster, more...), MaxResults: aws.Int32(pageSize),
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, out.Images...)
	}
	return all, nil
}

func (p *Provider) ourSnapshots(ctx context.Context, cluster string, more ...types.Filter) ([]types.Snapshot, error) {
	var all []types.Snapshot
	pages := ec2.NewDescribeSnapshotsPaginator(p.clients.ec2, &ec2.DescribeSnapshotsInput{
		OwnerIds: []string{"self"}, Filters: ours(cluster, more...), MaxResults: aws.Int32(pageSize),
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, out.Snapshots...)
	}
	return all, nil
}

// Images implements cloud.Imager. How far an image is, its snapshots tell. A
// snapshot without an image is what a removal that was cut off has left.
func (p *Provider) Images(ctx context.Context, cluster string) ([]cloud.Image, error) {
	if cluster == "" {
		return nil, invalid(opImages, "no cluster")
	}
	// The snapshots first: an image that goes meanwhile is then shown once more, and
	// no snapshot of one that comes is taken for a remnant.
	snapshots, err := p.ourSnapshots(ctx, cluster)
	var images []types.Image
	if err == nil {
		images, err = p.ourImages(ctx, cluster)
	}
	if err != nil {
		return nil, failure(opImages, fmt.Errorf("listing the images of cluster %s in %s: %w", cluster, p.c.Region, err))
	}
	var all []cloud.Image
	at := map[string]int{} // by token
	for _, i := range images {
		one := imageAs(i)
		at[one.Token] = len(all)
		all = append(all, one)
	}
	for _, s := range snapshots {
		token := tagOf(s.Tags, tagToken)
		if n, ok := at[token]; ok {
			if percent, ok := progress(s); ok && all[n].State == cloud.ImagePending && (all[n].Progress < 0 || percent < all[n].Progress) {
				all[n].Progress = percent // of the slowest
			}
			continue
		}
		all = append(all, cloud.Image{
			ID: aws.ToString(s.SnapshotId), Token: token, Cluster: cluster, Pool: tagOf(s.Tags, tagPool), Source: tagOf(s.Tags, tagImage),
			State: cloud.ImageRemains, Progress: -1, Bytes: int64(aws.ToInt32(s.VolumeSize)) << 30, Made: aws.ToTime(s.StartTime),
		})
	}
	slices.SortStableFunc(all, func(a, b cloud.Image) int { return cmp.Or(a.Made.Compare(b.Made), strings.Compare(a.ID, b.ID)) })
	return all, nil
}

// progress reads "42%".
func progress(s types.Snapshot) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSuffix(aws.ToString(s.Progress), "%"))
	return n, err == nil && n >= 0 && n <= 100
}

// imageAs reads EC2's image.
func imageAs(i types.Image) cloud.Image {
	one := cloud.Image{ID: aws.ToString(i.ImageId), Token: tagOf(i.Tags, tagToken), Cluster: tagOf(i.Tags, tagCluster), Pool: tagOf(i.Tags, tagPool),
		Source: tagOf(i.Tags, tagImage), State: cloud.ImageFailed, Progress: -1}
	switch i.State {
	case types.ImageStateAvailable:
		one.State, one.Progress = cloud.ImageAvailable, 100
	case types.ImageStatePending, types.ImageStateTransient:
		one.State = cloud.ImagePending
	}
	if i.StateReason != nil && one.State == cloud.ImageFailed {
		one.Why = aws.ToString(i.StateReason.Message)
	}
	for _, m := range i.BlockDeviceMappings {
		if m.Ebs != nil {
			one.Bytes += int64(aws.ToInt32(m.Ebs.VolumeSize)) << 30
		}
	}
	if at, err := time.Parse(time.RFC3339, aws.ToString(i.CreationDate)); err == nil {
		one.Made = at
	}
	return one
}

var snapshotID = regexp.MustCompile(`^snap-\w+$`)

// DeleteImage implements cloud.Imager. EC2 deletes no snapshot that an image
// uses, so the image goes first; what is left then has the tags by which it is found.
func (p *Provider) DeleteImage(ctx context.Context, cluster, id string) error {
	none := invalid(opDeleteImage, "cluster %s has no image %s in %s", cluster, id, p.c.Region)
	var token string
	switch {
	case cluster == "":
		return invalid(opDeleteImage, "no cluster")
	case snapshotID.MatchString(id):
		// One of an image that is there is not deleted: EC2 refuses it.
		found, err := p.ourSnapshots(ctx, cluster, filter("snapshot-id", id))
		if err != nil {
			return failure(opDeleteImage, fmt.Errorf("looking for snapshot %s: %w", id, err))
		}
		if len(found) == 0 {
			return none
		}
		return p.deleteSnapshot(ctx, id)
	case !imageID.MatchString(id):
		return none
	}
	found, err := p.ourImages(ctx, cluster, filter("image-id", id))
	if err != nil {
		return failure(opDeleteImage, fmt.Errorf("looking for image %s: %w", id, err))
	}
	if len(found) == 0 {
		return none
	}
	token = tagOf(found[0].Tags, tagToken)
	if _, err := p.clients.ec2.DeregisterImage(ctx, &ec2.DeregisterImageInput{ImageId: &id}); err != nil && !isCode(err, "InvalidAMIID") {
		return failure(opDeleteImage, fmt.Errorf("removing image %s: %w", id, err))
	}
	snapshots, err := p.ourSnapshots(ctx, cluster, filter("tag:"+tagToken, literal(token)))
	if err != nil {
		return failure(opDeleteImage, fmt.Errorf("image %s is removed; its snapshots could not be listed: %w", id, err))
	}
	var errs []error
	for _, s := range snapshots {
		errs = append(errs, p.deleteSnapshot(ctx, aws.ToString(s.SnapshotId)))
	}
	return errors.Join(errs...)
}

// inUseFor is how long EC2 may still take a snapshot for one of an image that is gone.
const inUseFor = 20 * time.Second

func (p *Provider) deleteSnapshot(ctx context.Context, id string) error {
	for until := time.Now().Add(inUseFor); ; {
		_, err := p.clients.ec2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &id})
		switch {
		case err == nil, isCode(err, "InvalidSnapshot.NotFound"):
			return nil
		case !isCode(err, "InvalidSnapshot.InUse") || time.Now().After(until):
			return failure(opDeleteImage, fmt.Errorf("deleting snapshot %s: %w", id, err))
		}
		select {
		case <-ctx.Done():
			return failure(opDeleteImage, fmt.Errorf("deleting snapshot %s: %w", id, ctx.Err()))
		case <-time.After(time.Second):
		}
	}
}
