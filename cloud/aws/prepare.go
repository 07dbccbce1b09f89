package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/burst-hpc/burst/cloud"
)

const opPrepare = "prepare"

// maxUserData is EC2's limit, in bytes before base64.
const maxUserData = 16 << 10

// maxTags is EC2's limit for one resource.
const maxTags = 50

// Prepare implements cloud.Preparer: it resolves images, finds the subnet of
// each offering, shares the launches out between the two calls, and makes
// what they need beside instances (placement groups, launch templates).
//
// RunInstances answers sooner and with addresses, but has room for 5 calls and
// 2 more a second; CreateFleet for 50 and 5. So a launch goes by RunInstances
// while both its buckets have room at once, else by CreateFleet; and by
// CreateFleet whenever EC2 may choose among offerings.
//
// Offerings that cannot be asked for in one call with the first (another count
// of EFA cards or cores, a zone without a subnet) are taken out of the
// request; if none is left, the error says why for each. So it does where the
// account's quotas can never hold the launch.
func (p *Provider) Prepare(ctx context.Context, requests []cloud.LaunchRequest) []error {
	return p.prepare(ctx, requests, true)
}

// prepare shares launches out by the buckets' levels only if asked to: a
// launch that was not prepared must take the same way when it is repeated.
func (p *Provider) prepare(ctx context.Context, requests []cloud.LaunchRequest, share bool) []error {
	errs := make([]error, len(requests))
	known := p.lookUp(ctx, requests)
	ahead := map[string]int{}
	specs := make([]*spec, len(requests))
	for i := range requests {
		r := &requests[i]
		if errs[i] = p.resolve(r, known); errs[i] == nil {
			specs[i], errs[i] = plan(r, p.c.Pools[r.Pool], known, p.skipped)
		}
	}
	p.checkQuotas(ctx, requests, errs)
	for i, r := range requests {
		if errs[i] != nil {
			continue
		}
		specs[i].API = byRunInstances
		if p.fleetWanted(r, share, ahead) {
			specs[i].API = byCreateFleet
		}
	}
	p.finish(ctx, requests, specs, errs)
	return errs
}

// fleetWanted chooses the call, and counts what RunInstances is to carry in ahead.
func (p *Provider) fleetWanted(r cloud.LaunchRequest, share bool, ahead map[string]int) bool {
	switch p.c.Pools[r.Pool].Fleet {
	case "always":
		return true
	case "never":
		return false
	}
	return len(r.Or) > 0 || share && !p.limits.room(byRunInstances, r.Count, ahead)
}

// known is what AWS says of a round's requests, or why it did not.
type known struct {
	zones     map[string]string // of subnets
	zonesErr  error
	types     map[string]typeFacts
	typesErr  error
	images    map[string]string // as asked for -> id
	imageErrs map[string]error  // as asked for
	devices   map[string]image  // by id
}

