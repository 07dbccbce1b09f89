package aws_test

import (
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/ec2test"
	"github.com/burst-hpc/burst/cloud/cloudtest"
)

// quick is the provider with the lag of an emulator: the suite waits the lag
// out after every launch, and EC2's is a minute.
type quick struct {
	*aws.Provider
	lag    time.Duration
	choice bool // false: a pool without fleets
}

func (q quick) Limits() cloud.Limits {
	l := q.Provider.Limits()
	l.Lag, l.Choice = q.lag, q.choice
	return l
}

// fakeCloud starts a fake of EC2 that ends with the test.
func fakeCloud(t *testing.T, o ec2test.Options) *ec2test.Cloud {
	t.Helper()
	c := ec2test.New(o)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("closing the fake: %v", err)
		}
	})
	return c
}

// over makes a provider of one pool, "pool", on the endpoint.
func over(t *testing.T, endpoint string, pool aws.Pool) *aws.Provider {
	t.Helper()
	p, err := aws.New(t.Context(), aws.Config{
		Name: "test", Region: "us-east-1", Endpoint: endpoint, Pools: map[string]aws.Pool{"pool": pool},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func fakePool(fleet string) aws.Pool {
	return aws.Pool{
		Subnets:        []string{ec2test.SubnetIn("a"), ec2test.SubnetIn("b"), ec2test.SubnetIn("c")},
		SecurityGroups: []string{ec2test.SecurityGroup}, Key: ec2test.KeyPair, Fleet: fleet,
	}
}

// codes are one of EC2's for each kind.
var codes = map[cloud.Kind]string{
	cloud.Capacity: "InsufficientInstanceCapacity", cloud.Quota: "VcpuLimitExceeded", cloud.Throttled: "RequestLimitExceeded",
	cloud.Invalid: "InvalidParameterValue", cloud.Auth: "UnauthorizedOperation", cloud.Transient: "InternalError",
}

var request = cloud.LaunchRequest{
	Image: ec2test.ImageX86, UserData: "#!/bin/sh\n",
	Offering: cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand},
}

// others are further offerings of the same market.
func others(o cloud.Offering) []cloud.Offering {
	type2, zone2 := o, o
	type2.Type, zone2.Zone = "m5.large", "us-east-1b"
	return []cloud.Offering{zone2, type2}
}

func poolOf(o cloud.Offering) ec2test.Pool {
	return ec2test.Pool{Type: o.Type, Zone: o.Zone, Spot: o.Market == cloud.Spot}
}

func TestConformanceFake(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fleet  string
		action string
		market cloud.Market
	}{
		"by RunInstances":         {"never", "RunInstances", cloud.OnDemand},
		"by RunInstances on spot": {"never", "RunInstances", cloud.Spot},
		"by CreateFleet":          {"always", "CreateFleet", cloud.OnDemand},
		"by CreateFleet on spot":  {"always", "CreateFleet", cloud.Spot},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && (tt.action == "CreateFleet") != (tt.market == cloud.Spot) {
				t.Skip("the same call on the other market: slow, run by make test")
			}
			t.Parallel()
			choice := tt.action == "CreateFleet"
			cloudtest.Conformance(t, cloudtest.Harness{Choice: choice, Apart: true, New: func(t *testing.T) cloudtest.Cloud {
				const pageSize, lag = 5, 20 * time.Millisecond
				c := fakeCloud(t, ec2test.Options{
					PageSize: pageSize, Lag: lag / 2, Boot: 5 * time.Millisecond, AddrDelay: 10 * time.Millisecond, Shutdown: 5 * time.Millisecond,
					Image: 15 * time.Millisecond,
				})
				r := request
				r.Offering.Market = tt.market
				ops := map[cloudtest.Op]string{
					cloudtest.Launch: tt.action, cloudtest.List: "DescribeInstances", cloudtest.Terminate: "TerminateInstances",
				}
				open := func() cloud.Provider { return quick{over(t, c.URL(), fakePool(tt.fleet)), lag, choice} }
				return cloudtest.Cloud{
					Provider:    open(),
					Request:     r,
					Reopen:      open,
					Or:          others(r.Offering),
					SetRoom:     func(o cloud.Offering, n int) { c.SetCapacity(poolOf(o), n) },
					Throttle:    func(o cloud.Offering) { c.FailPool(poolOf(o), "RequestLimitExceeded") },
					PageSize:    pageSize,
					FailPage:    func() { c.Fail("DescribeInstances", ec2test.Fault{Code: "InternalError", Skip: 1}) },
					LoseImage:   func() { c.Fail("CreateImage", ec2test.Fault{Lost: true}) },
					CutDelete:   func() { c.Fail("DeleteSnapshot", ec2test.Fault{Code: "UnauthorizedOperation"}) },
					LoseAnswer:  func() { c.Fail(tt.action, ec2test.Fault{Lost: true}) },
					SetCapacity: func(n int) { c.SetCapacity(poolOf(r.Offering), n) },
					Fail:        func(op cloudtest.Op, kind cloud.Kind) { c.Fail(ops[op], ec2test.Fault{Code: codes[kind]}) },
				}
			}})
		})
	}
}
