package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas/types"

	"github.com/burst-hpc/burst/cloud"
)

// quotaTimeout bounds what a round of launches waits for a look at quotas. A
// variable for the tests.
var quotaTimeout = 3 * time.Second

// refusalAge is how old a quota may be that refuses a launch: the site may
// just have got more.
const refusalAge = time.Minute

// quotaCodes are Service Quotas' codes of the vCPUs that an account may have
// running in a region, on-demand and spot, by the letters that a type's family begins
// with. Families that are not here (Mac) have quotas of another kind.
// https://docs.aws.amazon.com/general/latest/gr/ec2-service.html
var quotaCodes = map[string]struct{ onDemand, spot string }{
	"dl":  {"L-6E869C2A", "L-85EED4F7"},
	"f":   {"L-74FC7D96", "L-88CF9481"},
	"g":   {"L-DB2E81BA", "L-3819A6DF"},
	"gr":  {"L-DB2E81BA", "L-3819A6DF"},
	"vt":  {"L-DB2E81BA", "L-3819A6DF"},
	"hpc": {"L-F7808C92", ""},
	"inf": {"L-1945791B", "L-B5D1601B"},
	"p":   {"L-417A185B", ""}, // spot: by generation, see quotaCode
	"trn": {"L-2C3B7624", "L-6B0D517C"},
	"u":   {"L-43DA4232", ""},
	"x":   {"L-7295265B", "L-E3A00192"},
}

const (
	standardOnDemand = "L-1216C47A"
	standardSpot     = "L-34B43A08"
)

// quotaCode returns the code of the quota that a type counts against; "" if
// none is known.
func quotaCode(instanceType string, market cloud.Market) string {
	family, _, _ := strings.Cut(instanceType, ".")
	letters := family[:len(family)-len(strings.TrimLeft(family, "abcdefghijklmnopqrstuvwxyz"))]
	codes, ok := quotaCodes[letters]
	if !ok && letters != "" && strings.Contains("acdhimrtz", letters[:1]) && letters != "mac" {
		codes.onDemand, codes.spot = standardOnDemand, standardSpot
	}
	switch {
	case market != cloud.Spot:
		return codes.onDemand
	case letters != "p":
		return codes.spot
	}
	switch generation := strings.TrimLeft(family, "p") + " "; generation[0] {
	case '2', '3', '4':
		return "L-7212CCBC"
	case '5':
		return "L-C4BD4855"
	}
	return ""
}

// limit is a quota's name and value. Without a code it is not known: Service
// Quotas has none for the type.
type limit struct {
	code, name string
	vcpus      float64
}

// limit returns the quota that a type counts against, no older than age.
func (p *Provider) limit(ctx context.Context, instanceType string, market cloud.Market, age time.Duration) (limit, error) {
	code := quotaCode(instanceType, market)
	if code == "" {
		return limit{}, nil
	}
	if l, ok := p.know.quotas.Get(code, age); ok {
		return l, nil
	}
	out, err := p.newQuotas().GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{
		ServiceCode: aws.String("ec2"), QuotaCode: &code,
	})
	var none *types.NoSuchResourceException
	if errors.As(err, &none) {
		p.know.quotas.Put(code, limit{}) // a partition or emulator without this quota
		return limit{}, nil
	}
	if err != nil {
		err = fmt.Errorf("reading quota %s (vCPUs of %s) in %s: %w", code, instanceType, p.c.Region, err)
		return limit{}, failure("quota", err)
	}
	if out.Quota == nil || out.Quota.Value == nil {
		return limit{}, nil
	}
	l := limit{code: code, name: aws.ToString(out.Quota.QuotaName), vcpus: *out.Quota.Value}
	p.know.quotas.Put(code, l)
	return l, nil
}

