package ec2test

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// Spec is how an instance was asked for; those of one launch share it.
type Spec struct {
	API         string // "RunInstances" or "CreateFleet"
	Token       string // ClientToken
	Image       string
	Key         string
	Profile     string // name or ARN
	UserData    string // decoded
	Groups      []string
	Interfaces  []Interface
	Volumes     []Volume
	Placement   string // placement group
	Reservation string // capacity reservation, id or resource group ARN
	Cores       int
	Threads     int
	IMDSTokens  string // "required"
	IMDSHops    int
	OnShutdown  string
	MaxPrice    string
	Template    string // "lt-…:3"
	VolumeTags  map[string]string
}

// Interface is a network interface as it was asked for.
type Interface struct {
	Card, Device int
	Type         string
	Groups       []string
	Subnet       string
	PublicIP     bool
}

// Volume is a block device as it was asked for; zero values are the image's.
type Volume struct {
	Device              string
	GiB                 int
	Type                string
	IOPS, Throughput    int
	Encrypted           string // "", "true" or "false"
	KMSKey              string
	DeleteOnTermination string
}

// maxUserData is in bytes before base64.
const maxUserData = 16 << 10

// readSpec reads what RunInstances and launch templates name alike, over what
// base has.
func readSpec(base Spec, p *params) (Spec, *failure) {
	s := base
	for _, f := range []struct {
		to   *string
		path string
	}{
		{&s.Image, "ImageId"}, {&s.Key, "KeyName"}, {&s.Placement, "Placement.GroupName"},
		{&s.Profile, "IamInstanceProfile.Name"}, {&s.Profile, "IamInstanceProfile.Arn"},
		{&s.Reservation, "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"},
		{&s.Reservation, "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationResourceGroupArn"},
		{&s.IMDSTokens, "MetadataOptions.HttpTokens"}, {&s.OnShutdown, "InstanceInitiatedShutdownBehavior"},
		{&s.MaxPrice, "InstanceMarketOptions.SpotOptions.MaxPrice"},
	} {
		if v := p.get(f.path); v != "" {
			*f.to = v
		}
	}
	for _, f := range []struct {
		to   *int
		path string
	}{
		{&s.Cores, "CpuOptions.CoreCount"}, {&s.Threads, "CpuOptions.ThreadsPerCore"},
		{&s.IMDSHops, "MetadataOptions.HttpPutResponseHopLimit"},
	} {
		if n := p.number(f.path); n != 0 {
			*f.to = n
		}
	}
	if groups := p.strings("SecurityGroupId"); len(groups) > 0 {
		s.Groups = groups
	}
	if text := p.get("UserData"); text != "" {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return s, fail("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
		}
		if len(data) > maxUserData {
			return s, fail("InvalidParameterValue", "User data is limited to 16384 bytes")
		}
		s.UserData = string(data)
	}
	if list := p.list("NetworkInterface"); len(list) > 0 {
		s.Interfaces = nil
		for _, n := range list {
			s.Interfaces = append(s.Interfaces, Interface{
				Card: n.number("NetworkCardIndex"), Device: n.number("DeviceIndex"), Type: n.get("InterfaceType"),
				Groups: n.strings("SecurityGroupId"), Subnet: n.get("SubnetId"), PublicIP: n.yes("AssociatePublicIpAddress"),
			})
		}
	}
	for _, b := range p.list("BlockDeviceMapping") {
		s.Volumes = append(s.Volumes, Volume{
			Device: b.get("DeviceName"), GiB: b.number("Ebs.VolumeSize"), Type: b.get("Ebs.VolumeType"),
			IOPS: b.number("Ebs.Iops"), Throughput: b.number("Ebs.Throughput"), Encrypted: b.get("Ebs.Encrypted"),
			KMSKey: b.get("Ebs.KmsKeyId"), DeleteOnTermination: b.get("Ebs.DeleteOnTermination"),
		})
	}
	return s, nil
}

