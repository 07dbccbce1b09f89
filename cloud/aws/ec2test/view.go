package ec2test

import (
	"fmt"
	"strings"
	"time"
)

// view is a machine as it is to be shown: what may change is copied.
type view struct {
	*machine
	is    state
	known string // address
	tags  map[string]string
	boot  Boot
	why   string
	ended time.Time
}

func (m *machine) look(now time.Time) view {
	return view{machine: m, is: m.state(now), known: m.address(now), tags: m.tags, boot: m.boot, why: m.reason, ended: m.ended}
}

func (a *answer) instance(v view) {
	s := v.spec
	a.text("instanceId", v.id)
	a.text("imageId", s.Image)
	a.in("instanceState", func() {
		a.number("code", int(v.is))
		a.text("name", stateNames[v.is])
	})
	if v.is == terminated || v.is == shuttingDown {
		a.text("reason", fmt.Sprintf("%s (%s GMT)", transitionOf(v.why), v.ended.UTC().Format(time.DateTime)))
		a.in("stateReason", func() {
			a.text("code", v.why)
			a.text("message", v.why)
		})
	}
	a.text("keyName", s.Key)
	a.text("instanceType", v.pool.Type)
	a.time("launchTime", v.launched.Truncate(time.Second)) // as EC2 does
	a.in("placement", func() {
		a.text("availabilityZone", v.pool.Zone)
		a.text("groupName", s.Placement)
		a.text("tenancy", "default")
	})
	a.text("clientToken", s.Token)
	if v.pool.Spot {
		a.text("instanceLifecycle", "spot")
	}
	if v.is != terminated {
		a.text("subnetId", v.subnet.ID)
		a.text("vpcId", v.subnet.VPC)
		a.text("privateIpAddress", v.known)
		if v.known != "" {
			a.text("privateDnsName", "ip-"+strings.ReplaceAll(v.known, ".", "-")+".ec2.internal")
		}
		a.interfaces(v)
	}
	if s.Profile != "" {
		a.in("iamInstanceProfile", func() { a.text("arn", s.Profile) })
	}
	a.tags(v.tags)
}

// interfaces shows those that were asked for by name.
func (a *answer) interfaces(v view) {
	if len(v.spec.Interfaces) == 0 {
		return
	}
	list(a, "networkInterfaceSet", v.spec.Interfaces, func(n Interface) {
		kind := n.Type
		if kind == "" {
			kind = "interface"
		}
		a.text("interfaceType", kind)
		a.text("subnetId", v.subnet.ID)
		list(a, "groupSet", n.Groups, func(g string) { a.text("groupId", g) })
		a.in("attachment", func() {
			a.number("deviceIndex", n.Device)
			a.number("networkCardIndex", n.Card)
			a.text("status", "attached")
		})
	})
}

// transitionOf is how EC2 words a reason in an instance's transition.
func transitionOf(code string) string {
	if code == "Client.UserInitiatedShutdown" {
		return "User initiated"
	}
	return code
}
