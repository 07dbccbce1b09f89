package aws

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

const (
	identity = `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:sts::123456789012:assumed-role/burst/i-0aa</Arn><UserId>A:i-0aa</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`
	both     = `<ipPermissions><item><ipProtocol>-1</ipProtocol><groups><item><groupId>sg-1</groupId></item></groups></item></ipPermissions><ipPermissionsEgress><item><ipProtocol>-1</ipProtocol><groups><item><groupId>sg-1</groupId></item></groups></item></ipPermissionsEgress>`
)

func subnet(id, zone, vpc string, free int) string {
	return fmt.Sprintf("<item><subnetId>%s</subnetId><availabilityZone>%s</availabilityZone><vpcId>%s</vpcId><availableIpAddressCount>%d</availableIpAddressCount></item>", id, zone, vpc, free)
}

func describedImage(arch, state string) answer {
	return fixed("<imagesSet><item><imageId>ami-0aa</imageId><name>rocky</name><imageState>" + state + "</imageState><architecture>" + arch + "</architecture><rootDeviceName>/dev/sda1</rootDeviceName></item></imagesSet>")
}

// wellSet answers as an account does in which all is as it should be. Calls
// with DryRun that are not here are allowed.
func wellSet() map[string]answer {
	given := map[string]answer{
		"GetCallerIdentity": func(url.Values, string) (int, string) { return 200, identity },
		"GetServiceQuota":   someQuota(map[string]float64{"L-1216C47A": 400, "L-34B43A08": 400}),
		"GetProducts":       jsonAnswer(`{"PriceList":[]}`),
		"GetParameter":      jsonAnswer(`{"Parameter":{"Value":"ami-0aa"}}`),
	}
	for action, give := range map[string]answer{
		"DescribeInstanceTypes":         someTypes(map[string]int{"c6i.large": 2, "c6i.xlarge": 4}),
		"DescribeInstanceTypeOfferings": zonesOf("us-east-1a", "us-east-1b"),
		"DescribeImages":                describedImage("x86_64", "available"),
		"DescribeSubnets":               fixed("<subnetSet>" + subnet("subnet-a", "us-east-1a", "vpc-1", 200) + subnet("subnet-b", "us-east-1b", "vpc-1", 100) + "</subnetSet>"),
		"DescribeSecurityGroups":        fixed("<securityGroupInfo><item><groupId>sg-1</groupId><vpcId>vpc-1</vpcId>" + both + "</item></securityGroupInfo>"),
		"DescribeKeyPairs":              fixed("<keySet><item><keyName>admin</keyName></item></keySet>"),
		"DescribeInstances":             fixed("<reservationSet><item><instancesSet><item><instanceId>i-0aa</instanceId></item></instancesSet></item></reservationSet>"),
		"DescribeLaunchTemplates":       fixed("<launchTemplates><item><launchTemplateId>lt-0aa</launchTemplateId></item></launchTemplates>"),
		"DescribePlacementGroups":       fixed("<placementGroupSet><item><groupName>burst-c6i</groupName></item></placementGroupSet>"),
	} {
		given[action] = unlessDry(give)
	}
	return given
}

// unlessDry answers calls with DryRun as EC2 does when they are allowed.
func unlessDry(give answer) answer {
	return func(form url.Values, body string) (int, string) {
		if form.Get("DryRun") == "true" {
			return refusal(412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")(form, body)
		}
		return give(form, body)
	}
}

func checked(pool Pool) (Config, []CheckPool) {
	offerings := []cloud.Offering{
		{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.Spot}, {Type: "c6i.xlarge", Zone: "us-east-1b", Market: cloud.Spot},
		{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand},
	}
	return Config{Pools: map[string]Pool{"c6i": pool}}, []CheckPool{{Name: "c6i", Offerings: offerings, Image: "ssm:/hpc/image", Nodes: 100}}
}

func goodPool() Pool {
	return Pool{Subnets: []string{"subnet-a", "subnet-b"}, SecurityGroups: []string{"sg-1"}, Key: "admin", Profile: "node", Placement: "cluster"}
}

func lines(all []Finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "%s\t%s\t%s\t%s\n", f.Level, f.Subject, f.Text, f.Hint)
	}
	return b.String()
}