// lookUp asks for all at once what the requests need and is not known yet.
func (p *Provider) lookUp(ctx context.Context, requests []cloud.LaunchRequest) known {
	k := known{images: map[string]string{}, imageErrs: map[string]error{}, devices: map[string]image{}}
	var subnets, names, images []string
	for _, r := range requests {
		pool, ok := p.c.Pools[r.Pool]
		if !ok {
			continue
		}
		subnets = append(subnets, pool.Subnets...)
		if !slices.Contains(images, r.Image) {
			images = append(images, r.Image)
		}
		if pool.EFA || pool.ThreadsPerCore > 0 {
			for _, o := range r.Offerings() {
				names = append(names, o.Type)
			}
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() { k.zones, k.zonesErr = p.facts.zones.get(ctx, subnets, p.askZones) })
	wg.Go(func() { k.types, k.typesErr = p.facts.types.get(ctx, names, p.askTypes) })
	var mu sync.Mutex
	for _, asked := range images {
		wg.Go(func() {
			id, found, err := p.lookUpImage(ctx, asked)
			mu.Lock()
			defer mu.Unlock()
			k.images[asked], k.imageErrs[asked], k.devices[id] = id, err, found
		})
	}
	wg.Wait()
	return k
}

func (p *Provider) lookUpImage(ctx context.Context, asked string) (string, image, error) {
	if asked == "" {
		return "", image{}, invalid(opPrepare, "the pool names no image")
	}
	id, err := p.resolveImage(ctx, asked)
	if err != nil {
		return "", image{}, failure(opPrepare, fmt.Errorf("resolving image %s: %w", asked, err))
	}
	images, err := p.facts.images.get(ctx, []string{id}, p.askImages)
	if err != nil {
		return "", image{}, failure(opPrepare, fmt.Errorf("looking up image %s: %w", id, err))
	}
	found, ok := images[id]
	if !ok {
		return "", image{}, invalid(opPrepare, "image %s does not exist in region %s, or is not shared with this account", id, p.c.Region)
	}
	return id, found, nil
}

// resolve checks a request by itself and puts the image's id in.
func (p *Provider) resolve(r *cloud.LaunchRequest, k known) error {
	switch _, ok := p.c.Pools[r.Pool]; {
	case !ok:
		return invalid(opPrepare, "provider %q has no pool %q", p.c.Name, r.Pool)
	case r.Token == "" || r.Cluster == "" || r.Count < 1 || r.Count > maxLaunch:
		return invalid(opPrepare, "token %q, cluster %q, count %d of at most %d", r.Token, r.Cluster, r.Count, maxLaunch)
	case len(r.UserData) > maxUserData:
		return invalid(opPrepare, "the user data has %d bytes, EC2 takes %d: shorten the pool's setup commands, or keep them in a file on shared storage", len(r.UserData), maxUserData)
	case len(instanceTags(*r)) > maxTags:
		return invalid(opPrepare, "%d tags, EC2 takes %d for each instance", len(instanceTags(*r)), maxTags)
	case k.imageErrs[r.Image] != nil:
		return k.imageErrs[r.Image]
	case k.zonesErr != nil:
		return failure(opPrepare, fmt.Errorf("looking up the pool's subnets: %w", k.zonesErr))
	}
	r.Image = k.images[r.Image]
	return nil
}

// finish makes placement groups and templates, pools beside each other, and
// writes the Specs.
func (p *Provider) finish(ctx context.Context, requests []cloud.LaunchRequest, specs []*spec, errs []error) {
	byPool := map[string][]int{}
	for i := range specs {
		if errs[i] == nil {
			byPool[requests[i].Cluster+" "+requests[i].Pool] = append(byPool[requests[i].Cluster+" "+requests[i].Pool], i)
		}
	}
	var wg sync.WaitGroup
	for _, members := range byPool {
		wg.Go(func() {
			for _, i := range members {
				errs[i] = p.complete(ctx, &requests[i], specs[i])
			}
		})
	}
	wg.Wait()
}

func (p *Provider) complete(ctx context.Context, r *cloud.LaunchRequest, s *spec) error {
	for _, name := range s.groups() {
		if err := p.placements.ensure(ctx, p, *r, name); err != nil {
			return failure(opPrepare, fmt.Errorf("making placement group %s: %w", name, err))
		}
	}
	if s.API == byCreateFleet {
		t, err := p.templates.ensure(ctx, p, *r, s.machine)
		if err != nil {
			return failure(opPrepare, fmt.Errorf("making the launch template of pool %s: %w", r.Pool, err))
		}
		s.Template = &t
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("writing the settings of launch %s: %w", r.Token, err)
	}
	r.Spec = text
	return nil
}

// skipped tells once what a pool's configuration asks and AWS cannot give.
func (p *Provider) skipped(pool string, err error) {
	if _, told := p.told.LoadOrStore(pool+err.Error(), true); !told {
		p.log.Warn("an offering of the pool is left out", "pool", pool, "error", err)
	}
}
