package vultr

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vultr/govultr/v3"

	"github.com/burst-hpc/burst/cloud"
)

// mostAtOnce is the largest wave of requests that make an instance.
const mostAtOnce = 16

// create asks for the instances of the given numbers: one, then two, then four
// and so on, so that a plan that has none left has cost few begun hours. After a
// wave in which one failed none follows. The error is the first that leaves an
// outcome open, else the first that settles the launch.
func (l *launch) create(ctx context.Context, due []int) error {
	for size := 1; len(due) > 0; size = min(2*size, mostAtOnce) {
		wave := due[:min(size, len(due))]
		due = due[len(wave):]
		if err := ctx.Err(); err != nil {
			return transient(opLaunch, err)
		}
		now := time.Now().UTC()
		begun := make([]line, len(wave))
		for n, i := range wave {
			begun[n] = line{I: i, Begun: now}
		}
		if len(l.book.tags) == 0 {
			begun[0].Tags = tagsOf(l.r, l.spec)
		}
		if err := l.book.write(begun...); err != nil {
			return transient(opLaunch, err)
		}
		made, errs := make([]machine, len(wave)), make([]error, len(wave))
		each(workers, len(wave), func(n int) { made[n], errs[n] = l.p.make(ctx, l.r, l.spec, wave[n]) })
		if err := l.settle(ctx, wave, made, errs); err != nil {
			return err
		}
	}
	return nil
}

// settle writes down what came of a wave.
func (l *launch) settle(ctx context.Context, wave []int, made []machine, errs []error) error {
	var lines []line
	var open, later, over error
	for n, i := range wave {
		err := errs[n]
		switch {
		case err == nil:
			lines = append(lines, line{I: i, ID: made[n].id, At: time.Now().UTC()})
			l.found[i] = made[n]
			l.p.see(made[n])
			continue
		case unsent(err), refused(err):
			lines = append(lines, line{I: i, Refused: true})
		default: // it may have left long after it was written as begun, and not yet have arrived
			said, kind := faultSaid(err)
			lines = append(lines, line{I: i, Begun: time.Now().UTC(), Said: said, Kind: kind})
		}
		var e *cloud.Error
		switch {
		case !errors.As(err, &e) || e.Kind == cloud.Transient:
			open = errors.Join(open, err)
		case !unsent(err) && !refused(err): // its words name a reason, its status does not say that nothing was made
			open = errors.Join(open, &cloud.Error{Kind: cloud.Transient, Op: opLaunch, RetryAfter: e.RetryAfter, Err: e.Err})
		case e.Kind == cloud.Throttled || e.Kind == cloud.Auth:
			later = errors.Join(later, err) // the same request follows
		case over == nil:
			over = l.why(ctx, e)
		}
	}
	if err := l.book.write(lines...); err != nil {
		return transient(opLaunch, err)
	}
	switch {
	case open != nil:
		return open
	case later != nil:
		return later
	}
	return over
}

// maxFaults is how many requests for one instance may meet a server's fault and
// bring nothing: then another plan is worth more than the same request again.
const maxFaults = 3

// denied is why none of the given numbers is to be asked for again, of which by
// now it is known that no request for them has had its effect: a fault's words have
// named a reason for which the next would fail too, or there were too many.
func (l *launch) denied(ctx context.Context, due []int) error {
	for _, i := range due {
		it := l.book.items[i]
		switch {
		case it.said == "":
		case it.kind != cloud.Transient:
			return l.why(ctx, &cloud.Error{Kind: it.kind, Op: opLaunch, Err: errors.New(it.said)})
		case it.faults >= maxFaults:
			return l.why(ctx, &cloud.Error{Kind: cloud.Capacity, Op: opLaunch, Err: fmt.Errorf("%d requests in a row have met a fault of Vultr's: %s", it.faults, it.said)})
		}
	}
	return nil
}

// why settles a refusal. Vultr has no word that is sure to mean that a plan has
// none left, but it says which plans a region has.
func (l *launch) why(ctx context.Context, e *cloud.Error) error {
	settled := *e
	settled.Settled = true
	if e.Kind == cloud.Invalid {
		asked := plan{ID: l.r.Offering.Type, metal: l.spec.Metal}
		l.p.know.available.Drop(asked.kind())
		l.p.know.sshKeys.Drop("") // it may be about a key that is gone
		if have, err := l.p.available(ctx, opLaunch, asked); err == nil && !have[asked.ID] {
			settled.Kind = cloud.Capacity
		}
	}
	if settled.Kind == cloud.Capacity {
		settled.Offering = l.r.Offering
	}
	return &settled
}

// make asks for one instance.
func (p *Provider) make(ctx context.Context, r cloud.LaunchRequest, s spec, i int) (machine, error) {
	name := label(r.Token, i)
	tags := tagsOf(r, s)
	data := r.UserData
	if s.Word {
		word, err := p.word(name)
		if err != nil {
			return machine{}, err
		}
		data = tellWord(word)
	}
	if data != "" {
		data = base64.StdEncoding.EncodeToString([]byte(data))
	}
	no, scheme := false, "root"
	if s.Limited {
		scheme = "limited"
	}
	var m machine
	err := call(ctx, opLaunch, fmt.Sprintf("making a %s in %s for pool %s", r.Offering.Type, s.Region, r.Pool), func(ctx context.Context) error {
		if s.Metal {
			b, _, err := p.api.BareMetalServer.Create(ctx, &govultr.BareMetalCreate{
				Region: s.Region, Plan: r.Offering.Type, Label: name, Hostname: strings.ToLower(name), Tags: tags,
				OsID: s.OS, SnapshotID: s.Snapshot, ImageID: s.Image, SSHKeyIDs: s.SSHKeys, UserScheme: scheme,
				StartupScriptID: s.Script, UserData: data, ActivationEmail: &no,
			})
			if err == nil && (b == nil || b.ID == "") {
				err = errors.New("it has no id")
			}
			if err == nil {
				m = ofMetal(*b)
			}
			return err
		}
		req := &govultr.InstanceCreateReq{
			Region: s.Region, Plan: r.Offering.Type, Label: name, Hostname: strings.ToLower(name), Tags: tags,
			OsID: s.OS, SnapshotID: s.Snapshot, ImageID: s.Image, SSHKeys: s.SSHKeys, UserScheme: scheme,
			ScriptID: s.Script, UserData: data, FirewallGroupID: s.Firewall, ActivationEmail: &no, Backups: "disabled",
		}
		if s.VPC != "" {
			req.AttachVPC = []string{s.VPC}
		}
		if s.VPCOnly {
			req.VPCOnly = &s.VPCOnly
		}
		i, _, err := p.api.Instance.Create(ctx, req)
		if err == nil && (i == nil || i.ID == "") {
			err = errors.New("it has no id")
		}
		if err == nil {
			m = ofCompute(*i)
		}
		return err
	})
	// What was asked for is so, whether or not the answer repeats it.
	m.label, m.tags, m.plan, m.metal = name, tags, r.Offering.Type, s.Metal
	if m.created.IsZero() {
		m.created = time.Now()
	}
	return m, err
}
