package ec2test

import (
	"maps"
	"slices"
)

// securityGroups are ids with their VPC.
var securityGroups = map[string]string{SecurityGroup: VPC, GroupElsewhere: VPCElsewhere}

// named picks what a request names, by ids or by a filter; ids that are not
// there are an error of the code.
func named(p *params, list string, f filters, filter string, all []string, code string) ([]string, *failure) {
	for _, id := range p.strings(list) {
		if !slices.Contains(all, id) {
			return nil, fail(code, "'%s' does not exist", id)
		}
	}
	wanted := p.strings(list)
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool {
		return len(wanted) > 0 && !slices.Contains(wanted, id) || !f.match(filter, id)
	}), nil
}

func (c *Cloud) describeSubnets(p *params) (body, *failure) {
	f, failed := readFilters(p, "subnet-id", "vpc-id", "availability-zone")
	if failed != nil {
		return nil, failed
	}
	ids, failed := named(p, "SubnetId", f, "subnet-id", slices.Sorted(maps.Keys(c.subnets)), "InvalidSubnetID.NotFound")
	if failed != nil {
		return nil, failed
	}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		return !f.match("vpc-id", c.subnets[id].VPC) || !f.match("availability-zone", c.subnets[id].Zone)
	})
	free := map[string]int{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		free[id] = 1<<(32-c.subnets[id].CIDR.Bits()) - 5
		for addr := range c.taken {
			if c.subnets[id].CIDR.Contains(addr) {
				free[id]--
			}
		}
	}
	return func(a *answer) {
		list(a, "subnetSet", ids, func(id string) {
			s := c.subnets[id]
			a.text("subnetId", id)
			a.text("vpcId", s.VPC)
			a.text("state", "available")
			a.text("availabilityZone", s.Zone)
			a.text("cidrBlock", s.CIDR.String())
			a.number("availableIpAddressCount", free[id])
			a.yes("mapPublicIpOnLaunch", false)
		})
	}, nil
}

func (c *Cloud) describeSecurityGroups(p *params) (body, *failure) {
	f, failed := readFilters(p, "group-id", "vpc-id")
	if failed != nil {
		return nil, failed
	}
	ids, failed := named(p, "GroupId", f, "group-id", slices.Sorted(maps.Keys(securityGroups)), "InvalidGroup.NotFound")
	if failed != nil {
		return nil, failed
	}
	return func(a *answer) {
		list(a, "securityGroupInfo", ids, func(id string) {
			a.text("groupId", id)
			a.text("groupName", "nodes")
			a.text("groupDescription", "nodes of the cluster")
			a.text("ownerId", Account)
			a.text("vpcId", securityGroups[id])
			for _, direction := range []string{"ipPermissions", "ipPermissionsEgress"} {
				list(a, direction, []string{"-1"}, func(protocol string) {
					a.text("ipProtocol", protocol)
					list(a, "groups", []string{id}, func(g string) { a.text("groupId", g) })
					list(a, "ipRanges", []string{"0.0.0.0/0"}, func(r string) { a.text("cidrIp", r) })
				})
			}
		})
	}, nil
}

func (c *Cloud) describeVPCs(p *params) (body, *failure) {
	f, failed := readFilters(p, "vpc-id")
	if failed != nil {
		return nil, failed
	}
	ids, failed := named(p, "VpcId", f, "vpc-id", []string{VPC, VPCElsewhere}, "InvalidVpcID.NotFound")
	if failed != nil {
		return nil, failed
	}
	return func(a *answer) {
		list(a, "vpcSet", ids, func(id string) {
			a.text("vpcId", id)
			a.text("state", "available")
			a.text("cidrBlock", "10.0.0.0/8")
		})
	}, nil
}

func (c *Cloud) describeZones(p *params) (body, *failure) {
	f, failed := readFilters(p, "zone-name")
	if failed != nil {
		return nil, failed
	}
	names, failed := named(p, "ZoneName", f, "zone-name", c.zones(), "InvalidParameterValue")
	if failed != nil {
		return nil, failed
	}
	return func(a *answer) {
		list(a, "availabilityZoneInfo", names, func(z string) {
			a.text("zoneName", z)
			a.text("zoneState", "available")
			a.text("regionName", c.o.Region)
		})
	}, nil
}

func (c *Cloud) describeKeys(p *params) (body, *failure) {
	f, failed := readFilters(p, "key-name")
	if failed != nil {
		return nil, failed
	}
	names, failed := named(p, "KeyName", f, "key-name", []string{KeyPair}, "InvalidKeyPair.NotFound")
	if failed != nil {
		return nil, failed
	}
	return func(a *answer) { list(a, "keySet", names, func(n string) { a.text("keyName", n) }) }, nil
}
