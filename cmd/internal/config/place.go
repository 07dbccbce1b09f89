package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Place is of what cloud, region and account the provider is, as far as the file says it: two
// programs to whom it is the same list the same instances. It holds no secret.
func (p Provider) Place() string {
	words := []string{p.Kind}
	add := func(key, value string) {
		if value != "" {
			words = append(words, key+"="+value)
		}
	}
	address := func(key, value string) {
		if u, err := url.Parse(value); err == nil {
			add(key, u.Redacted())
		}
	}
	switch p.Kind {
	case "local":
		add("dir", p.Local.Dir)
	case "aws":
		add("region", p.AWS.Region)
		add("profile", p.AWS.Profile)
		address("endpoint", p.AWS.Endpoint)
		for _, of := range slices.Sorted(maps.Keys(p.AWS.Endpoints)) {
			address("endpoints."+of, p.AWS.Endpoints[of])
		}
	case "vultr":
		add("region", p.Vultr.Region)
		add("api_key_file", p.Vultr.KeyFile)
		address("endpoint", p.Vultr.Endpoint)
	}
	return strings.Join(words, " ")
}
