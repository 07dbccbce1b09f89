package srun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/steprecord"
	"github.com/burst-hpc/burst/slurm/step"
	"github.com/burst-hpc/burst/slurm/step/container"
)

// tagged is what a registry has said of a tag.
type tagged struct {
	Digest string
	Size   int64
}

// slowAnswer is from when on a question that failed was a long wait, which is not to be had again
// by each step that has waited for it.
var slowAnswer = 5 * time.Second

// resolved is which image a registry has under a name. Of a tag all steps of a script's attempt
// take what the first of them was told: they run in one image, and registries count their
// questions and refuse who asks often. Of two that begin at once one asks.
func (p *program) resolved(ctx context.Context, k known, ref container.Ref) (container.Image, error) {
	if k.job.Place != step.Batch || ref.Digest != "" {
		return registry(p.env).Resolve(ctx, ref)
	}
	sign := "tag-" + hexSum([]byte(ref.String()))[:16]
	if image, ok := p.toldBefore(ctx, k, sign, ref); ok {
		return image, nil
	}
	began := time.Now()
	unlock, err := p.lockSign(ctx, k, sign)
	if err != nil {
		return container.Image{}, err
	}
	defer unlock()
	if image, ok := p.toldBefore(ctx, k, sign, ref); ok {
		return image, nil
	}
	if err := failedSince(k, sign, began); err != nil {
		return container.Image{}, err
	}
	asked := time.Now()
	image, err := registry(p.env).Resolve(ctx, ref)
	if err != nil && ctx.Err() == nil && time.Since(asked) >= slowAnswer {
		writeSign(os.TempDir(), k.job, sign+"-failed", fmt.Appendf(nil, "%d %v", time.Now().UnixNano(), err))
	}
	if err == nil {
		if text, err := json.Marshal(tagged{image.Digest, image.Size}); err == nil {
			writeSign(os.TempDir(), k.job, sign, text)
		}
	}
	return image, err
}

// failedSince is how another step's question has ended after a long wait, while this one waited
// for it since then; nil: none has. 32 steps that begin at once would wait one after the other.
func failedSince(k known, sign string, then time.Time) error {
	text, _ := readSign(os.TempDir(), k.job, sign+"-failed")
	at, why, ok := strings.Cut(string(text), " ")
	nanos, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil || nanos < then.UnixNano() {
		return nil
	}
	return errors.New(why)
}

// toldBefore is the image that a step before was told of; false: there was none.
func (p *program) toldBefore(ctx context.Context, k known, sign string, ref container.Ref) (container.Image, bool) {
	var was tagged
	text, ok := readSign(os.TempDir(), k.job, sign)
	if !ok || json.Unmarshal(text, &was) != nil {
		return container.Image{}, false
	}
	ref.Digest, ref.Tag = was.Digest, ""
	same, err := container.Parse(ref.String(), "/")
	if err != nil {
		return container.Image{}, false
	}
	image, err := registry(p.env).Resolve(ctx, same) // which asks nobody about a digest
	image.Size = was.Size
	return image, err == nil
}

// image is what is recorded of the image that a step runs in: its name, and what tells it from
// another of that name; "": it runs on the host.
func (k known) image() string {
	switch {
	case k.inside == nil:
		return ""
	case k.inside.id == "" || k.inside.image.Remote(): // a folder; or the name has the digest
		return k.inside.image.String()
	}
	return k.inside.image.String() + " " + k.inside.id
}

// otherImage says that a step goes on in another image than the one that its checkpoints were
// written in; "": it does not, or that is not known.
func (k known) otherImage(was steprecord.Step) string {
	now, before := k.image(), was.Image
	if before == "" || now == before {
		return ""
	}
	then, _, _ := strings.Cut(before, " sif-")
	switch {
	case now == "":
		return "on the host, and ran in " + then
	case k.inside.image.String() == then:
		return then + ", which has been written anew since"
	}
	return k.inside.image.String() + ", and ran in " + then
}
