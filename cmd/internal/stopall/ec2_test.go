package stopall

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/ec2test"
	"github.com/burst-hpc/burst/cloud/aws/mototest"
)

// quick is EC2 with the lag of an emulator.
type quick struct{ *aws.Provider }

func (q quick) Limits() cloud.Limits {
	l := q.Provider.Limits()
	l.Lag = 100 * time.Millisecond
	return l
}

// TestEC2: in pages, with a refusal and a throttle on the way; another
// cluster's instances live on, and the census tells them apart.
func TestEC2(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null"} {
		t.Setenv(name, value)
	}
	c := ec2test.New(ec2test.Options{PageSize: 7, Lag: 50 * time.Millisecond, Shutdown: 50 * time.Millisecond})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	p := furnish(t, c.URL(), ec2test.ImageX86, aws.Pool{Subnets: []string{ec2test.SubnetIn("a")}, SecurityGroups: []string{ec2test.SecurityGroup}, Fleet: "never"})
	census(t, p, "map[other:3 own:30]")
	c.Fail("TerminateInstances", ec2test.Fault{Code: "UnauthorizedOperation"})
	c.Fail("TerminateInstances", ec2test.Fault{Code: "RequestLimitExceeded"})
	c.Fail("DescribeInstances", ec2test.Fault{Code: "InternalError", Skip: 2})
	var lines []string
	r := Run(t.Context(), map[string]cloud.Provider{"east": quick{p}}, Options{Cluster: "own", Batch: 10, Report: func(p Progress) {
		lines = append(lines, fmt.Sprintf("%d of %d: %v", p.Gone, p.Found, p.Err))
	}})[0]
	if r.Err != nil || r.Ended != 30 || len(r.Left) != 0 {
		t.Errorf("%+v\n%s", r, strings.Join(lines, "\n"))
	}
	census(t, p, "map[other:3]")
}

// TestMoto is the same on an emulator that others have written.
func TestMoto(t *testing.T) {
	if testing.Short() {
		t.Skip("starts moto: slow end-to-end, run by make test")
	}
	m := mototest.Start(t, mototest.Options{})
	p := furnish(t, m.Endpoint, m.Image, aws.Pool{Subnets: []string{m.Subnets[0].ID}, SecurityGroups: []string{m.SecurityGroup}, Fleet: "never", Root: aws.Root{GiB: 8}})
	census(t, p, "map[other:3 own:30]")
	r := Run(t.Context(), map[string]cloud.Provider{"east": quick{p}}, Options{Cluster: "own", Batch: 10})[0]
	if r.Err != nil || r.Ended != 30 || len(r.Left) != 0 {
		t.Errorf("%+v", r)
	}
	census(t, p, "map[other:3]")
	for _, i := range m.Instances(t) {
		if own := i.Tags["burst:cluster"] == "own"; own != (i.State == "terminated") {
			t.Errorf("%s of cluster %s is %s", i.ID, i.Tags["burst:cluster"], i.State)
		}
	}
}

// furnish launches 30 instances of the cluster own and 3 of another.
func furnish(t *testing.T, endpoint, image string, pool aws.Pool) *aws.Provider {
	t.Helper()
	p, err := aws.New(t.Context(), aws.Config{Name: "test", Region: "us-east-1", Endpoint: endpoint, Pools: map[string]aws.Pool{"p": pool}})
	if err != nil {
		t.Fatal(err)
	}
	for cluster, count := range map[string]int{"own": 30, "other": 3} {
		r := []cloud.LaunchRequest{{Token: "t-" + cluster, Cluster: cluster, Pool: "p", Count: count, Image: image, UserData: "#!/bin/sh\n", AllOrNothing: true,
			Offering: cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand}}}
		if errs := p.Prepare(t.Context(), r); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if _, err := p.Launch(t.Context(), r[0]); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// census waits until the provider counts the clusters' instances so.
func census(t *testing.T, p *aws.Provider, want string) {
	t.Helper()
	var got string
	for end := time.Now().Add(10 * time.Second); got != want && time.Now().Before(end); {
		found, err := p.Clusters(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got = fmt.Sprint(found)
	}
	if got != want {
		t.Errorf("the census is %s, want %s", got, want)
	}
}