func TestCheckGood(t *testing.T) {
	config, pools := checked(goodPool())
	p, aws := answering(t, config, wellSet())
	all := p.Check(t.Context(), "0a1b2c3d4e5f6071", pools)
	for _, f := range all {
		if f.Level != LevelOK {
			t.Errorf("%s %s: %s", f.Level, f.Subject, f.Text)
		}
	}
	for _, subject := range []string{
		"credentials", "clock", "endpoint ec2", "endpoint servicequotas", "endpoint pricing", "endpoint ssm",
		"permission ec2:TerminateInstances", "permission ec2:CreateTags", "permission ec2:GetConsoleOutput", "permission ec2:CreateFleet",
		"permission ec2:CreateLaunchTemplate", "permission ec2:CreatePlacementGroup", "permission ec2:DescribeSpotPriceHistory",
		"pool c6i: types", "pool c6i: image", "pool c6i: subnets", "pool c6i: security groups", "pool c6i: key pair", "pool c6i: zones",
		"pool c6i: quota of c6i.large/spot", "pool c6i: quota of c6i.large/on-demand",
		"pool c6i: launch of c6i.large/us-east-1a/spot", "pool c6i: launch of c6i.large/us-east-1a/on-demand",
	} {
		if !slices.ContainsFunc(all, func(f Finding) bool { return f.Subject == subject }) {
			t.Errorf("no line on %q in:\n%s", subject, lines(all))
		}
	}
	if n := aws.count("RunInstances"); n != 2 {
		t.Errorf("%d launches tried, want one for each market", n)
	}
}

// What could change or end something must never be sent without DryRun.
func TestCheckChangesNothing(t *testing.T) {
	given := wellSet()
	for _, action := range []string{
		"RunInstances", "CreateFleet", "TerminateInstances", "CreateTags", "CreateLaunchTemplate", "CreateLaunchTemplateVersion",
		"ModifyLaunchTemplate", "DeleteLaunchTemplate", "CreatePlacementGroup", "DeletePlacementGroup",
	} {
		given[action] = unlessDry(func(url.Values, string) (int, string) {
			t.Errorf("%s without DryRun", action)
			return 200, ""
		})
	}
	config, pools := checked(goodPool())
	p, aws := answering(t, config, given)
	p.Check(t.Context(), "0a1b2c3d4e5f6071", pools)
	if aws.count("TerminateInstances") != 1 || aws.count("CreateFleet") != 1 {
		t.Errorf("terminating was tried %d times, fleets %d times", aws.count("TerminateInstances"), aws.count("CreateFleet"))
	}
}

// A policy like that of contrib/aws allows what makes things with the tag of
// the cluster's id only: with the true one nothing is wrong, without it nothing is said.
func TestCheckUnderATightPolicy(t *testing.T) {
	const id = "0a1b2c3d4e5f6071"
	// scoped refuses a call of which one of the kinds that it makes lacks the tag.
	scoped := func(kinds ...string) answer {
		return func(form url.Values, body string) (int, string) {
			have := map[string]bool{}
			for i := 1; form.Has(fmt.Sprintf("TagSpecification.%d.ResourceType", i)); i++ {
				for j := 1; form.Has(fmt.Sprintf("TagSpecification.%d.Tag.%d.Key", i, j)); j++ {
					tag := fmt.Sprintf("TagSpecification.%d.Tag.%d.", i, j)
					if form.Get(tag+"Key") == tagCluster && form.Get(tag+"Value") == id {
						have[form.Get(fmt.Sprintf("TagSpecification.%d.ResourceType", i))] = true
					}
				}
			}
			for _, k := range kinds {
				if !have[k] {
					return refusal(403, "UnauthorizedOperation", "no tag on "+k)(form, body)
				}
			}
			return refusal(412, "DryRunOperation", "would have succeeded")(form, body)
		}
	}
	for _, c := range []struct{ cluster, tight string }{{id, "ok"}, {"", "unknown"}, {"another", "wrong"}} {
		t.Run("id "+c.cluster, func(t *testing.T) {
			given := wellSet()
			given["RunInstances"], given["CreateFleet"] = scoped("instance"), scoped("instance", "fleet")
			given["CreateLaunchTemplate"], given["CreatePlacementGroup"] = scoped("launch-template"), scoped("placement-group")
			config, pools := checked(goodPool())
			p, _ := answering(t, config, given)
			all := p.Check(t.Context(), c.cluster, pools)
			for _, subject := range []string{"permission ec2:CreateFleet", "permission ec2:CreateLaunchTemplate", "permission ec2:CreatePlacementGroup", "pool c6i: launch of c6i.large/us-east-1a/spot"} {
				i := slices.IndexFunc(all, func(f Finding) bool { return f.Subject == subject })
				if i < 0 || string(all[i].Level) != c.tight {
					t.Errorf("%s is not %s in:\n%s", subject, c.tight, lines(all))
				}
			}
		})
	}
}

