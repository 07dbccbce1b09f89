package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/mototest"
	"github.com/burst-hpc/burst/cmd/internal/api/apitest"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/cmd/internal/imaging"
)

// ami stands between the command and moto, and does what moto lacks: consoles say what a
// test wants, as no machine is behind moto's instances; CreateImage takes the tags of snapshots, and its
// images may stay pending.
type ami struct {
	*testing.T
	m      *mototest.Moto
	dir    string
	url    string
	burstd apitest.Backend

	mu       sync.Mutex
	console  string
	pending  bool
	hidden   time.Time   // until then no snapshots are shown
	snapTags []types.Tag // of the image that is asked for

	out bytes.Buffer
	err strings.Builder
}

func newAMI(t *testing.T) *ami {
	t.Helper()
	a := &ami{T: t, m: mototest.Start(t, mototest.Options{Outside: true}), dir: t.TempDir()}
	target, err := url.Parse(a.m.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = a.answer
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := a.ask(r); text != "" {
			fmt.Fprint(w, text)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.url = server.URL
	t.Cleanup(serveAt(t, &a.burstd, filepath.Join(a.dir, "s")))
	prices := filepath.Join(a.dir, "prices.csv")
	for path, text := range map[string]string{filepath.Join(a.dir, "cluster-id"): "f00d", prices: "type,zone,market,usd_per_hour,date\nc6i.large,,on-demand,3600,2026-01-01\n",
		a.toml(): fmt.Sprintf(`cluster = "c"
[daemon]
state = %[1]q
socket = "%[1]s/s"
listen = "head.example.org:9811"
[provider.east]
kind = "aws"
region = %[2]q
endpoint = %[3]q
price_table = %[4]q
[pool.a]
provider = "east"
nodes = "a[1-2]"
partition = "cloud"
instance_types = ["m4.large", "c6i.large"]
image = %[5]q
subnets = [%[6]q]
security_groups = [%[7]q]
munge_key = "image"
root = { size = "8G" }
`, a.dir, mototest.Region, a.url, prices, a.m.Image, a.m.Subnets[0].ID, a.m.SecurityGroup)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func (a *ami) toml() string { return filepath.Join(a.dir, "burst.toml") }

// ask changes a request, or answers it.
func (a *ami) ask(r *http.Request) (answer string) {
	text, err := io.ReadAll(r.Body)
	form, perr := url.ParseQuery(string(text))
	if err != nil || perr != nil {
		a.Errorf("reading a request: %v, %v", err, perr)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch form.Get("Action") {
	case "GetConsoleOutput":
		return fmt.Sprintf(`<GetConsoleOutputResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><instanceId>%s</instanceId><output>%s</output></GetConsoleOutputResponse>`,
			form.Get("InstanceId"), base64.StdEncoding.EncodeToString([]byte(a.console)))
	case "CreateImage":
		a.snapTags = nil
		for n := 1; form.Has(fmt.Sprintf("TagSpecification.%d.ResourceType", n)); n++ {
			at := fmt.Sprintf("TagSpecification.%d.", n)
			if form.Get(at+"ResourceType") != "snapshot" {
				continue
			}
			for k := 1; form.Has(fmt.Sprintf("%sTag.%d.Key", at, k)); k++ {
				a.snapTags = append(a.snapTags, types.Tag{Key: aws.String(form.Get(fmt.Sprintf("%sTag.%d.Key", at, k))), Value: aws.String(form.Get(fmt.Sprintf("%sTag.%d.Value", at, k)))})
			}
			for key := range form {
				if strings.HasPrefix(key, at) {
					form.Del(key)
				}
			}
		}
		text = []byte(form.Encode())
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return ""
}

var imageMade = regexp.MustCompile(`(?s)<CreateImageResponse.*<imageId>(ami-\w+)</imageId>`)

var snapshotSet = regexp.MustCompile(`(?s)<snapshotSet>.*</snapshotSet>`)

// answer changes an answer of moto's.
func (a *ami) answer(r *http.Response) error {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if m := imageMade.FindSubmatch(text); m != nil {
		out, err := a.m.EC2.DescribeImages(a.Context(), &ec2.DescribeImagesInput{ImageIds: []string{string(m[1])}})
		if err != nil || len(out.Images) != 1 {
			return fmt.Errorf("looking for image %s: %v", m[1], err)
		}
		snapshot := aws.ToString(out.Images[0].BlockDeviceMappings[0].Ebs.SnapshotId)
		if a.pending {
			a.hidden = time.Now().Add(15 * time.Second)
		}
		if _, err := a.m.EC2.CreateTags(a.Context(), &ec2.CreateTagsInput{Resources: []string{snapshot}, Tags: a.snapTags}); err != nil {
			return err
		}
	}
	if time.Now().Before(a.hidden) {
		text = snapshotSet.ReplaceAll(text, []byte("<snapshotSet/>"))
	}
	if a.pending {
		text = bytes.ReplaceAll(text, []byte("<imageState>available"), []byte("<imageState>pending"))
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	return nil
}

// Write takes what a command says on standard error, which a test reads meanwhile.
func (a *ami) Write(text []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err.Write(text)
}

func (a *ami) said() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err.String()
}

// begin sets what the consoles say, and forgets what was said before.
func (a *ami) begin(t *testing.T, console string) {
	cfg, err := config.Load(a.toml())
	if err != nil {
		t.Fatal(err)
	}
	a.burstd.SetStatus(heardBy(cfg)) // which asks moto, by way of a
	a.mu.Lock()
	defer a.mu.Unlock()
	a.T, a.console = t, console
	a.err.Reset()
	a.out.Reset()
}

func (a *ami) build(ctx context.Context) error {
	return runImageBuild(ctx, streams{&a.out, a}, imageBuildOptions{config: a.toml(), pool: "a", within: 20 * time.Minute})
}

// has checks what is in moto: images of ours with their snapshots, and no instance.
func (a *ami) has(images int) {
	a.Helper()
	for _, i := range a.m.Instances(a.T) {
		if i.State != "terminated" || i.Type != "c6i.large" || i.Spot || i.Tags["burst:cluster"] != "f00d" || !strings.HasPrefix(i.Tags["burst:token"], "image-") {
			a.Errorf("instance %+v", i)
		}
	}
	ours := []types.Filter{{Name: aws.String("tag:burst:cluster"), Values: []string{"f00d"}}}
	i, err := a.m.EC2.DescribeImages(a.Context(), &ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: ours})
	if err != nil || len(i.Images) != images {
		a.Errorf("%d images, %v, want %d", len(i.Images), err, images)
	}
	s, err := a.m.EC2.DescribeSnapshots(a.Context(), &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}, Filters: ours})
	if err != nil || len(s.Snapshots) != images {
		a.Errorf("%d snapshots, %v, want %d", len(s.Snapshots), err, images)
	}
	if left, err := os.ReadDir(string(imaging.LeasesIn(a.dir))); err != nil || len(left) != 0 {
		a.Errorf("leases are left: %v, %v", left, err)
	}
}

func (a *ami) list() []listedImage {
	a.Helper()
	cfg, err := config.Load(a.toml())
	if err != nil {
		a.Fatal(err)
	}
	all, err := allImages(a.Context(), cfg)
	if err != nil {
		a.Fatal(err)
	}
	return all
}

// TestImageBuildOnMoto runs the commands against an emulator that others have written: what it
// reads of the launch, CreateImage, the lists, DeregisterImage and DeleteSnapshot.
func TestImageBuildOnMoto(t *testing.T) {
	if testing.Short() {
		t.Skip("starts moto: slow end-to-end, run by make test")
	}
	t.Parallel()
	a := newAMI(t)
	const ready = "burst-bootstrap: step setup\r\nburst-bootstrap: image ready\r\n"
	t.Run("made, listed, deleted", func(t *testing.T) {
		a.begin(t, ready)
		if err := a.build(t.Context()); err != nil {
			t.Fatalf("%v\n%s", err, a.said())
		}
		a.has(1)
		all := a.list()
		if len(all) != 1 || all[0].State != cloud.ImageAvailable || all[0].Pool != "a" || all[0].Source != a.m.Image || !strings.HasPrefix(all[0].Token, "image-") {
			t.Fatalf("listed is %+v", all)
		}
		id := all[0].ID
		if !strings.HasSuffix(a.out.String(), "write into [pool.a]:\n\nimage = \""+id+"\"\n") {
			t.Errorf("printed:\n%s", a.out.String())
		}
		if !regexp.MustCompile(`the instance cost about [1-9]\d*\.\d{3} USD`).MatchString(a.said()) { // a dollar a second, a minute at least
			t.Errorf("it does not say what the instance cost:\n%s", a.said())
		}
		if b := a.burstd.Builders(); len(b) != 1 || b[0].Token != all[0].Token || b[0].Provider != "east" || b[0].Pool != "a" || b[0].Type != "c6i.large" || b[0].Market != "on-demand" ||
			b[0].Launched.IsZero() || b[0].Ended.Before(b[0].Launched) || !strings.Contains(a.said(), ", which burst cost has\n") {
			t.Errorf("burstd was told to book %+v:\n%s", b, a.said())
		}
		for _, i := range a.m.Instances(t) {
			if !strings.Contains(i.UserData, "BURST") && !strings.HasPrefix(i.UserData, "#!") {
				t.Errorf("user data is %.60q", i.UserData)
			}
		}
		o := imageDeleteOptions{config: a.toml(), ids: []string{id}, yes: true}
		if err := runImageDelete(t.Context(), streams{&a.out, a}, o); err != nil {
			t.Error(err)
		}
		a.has(0)
		if all := a.list(); len(all) != 0 {
			t.Errorf("listed is %+v", all)
		}
	})
	t.Run("the setup fails", func(t *testing.T) {
		a.begin(t, "burst-bootstrap: FAILED: step setup: setup line 2: \"make\": exit 2\r\nno rule to make target\r\n")
		err := a.build(t.Context())
		if err == nil || !strings.Contains(err.Error(), `setup line 2: "make": exit 2`) || !strings.Contains(a.said(), "  no rule to make target\n") {
			t.Errorf("%v\n%s", err, a.said())
		}
		a.has(0)
	})
	t.Run("the red button", func(t *testing.T) {
		a.begin(t, "burst-bootstrap: step setup\r\n")
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- a.build(ctx) }()
		for !strings.Contains(a.said(), "setting it up") && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		pressed := make(chan error, 1)
		go func() {
			var out bytes.Buffer
			pressed <- runStopAll(ctx, streams{&out, &out}, stopAllOptions{config: a.toml(), yes: true})
		}()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "somebody has ended the instance") || ctx.Err() != nil {
			t.Error(err)
		}
		a.has(0)
		a.out.Reset()
		if err := a.build(ctx); err == nil || !strings.Contains(err.Error(), "burstd is paused: burst stop-all") {
			t.Errorf("and another one: %v", err)
		}
		cancel() // the button waits for EC2's lag
		<-pressed
	})
	t.Run("interrupted while the image is made", func(t *testing.T) {
		a.begin(t, ready)
		a.mu.Lock()
		a.pending = true
		a.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- a.build(ctx) }()
		for !strings.Contains(a.said(), "making the image") && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		for len(a.list()) == 0 && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "interrupted, no image is made") {
			t.Error(err)
		}
		a.has(0)
	})
}
