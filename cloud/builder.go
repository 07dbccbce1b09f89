package cloud

import (
	"context"
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

// BuilderNeeds is what the instance must have of which an image is made.
type BuilderNeeds struct {
	Types   []string // the pool's, in its order, at least one: nodes of the image are of any of them
	Console bool     // its console must show what is printed there while it runs
}

// BuilderChooser is met by providers to whom the types of a pool are not all alike for that.
type BuilderChooser interface {
	// BuilderType is the one of the types that the builder is to be of. If none will do, an Invalid
	// error says why.
	BuilderType(ctx context.Context, n BuilderNeeds) (string, error)
}