// An emulator may take DryRun for an order: where one does so for a question,
// no order is tried.
func TestCheckWithoutDryRun(t *testing.T) {
	given := wellSet()
	given["DescribeInstances"] = fixed("<reservationSet></reservationSet>")
	config, pools := checked(goodPool())
	p, aws := answering(t, config, given)
	all := lines(p.Check(t.Context(), "0a1b2c3d4e5f6071", pools))
	if !strings.Contains(all, "unknown\tpermissions\tthis endpoint does not heed DryRun") {
		t.Errorf("no word of it in:\n%s", all)
	}
	for _, action := range []string{"TerminateInstances", "RunInstances", "CreateFleet", "CreateTags", "CreateLaunchTemplate"} {
		if aws.count(action) > 0 {
			t.Errorf("%s was tried", action)
		}
	}
}

func TestCheckFinds(t *testing.T) {
	t.Parallel()
	const unauthorized = "You are not authorized to perform this operation. User: arn:aws:iam::1:user/u is not authorized to perform: ec2:RunInstances. Encoded authorization failure message: aaaabbbb"
	groups := func(vpc, rules string) answer {
		return unlessDry(fixed("<securityGroupInfo><item><groupId>sg-1</groupId><vpcId>" + vpc + "</vpcId>" + rules + "</item></securityGroupInfo>"))
	}
	subnets := func(items ...string) answer {
		return unlessDry(fixed("<subnetSet>" + strings.Join(items, "") + "</subnetSet>"))
	}
	for _, c := range []struct {
		name  string
		given map[string]answer // beside what is well
		pool  func(*Pool)
		want  string // "level subject: a part of the text"
	}{
		{"key unknown to AWS", map[string]answer{"GetCallerIdentity": refusal(403, "InvalidClientTokenId", "The security token included in the request is invalid.")}, nil, "wrong credentials: InvalidClientTokenId"},
		{"STS away", map[string]answer{"GetCallerIdentity": refusal(503, "ServiceUnavailable", "no")}, nil, "unknown credentials: STS does not say who we are"},
		{"no quotas allowed", map[string]answer{"GetServiceQuota": refusal(400, "AccessDeniedException", "no")}, nil, "warning permission servicequotas:GetServiceQuota: AccessDenied"},
		{"no parameters allowed", map[string]answer{"GetParameter": refusal(400, "AccessDeniedException", "no")}, nil, "wrong permission ssm:GetParameter: AccessDenied"},
		{"a page of a proxy", map[string]answer{"GetProducts": func(url.Values, string) (int, string) { return 502, "<html>" }}, nil, "warning endpoint pricing: answers with HTTP status 502"},
		{"describing not allowed", map[string]answer{"DescribeSubnets": refusal(403, "UnauthorizedOperation", "no")}, nil, "wrong permission ec2:DescribeSubnets: UnauthorizedOperation"},
		{"terminating not allowed", map[string]answer{"TerminateInstances": refusal(403, "UnauthorizedOperation", "no")}, nil, "wrong permission ec2:TerminateInstances: UnauthorizedOperation"},
		{"fleet not allowed", map[string]answer{"CreateFleet": refusal(403, "UnauthorizedOperation", "no")}, nil, "wrong permission ec2:CreateFleet: UnauthorizedOperation"},
		{"permission not told", map[string]answer{"CreatePlacementGroup": refusal(400, "PlacementGroupLimitExceeded", "no")}, nil, "unknown permission ec2:CreatePlacementGroup: AWS does not say"},
		{"launch not allowed", map[string]answer{"RunInstances": refusal(403, "UnauthorizedOperation", unauthorized)}, nil, "wrong pool c6i: launch of c6i.large/us-east-1a/spot: UnauthorizedOperation: You are not authorized"},
		{"profile of another name", map[string]answer{"RunInstances": refusal(400, "InvalidParameterValue", "Value (node) for parameter iamInstanceProfile.name is invalid.")}, nil, "wrong pool c6i: launch of c6i.large/us-east-1a/spot: InvalidParameterValue"},
		{"throttled launch", map[string]answer{"RunInstances": refusal(503, "RequestLimitExceeded", "slowly")}, nil, "unknown pool c6i: launch of c6i.large/us-east-1a/spot: RequestLimitExceeded"},
		{"no instance of ours", map[string]answer{"DescribeInstances": unlessDry(fixed("<reservationSet/>"))}, nil, "unknown permission ec2:TerminateInstances, ec2:CreateTags, ec2:GetConsoleOutput: cannot be tried"},
		{"no template of ours", map[string]answer{"DescribeLaunchTemplates": unlessDry(fixed("<launchTemplates/>"))}, nil, "unknown permission ec2:CreateFleet, ec2:CreateLaunchTemplateVersion, ec2:ModifyLaunchTemplate, ec2:DeleteLaunchTemplate: cannot be tried"},
		{"no placement group of ours", map[string]answer{"DescribePlacementGroups": unlessDry(fixed("<placementGroupSet/>"))}, nil, "unknown permission ec2:DeletePlacementGroup: cannot be tried"},
		{"groups not to be seen", map[string]answer{"DescribeSecurityGroups": refusal(403, "UnauthorizedOperation", "no")}, nil, "unknown pool c6i: security groups: UnauthorizedOperation"},
		{"spot prices not allowed", map[string]answer{"DescribeSpotPriceHistory": refusal(403, "UnauthorizedOperation", "no")}, nil, "warning permission ec2:DescribeSpotPriceHistory: UnauthorizedOperation"},
		{"no such type", map[string]answer{"DescribeInstanceTypes": unlessDry(someTypes(map[string]int{"c6i.large": 2}))}, nil, "wrong pool c6i: types: AWS has no type c6i.xlarge in us-east-1"},
		{"image of another architecture", map[string]answer{"DescribeImages": unlessDry(describedImage("arm64", "available"))}, nil, "wrong pool c6i: image: ami-0aa is for arm64, c6i.large is x86_64"},
		{"image not ready", map[string]answer{"DescribeImages": unlessDry(describedImage("x86_64", "pending"))}, nil, "wrong pool c6i: image: ami-0aa is pending"},
		{"no image", map[string]answer{"DescribeImages": unlessDry(fixed("<imagesSet/>"))}, nil, "wrong pool c6i: image: image ami-0aa does not exist in us-east-1"},
		{"zone without the type", map[string]answer{"DescribeInstanceTypeOfferings": unlessDry(zonesOf("us-east-1b"))}, nil, "wrong pool c6i: zones: c6i.large is not offered in us-east-1a"},
		{"zone without a subnet", map[string]answer{"DescribeSubnets": subnets(subnet("subnet-a", "us-east-1a", "vpc-1", 200))}, nil, "wrong pool c6i: zones: no subnet of the pool is in us-east-1b"},
		{"subnet missing", map[string]answer{"DescribeSubnets": subnets(subnet("subnet-a", "us-east-1a", "vpc-1", 200))}, nil, "wrong pool c6i: subnets: subnet-b does not exist in us-east-1"},
		{"two VPCs", map[string]answer{"DescribeSubnets": subnets(subnet("subnet-a", "us-east-1a", "vpc-1", 200), subnet("subnet-b", "us-east-1b", "vpc-2", 200))}, nil, "wrong pool c6i: subnets: they are in several VPCs: vpc-1, vpc-2"},
		{"few addresses", map[string]answer{"DescribeSubnets": subnets(subnet("subnet-a", "us-east-1a", "vpc-1", 20), subnet("subnet-b", "us-east-1b", "vpc-1", 20))}, nil, "warning pool c6i: subnets: 40 free addresses for 100 nodes"},
		{"few addresses in a zone", map[string]answer{"DescribeSubnets": subnets(subnet("subnet-a", "us-east-1a", "vpc-1", 60), subnet("subnet-b", "us-east-1b", "vpc-1", 60))}, nil, "warning pool c6i: subnets: 60 free addresses in the roomiest zone"},
		{"a subnet of IPv6 alone", map[string]answer{"DescribeSubnets": subnets(subnet("subnet-a", "us-east-1a", "vpc-1", 200), strings.Replace(subnet("subnet-b", "us-east-1b", "vpc-1", 0), "<item>", "<item><ipv6Native>true</ipv6Native>", 1))}, nil,
			"wrong pool c6i: subnets: subnet-b has IPv6 addresses alone"},
		{"no subnets", nil, func(p *Pool) { p.Subnets = nil }, "wrong pool c6i: subnets: none"},
		{"group missing", map[string]answer{"DescribeSecurityGroups": unlessDry(fixed("<securityGroupInfo/>"))}, nil, "wrong pool c6i: security groups: sg-1 does not exist"},
		{"group of another VPC", map[string]answer{"DescribeSecurityGroups": groups("vpc-9", both)}, nil, "wrong pool c6i: security groups: sg-1 is in vpc-9, the subnets are in vpc-1"},
		{"no groups", nil, func(p *Pool) { p.SecurityGroups = nil }, "warning pool c6i: security groups: none"},
		{"EFA without a group", nil, func(p *Pool) { p.SecurityGroups, p.EFA = nil, true }, "wrong pool c6i: security groups: none, and EFA needs one"},
		{"EFA with a closed group", map[string]answer{"DescribeSecurityGroups": groups("vpc-1", "")}, func(p *Pool) { p.EFA = true }, "wrong pool c6i: security groups: none lets all traffic in from itself"},
		{"EFA that a type lacks", nil, func(p *Pool) { p.EFA = true }, "wrong pool c6i: c6i.large: has no EFA"},
		{"EFA apart", nil, func(p *Pool) { p.EFA, p.Placement = true, "" }, "warning pool c6i: placement: EFA without a placement group"},
		{"threads", nil, func(p *Pool) { p.ThreadsPerCore = 4 }, "wrong pool c6i: c6i.large: has 2 thread per core, not 4"},
		{"no key pair", map[string]answer{"DescribeKeyPairs": unlessDry(fixed("<keySet/>"))}, nil, `wrong pool c6i: key pair: "admin" does not exist`},
		{"no profile", nil, func(p *Pool) { p.Profile = "" }, "warning pool c6i: instance profile: none"},
		{"quota for a part", map[string]answer{"GetServiceQuota": someQuota(map[string]float64{"L-1216C47A": 64, "L-34B43A08": 400})}, nil, "warning pool c6i: quota of c6i.large/on-demand: \"Quota L-1216C47A\" is 64: room for 32 of 100 nodes"},
		{"quota for none", map[string]answer{"GetServiceQuota": someQuota(map[string]float64{"L-1216C47A": 400, "L-34B43A08": 1})}, nil, "wrong pool c6i: quota of c6i.large/spot: \"Quota L-34B43A08\" is 1, one instance needs 2"},
		{"no such quota", map[string]answer{"GetServiceQuota": someQuota(nil)}, nil, "unknown pool c6i: quota of c6i.large/spot: Service Quotas has none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pool := goodPool()
			if c.pool != nil {
				c.pool(&pool)
			}
			config, pools := checked(pool)
			given := wellSet()
			maps.Copy(given, c.given)
			p, _ := answering(t, config, given)
			all := p.Check(t.Context(), "0a1b2c3d4e5f6071", pools)
			found := slices.ContainsFunc(all, func(f Finding) bool {
				return strings.HasPrefix(fmt.Sprintf("%s %s: %s", f.Level, f.Subject, f.Text), c.want)
			})
			if !found {
				t.Errorf("no line %q in:\n%s", c.want, lines(all))
			}
			if text := lines(all); strings.Contains(text, "Encoded") {
				t.Errorf("the encoded message is shown:\n%s", text)
			}
		})
	}
}

