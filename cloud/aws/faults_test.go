package aws_test

import (
	"crypto/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/aws/ec2test"
)

func launchOf(count int, or ...cloud.Offering) cloud.LaunchRequest {
	r := request
	r.Token, r.Cluster, r.Pool, r.Count, r.Or = "t-"+rand.Text(), "c-1", "pool", count, or
	return r
}

// about finds the error about an offering.
func about(err error, o cloud.Offering) *cloud.Error {
	all := cloud.Errors(err)
	i := slices.IndexFunc(all, func(e *cloud.Error) bool { return e.Offering == o })
	if i < 0 {
		return nil
	}
	return all[i]
}

func TestFleetWithBothErrors(t *testing.T) {
	c := fakeCloud(t, ec2test.Options{})
	p := over(t, c.URL(), fakePool(""))
	r := launchOf(5, others(request.Offering)...)
	c.SetCapacity(poolOf(r.Offering), 2)
	c.FailPool(poolOf(r.Or[0]), "RequestLimitExceeded")
	c.SetCapacity(poolOf(r.Or[1]), 1)
	got, err := p.Launch(t.Context(), r)
	if len(got) != 3 {
		t.Errorf("got %d instances, want the 3 that there is room for", len(got))
	}
	for o, kind := range map[cloud.Offering]cloud.Kind{r.Offering: cloud.Capacity, r.Or[0]: cloud.Throttled, r.Or[1]: cloud.Capacity} {
		if e := about(err, o); e == nil || e.Kind != kind || !e.Settled {
			t.Errorf("the error about %s is %+v, want a settled one of kind %s", o, e, kind)
		}
	}
	again, err := p.Launch(t.Context(), r)
	if len(again) != 3 || err == nil || c.Live() != 3 {
		t.Errorf("a repeat returns %d, %v, and %d are live, want 3 and the errors again", len(again), err, c.Live())
	}
}

func TestPartialFleetOfAnAllOrNothingLaunch(t *testing.T) {
	c := fakeCloud(t, ec2test.Options{})
	p := over(t, c.URL(), fakePool(""))
	r := launchOf(4, others(request.Offering)...)
	r.AllOrNothing = true
	for _, o := range r.Offerings() {
		c.SetCapacity(poolOf(o), 3)
	}
	got, err := p.Launch(t.Context(), r)
	if len(got) != 0 || cloud.KindOf(err) != cloud.Capacity || c.Live() != 0 {
		t.Errorf("got %d, %v, and %d are live, want none for lack of capacity", len(got), err, c.Live())
	}
	r = launchOf(3, others(request.Offering)...)
	r.AllOrNothing = true
	got, err = p.Launch(t.Context(), r)
	if err != nil || len(got) != 3 {
		t.Fatalf("got %d, %v, want 3", len(got), err)
	}
	for _, i := range got {
		if i.Offering != got[0].Offering {
			t.Errorf("offerings are mixed: %s and %s", i.Offering, got[0].Offering)
		}
	}
}

// TestInvisible: what EC2 does not show for a minute is found by its token, and not launched twice.
func TestInvisible(t *testing.T) {
	for _, fleet := range []string{"never", "always"} {
		t.Run("fleet "+fleet, func(t *testing.T) {
			c := fakeCloud(t, ec2test.Options{Lag: time.Minute, AddrDelay: time.Minute})
			r := launchOf(3)
			first, err := over(t, c.URL(), fakePool(fleet)).Launch(t.Context(), r)
			if err != nil || len(first) != 3 {
				t.Fatalf("got %d, %v, want 3", len(first), err)
			}
			p := over(t, c.URL(), fakePool(fleet)) // as after a crash
			if hidden, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1"}); err != nil || len(hidden) != 0 {
				t.Errorf("listed are %d, %v, want none yet", len(hidden), err)
			}
			again, err := p.Launch(t.Context(), r)
			if err != nil || len(again) != 3 || c.Live() != 3 {
				t.Errorf("a repeat returns %d, %v, and %d are live, want the same 3", len(again), err, c.Live())
			}
			c.Advance(time.Minute)
			shown, err := p.List(t.Context(), cloud.Filter{Cluster: "c-1", Tokens: []string{r.Token}})
			if err != nil || len(shown) != 3 || shown[0].Addr == "" {
				t.Errorf("listed after a minute are %v, %v, want 3 with addresses", shown, err)
			}
		})
	}
}

