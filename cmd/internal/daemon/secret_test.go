package daemon

import (
	"encoding/base64"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud/aws/ec2test"
	"github.com/burst-hpc/burst/cloud/bootstrap"
	"github.com/burst-hpc/burst/cmd/internal/api"
	"github.com/burst-hpc/burst/cmd/internal/config"
)

// Secrets that a burstd on AWS has, each a word that is nowhere else.
const (
	secretKey    = "NeverInAnyLogSecretKey0123456789abcdefgh"
	sessionToken = "NeverInAnyLogSessionToken0123456789"
)

// TestSecretsAreNowhere: burstd launches, is refused and told wrong things by
// the cloud with all of its log on, and neither that, nor its journal, its
// metrics, its answers or its nodes' user data have a secret.
func TestSecretsAreNowhere(t *testing.T) {
	cloud := ec2test.New(ec2test.Options{})
	if err := cloud.Start(); err != nil {
		t.Fatal(err)
	}
	defer cloud.Close()
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": secretKey, "AWS_SESSION_TOKEN": sessionToken,
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	s := newSite(t)
	s.level = slog.LevelDebug
	aws := strings.NewReplacer("ENDPOINT", cloud.URL(), "ami-0123456789abcdef0", ec2test.ImageX86, "subnet-0a", ec2test.SubnetIn("a"),
		`order = "price-per-core"`, "", `max_price = "0.20"`, "", `"spot-then-on-demand"`, `"on-demand"`).Replace(cloudy)
	s.write("burst.toml", strings.NewReplacer("DIR", s.dir, "USER", s.config.Endpoint.SlurmUser, "METRICS", s.metrics,
		"[provider.here]", "listen = \"127.0.0.1:1\"\n[provider.here]").Replace(text)+aws, 0o644)
	var err error
	if s.config, err = config.Load(s.dir + "/burst.toml"); err != nil {
		t.Fatal(err)
	}
	node := "NodeName=%s CPUAlloc=0 CPUTot=1 NodeAddr=%s NodeHostName=%s State=IDLE+CLOUD+NOT_RESPONDING+POWERING_UP RealMemory=500 Partitions=cloud\n"
	s.write("nodes", strings.ReplaceAll(node, "%s", "c1")+strings.ReplaceAll(node, "%s", "c2"), 0o644)
	s.write("bin/scontrol", "#!/bin/sh\n[ \"$1 $2 $3\" != '-o show nodes' ] || cat "+s.dir+"/nodes\n", 0o755)
	s.write("bin/squeue", "#!/bin/sh\n", 0o755)
	cloud.Fail("RunInstances", ec2test.Fault{Code: "AuthFailure", Message: "AWS was not able to validate the provided access credentials"})
	cloud.Fail("CreateFleet", ec2test.Fault{Code: "AuthFailure", Message: "AWS was not able to validate the provided access credentials"})
	r := s.start()
	if err := r.AddOrder(t.Context(), api.NewOrder(api.Resume, "c[1-2]", "")); err != nil {
		t.Fatal(err)
	}
	r.until("an instance runs", func() bool { return cloud.Live() > 0 })
	r.until("it is in the journal", func() bool { st, err := r.Status(t.Context()); return err == nil && st.Instances > 0 })
	r.until("metrics", func() bool { return r.scrape() != "" })

	seen := map[string]string{"the log": r.log.String(), "the metrics": r.scrape()}
	if !strings.Contains(seen["the log"], "level=DEBUG") || !strings.Contains(seen["the log"], "validate the provided access credentials") {
		t.Errorf("the log has not what could betray a secret:\n%s", seen["the log"])
	}
	for _, i := range cloud.Instances() {
		if !strings.Contains(i.Spec.UserData, "burst-bootstrap") {
			t.Errorf("user data %.80q", i.Spec.UserData)
		}
		seen["the user data of "+i.ID] = i.Spec.UserData
		for k, v := range i.Tags {
			seen["the tags of "+i.ID] += k + "=" + v + "\n"
		}
	}
	for _, p := range s.config.Pools {
		if p.Power.Provider == "east" {
			if seen["the user data, unpacked"], err = bootstrap.Script(p.Boot); err != nil {
				t.Error(err)
			}
		}
	}
	events, err := r.Events(t.Context(), 0, 0)
	if err != nil || len(events) == 0 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	r.finish() // the journal's files are whole
	if err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		seen[path] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(seen[s.config.Endpoint.DB()], events[0].Text) {
		t.Errorf("%d files were read, and the journal's events are not in them", len(seen))
	}
	for what, text := range seen {
		for _, secret := range []string{secretKey, sessionToken, base64.StdEncoding.EncodeToString([]byte(secretKey))} {
			if i := strings.Index(text, secret); i >= 0 {
				t.Errorf("%s has a secret: …%.200q", what, text[max(0, i-100):])
			}
		}
	}
}