func TestCheckUnreachable(t *testing.T) {
	config, pools := checked(goodPool())
	p, _ := answering(t, config, wellSet())
	p.c.Endpoints = map[string]string{"ec2": "http://127.0.0.1:1"}
	p.clients.ec2 = p.newEC2()
	all := p.Check(t.Context(), "0a1b2c3d4e5f6071", pools)
	last := all[len(all)-1]
	if i := slices.IndexFunc(all, func(f Finding) bool { return f.Subject == "endpoint ec2" }); i < 0 || all[i].Level != LevelWrong || !strings.Contains(all[i].Text, "no answer after") {
		t.Errorf("findings:\n%s", lines(all))
	}
	if !strings.HasPrefix(last.Subject, "endpoint ") {
		t.Errorf("the check went on without EC2, up to %q", last.Subject)
	}
}

func TestCheckPoolOfAnother(t *testing.T) {
	config, _ := checked(goodPool())
	p, _ := answering(t, config, wellSet())
	all := lines(p.Check(t.Context(), "0a1b2c3d4e5f6071", []CheckPool{{Name: "gpu"}}))
	if !strings.Contains(all, "wrong\tpool gpu\tprovider \"east\" has no settings for it") {
		t.Errorf("findings:\n%s", all)
	}
}

func TestCheckClock(t *testing.T) {
	for _, c := range []struct {
		offset time.Duration
		level  Level
		text   string
	}{
		{0, LevelOK, "within a second"},
		{-5 * time.Second, LevelOK, "off by "},
		{40 * time.Second, LevelWarning, "off by "},
		{-40 * time.Second, LevelWarning, "off by "},
		{10 * time.Minute, LevelWrong, "off by "},
		{-10 * time.Minute, LevelWrong, "off by "},
	} {
		t.Run(c.offset.String(), func(t *testing.T) {
			config, pools := checked(goodPool())
			given := wellSet()
			if c.level == LevelWrong {
				given["GetCallerIdentity"] = refusal(403, "SignatureDoesNotMatch", "Signature expired")
			}
			p, aws := answering(t, config, given)
			aws.offset = c.offset
			all := p.Check(t.Context(), "0a1b2c3d4e5f6071", pools)
			if all[0].Subject != "clock" || all[0].Level != c.level || !strings.HasPrefix(all[0].Text, c.text) {
				t.Errorf("findings:\n%s", lines(all))
			}
		})
	}
}