func TestAnswerLost(t *testing.T) {
	for fleet, action := range map[string]string{"never": "RunInstances", "always": "CreateFleet"} {
		t.Run(action, func(t *testing.T) {
			c := fakeCloud(t, ec2test.Options{})
			c.Fail(action, ec2test.Fault{Lost: true, Times: 2})
			r := launchOf(3)
			for range 2 {
				_, err := over(t, c.URL(), fakePool(fleet)).Launch(t.Context(), r)
				if cloud.KindOf(err) != cloud.Transient || slices.ContainsFunc(cloud.Errors(err), func(e *cloud.Error) bool { return e.Settled }) {
					t.Fatalf("the error is %v, want a transient one that settles nothing", err)
				}
			}
			got, err := over(t, c.URL(), fakePool(fleet)).Launch(t.Context(), r)
			if err != nil || len(got) != 3 || c.Live() != 3 || c.Calls(action) != 3 {
				t.Errorf("got %d, %v, with %d live after %d calls, want 3 and 3 after 3", len(got), err, c.Live(), c.Calls(action))
			}
		})
	}
}

// TestRefusedAccount: nothing is launched, the error says what to mend, each
// call is made once, and all is well when it is mended.
func TestRefusedAccount(t *testing.T) {
	for name, tt := range map[string]struct {
		begin, end func(*ec2test.Cloud)
		code, hint string
	}{
		"expired token": {
			func(c *ec2test.Cloud) { c.Refuse("ExpiredToken") }, func(c *ec2test.Cloud) { c.Refuse("") }, "ExpiredToken", "renew",
		},
		"bad credentials": {
			func(c *ec2test.Cloud) { c.Refuse("AuthFailure") }, func(c *ec2test.Cloud) { c.Refuse("") }, "AuthFailure", "credentials",
		},
		"clock an hour behind": {
			func(c *ec2test.Cloud) { c.SetSkew(time.Hour) }, func(c *ec2test.Cloud) { c.SetSkew(0) }, "RequestExpired", "clock",
		},
		"clock an hour ahead": {
			func(c *ec2test.Cloud) { c.SetSkew(-time.Hour) }, func(c *ec2test.Cloud) { c.SetSkew(0) }, "RequestExpired", "clock",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fakeCloud(t, ec2test.Options{})
			p := over(t, c.URL(), fakePool("never"))
			prepared := []cloud.LaunchRequest{launchOf(2)}
			if err := p.Prepare(t.Context(), prepared)[0]; err != nil {
				t.Fatal(err)
			}
			tt.begin(c)
			before := c.Calls("")
			_, err := over(t, c.URL(), fakePool("never")).Launch(t.Context(), prepared[0])
			all := cloud.Errors(err)
			if len(all) != 1 || all[0].Kind != cloud.Auth || all[0].Code != tt.code || !strings.Contains(err.Error(), tt.hint) {
				t.Errorf("the error is %v, want one of kind auth with code %s and the hint %q", err, tt.code, tt.hint)
			}
			if n := c.Calls("") - before; n != 1 || c.Live() != 0 {
				t.Errorf("%d calls and %d instances, want 1 and 0", n, c.Live())
			}
			tt.end(c)
			got, err := over(t, c.URL(), fakePool("never")).Launch(t.Context(), prepared[0])
			if err != nil || len(got) != 2 || c.Live() != 2 {
				t.Errorf("afterwards: %d instances, %v, %d live, want 2", len(got), err, c.Live())
			}
		})
	}
}

