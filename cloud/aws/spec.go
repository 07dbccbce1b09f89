package aws

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
)

// The calls that launch.
const (
	byRunInstances = "RunInstances"
	byCreateFleet  = "CreateFleet"
)

// spec is a launch request's Spec: with it a launch is exact, whatever the
// configuration says when it is repeated.
type spec struct {
	API      string    `json:"api"`     // byRunInstances or byCreateFleet
	Targets  []target  `json:"targets"` // where an instance may come from, best first; RunInstances uses the first alone
	Template *template `json:"template,omitempty"`
	machine            // what is in the template as well
}

// target is an offering as it was asked for, and the subnet and zone that serve it.
type target struct {
	Offering cloud.Offering `json:"offering"`
	Subnet   string         `json:"subnet"`
	Zone     string         `json:"zone"`
	// Placement is the target's own placement group, where the targets are in
	// several zones: a cluster placement group is in one.
	Placement string `json:"placement,omitempty"`
}

// groups are the placement groups that the launch may use.
func (s spec) groups() []string {
	all := []string{s.Placement}
	for _, to := range s.Targets {
		all = append(all, to.Placement)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool { return name == "" })
}

// template is one version of a launch template.
type template struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

// machine is how an instance is made, whatever call makes it.
type machine struct {
	Groups      []string `json:"groups,omitempty"`
	Key         string   `json:"key,omitempty"`
	Profile     string   `json:"profile,omitempty"`
	Volumes     []volume `json:"volumes,omitempty"`
	Placement   string   `json:"placement,omitempty"` // placement group, if all targets share one
	Reservation string   `json:"reservation,omitempty"`
	PublicIP    bool     `json:"public_ip,omitempty"`
	hardware
}

// hardware is what a request says of the type's own parts. Types that differ
// in it cannot share a fleet, whose template has room for one.
type hardware struct {
	// Cards has the interface type for each network card, "" for none on it; nil:
	// one plain interface.
	Cards   []string `json:"cards,omitempty"`
	Cores   int      `json:"cores,omitempty"` // with Threads, CPU options; 0: the type's own
	Threads int      `json:"threads,omitempty"`
}

func (h hardware) equal(o hardware) bool {
	return h.Cores == o.Cores && h.Threads == o.Threads && slices.Equal(h.Cards, o.Cards)
}

// volume is a block device of the image with what we ask otherwise. All
// volumes end with their instance, also where the image would keep them.
type volume struct {
	Device string `json:"device"`
	Root
}

// data is the machine as a launch template has it. RunInstances has the same
// settings under the same names.
func (m machine) data(r cloud.LaunchRequest) *types.RequestLaunchTemplateData {
	d := &types.RequestLaunchTemplateData{
		ImageId:                           optional(r.Image),
		KeyName:                           optional(m.Key),
		InstanceInitiatedShutdownBehavior: types.ShutdownBehaviorTerminate,
		// A job's user must not fetch the node's role: a hop limit of 1 keeps
		// containers out, a token is required of all.
		MetadataOptions: &types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpEndpoint:            types.LaunchTemplateInstanceMetadataEndpointStateEnabled,
			HttpTokens:              types.LaunchTemplateHttpTokensStateRequired,
			HttpPutResponseHopLimit: aws.Int32(1),
		},
	}
	if r.UserData != "" {
		d.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(r.UserData)))
	}
	if isARN(m.Profile) {
		d.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Arn: &m.Profile}
	} else if m.Profile != "" {
		d.IamInstanceProfile = &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &m.Profile}
	}
	for _, v := range m.Volumes {
		d.BlockDeviceMappings = append(d.BlockDeviceMappings, types.LaunchTemplateBlockDeviceMappingRequest{
			DeviceName: &v.Device, Ebs: v.ebs(),
		})
	}
	if m.Placement != "" {
		d.Placement = &types.LaunchTemplatePlacementRequest{GroupName: &m.Placement}
	}
	if m.Reservation != "" {
		t := &types.CapacityReservationTarget{CapacityReservationId: &m.Reservation}
		if isARN(m.Reservation) {
			t = &types.CapacityReservationTarget{CapacityReservationResourceGroupArn: &m.Reservation}
		}
		d.CapacityReservationSpecification = &types.LaunchTemplateCapacityReservationSpecificationRequest{CapacityReservationTarget: t}
	}
	if m.Threads > 0 {
		d.CpuOptions = &types.LaunchTemplateCpuOptionsRequest{CoreCount: count(m.Cores), ThreadsPerCore: count(m.Threads)}
	}
	d.NetworkInterfaces = m.interfaces()
	if len(d.NetworkInterfaces) == 0 {
		d.SecurityGroupIds = m.Groups
	}
	return d
}