// TestCheckNamesGrants: of a pool whose volumes are encrypted with keys that somebody must have granted.
func TestCheckNamesGrants(t *testing.T) {
	const key, sealed = "arn:aws:kms:us-east-1:1:key/k", "<blockDeviceMapping><item><deviceName>/dev/sda1</deviceName><ebs><snapshotId>snap-1</snapshotId><encrypted>true</encrypted></ebs></item></blockDeviceMapping>"
	for _, tt := range []struct {
		name, image, key, fleet string
		spot                    bool
		want                    string
	}{
		{"neither", "", "", "", true, ""},
		{"the image", sealed, "", "", true, "volumes are encrypted with the key of the image's snap-1: grants needed by the controller's identity, AWSServiceRoleForEC2Spot, AWSServiceRoleForEC2Fleet"},
		{"kms_key", "", key, "never", false, "volumes are encrypted with key " + key + " (kms_key): grants needed by the controller's identity"},
		{"both", sealed, key, "never", true, "volumes are encrypted with key " + key + " (kms_key) and the key of the image's snap-1: grants needed by the controller's identity, AWSServiceRoleForEC2Spot"},
	} {
		pool := goodPool()
		pool.Root.KMSKey, pool.Fleet = tt.key, tt.fleet
		config, pools := checked(pool)
		if !tt.spot {
			pools[0].Offerings = slices.DeleteFunc(pools[0].Offerings, func(o cloud.Offering) bool { return o.Market == cloud.Spot })
		}
		given := wellSet()
		given["DescribeImages"] = unlessDry(fixed("<imagesSet><item><imageId>ami-0aa</imageId><name>rocky</name><imageState>available</imageState><architecture>x86_64</architecture><rootDeviceName>/dev/sda1</rootDeviceName>" + tt.image + "</item></imagesSet>"))
		p, _ := answering(t, config, given)
		got := ""
		for _, f := range p.Check(t.Context(), "0a1b2c3d4e5f6071", pools) {
			if f.Subject == "pool c6i: encryption" {
				got = f.Text
				if f.Level != LevelUnknown || !strings.Contains(f.Hint, "create grants") {
					t.Errorf("%s: %+v", tt.name, f)
				}
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
