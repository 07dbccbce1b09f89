package bootstrap

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

var mungeKey = bytes.Repeat([]byte{0, 'k', 0xff, '\n'}, 32)

func sum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// serveKey is SSM and Secrets Manager, which check the signature as AWS's SDK makes it.
func (w *world) serveKey(rw http.ResponseWriter, r *http.Request, body []byte) {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		w.Error(err)
	}
	target := r.Header.Get("X-Amz-Target")
	service := "ssm"
	if strings.HasPrefix(target, "secretsmanager.") {
		service = "secretsmanager"
	}
	again, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+r.Host+"/", nil)
	if err != nil {
		w.Error(err)
	}
	for _, h := range []string{"Content-Type", "X-Amz-Target"} {
		again.Header.Set(h, r.Header.Get(h))
	}
	creds := aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "hidden/secret", SessionToken: "session-token"}
	if err := v4.NewSigner().SignHTTP(r.Context(), creds, again, sum(body), service, "eu-north-1", at); err != nil {
		w.Error(err)
	}
	if got, want := r.Header.Get("Authorization"), again.Header.Get("Authorization"); got != want {
		w.Errorf("signed %s\nwant   %s", got, want)
	}
	if !w.passes(rw, fmt.Sprintf("key %s %s", target, body)) {
		return
	}
	text := base64.StdEncoding.EncodeToString(mungeKey)
	if w.mungeKeys != nil {
		text = w.mungeKeys[0]
	}
	if service == "ssm" {
		fmt.Fprintf(rw, `{"Parameter":{"Value":%q}}`, text)
		return
	}
	fmt.Fprintf(rw, `{"SecretString":%q}`, text)
}

func TestTheKeyIsFetched(t *testing.T) {
	for _, tt := range []struct{ from, call string }{
		{"ssm:/burst/munge-key", `@key AmazonSSM.GetParameter {"Name": "/burst/munge-key", "WithDecryption": true}`},
		{"secretsmanager:burst/key", `@key secretsmanager.GetSecretValue {"SecretId": "burst/key"}`},
	} {
		t.Run(tt.from, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(tt.from, "ssm:") {
				oneOfSeveral(t) // the other tests' nodes fetch theirs there
			}
			w := newWorld(t)
			w.config.MungeKey = tt.from
			w.trouble["key"] = 1
			r := w.succeed()
			if r.count(tt.call) != 2 {
				t.Errorf("calls %q", r.calls)
			}
			file := w.root + "/etc/munge/munge.key"
			if got := w.read(file); got != string(mungeKey) {
				t.Errorf("key %q", got)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o400 {
				t.Errorf("%v, %v", info, err)
			}
			if r.index("chown munge:munge ") < 0 || r.index("systemctl restart munge") < r.index("@key") {
				t.Errorf("calls %q", r.calls)
			}
			for _, secret := range []string{"sesame", "hidden/secret", "session-token", base64.StdEncoding.EncodeToString(mungeKey)} {
				if strings.Contains(r.console+w.read(w.root+"/var/log/burst-bootstrap.log"), secret) {
					t.Errorf("%s is in the log", secret)
				}
			}
		})
	}
}