// TestRealBuckets launches 20 pools' worth at once: the provider must pass
// EC2's buckets without being refused.
func TestRealBuckets(t *testing.T) {
	c := fakeCloud(t, ec2test.Options{Throttle: true})
	p := over(t, c.URL(), fakePool(""))
	var round []cloud.LaunchRequest
	for range 20 {
		round = append(round, launchOf(50))
	}
	for i, err := range p.Prepare(t.Context(), round) {
		if err != nil {
			t.Fatalf("preparing launch %d: %v", i, err)
		}
	}
	errs := make(chan error)
	for _, r := range round {
		go func() {
			_, err := p.Launch(t.Context(), r)
			errs <- err
		}()
	}
	for range round {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if c.Live() != 1000 {
		t.Errorf("%d instances, want 1,000", c.Live())
	}
	for _, call := range c.Log() {
		if call.Code == "RequestLimitExceeded" {
			t.Errorf("%s was refused: the limiter let it pass too soon", call.Action)
		}
	}
	if run, fleet := c.Calls("RunInstances"), c.Calls("CreateFleet"); run == 0 || run > 6 || run+fleet != 20 {
		t.Errorf("%d RunInstances and %d CreateFleet, want 20 calls, of them as many RunInstances as go at once", run, fleet)
	}
}

// TestOthersEmptyTheBucket: throttled is neither capacity nor settled, and the
// same request succeeds later.
func TestOthersEmptyTheBucket(t *testing.T) {
	t.Parallel()
	c := fakeCloud(t, ec2test.Options{})
	p := over(t, c.URL(), fakePool("never"))
	r := launchOf(2)
	c.Fail("RunInstances", ec2test.Fault{Code: "RequestLimitExceeded"})
	_, err := p.Launch(t.Context(), r)
	all := cloud.Errors(err)
	if len(all) != 1 || all[0].Kind != cloud.Throttled || all[0].Settled {
		t.Fatalf("the error is %v, want one of kind throttled that settles nothing", err)
	}
	if got, err := p.Launch(t.Context(), r); err != nil || len(got) != 2 {
		t.Errorf("the same again: %d, %v, want 2", len(got), err)
	}
}

// TestRefusedLaunches: what only a launch can tell is one clear, settled error.
func TestRefusedLaunches(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		offering cloud.Offering
		image    string
		pool     func(*aws.Pool)
		fault    func(*ec2test.Cloud)
		kind     cloud.Kind
	}{
		"unknown type": {offering: cloud.Offering{Type: "c99.huge", Zone: "us-east-1a", Market: cloud.OnDemand}, kind: cloud.Invalid},
		"architecture": {image: ec2test.ImageARM, kind: cloud.Invalid},
		"type not in the zone": {
			offering: cloud.Offering{Type: "hpc6a.48xlarge", Zone: "us-east-1a", Market: cloud.OnDemand}, kind: cloud.Capacity,
		},
		"subnet of another VPC": {pool: func(p *aws.Pool) { p.Subnets = []string{ec2test.SubnetElsewhere} }, kind: cloud.Invalid},
		"unknown key":           {pool: func(p *aws.Pool) { p.Key = "nobody" }, kind: cloud.Invalid},
		"unknown image":         {image: "ami-0123456789abcdef0", kind: cloud.Invalid},
		"quota":                 {fault: func(c *ec2test.Cloud) { c.SetQuota(false, 1) }, kind: cloud.Quota},
		"no capacity":           {fault: func(c *ec2test.Cloud) { c.SetCapacity(poolOf(request.Offering), 0) }, kind: cloud.Capacity},
	} {
		for _, fleet := range []string{"never", "always"} {
			t.Run(name+", fleet "+fleet, func(t *testing.T) {
				c := fakeCloud(t, ec2test.Options{})
				if tt.fault != nil {
					tt.fault(c)
				}
				pool := fakePool(fleet)
				if tt.pool != nil {
					tt.pool(&pool)
				}
				r := launchOf(2)
				if tt.image != "" {
					r.Image = tt.image
				}
				if tt.offering.Type != "" {
					r.Offering = tt.offering
				}
				got, err := over(t, c.URL(), pool).Launch(t.Context(), r)
				all := cloud.Errors(err)
				if len(got) != 0 || len(all) != 1 || all[0].Kind != tt.kind || c.Live() != 0 {
					t.Fatalf("got %d, %v, want one error of kind %s", len(got), err, tt.kind)
				}
				if all[0].Op == "launch" && !all[0].Settled { // what Prepare refuses was never launched
					t.Errorf("%v is not settled", err)
				}
			})
		}
	}
}

// TestEndIsExplained: an instance whose volume cannot be decrypted ends after a good answer, and the list says why.
func TestEndIsExplained(t *testing.T) {
	c := fakeCloud(t, ec2test.Options{Boot: time.Minute})
	p := over(t, c.URL(), fakePool("never"))
	c.NextBoots(1, ec2test.NoKey)
	r := launchOf(2)
	if got, err := p.Launch(t.Context(), r); len(got) != 2 || err != nil {
		t.Fatalf("launched %+v, %v", got, err)
	}
	c.Advance(2 * time.Minute)
	got, err := p.List(t.Context(), cloud.Filter{Cluster: r.Cluster})
	if err != nil || len(got) != 2 {
		t.Fatalf("listed %+v, %v", got, err)
	}
	for _, i := range got {
		if told := strings.HasPrefix(i.Why, "Client.InternalError; as a rule EC2 may not use the KMS key"); told != (i.State == cloud.Terminated) || i.State.Live() && i.Why != "" {
			t.Errorf("%s is %s: %q", i.ID, i.State, i.Why)
		}
	}
}