func (v volume) ebs() *types.LaunchTemplateEbsBlockDeviceRequest {
	e := &types.LaunchTemplateEbsBlockDeviceRequest{
		DeleteOnTermination: aws.Bool(true),
		VolumeSize:          count(v.GiB),
		VolumeType:          types.VolumeType(v.Type),
		Iops:                count(v.IOPS),
		Throughput:          count(v.Throughput),
		Encrypted:           v.Encrypted,
		KmsKeyId:            optional(v.KMSKey),
	}
	if v.KMSKey != "" {
		e.Encrypted = aws.Bool(true) // EC2 refuses a key without it
	}
	return e
}

// interfaces lists the network interfaces where the request must: one on each
// card. EC2 wants device 0 on card 0 and device 1 on all others. The subnet
// is the launch's, not the template's.
func (m machine) interfaces() []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
	cards := m.Cards
	if len(cards) == 0 && m.PublicIP {
		cards = []string{plainInterface}
	}
	var all []types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest
	for i, kind := range cards {
		if kind == "" {
			continue
		}
		n := types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{
			NetworkCardIndex:    aws.Int32(int32(i)),
			DeviceIndex:         aws.Int32(int32(min(i, 1))),
			InterfaceType:       &kind,
			Groups:              m.Groups,
			DeleteOnTermination: aws.Bool(true),
		}
		if m.PublicIP {
			n.AssociatePublicIpAddress = aws.Bool(true)
		}
		all = append(all, n)
	}
	return all
}

// instanceTags are the tags of a launch's instances and volumes.
func instanceTags(r cloud.LaunchRequest) []types.Tag {
	tags := map[string]string{}
	maps.Copy(tags, r.Tags)
	maps.Copy(tags, map[string]string{tagCluster: r.Cluster, tagPool: r.Pool, tagToken: r.Token})
	return ec2Tags(tags)
}

// poolTags are those of what a pool's launches share.
func (p *Provider) poolTags(cluster, pool string) []types.Tag {
	return ec2Tags(map[string]string{tagCluster: cluster, tagPool: pool, tagProvider: p.c.Name})
}

// Our tags. All are there from birth, but for the node's.
const (
	tagCluster  = "burst:cluster"
	tagPool     = "burst:pool"
	tagToken    = "burst:token"
	tagNode     = "burst:node"
	tagProvider = "burst:provider" // of templates and placement groups
	tagName     = "Name"
)

func ec2Tags(tags map[string]string) []types.Tag {
	var all []types.Tag
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, types.Tag{Key: aws.String(k), Value: aws.String(tags[k])})
	}
	return all
}

func tagged(tags []types.Tag, kinds ...types.ResourceType) []types.TagSpecification {
	var all []types.TagSpecification
	for _, k := range kinds {
		all = append(all, types.TagSpecification{ResourceType: k, Tags: tags})
	}
	return all
}

// runInput reads a template's data as RunInstances has it: both APIs name the
// same settings alike.
func runInput(d *types.RequestLaunchTemplateData) (*ec2.RunInstancesInput, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("writing the settings of a launch: %w", err)
	}
	in := &ec2.RunInstancesInput{}
	if err := json.Unmarshal(text, in); err != nil {
		return nil, fmt.Errorf("reading the settings of a launch: %w", err)
	}
	return in, nil
}

// clientToken makes a launch's token one that EC2 accepts: at most 64 ASCII
// characters.
func clientToken(token string) string {
	if len(token) <= 64 && strings.IndexFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) < 0 {
		return token
	}
	return digest([]byte(token))
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// sharedName is what a pool's template and placement group are called: at
// most 128 of the characters that EC2 allows there.
func sharedName(cluster, pool string) string {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._", c) {
			return c
		}
		return '_'
	}, "burst-"+cluster+"-"+pool)
	if full := "burst-" + cluster + "-" + pool; len(name) > 128 || name != full {
		name = name[:min(len(name), 111)] + "-" + digest([]byte(full))[:16]
	}
	return name
}

func isARN(s string) bool { return strings.HasPrefix(s, "arn:") }

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func count(n int) *int32 {
	if n == 0 {
		return nil
	}
	return aws.Int32(int32(n))
}
