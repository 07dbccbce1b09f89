package aws

import (
	"context"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// memo remembers facts of AWS that never change: a subnet's zone, an image's
// devices, a type's cores. Those who ask at the same time wait for one answer.
type memo[T any] struct {
	mu    sync.Mutex
	known map[string]T
}

// get returns what is known of the keys after ask was called for those that
// were not. A key of which AWS knows nothing is missing, and asked again next time.
func (m *memo[T]) get(ctx context.Context, keys []string, ask func(context.Context, []string) (map[string]T, error)) (map[string]T, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var missing []string
	for _, k := range keys {
		if _, ok := m.known[k]; !ok && !slices.Contains(missing, k) {
			missing = append(missing, k)
		}
	}
	if len(missing) > 0 {
		got, err := ask(ctx, missing)
		if err != nil {
			return nil, err
		}
		if m.known == nil {
			m.known = map[string]T{}
		}
		for k, v := range got {
			m.known[k] = v
		}
	}
	found := map[string]T{}
	for _, k := range keys {
		if v, ok := m.known[k]; ok {
			found[k] = v
		}
	}
	return found, nil
}

// facts are the memos that preparing needs.
type facts struct {
	zones  memo[string] // of subnets
	images memo[image]
	types  memo[typeFacts]
}

// image is an image's block devices.
type image struct {
	root string   // device name
	kept []string // devices that the image would keep after the instance
}

// typeFacts are a type's parts that requests name.
type typeFacts struct {
	cards   []string // the interface type for each network card, EFA where it can; "": none
	efa     bool
	cores   int
	threads int // per core
}

// filterLimit is how many values a filter may have.
const filterLimit = 200

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: aws.String(name), Values: values}
}

// askZones asks by filter, so that one wrong id does not hide the others.
func (p *Provider) askZones(ctx context.Context, subnets []string) (map[string]string, error) {
	zones := map[string]string{}
	for part := range slices.Chunk(subnets, filterLimit) {
		pages := ec2.NewDescribeSubnetsPaginator(p.clients.ec2, &ec2.DescribeSubnetsInput{Filters: []types.Filter{filter("subnet-id", part...)}})
		for pages.HasMorePages() {
			out, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, s := range out.Subnets {
				zones[aws.ToString(s.SubnetId)] = aws.ToString(s.AvailabilityZone)
			}
		}
	}
	return zones, nil
}

func (p *Provider) askImages(ctx context.Context, ids []string) (map[string]image, error) {
	out, err := p.clients.ec2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: ids})
	if err != nil {
		return nil, err
	}
	images := map[string]image{}
	for _, i := range out.Images {
		found := image{root: aws.ToString(i.RootDeviceName)}
		for _, b := range i.BlockDeviceMappings {
			if b.Ebs != nil && aws.ToString(b.DeviceName) != found.root && !aws.ToBool(b.Ebs.DeleteOnTermination) {
				found.kept = append(found.kept, aws.ToString(b.DeviceName))
			}
		}
		images[aws.ToString(i.ImageId)] = found
	}
	return images, nil
}

func (p *Provider) askTypes(ctx context.Context, names []string) (map[string]typeFacts, error) {
	found := map[string]typeFacts{}
	for part := range slices.Chunk(names, filterLimit) {
		pages := ec2.NewDescribeInstanceTypesPaginator(p.clients.ec2, &ec2.DescribeInstanceTypesInput{Filters: []types.Filter{filter("instance-type", part...)}})
		for pages.HasMorePages() {
			out, err := pages.NextPage(ctx)
			if err != nil {
				return nil, err
			}
			for _, t := range out.InstanceTypes {
				found[string(t.InstanceType)] = readType(t)
			}
		}
	}
	return found, nil
}

// Types of network interface.
const (
	plainInterface = "interface"
	efaInterface   = "efa"      // EFA and IP
	efaOnly        = "efa-only" // EFA without IP
)

func readType(t types.InstanceTypeInfo) typeFacts {
	var f typeFacts
	if v := t.VCpuInfo; v != nil {
		f.cores, f.threads = int(aws.ToInt32(v.DefaultCores)), int(aws.ToInt32(v.DefaultThreadsPerCore))
	}
	n := t.NetworkInfo
	if n == nil || !aws.ToBool(n.EfaSupported) {
		return f
	}
	f.efa = true
	cards, room := max(1, len(n.NetworkCards)), 0
	if n.EfaInfo != nil { // else one, on the first card
		room = int(aws.ToInt32(n.EfaInfo.MaximumEfaInterfaces))
	}
	for i := range cards {
		kind := efaInterface
		if i < len(n.NetworkCards) && len(n.NetworkCards[i].InterfaceTypes) > 0 {
			kind = cardInterface(n.NetworkCards[i].InterfaceTypes, i == 0)
		}
		switch {
		case kind == plainInterface && i > 0, kind != plainInterface && room == 0 && i > 0:
			kind = ""
		case kind != plainInterface:
			room--
		}
		f.cards = append(f.cards, kind)
	}
	return f
}

// cardInterface is the best interface that a card can have. The first must
// have an IP address.
func cardInterface(can []types.NetworkCardInterfaceType, first bool) string {
	switch {
	case slices.Contains(can, efaInterface):
		return efaInterface
	case !first && slices.Contains(can, efaOnly):
		return efaOnly
	}
	return plainInterface
}
