package aws

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/burst-hpc/burst/cloud"
)

// templates remembers the launch templates that fleets are made from: one for
// each pool, one version for each content. A version says the digest of its
// content in its description, so that any burstd finds it again.
type templates struct {
	mu    sync.Mutex
	pools map[string]*poolTemplate // by name
}

type poolTemplate struct {
	mu       sync.Mutex // held while EC2 is asked: one maker at a time
	id       string
	versions map[string]string    // digest -> number
	used     map[string]time.Time // when a launch was last given this number
}

func (t *templates) of(name string) *poolTemplate {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pools == nil {
		t.pools = map[string]*poolTemplate{}
	}
	if t.pools[name] == nil {
		t.pools[name] = &poolTemplate{}
		t.pools[name].forget()
	}
	return t.pools[name]
}

// forget is called when EC2 does not have what we remember.
func (t *templates) forget(name string) {
	pool := t.of(name)
	pool.mu.Lock()
	defer pool.mu.Unlock()
	pool.forget()
}

func (t *poolTemplate) forget() {
	t.id, t.versions, t.used = "", map[string]string{}, map[string]time.Time{}
}

// ensure returns the version of the pool's template that makes the machine,
// and makes template or version where it is missing. Two makers at once are
// no harm: a name has one template, and of two equal versions either serves.
func (t *templates) ensure(ctx context.Context, p *Provider, r cloud.LaunchRequest, m machine) (template, error) {
	data := m.data(r)
	text, err := json.Marshal(data)
	if err != nil {
		return template{}, err
	}
	hash := "burst " + digest(text)
	name := sharedName(r.Cluster, r.Pool)
	pool := t.of(name)
	pool.mu.Lock()
	defer pool.mu.Unlock()
	if pool.id == "" {
		err := pool.create(ctx, p, &ec2.CreateLaunchTemplateInput{
			LaunchTemplateName: &name, VersionDescription: &hash, LaunchTemplateData: data,
			TagSpecifications: tagged(p.poolTags(r.Cluster, r.Pool), types.ResourceTypeLaunchTemplate),
		})
		if isCode(err, "AlreadyExists") {
			err = pool.load(ctx, p, name)
		}
		if err != nil {
			return template{}, err
		}
	}
	if pool.versions[hash] == "" {
		out, err := p.clients.ec2.CreateLaunchTemplateVersion(ctx, &ec2.CreateLaunchTemplateVersionInput{
			LaunchTemplateId: &pool.id, VersionDescription: &hash, LaunchTemplateData: data,
		})
		if isCode(err, "NotFound") {
			pool.forget() // somebody has removed it: the next round makes it anew
		}
		if err != nil {
			return template{}, err
		}
		p.warn(name, out.Warning)
		pool.versions[hash] = number(out.LaunchTemplateVersion.VersionNumber)
	}
	version := pool.versions[hash]
	pool.used[version] = time.Now()
	return template{ID: pool.id, Version: version}, nil
}

func (t *poolTemplate) create(ctx context.Context, p *Provider, in *ec2.CreateLaunchTemplateInput) error {
	out, err := p.clients.ec2.CreateLaunchTemplate(ctx, in)
	if err != nil {
		return err
	}
	p.warn(*in.LaunchTemplateName, out.Warning)
	t.id = aws.ToString(out.LaunchTemplate.LaunchTemplateId)
	t.versions[*in.VersionDescription] = number(out.LaunchTemplate.LatestVersionNumber)
	return nil
}

// load reads the versions that there are.
func (t *poolTemplate) load(ctx context.Context, p *Provider, name string) error {
	pages := ec2.NewDescribeLaunchTemplateVersionsPaginator(p.clients.ec2, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: &name})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return err
		}
		for _, v := range out.LaunchTemplateVersions {
			t.id = aws.ToString(v.LaunchTemplateId)
			t.versions[aws.ToString(v.VersionDescription)] = number(v.VersionNumber)
		}
	}
	return nil
}

// warn tells what EC2 dislikes about a template: it makes it all the same,
// and refuses the fleet later.
func (p *Provider) warn(name string, w *types.ValidationWarning) {
	if w == nil {
		return
	}
	for _, e := range w.Errors {
		p.log.Warn("EC2 warns of a launch template", "template", name, "code", aws.ToString(e.Code), "message", aws.ToString(e.Message))
	}
}

func number(n *int64) string { return strconv.FormatInt(aws.ToInt64(n), 10) }

// isCode says whether err is AWS's answer with a code that has the part in it.
func isCode(err error, part string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && strings.Contains(api.ErrorCode(), part)
}
