package aws

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/recent"
)

var _ cloud.Catalog = (*Provider)(nil)

// typesBatch is how many types one call asks for: a page's greatest size.
const typesBatch = 100

// Types implements cloud.Catalog. GPUs are those that Slurm can hand out by
// GRES; inference chips (Inferentia, Trainium), FPGAs and media accelerators
// are left out. The answers hold for hours.
func (p *Provider) Types(ctx context.Context, names []string) ([]cloud.InstanceType, error) {
	known, err := p.describeTypes(ctx, names)
	if err != nil {
		return nil, err
	}
	var unknown []string
	for _, name := range names {
		if _, ok := known[name]; !ok && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, invalid("types", "AWS has no instance type %s in %s: check the spelling, and which types the region has",
			strings.Join(unknown, ", "), p.c.Region)
	}
	zones, err := p.typeZones(ctx, names)
	if err != nil {
		return nil, err
	}
	all := make([]cloud.InstanceType, 0, len(names))
	for _, name := range names {
		t := known[name]
		t.Zones, t.GPUs = slices.Clone(zones[name]), slices.Clone(t.GPUs)
		all = append(all, t)
	}
	return all, nil
}

// describeTypes describes those of the named types that exist, without zones.
func (p *Provider) describeTypes(ctx context.Context, names []string) (map[string]cloud.InstanceType, error) {
	known, missing := split(&p.know.types, names)
	for batch := range slices.Chunk(missing, typesBatch) {
		// By filter and not by name: one unknown name would fail the whole call.
		pages := ec2.NewDescribeInstanceTypesPaginator(p.clients.ec2, &ec2.DescribeInstanceTypesInput{
			Filters: []types.Filter{{Name: aws.String("instance-type"), Values: batch}},
		})
		for pages.HasMorePages() {
			out, err := pages.NextPage(ctx)
			if err != nil {
				return nil, failure("types", fmt.Errorf("describing instance types: %w", err))
			}
			for _, info := range out.InstanceTypes {
				t := instanceType(info)
				known[t.Name] = t
				p.know.types.Put(t.Name, t)
			}
		}
	}
	return known, nil
}

// typeZones returns the zones that offer each type, sorted.
func (p *Provider) typeZones(ctx context.Context, names []string) (map[string][]string, error) {
	known, missing := split(&p.know.zones, names)
	found := map[string][]string{}
	for batch := range slices.Chunk(missing, typesBatch) {
		pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(p.clients.ec2, &ec2.DescribeInstanceTypeOfferingsInput{
			LocationType: types.LocationTypeAvailabilityZone,
			Filters:      []types.Filter{{Name: aws.String("instance-type"), Values: batch}},
		})
		for pages.HasMorePages() {
			out, err := pages.NextPage(ctx)
			if err != nil {
				return nil, failure("types", fmt.Errorf("asking which zones offer the instance types: %w", err))
			}
			for _, o := range out.InstanceTypeOfferings {
				found[string(o.InstanceType)] = append(found[string(o.InstanceType)], aws.ToString(o.Location))
			}
		}
	}
	for name, zones := range found {
		slices.Sort(zones)
		known[name] = zones
		p.know.zones.Put(name, zones)
	}
	return known, nil
}

// split returns what is known of the names, and those to ask for, each once.
func split[T any](r *recent.Answers[T], names []string) (known map[string]T, missing []string) {
	known = map[string]T{}
	for _, name := range names {
		if v, ok := r.Get(name, typesAge); ok {
			known[name] = v
		} else if !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	return known, missing
}

// instanceType reads what EC2 says of a type.
func instanceType(info types.InstanceTypeInfo) cloud.InstanceType {
	t := cloud.InstanceType{
		Name: string(info.InstanceType),
		Spot: slices.Contains(info.SupportedUsageClasses, types.UsageClassTypeSpot),
	}
	if v := info.VCpuInfo; v != nil {
		t.CPUs = int(aws.ToInt32(v.DefaultVCpus))
		t.Cores = int(aws.ToInt32(v.DefaultCores))
		t.ThreadsPerCore = int(aws.ToInt32(v.DefaultThreadsPerCore))
	}
	// Old types leave the topology out.
	if t.ThreadsPerCore == 0 {
		t.ThreadsPerCore = 1
	}
	if t.Cores == 0 {
		t.Cores = t.CPUs / t.ThreadsPerCore
	}
	if m := info.MemoryInfo; m != nil {
		t.MemoryMiB = int(aws.ToInt64(m.SizeInMiB))
	}
	if c := info.ProcessorInfo; c != nil {
		for _, arch := range []types.ArchitectureType{types.ArchitectureTypeX8664, types.ArchitectureTypeArm64} {
			if slices.Contains(c.SupportedArchitectures, arch) {
				t.Arch = string(arch)
				break
			}
		}
	}
	if n := info.NetworkInfo; n != nil && aws.ToBool(n.EfaSupported) {
		t.EFACards = 1
		if n.EfaInfo != nil {
			t.EFACards = max(1, int(aws.ToInt32(n.EfaInfo.MaximumEfaInterfaces)))
		}
	}
	if g := info.GpuInfo; g != nil {
		for _, gpu := range g.Gpus {
			// A type with a part of a GPU has one device of its own to hand out.
			count := max(int(aws.ToInt32(gpu.Count)), int(aws.ToInt32(gpu.LogicalGpuCount)))
			if name := gresName(aws.ToString(gpu.Name)); name != "" && count > 0 {
				t.GPUs = append(t.GPUs, cloud.GPU{Name: name, Count: count})
			}
		}
	}
	return t
}

// gresName is a GPU's name as a type in Slurm's GRES: "A100" is a100, "Radeon
// Pro V520" radeon-pro-v520.
func gresName(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")
}
