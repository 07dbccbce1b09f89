package config

import (
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud/aws"
	"github.com/burst-hpc/burst/cloud/vultr"
)

// TestPlace: whatever has a provider list other instances makes it another place, and no
// password is in it.
func TestPlace(t *testing.T) {
	all := []Provider{
		{Kind: "local", Local: Local{Dir: "/a"}}, {Kind: "local", Local: Local{Dir: "/b"}},
		{Kind: "aws", AWS: aws.Config{Region: "us-east-1"}}, {Kind: "aws", AWS: aws.Config{Region: "eu-west-1"}},
		{Kind: "aws", AWS: aws.Config{Region: "us-east-1", Profile: "p"}},
		{Kind: "aws", AWS: aws.Config{Region: "us-east-1", Endpoint: "http://x"}},
		{Kind: "aws", AWS: aws.Config{Region: "us-east-1", Endpoints: map[string]string{"ec2": "http://x"}}},
		{Kind: "vultr", Vultr: vultr.Config{Region: "lhr"}}, {Kind: "vultr", Vultr: vultr.Config{Region: "ewr"}},
		{Kind: "vultr", Vultr: vultr.Config{Region: "lhr", KeyFile: "/k"}},
		{Kind: "vultr", Vultr: vultr.Config{Region: "lhr", Endpoint: "http://u:secret@x"}},
	}
	seen := map[string]bool{}
	for _, p := range all {
		place := p.Place()
		if seen[place] || place == "" || strings.Contains(place, "secret") {
			t.Errorf("%q, of %+v", place, p)
		}
		seen[place] = true
	}
	a, b := all[2], all[2]
	a.Name, b.Name, b.PriceTable = "a", "b", "/prices"
	b.AWS.Pools = map[string]aws.Pool{"p": {Key: "k"}}
	if a.Place() != b.Place() {
		t.Errorf("%q is not %q", a.Place(), b.Place())
	}
}
