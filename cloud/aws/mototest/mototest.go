// Package mototest runs moto, an emulator of AWS by others, for tests: an
// independent reading of the requests that we send.
package mototest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

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

// Env is environment for child processes that do not inherit the test's.
func Env() []string {
	var env []string
	for name, value := range environment {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Options are what a test may choose.
type Options struct {
	// CIDRs are the subnets' addresses, all within one /16; by default
	// 10.0.0.0/20 and 10.0.16.0/20.
	CIDRs []string
}

// Start runs moto until the test ends, and sets credentials in the test's
// environment that no cloud would take.
func Start(t testing.TB, o Options) *Moto {
	t.Helper()
	if len(o.CIDRs) == 0 {
		o.CIDRs = []string{"10.0.0.0/20", "10.0.16.0/20"}
	}
	for name, value := range environment {
		t.Setenv(name, value)
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

// server finds the program that make deps installs.
func server() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the working directory")
		}
	}
	program := filepath.Join(dir, "build", "moto", "bin", "moto_server")
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("moto is not installed (run make deps): %w", err)
	}
	return program, nil
}

// listening is how moto says which port it was given.
var listening = regexp.MustCompile(`Running on (http://127\.0\.0\.1:\d+)`)

// serve starts moto on a free port of this host and waits until it answers.
func serve(t testing.TB) string {
	t.Helper()
	program, err := server()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	amis, path := filepath.Join(dir, "images.json"), filepath.Join(dir, "moto.log")
	if err := os.WriteFile(amis, images, 0o644); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-H", "127.0.0.1", "-p", "0")
	// Moto asks botocore for its regions, which minds an empty AWS_PROFILE.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	cmd.Env = append(cmd.Env, "MOTO_AMIS_PATH="+amis, "PYTHONUNBUFFERED=1")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		// The kernel ends moto with the thread that started it: stay on it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it ends by our signal, or the log says why
		}
	}()
	err = <-started
	_ = log.Close() // moto has its own
	if err != nil {
		t.Fatalf("starting moto: %v (rm -r build/moto and make deps install it anew)", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		said, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if m := listening.FindSubmatch(said); m != nil && answers(ctx, string(m[1])) {
			return string(m[1])
		}
		select {
		case <-ended:
			t.Fatalf("moto ended (rm -r build/moto and make deps install it anew):\n%s", said)
		case <-ctx.Done():
			t.Fatalf("moto does not answer within a minute:\n%s", said)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func answers(ctx context.Context, endpoint string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, endpoint+"/moto-api/data.json", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
