package vultr

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/burst-hpc/burst/cloud"
)

// Our tags. Vultr's are plain strings; ours are key=value.
const (
	tagCluster = "burst:cluster"
	tagPool    = "burst:pool"
	tagToken   = "burst:token"
	tagNode    = "burst:node"
	tagNet     = "burst:net" // netVPC: the instance's address is the one in its VPC
)

const netVPC = "vpc"

// maxTag is the longest tag that we write. Vultr publishes no limit for tags,
// and none for labels, of which ours are shorter.
const maxTag = 128

// plain are bytes that stand for themselves in a tag; all others are written as
// %XX, so that a comma, a blank or a word in another script cannot be taken for
// anything else by the console's filters.
func plainByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("._-:/@+", c) >= 0
}

func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if plainByte(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}

// unescape reads what escape wrote; a % that is not of its making stays.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// writeTags makes tags of keys and values, in the order of the keys.
func writeTags(of map[string]string) []string {
	all := make([]string, 0, len(of))
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, escape(key)+"="+escape(of[key]))
	}
	return all
}

// readTags reads tags of key=value; others, which people have added, are not
// there. Of two with one key the first holds.
func readTags(tags []string) map[string]string {
	of := map[string]string{}
	for _, tag := range tags {
		key, value, ok := strings.Cut(tag, "=")
		if !ok {
			continue
		}
		if key = unescape(key); key == "" {
			continue
		}
		if _, have := of[key]; !have {
			of[key] = unescape(value)
		}
	}
	return of
}

// CheckTag says why a site's tag cannot be written; nil: it can.
func CheckTag(key, value string) error {
	switch n := len(escape(key)) + 1 + len(escape(value)); {
	case key == "":
		return fmt.Errorf("a tag has no key")
	case strings.HasPrefix(key, "burst:"):
		return fmt.Errorf("%q is Burst's own: choose another key", key)
	case n > maxTag:
		return fmt.Errorf("%s=%s is %d characters long as Vultr has it: shorten it to %d; all but letters, digits and . _ - : / @ + count three times", key, value, n, maxTag)
	}
	return nil
}

// tagsOf are the tags of a launch. The site's own, and what the engine adds for
// people to read, are left out where they are too long.
func tagsOf(r cloud.LaunchRequest, s spec) []string {
	all := map[string]string{}
	for key, value := range r.Tags {
		if len(escape(key))+1+len(escape(value)) <= maxTag {
			all[key] = value
		}
	}
	delete(all, tagNode)
	delete(all, tagNet)
	all[tagCluster], all[tagPool], all[tagToken] = r.Cluster, r.Pool, r.Token
	if s.VPC != "" {
		all[tagNet] = netVPC
	}
	return writeTags(all)
}

// label is the name of a launch's i-th instance: the same for the same request,
// and no other's.
func label(token string, i int) string { return fmt.Sprintf("burst-%s-%d", token, i) }

var labels = regexp.MustCompile(`^burst-(.+)-(0|[1-9][0-9]{0,3})$`)

// readLabel reads a label; ok is false where it is not one of ours.
func readLabel(text string) (token string, i int, ok bool) {
	m := labels.FindStringSubmatch(text)
	if m == nil {
		return "", 0, false
	}
	i, err := strconv.Atoi(m[2])
	return m[1], i, err == nil
}

// tokens are the launch tokens that may be part of a label and the name of a file.
var tokens = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,79}$`) })
