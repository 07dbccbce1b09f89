package ec2test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Subnet is a zone's part of a VPC.
type Subnet struct {
	ID, Zone, VPC string
	CIDR          netip.Prefix
	next          netip.Addr
}

// Type is what EC2 says of an instance type.
type Type struct {
	Name        string
	CPUs, Cores int
	MiB         int
	Arch        string
	GPU         string
	GPUs        int
	Cards       int      // network cards
	EFA         int      // of them, how many take an EFA interface
	NoSpot      bool     // sold on demand only
	Zones       []string // letters of the zones that have it; nil: all
	Price       float64  // USD per hour on demand; spot costs 40 % of it
}

// Image is an AMI.
type Image struct {
	ID, Arch, Root string // Root is the device's name
	GiB            int
}

// DefaultTypes are some of EC2's.
func DefaultTypes() []Type {
	return []Type{
		{Name: "c5.large", CPUs: 2, Cores: 1, MiB: 4096, Arch: "x86_64", Cards: 1, Price: 0.085},
		{Name: "c5.2xlarge", CPUs: 8, Cores: 4, MiB: 16384, Arch: "x86_64", Cards: 1, Price: 0.34},
		{Name: "c6i.large", CPUs: 2, Cores: 1, MiB: 4096, Arch: "x86_64", Cards: 1, Price: 0.085},
		{Name: "c6i.2xlarge", CPUs: 8, Cores: 4, MiB: 16384, Arch: "x86_64", Cards: 1, Price: 0.34},
		{Name: "m5.large", CPUs: 2, Cores: 1, MiB: 8192, Arch: "x86_64", Cards: 1, Price: 0.096},
		{Name: "c6g.large", CPUs: 2, Cores: 2, MiB: 4096, Arch: "arm64", Cards: 1, Price: 0.068},
		{Name: "c5n.18xlarge", CPUs: 72, Cores: 36, MiB: 196608, Arch: "x86_64", Cards: 1, EFA: 1, Price: 3.888},
		{Name: "hpc6a.48xlarge", CPUs: 96, Cores: 96, MiB: 393216, Arch: "x86_64", Cards: 1, EFA: 1, NoSpot: true, Zones: []string{"b"}, Price: 2.88},
		{Name: "hpc7a.96xlarge", CPUs: 192, Cores: 192, MiB: 786432, Arch: "x86_64", Cards: 2, EFA: 2, NoSpot: true, Zones: []string{"b"}, Price: 7.2},
		{Name: "p4d.24xlarge", CPUs: 96, Cores: 48, MiB: 1179648, Arch: "x86_64", GPU: "A100", GPUs: 8, Cards: 4, EFA: 4, Zones: []string{"a", "b"}, Price: 32.7726},
	}
}

// DefaultImages are one for each architecture.
func DefaultImages() []Image {
	return []Image{
		{ID: ImageX86, Arch: "x86_64", Root: "/dev/xvda", GiB: 8},
		{ID: ImageARM, Arch: "arm64", Root: "/dev/xvda", GiB: 8},
	}
}

// SubnetIn is the default subnet in a zone, by the zone's letter.
func SubnetIn(letter string) string { return "subnet-0a00000000000000" + letter }

func defaultSubnets(region string) []Subnet {
	var all []Subnet
	for i, letter := range []string{"a", "b", "c"} {
		all = append(all, Subnet{ID: SubnetIn(letter), Zone: region + letter, VPC: VPC, CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i + 1), 0, 0}), 16)})
	}
	return append(all, Subnet{ID: SubnetElsewhere, Zone: region + "a", VPC: VPCElsewhere, CIDR: netip.MustParsePrefix("10.99.0.0/16")})
}

// sold says whether a zone has the type.
func (t Type) sold(zone string) bool {
	return t.Zones == nil || slices.ContainsFunc(t.Zones, func(l string) bool { return strings.HasSuffix(zone, l) })
}

func (c *Cloud) zones() []string {
	all := map[string]bool{}
	for _, s := range c.subnets {
		all[s.Zone] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func (c *Cloud) describeTypes(p *params) (body, *failure) {
	f, failed := readFilters(p, "instance-type")
	if failed != nil {
		return nil, failed
	}
	names := p.strings("InstanceType")
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(c.types))
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !f.match("instance-type", n) })
	var bad []string
	for _, n := range names {
		if _, ok := c.types[n]; !ok {
			bad = append(bad, n)
		}
	}
	if len(bad) > 0 {
		return nil, fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", strings.Join(bad, ", "))
	}
	return func(a *answer) {
		list(a, "instanceTypeSet", names, func(n string) { a.instanceType(c.types[n]) })
	}, nil
}

