package aws

import (
	"net/url"
	"testing"

	"github.com/burst-hpc/burst/cloud"
)

// TestAccount: the same text for as long as List looks at the same place.
func TestAccount(t *testing.T) {
	whose := func(c Config, ec2 string, given answer) (string, error) {
		t.Helper()
		p, _ := answering(t, c, map[string]answer{"GetCallerIdentity": given})
		if ec2 != "" {
			p.c.Endpoints, p.c.Endpoint = map[string]string{"sts": p.c.Endpoint, "ec2": ec2}, ""
		}
		return p.Account(t.Context())
	}
	ok := func(url.Values, string) (int, string) { return 200, identity }
	for _, tt := range []struct{ name, region, ec2, want string }{
		{"one region", "us-east-1", "https://ec2.us-east-1.amazonaws.com", "123456789012 in us-east-1"},
		{"by an interface endpoint", "us-east-1", "https://vpce-0aa-bb.ec2.us-east-1.vpce.amazonaws.com", "123456789012 in us-east-1"},
		{"another region", "eu-west-1", "https://ec2.eu-west-1.amazonaws.com", "123456789012 in eu-west-1"},
		{"another cloud that speaks EC2", "us-east-1", "https://cloud.site:8774", "123456789012 in us-east-1 at https://cloud.site:8774"},
	} {
		if got, err := whose(Config{Region: tt.region}, tt.ec2, ok); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
		}
	}
	if got, err := whose(Config{}, "", refusal(403, "InvalidClientTokenId", "no")); got != "" || cloud.KindOf(err) != cloud.Auth {
		t.Errorf("refused: %q, %v", got, err)
	}
	if got, err := whose(Config{}, "", func(url.Values, string) (int, string) { return 200, "<GetCallerIdentityResponse/>" }); got != "" || err == nil {
		t.Errorf("an empty answer: %q, %v", got, err)
	}
}
