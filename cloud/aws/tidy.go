package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const opTidy = "tidy"

// unused is how long a placement group must have been empty, and a template's
// version old, before it goes: a launch that was prepared before a crash may
// still be repeated.
const unused = time.Hour

// Tidy implements cloud.Tidier. It knows this provider's things by their tags:
// launch templates of pools that are not named go, of the others old versions
// that no launch has been given lately; and every placement group in which there has
// been no instance for an hour. It never touches instances.
func (p *Provider) Tidy(ctx context.Context, cluster string, pools []string) error {
	if cluster == "" {
		return invalid(opTidy, "no cluster")
	}
	mine := []types.Filter{filter("tag:"+tagCluster, literal(cluster)), filter("tag:"+tagProvider, literal(p.c.Name))}
	err := p.tidyTemplates(ctx, mine, pools)
	if p.c.Endpoint == "" || p.wantsPlacement() {
		err = errors.Join(err, p.tidyPlacements(ctx, mine))
	}
	if err != nil {
		return failure(opTidy, fmt.Errorf("tidying up after cluster %s in %s: %w", cluster, p.c.Region, err))
	}
	return nil
}

// wantsPlacement says whether a pool has placement groups. AWS is asked for
// groups of a pool that had them before, too; emulators as a rule have none,
// and would fail every hour.
func (p *Provider) wantsPlacement() bool {
	for _, pool := range p.c.Pools {
		if pool.Placement != "" {
			return true
		}
	}
	return false
}

func (p *Provider) tidyTemplates(ctx context.Context, mine []types.Filter, pools []string) error {
	var all []types.LaunchTemplate
	pages := ec2.NewDescribeLaunchTemplatesPaginator(p.clients.ec2, &ec2.DescribeLaunchTemplatesInput{Filters: mine})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		all = append(all, out.LaunchTemplates...)
	}
	var errs []error
	for _, t := range all {
		if slices.Contains(pools, tagOf(t.Tags, tagPool)) {
			errs = append(errs, p.tidyVersions(ctx, t))
			continue
		}
		name := aws.ToString(t.LaunchTemplateName)
		p.templates.forget(name)
		_, err := p.clients.ec2.DeleteLaunchTemplate(ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: t.LaunchTemplateId})
		if err != nil && !isCode(err, "NotFound") {
			errs = append(errs, err)
			continue
		}
		p.log.Debug("launch template removed", "template", name)
	}
	return errors.Join(errs...)
}

// tidyVersions removes what is old, is not the newest and was not used. The
// newest becomes the default, which EC2 does not delete. What was used before this
// process began is not known, so nothing goes until all of that is long over.
func (p *Provider) tidyVersions(ctx context.Context, t types.LaunchTemplate) error {
	if aws.ToInt64(t.LatestVersionNumber) <= 1 || time.Since(p.started) < unused {
		return nil
	}
	pages := ec2.NewDescribeLaunchTemplateVersionsPaginator(p.clients.ec2, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: t.LaunchTemplateId})
	var all []types.LaunchTemplateVersion
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		all = append(all, out.LaunchTemplateVersions...)
	}
	old := oldVersions(all, time.Now().Add(-unused))
	old = p.templates.of(aws.ToString(t.LaunchTemplateName)).drop(old)
	if len(old) == 0 {
		return nil
	}
	if t.LatestVersionNumber != nil && aws.ToInt64(t.DefaultVersionNumber) != *t.LatestVersionNumber {
		_, err := p.clients.ec2.ModifyLaunchTemplate(ctx, &ec2.ModifyLaunchTemplateInput{
			LaunchTemplateId: t.LaunchTemplateId, DefaultVersion: aws.String(number(t.LatestVersionNumber)),
		})
		if err != nil {
			return err
		}
	}
	for part := range slices.Chunk(old, filterLimit) { // EC2 takes 200
		_, err := p.clients.ec2.DeleteLaunchTemplateVersions(ctx, &ec2.DeleteLaunchTemplateVersionsInput{LaunchTemplateId: t.LaunchTemplateId, Versions: part})
		if err != nil {
			return err
		}
	}
	return nil
}

// oldVersions lists those made before the time, but for the newest.
func oldVersions(all []types.LaunchTemplateVersion, before time.Time) []string {
	var newest int64
	for _, v := range all {
		newest = max(newest, aws.ToInt64(v.VersionNumber))
	}
	var old []string
	for _, v := range all {
		if aws.ToInt64(v.VersionNumber) != newest && v.CreateTime != nil && v.CreateTime.Before(before) {
			old = append(old, strconv.FormatInt(aws.ToInt64(v.VersionNumber), 10))
		}
	}
	return old
}

// drop forgets versions that are to be deleted, and returns those that no
// launch has been given lately.
func (t *poolTemplate) drop(old []string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	old = slices.DeleteFunc(old, func(v string) bool { return time.Since(t.used[v]) < unused })
	for hash, v := range t.versions {
		if slices.Contains(old, v) {
			delete(t.versions, hash)
		}
	}
	return old
}

func (p *Provider) tidyPlacements(ctx context.Context, mine []types.Filter) error {
	out, err := p.clients.ec2.DescribePlacementGroups(ctx, &ec2.DescribePlacementGroupsInput{Filters: mine})
	if err != nil {
		return err
	}
	var errs []error
	for _, g := range out.PlacementGroups {
		errs = append(errs, p.tidyPlacement(ctx, aws.ToString(g.GroupName)))
	}
	return errors.Join(errs...)
}

// tidyPlacement removes a group that Tidy has seen empty for long enough, in
// this process: what another has prepared is not known.
func (p *Provider) tidyPlacement(ctx context.Context, name string) error {
	inside, err := p.describe(ctx, []types.Filter{
		filter("placement-group-name", literal(name)),
		filter("instance-state-name", "pending", "running", "shutting-down", "stopping", "stopped"),
	})
	if err != nil {
		return err
	}
	g := p.placements.of(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	switch {
	case len(inside) > 0:
		g.empty = time.Time{}
		return nil
	case g.empty.IsZero():
		g.empty = now
		return nil
	case now.Sub(g.empty) < unused || now.Sub(g.used) < unused:
		return nil
	}
	_, err = p.clients.ec2.DeletePlacementGroup(ctx, &ec2.DeletePlacementGroupInput{GroupName: &name})
	if err != nil && !isCode(err, "InvalidPlacementGroup") { // in use again, or gone
		return err
	}
	g.there, g.empty = false, time.Time{}
	p.log.Debug("placement group removed", "group", name)
	return nil
}

func tagOf(tags []types.Tag, key string) string {
	for _, t := range tags {
		if aws.ToString(t.Key) == key {
			return aws.ToString(t.Value)
		}
	}
	return ""
}