// check refuses what EC2 refuses of a spec for a type in a subnet. Called with the lock held.
func (c *Cloud) check(s Spec, kind string, subnetID string) *failure {
	t, ok := c.types[kind]
	if !ok {
		return fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", kind)
	}
	if !strings.HasPrefix(s.Image, "ami-") {
		return fail("InvalidAMIID.Malformed", "Invalid id: %q (expecting \"ami-...\")", s.Image)
	}
	image, ok := c.images[s.Image]
	if !ok {
		return fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", s.Image)
	}
	if image.Arch != t.Arch {
		return fail("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.", t.Arch, image.Arch)
	}
	subnet := c.subnets[subnetID]
	if subnet == nil {
		return fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", subnetID)
	}
	if s.Key != "" && s.Key != KeyPair {
		return fail("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", s.Key)
	}
	if s.Placement != "" && c.groups[s.Placement] == nil {
		return fail("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", s.Placement)
	}
	groups := s.Groups
	efa := 0
	for _, n := range s.Interfaces {
		groups = append(groups[:len(groups):len(groups)], n.Groups...)
		if strings.HasPrefix(n.Type, "efa") {
			efa++
		}
		if n.Card >= t.Cards {
			return fail("InvalidParameterValue", "networkCardIndex %d is not valid for %s", n.Card, kind)
		}
		if n.PublicIP && len(s.Interfaces) > 1 {
			return fail("InvalidParameterCombination", "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.")
		}
	}
	if efa > t.EFA {
		return fail("AttachmentLimitExceeded", "EFA interface count %d exceeds the limit for %s", efa, kind)
	}
	if len(s.Interfaces) > 0 && len(s.Groups) > 0 {
		return fail("InvalidParameterCombination", "Network interfaces and an instance-level security groups may not be specified on the same request")
	}
	for _, g := range groups {
		if vpc, ok := securityGroups[g]; !ok {
			return fail("InvalidGroup.NotFound", "The security group '%s' does not exist", g)
		} else if vpc != subnet.VPC {
			return fail("InvalidParameter", "Security group %s and subnet %s belong to different networks.", g, subnetID)
		}
	}
	if s.Threads > 0 && (s.Threads > t.CPUs/t.Cores || s.Cores > t.Cores) {
		return fail("InvalidParameterValue", "CpuOptions of %d cores with %d threads are not valid for %s", s.Cores, s.Threads, kind)
	}
	if !t.sold(subnet.Zone) {
		return fail("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s). Please retry your request by not specifying an Availability Zone or choosing another.", kind, subnet.Zone)
	}
	return nil
}

// room says how many of n instances a pool and the quota give, and why not
// more. Called with the lock held.
func (c *Cloud) room(pool Pool, n int, maxPrice string) (int, *failure) {
	t := c.types[pool.Type]
	if code := c.poolFaults[pool]; code != "" {
		return 0, fail(code, "injected for %s in %s", pool.Type, pool.Zone)
	}
	if pool.Spot && t.NoSpot {
		return 0, fail("Unsupported", "The requested configuration is currently not supported: %s has no spot market.", pool.Type)
	}
	if limit, err := strconv.ParseFloat(maxPrice, 64); pool.Spot && err == nil && limit < c.spotPrice(pool) {
		return 0, fail("SpotMaxPriceTooLow", "Your Spot request price of %s is lower than the minimum required Spot request fulfillment price of %g.", maxPrice, c.spotPrice(pool))
	}
	var why *failure
	if quota, ok := c.quota[pool.Spot]; ok {
		if can := max(0, (quota-c.vcpus(pool.Spot))/t.CPUs); can < n {
			n = can
			why = fail("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to.", quota)
			if pool.Spot {
				why = fail("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
			}
		}
	}
	if can, ok := c.capacity[pool]; ok && can < n {
		n = can
		why = fail("InsufficientInstanceCapacity", "We currently do not have sufficient %s capacity in the Availability Zone you requested (%s).", pool.Type, pool.Zone)
	}
	return n, why
}

// vcpus counts what runs of a market.
func (c *Cloud) vcpus(spot bool) int {
	n, now := 0, c.now()
	for _, m := range c.machines {
		if m.pool.Spot == spot && m.state(now) < shuttingDown {
			n += c.types[m.pool.Type].CPUs
		}
	}
	return n
}
