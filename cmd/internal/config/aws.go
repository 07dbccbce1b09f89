package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/fleet"
)

var regions = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)

// services are those of AWS that Burst, or a booting node, calls.
var services = []string{"ec2", "pricing", "secretsmanager", "servicequotas", "sqs", "ssm", "sts"}

// account reads the keys of a provider of kind "aws".
func account(s *section) aws.Config {
	c := aws.Config{
		Name:     s.name(),
		Region:   s.required("region", `"us-east-1"`),
		Profile:  s.text("profile", ""),
		Endpoint: s.web("endpoint", "http://127.0.0.1:5000"),
		Proxy:    s.text("proxy", ""),
		Queue:    s.web("queue", "https://sqs.us-east-1.amazonaws.com/123456789012/burst-notices"),
		Pools:    map[string]aws.Pool{},
	}
	if c.Region != "" && !regions.MatchString(c.Region) {
		s.failAt("region", "%q is no region: write it as in \"us-east-1\", without the letter of a zone", c.Region)
	}
	if c.Queue != "" && regions.MatchString(c.Region) {
		if err := aws.CheckQueue(c.Queue, c.Region); err != nil {
			s.failAt("queue", "%v", err)
		}
	}
	if u, err := url.Parse(c.Proxy); c.Proxy != "" && (err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme)) {
		s.failAt("proxy", "is no address of a proxy: write it as in \"http://proxy:3128\"") // not its text: it may hold a password
	}
	if s.has("endpoints") {
		sub := s.sub("endpoints")
		for _, service := range services {
			if v := sub.web(service, "https://vpce-1.ec2.us-east-1.vpce.amazonaws.com"); v != "" {
				if c.Endpoints == nil {
					c.Endpoints = map[string]string{}
				}
				c.Endpoints[service] = v
			}
		}
		sub.done()
	}
	return c
}

// Keys of a pool: of the launch, which only providers of kind "aws" know, and of
// what a node of a cloud does when it boots.
var (
	launchKeys = []string{"subnets", "security_groups", "key", "instance_profile", "root", "efa", "placement",
		"capacity_reservation", "threads_per_core", "public_ip", "fleet", "max_price"}
	bootKeys = []string{"user_data", "exports", "exports_to", "end_unused", "mounts", "setup", "munge_key", "users", "sssd", "wait_for_user",
		"ntp", "packages", "slurmd", "slurmd_options", "keep_hostname", "bootstrap", "ssh"}
)

var (
	subnetID = regexp.MustCompile(`^subnet-[0-9a-f]+$`)
	groupID  = regexp.MustCompile(`^sg-[0-9a-f]+$`)
	imageID  = regexp.MustCompile(`^(ami-[0-9a-f]+|ssm:/[A-Za-z0-9_./:-]+)$`)
	reserve  = regexp.MustCompile(`^(cr-[0-9a-f]+|arn:[a-z-]+:resource-groups:\S+)$`)
)

// launch reads how the instances of a pool are launched.
func launch(s *section, p *Pool) aws.Pool {
	l := aws.Pool{
		Subnets:        s.ids("subnets", subnetID, "subnet-0123456789abcdef0"),
		SecurityGroups: s.ids("security_groups", groupID, "sg-0123456789abcdef0"),
		Key:            s.text("key", ""),
		Profile:        s.text("instance_profile", ""),
		Root:           root(s.sub("root")),
		EFA:            s.on("efa"),
		Placement:      s.choice("placement", "cluster"),
		Reservation:    s.text("capacity_reservation", ""),
		ThreadsPerCore: s.number("threads_per_core", "", "1"),
		PublicIP:       s.on("public_ip"),
		Fleet:          s.choice("fleet", "always", "never"),
	}
	if list, ok := s.value("subnets").([]any); !s.has("subnets") || ok && len(list) == 0 {
		s.failAt("subnets", "names no subnet: add one for each zone, as in subnets = [\"subnet-0123456789abcdef0\"]")
	}
	switch image := s.required("image", `"ami-0123456789abcdef0"`); {
	case image != "" && !imageID.MatchString(image):
		s.failAt("image", "%q is no image: write an id as in \"ami-0123456789abcdef0\", or a parameter as in \"ssm:/path\"", image)
	}
	if l.Reservation != "" && !reserve.MatchString(l.Reservation) {
		s.failAt("capacity_reservation", "%q is none: write its id as in \"cr-0123456789abcdef0\", or the ARN of a resource group", l.Reservation)
	}
	if l.ThreadsPerCore > 2 {
		s.failAt("threads_per_core", "is %d: write 1 or 2", l.ThreadsPerCore)
	}
	p.Power.Fleet.MaxPrice = s.dollars("max_price")
	if p.Power.Fleet.MaxPrice > 0 && p.Power.Fleet.Market == fleet.OnDemandOnly {
		s.failAt("max_price", "limits what a spot instance costs, and market is \"on-demand\": remove it")
	}
	if least := 0.001; p.Power.Fleet.MaxPrice > 0 && p.Power.Fleet.MaxPrice <= least {
		s.failAt("max_price", "is too low: EC2 takes prices above %v USD per hour only", least)
	}
	p.Slurm.Configless, p.Slurm.EFA = true, l.EFA
	return l
}

// Volume types, and whether their operations and throughput can be chosen.
var volumes = map[string]struct{ iops, throughput bool }{
	"gp2": {}, "gp3": {true, true}, "io1": {true, false}, "io2": {true, false}, "standard": {},
}

func root(s *section) aws.Root {
	r := aws.Root{
		GiB:        s.gibibytes("size"),
		Type:       s.choice("type", "gp3", "gp2", "io2", "io1", "standard"),
		IOPS:       s.number("iops", "", "3000"),
		Throughput: s.number("throughput", " of MiB/s", "125"),
		Encrypted:  s.flag("encrypted"),
		KMSKey:     s.text("kms_key", ""),
	}
	v := volumes[r.Type]
	if r.Type == "" && s.has("type") { // wrong, and reported
		v.iops, v.throughput = true, true
	}
	if r.IOPS > 0 && !v.iops {
		s.failAt("iops", "needs a type that has it: add type = \"gp3\", \"io1\" or \"io2\"")
	}
	if r.Throughput > 0 && !v.throughput {
		s.failAt("throughput", "needs a type that has it: add type = \"gp3\"")
	}
	if (r.Type == "io1" || r.Type == "io2") && r.IOPS == 0 && !s.has("iops") {
		s.failAt("iops", "is missing: EC2 makes no volume of type %s without it, as in iops = 10000", r.Type)
	}
	if r.KMSKey != "" && (r.Encrypted == nil || !*r.Encrypted) {
		s.failAt("kms_key", "is of use to an encrypted volume only: add encrypted = true")
	}
	s.done()
	return r
}

// notFor is why a key of another kind of provider is refused.
func notFor(kinds ...string) string {
	return "is for providers of kind \"" + strings.Join(kinds, "\", \"") + "\": remove it"
}