// checkQuotas finds the requests of a round that can never be met, and puts a
// Quota error in their place of errs; those that have an error already are left
// out. All together wait no longer than quotaTimeout. Where quotas cannot be
// read, nothing is hindered: EC2 itself will say so.
func (p *Provider) checkQuotas(ctx context.Context, requests []cloud.LaunchRequest, errs []error) {
	if _, silent := p.know.failed.Get("quotas", quotaAge); silent {
		return
	}
	within, cancel := context.WithTimeout(ctx, quotaTimeout)
	defer cancel()
	var names []string
	for i, r := range requests {
		for _, o := range r.Offerings() {
			if errs[i] == nil && quotaCode(o.Type, o.Market) != "" {
				names = append(names, o.Type)
			}
		}
	}
	known, err := p.describeTypes(within, names)
	if err != nil {
		p.unreadable(ctx, err)
		return
	}
	var wg sync.WaitGroup
	for i, r := range requests {
		if errs[i] == nil {
			wg.Go(func() {
				refusal, err := p.checkQuota(within, r, known)
				if err != nil {
					p.unreadable(ctx, err)
					return
				}
				errs[i] = refusal
			})
		}
	}
	wg.Wait()
}

// unreadable remembers for a while that quotas cannot be read, and says it once.
func (p *Provider) unreadable(ctx context.Context, err error) {
	p.know.quotaTurn.Lock()
	defer p.know.quotaTurn.Unlock()
	if _, silent := p.know.failed.Get("quotas", quotaAge); silent || ctx.Err() != nil {
		return
	}
	p.know.failed.Put("quotas", err)
	p.log.Warn("quotas cannot be read: launches are tried without a look at them", "provider", p.c.Name, "error", err)
}

// checkQuota returns a Quota error for a request that can never be met: the
// account may not have as many vCPUs of any of its offerings, even with nothing
// else running. A request that may be met in part needs room for one instance.
func (p *Provider) checkQuota(ctx context.Context, r cloud.LaunchRequest, known map[string]cloud.InstanceType) (refusal, err error) {
	var refusals []error
	for _, o := range r.Offerings() {
		refusal, err := p.refuses(ctx, r, o, known[o.Type])
		if refusal == nil || err != nil {
			return nil, err
		}
		refusals = append(refusals, refusal)
	}
	return errors.Join(refusals...), nil
}

// refuses returns the Quota error that forbids o, of type t, to meet the
// request, or nil.
func (p *Provider) refuses(ctx context.Context, r cloud.LaunchRequest, o cloud.Offering, t cloud.InstanceType) (refusal, err error) {
	code := quotaCode(o.Type, o.Market)
	if code == "" {
		return nil, nil
	}
	instances := 1
	if r.AllOrNothing {
		instances = r.Count
	}
	need := float64(instances * vcpus(t, p.c.Pools[r.Pool].ThreadsPerCore))
	// One at a time: the others find the answer.
	p.know.quotaTurn.Lock()
	defer p.know.quotaTurn.Unlock()
	l, err := p.limit(ctx, o.Type, o.Market, quotaAge)
	if err == nil && l.code != "" && need > l.vcpus {
		l, err = p.limit(ctx, o.Type, o.Market, refusalAge)
	}
	if err != nil || l.code == "" || need <= l.vcpus {
		return nil, err
	}
	return &cloud.Error{
		Kind: cloud.Quota, Op: "quota", Offering: o, Settled: true,
		Err: fmt.Errorf("%d of %s needs %.0f vCPUs, the quota %q in %s is %.0f: ask for more at %s",
			instances, o.Type, need, l.name, p.c.Region, l.vcpus, quotaPage(p.c.Region, code)),
	}, nil
}

// vcpus is what an instance of the type counts, zero for an unknown type. With
// one thread per core asked for it counts at least its cores.
func vcpus(t cloud.InstanceType, threadsPerCore int) int {
	if threadsPerCore == 1 && t.Cores > 0 {
		return t.Cores
	}
	return t.CPUs
}

// quotaPage is where a site asks for more.
func quotaPage(region, code string) string {
	host := "console.aws.amazon.com"
	switch {
	case strings.HasPrefix(region, "us-gov-"):
		host = "console.amazonaws-us-gov.com"
	case strings.HasPrefix(region, "cn-"):
		host = "console.amazonaws.cn"
	}
	return fmt.Sprintf("https://%s.%s/servicequotas/home/services/ec2/quotas/%s", region, host, code)
}
