package stopall

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/ec2test"
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
	pool := aws.Pool{Subnets: []string{ec2test.SubnetIn("a")}, SecurityGroups: []string{ec2test.SecurityGroup}, Fleet: "never"}
	p, err := aws.New(t.Context(), aws.Config{Name: "test", Region: "us-east-1", Endpoint: c.URL(), Pools: map[string]aws.Pool{"p": pool}})
	if err != nil {
		t.Fatal(err)
	}
	for cluster, count := range map[string]int{"own": 30, "other": 3} {
		r := cloud.LaunchRequest{Token: "t-" + cluster, Cluster: cluster, Pool: "p", Count: count, Image: ec2test.ImageX86, UserData: "#!/bin/sh\n",
			Offering: cloud.Offering{Type: "c6i.large", Zone: "us-east-1a", Market: cloud.OnDemand}}
		if errs := p.Prepare(t.Context(), []cloud.LaunchRequest{r}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		if _, err := p.Launch(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	census := func(want string) {
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
	census("map[other:3 own:30]")
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
	census("map[other:3]")
}
