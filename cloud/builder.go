package cloud

import (
	"crypto/rand"
	"strings"
	"time"
)

// builderPrefix begins the tokens of builders, and of nothing else.
const builderPrefix = "image-"

// builderTime is when a builder must be gone, as its token has it.
const builderTime = "20060102T150405Z"

// BuilderToken makes the launch token of an instance of which an image is made.
// It says until when the instance may live, so that whoever lists the cluster's
// instances knows it from the instance's tags alone.
func BuilderToken(until time.Time) string {
	return builderPrefix + until.UTC().Format(builderTime) + "-" + rand.Text()
}

// BuilderUntil is until when a builder may live, by its token; false: it is no builder's.
func BuilderUntil(token string) (time.Time, bool) {
	rest, ours := strings.CutPrefix(token, builderPrefix)
	stamp, _, _ := strings.Cut(rest, "-")
	until, err := time.Parse(builderTime, stamp)
	return until, ours && err == nil
}
