package ec2test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

func TestThrottle(t *testing.T) {
	c, config := open(t, Options{Throttle: true})
	client := ec2.NewFromConfig(config)
	var codes []string
	for range 7 {
		_, err := client.RunInstances(t.Context(), run(1))
		codes = append(codes, code(err))
	}
	if n := strings.Count(strings.Join(codes, " "), "RequestLimitExceeded"); n < 1 || n > 2 {
		t.Errorf("7 launches at once: %q, want 5 to pass, or 6 if they took half a second", codes)
	}
	c.Advance(time.Second)
	if _, err := client.RunInstances(t.Context(), run(990)); err != nil {
		t.Errorf("after a second: %v", err)
	}
	c.Advance(time.Second)
	if _, err := client.RunInstances(t.Context(), run(100)); code(err) != "RequestLimitExceeded" {
		t.Errorf("past the resource bucket: %v", err)
	}
}

func TestFaults(t *testing.T) {
	c, config := open(t, Options{})
	client := ec2.NewFromConfig(config)
	list := func() error {
		_, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		return err
	}
	c.Fail("DescribeInstances", Fault{Code: "InternalError", Skip: 1, Times: 2})
	for i, want := range []string{"", "InternalError", "InternalError", ""} {
		if got := code(list()); got != want {
			t.Errorf("call %d: %q, want %q", i, got, want)
		}
	}
	c.Fail("RunInstances", Fault{Lost: true})
	if _, err := client.RunInstances(t.Context(), run(1)); err == nil || code(err) != "" || c.Live() != 1 {
		t.Errorf("a lost answer: %v, %d live", err, c.Live())
	}
	for _, account := range []string{"ExpiredToken", "AuthFailure"} {
		c.Refuse(account)
		if got := code(list()); got != account {
			t.Errorf("refused: %q", got)
		}
	}
	c.Refuse("")
	c.SetSkew(10 * time.Minute)
	if got := code(list()); got != "RequestExpired" {
		t.Errorf("skewed: %q", got)
	}
	c.SetSkew(0)
	c.NextBoots(1, NeverRuns)
	c.NextBoots(1, DiesAtBirth)
	if _, err := ec2.NewFromConfig(config).RunInstances(t.Context(), run(3)); err != nil {
		t.Fatal(err)
	}
	var states []string
	for _, i := range c.Instances()[1:] {
		states = append(states, i.State)
	}
	if !slices.Equal(states, []string{"pending", "terminated", "running"}) {
		t.Errorf("states are %v", states)
	}
	if c.Calls("RunInstances") != 2 || c.Peak() != 1 || c.Log()[0].Took < time.Millisecond {
		t.Errorf("recorded: %+v, peak %d", c.Log(), c.Peak())
	}
}

func TestOtherServices(t *testing.T) {
	_, config := open(t, Options{})
	out, err := ssm.NewFromConfig(config).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(Parameter)})
	if err != nil || *out.Parameter.Value != ImageX86 {
		t.Errorf("parameter is %v, %v", out, err)
	}
	if _, err := ssm.NewFromConfig(config).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("/x")}); code(err) != "ParameterNotFound" {
		t.Errorf("unknown parameter: %v", err)
	}
	who, err := sts.NewFromConfig(config).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	if err != nil || *who.Account != Account {
		t.Errorf("caller is %v, %v", who, err)
	}
}