func (a *answer) instanceType(t Type) {
	a.text("instanceType", t.Name)
	a.in("vCpuInfo", func() {
		a.number("defaultVCpus", t.CPUs)
		a.number("defaultCores", t.Cores)
		a.number("defaultThreadsPerCore", t.CPUs/t.Cores)
	})
	a.in("memoryInfo", func() { a.number("sizeInMiB", t.MiB) })
	a.in("processorInfo", func() { a.items("supportedArchitectures", []string{t.Arch}) })
	classes := []string{"on-demand", "spot"}
	if t.NoSpot {
		classes = classes[:1]
	}
	a.items("supportedUsageClasses", classes)
	if t.GPUs > 0 {
		a.in("gpuInfo", func() {
			list(a, "gpus", []int{t.GPUs}, func(n int) {
				a.text("name", t.GPU)
				a.text("manufacturer", "NVIDIA")
				a.number("count", n)
			})
		})
	}
	a.in("networkInfo", func() {
		a.number("maximumNetworkCards", t.Cards)
		a.number("defaultNetworkCardIndex", 0)
		a.yes("efaSupported", t.EFA > 0)
		if t.EFA > 0 {
			a.in("efaInfo", func() { a.number("maximumEfaInterfaces", t.EFA) })
		}
		cards := make([]int, t.Cards)
		for i := range cards {
			cards[i] = i
		}
		list(a, "networkCards", cards, func(i int) {
			a.number("networkCardIndex", i)
			a.number("maximumNetworkInterfaces", 15)
		})
	})
}

func (c *Cloud) describeOfferings(p *params) (body, *failure) {
	type offer struct{ name, zone string }
	var all []offer
	f, failed := readFilters(p, "location", "instance-type")
	if failed != nil {
		return nil, failed
	}
	kind := p.get("LocationType")
	for _, n := range slices.Sorted(maps.Keys(c.types)) {
		for _, z := range c.zones() {
			if c.types[n].sold(z) && f.match("location", z) && f.match("instance-type", n) {
				all = append(all, offer{n, z})
			}
		}
	}
	return func(a *answer) {
		list(a, "instanceTypeOfferingSet", all, func(o offer) {
			a.text("instanceType", o.name)
			a.text("location", o.zone)
			a.text("locationType", kind)
		})
	}, nil
}

// SetSpotPrice changes what an offering costs; 0 is 40 % of on demand.
func (c *Cloud) SetSpotPrice(p Pool, usd float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Spot = true
	c.spotPrices[p] = usd
}

func (c *Cloud) spotPrice(p Pool) float64 {
	if usd := c.spotPrices[p]; usd > 0 {
		return usd
	}
	return c.types[p.Type].Price * 0.4
}

func (c *Cloud) describeSpotPrices(p *params) (body, *failure) {
	f, failed := readFilters(p, "availability-zone", "instance-type", "product-description")
	if failed != nil {
		return nil, failed
	}
	names := p.strings("InstanceType")
	var all []Pool
	for _, t := range slices.Sorted(maps.Keys(c.types)) {
		for _, z := range c.zones() {
			wanted := (len(names) == 0 || slices.Contains(names, t)) && f.match("instance-type", t) &&
				f.match("availability-zone", z) && (p.get("AvailabilityZone") == "" || p.get("AvailabilityZone") == z)
			if wanted && c.types[t].sold(z) && !c.types[t].NoSpot {
				all = append(all, Pool{Type: t, Zone: z, Spot: true})
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	prices := make([]float64, len(all))
	for i, pool := range all {
		prices[i] = c.spotPrice(pool)
	}
	now := c.now()
	return func(a *answer) {
		i := 0
		list(a, "spotPriceHistorySet", all, func(o Pool) {
			a.text("instanceType", o.Type)
			a.text("availabilityZone", o.Zone)
			a.text("productDescription", "Linux/UNIX")
			a.text("spotPrice", strconv.FormatFloat(prices[i], 'f', 6, 64))
			a.time("timestamp", now)
			i++
		})
	}, nil
}

func (c *Cloud) describeImages(p *params) (body, *failure) {
	if slices.Equal(p.strings("Owner"), []string{"self"}) {
		return c.describeMade(p)
	}
	var all []Image
	ids := p.strings("ImageId")
	if len(ids) == 0 {
		ids = slices.Sorted(maps.Keys(c.images))
	}
	for _, id := range ids {
		if !strings.HasPrefix(id, "ami-") {
			return nil, fail("InvalidAMIID.Malformed", "Invalid id: %q (expecting \"ami-...\")", id)
		}
		i, ok := c.images[id]
		if !ok {
			return nil, fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
		}
		all = append(all, i)
	}
	return func(a *answer) {
		list(a, "imagesSet", all, func(i Image) {
			a.text("imageId", i.ID)
			a.text("imageState", "available")
			a.text("architecture", i.Arch)
			a.text("imageOwnerId", Account)
			a.text("imageType", "machine")
			a.text("name", "image-"+i.Arch)
			a.text("rootDeviceName", i.Root)
			a.text("rootDeviceType", "ebs")
			a.text("virtualizationType", "hvm")
			list(a, "blockDeviceMapping", []string{i.Root}, func(device string) {
				a.text("deviceName", device)
				a.in("ebs", func() {
					a.text("snapshotId", fmt.Sprintf("snap-%s", strings.TrimPrefix(i.ID, "ami-")))
					a.number("volumeSize", i.GiB)
					a.text("volumeType", "gp3")
					a.yes("deleteOnTermination", true)
				})
			})
		})
	}, nil
}
