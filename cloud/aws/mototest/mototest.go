// Package mototest runs moto, an emulator of AWS by others, for tests: an
// independent reading of the requests that we send.
package mototest

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/burst-hpc/burst/cloud/aws/mototest/motoserver"
	"github.com/burst-hpc/burst/cloud/aws/wholebody"
)

// Region is where everything is.
const Region = "us-east-1"

// Moto is a running emulator with a site's network, an image and a parameter.
type Moto struct {
	Endpoint      string // of all services
	VPC           string
	Subnets       []Subnet // one for each CIDR, in the zones us-east-1a, us-east-1b, us-east-1a …
	SecurityGroup string
	Image         string // x86_64, root volume /dev/xvda
	ImageARM      string // arm64
	Parameter     string // of SSM, whose value is Image
	EC2           *ec2.Client

	cidrs  []string
	config aws.Config
}

// Subnet is one of the site's.
type Subnet struct{ ID, Zone, CIDR string }

// environment is where the SDK finds credentials that no cloud would take,
// and nothing else.
var environment = map[string]string{
	"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
	"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
}

// Env is environment for child processes, or for all tests of a package.
func Env() []string {
	var env []string
	for name, value := range environment {
		env = append(env, name+"="+value)
	}
	return env
}

// Options are what a test may choose.
type Options struct {
	// CIDRs are the subnets' addresses, all within one /16; by default
	// 10.0.0.0/20 and 10.0.16.0/20.
	CIDRs []string
	// Outside says that only other processes ask moto, with Env: the test's own
	// environment stays as it is, and the test may be parallel.
	Outside bool
}

// Start runs moto until the test ends, and sets credentials in the test's
// environment that no cloud would take, unless all is Outside.
func Start(t testing.TB, o Options) *Moto {
	t.Helper()
	if len(o.CIDRs) == 0 {
		o.CIDRs = []string{"10.0.0.0/20", "10.0.16.0/20"}
	}
	if !o.Outside {
		for name, value := range environment {
			t.Setenv(name, value)
		}
	}
	endpoint := serve(t)
	m := &Moto{Endpoint: endpoint, cidrs: o.CIDRs, config: aws.Config{
		Region: Region, BaseEndpoint: &endpoint, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: wholebody.Client{HTTPClient: http.DefaultClient},
		Retryer:    func() aws.Retryer { return aws.NopRetryer{} }, // what moto lacks is an HTTP 500
	}}
	m.EC2 = ec2.NewFromConfig(m.config)
	m.furnish(t)
	return m
}

// Reset empties the emulator and makes the site anew; its ids change.
func (m *Moto) Reset(t testing.TB) {
	t.Helper()
	answer, err := http.Post(m.Endpoint+"/moto-api/reset", "", nil)
	if err != nil {
		t.Fatalf("resetting moto: %v", err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("resetting moto: %s", answer.Status)
	}
	m.furnish(t)
}

// serve starts moto until the test ends.
func serve(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	amis := filepath.Join(dir, "images.json")
	if err := os.WriteFile(amis, images, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := motoserver.Start(t.Context(), dir, "MOTO_AMIS_PATH="+amis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.Endpoint
}
