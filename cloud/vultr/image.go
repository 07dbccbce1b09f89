package vultr

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud"
)

// What an image's text begins with, where it does not say by its form what it is.
const (
	byOS       = "os:"
	bySnapshot = "snapshot:"
	byImage    = "image:"
)

var (
	digits = regexp.MustCompile(`^[1-9][0-9]{0,8}$`)
	market = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]*$`) // ids of marketplace images
)

// CheckImage says what is wrong with an image's text; nil: it can be resolved.
func CheckImage(text string) error {
	form, rest := imageForm(text)
	switch {
	case rest == "":
		return errors.New(`names no image: write an operating system's id or name ("os:2136", "os:Debian 12 x64 (bookworm)"), ` +
			`a snapshot's id or description ("snapshot:…") or a marketplace image's id ("image:…")`)
	case form == byImage && !market.MatchString(rest):
		return fmt.Errorf("%q is no id of a marketplace image", rest)
	}
	return nil
}

// imageForm splits an image's text. Without a prefix a number is an operating
// system, a UUID a snapshot, and all else an operating system's name.
func imageForm(text string) (form, rest string) {
	for _, f := range []string{byOS, bySnapshot, byImage} {
		if rest, ok := strings.CutPrefix(text, f); ok {
			return f, strings.TrimSpace(rest)
		}
	}
	if uuid.MatchString(text) {
		return bySnapshot, text
	}
	return byOS, strings.TrimSpace(text)
}

// FromSnapshot says whether an image's text names a snapshot, of which Vultr launches
// 10 to 15 minutes more slowly than of an operating system:
// https://docs.vultr.com/support/products/orchestration/how-long-will-my-snapshot-take-to-complete
func FromSnapshot(image string) bool {
	form, _ := imageForm(image)
	return form == bySnapshot
}

// resolve puts the image of a launch into its spec, by id.
func (p *Provider) resolve(ctx context.Context, op, text string, s *spec) error {
	if err := CheckImage(text); err != nil {
		return invalid(op, "image %q %v", text, err)
	}
	form, rest := imageForm(text)
	var err error
	switch {
	case form == byImage:
		s.Image = rest
	case form == bySnapshot:
		s.Snapshot, err = p.snapshot(ctx, op, rest)
	case digits.MatchString(rest):
		s.OS, err = strconv.Atoi(rest)
	default:
		s.OS, err = p.osNamed(ctx, op, rest)
	}
	return err
}

// osNamed is the id of an operating system by its name, as Vultr has it.
func (p *Provider) osNamed(ctx context.Context, op, name string) (int, error) {
	all, ok := p.know.systems.Get("", listsAge)
	if !ok {
		var err error
		all, err = listed(ctx, p, op, list[govultr.OS]{
			what: "listing operating systems",
			id:   func(s govultr.OS) string { return strconv.Itoa(s.ID) },
			read: func(ctx context.Context, at *govultr.ListOptions) ([]govultr.OS, *govultr.Meta, error) {
				part, meta, _, err := p.api.OS.List(ctx, at)
				return part, meta, err
			}})
		if err != nil {
			return 0, err
		}
		p.know.systems.Put("", all)
	}
	var near []string
	for _, os := range all {
		if strings.EqualFold(os.Name, name) {
			return os.ID, nil
		}
		if first, _, _ := strings.Cut(name, " "); strings.HasPrefix(strings.ToLower(os.Name), strings.ToLower(first)) {
			near = append(near, strconv.Quote(os.Name))
		}
	}
	if len(near) > 0 {
		return 0, invalid(op, "Vultr has no operating system %q; it has %s", name, strings.Join(near, ", "))
	}
	return 0, invalid(op, "Vultr has no operating system %q: write its whole name, as in \"Debian 12 x64 (bookworm)\", or its id", name)
}

// snapshot is the id of a complete snapshot, by id or by description: of several
// with one description the newest, so that a site's new image is taken up.
func (p *Provider) snapshot(ctx context.Context, op, name string) (string, error) {
	if id, ok := p.know.snapshots.Get(name, imageAge); ok {
		return id, nil
	}
	found, err := p.snapshots(ctx, op, name)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", invalid(op, "this account has no snapshot %s", name)
	}
	complete := slices.DeleteFunc(slices.Clone(found), func(s govultr.Snapshot) bool { return s.Status != "complete" })
	if len(complete) == 0 {
		return "", &cloud.Error{Kind: cloud.Transient, Op: op, Err: fmt.Errorf("snapshot %s is %s, not complete", name, found[0].Status)}
	}
	newest := slices.MaxFunc(complete, func(a, b govultr.Snapshot) int { return when(a.DateCreated).Compare(when(b.DateCreated)) })
	p.know.snapshots.Put(name, newest.ID)
	return newest.ID, nil
}

func (p *Provider) snapshots(ctx context.Context, op, name string) ([]govultr.Snapshot, error) {
	if uuid.MatchString(name) {
		var s *govultr.Snapshot
		err := call(ctx, op, "asking for snapshot "+name, func(ctx context.Context) (err error) {
			s, _, err = p.api.Snapshot.Get(ctx, name)
			if err == nil && s == nil {
				err = errors.New("it is no snapshot")
			}
			return err
		})
		if notFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []govultr.Snapshot{*s}, nil
	}
	all, err := p.allSnapshots(ctx, op)
	return slices.DeleteFunc(all, func(s govultr.Snapshot) bool { return s.Description != name }), err
}

func (p *Provider) allSnapshots(ctx context.Context, op string) ([]govultr.Snapshot, error) {
	return listed(ctx, p, op, list[govultr.Snapshot]{
		what: "listing snapshots",
		id:   func(s govultr.Snapshot) string { return s.ID },
		read: func(ctx context.Context, at *govultr.ListOptions) ([]govultr.Snapshot, *govultr.Meta, error) {
			part, meta, _, err := p.api.Snapshot.List(ctx, at)
			return part, meta, err
		}})
}
