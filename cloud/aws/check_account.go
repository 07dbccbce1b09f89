package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/burst-hpc/burst/cloud"
)

// AWS refuses requests whose time is off by 5 minutes, MUNGE credentials of
// that age; from half of it on a clock is as good as wrong.
const (
	goodSkew = 10 * time.Second
	badSkew  = 150 * time.Second
)

// answerWithin bounds one question of a check.
const answerWithin = 15 * time.Second

// checkIdentity asks AWS who we are. False: our credentials open nothing, and
// there is no more to learn.
func (p *Provider) checkIdentity(ctx context.Context, all *findings) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	before := time.Now()
	out, err := p.newSTS().GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	after := time.Now()
	var server time.Time
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.HTTPResponse() != nil {
		server, _ = http.ParseTime(response.HTTPResponse().Header.Get("Date"))
	} else if err == nil {
		server, _ = middleware.GetServerTime(out.ResultMetadata)
	}
	if !server.IsZero() {
		checkClock(all, server, before, after)
	}
	if err != nil {
		err = failure("check", err)
		if cloud.KindOf(err) == cloud.Auth {
			all.add(LevelWrong, "credentials", brief(err), "nothing more can be checked until AWS takes the credentials")
			return false
		}
		all.add(LevelUnknown, "credentials", "STS does not say who we are: "+brief(err),
			"the lines below tell whether the credentials work; without STS burstd cannot tell an account without instances from another account")
		return true
	}
	all.ok("credentials", "%s, account %s", aws.ToString(out.Arn), aws.ToString(out.Account))
	return true
}

// checkClock compares the server's clock, whose answers have whole seconds,
// with ours: it answered between before and after.
func checkClock(all *findings, server, before, after time.Time) {
	var off time.Duration
	switch {
	case server.Before(before.Truncate(time.Second)):
		off = before.Sub(server).Truncate(time.Second)
	case server.After(after):
		off = server.Sub(after).Truncate(time.Second)
	}
	const hint = "set the clock (chronyc tracking): AWS and MUNGE refuse requests from a clock that is off by 5 minutes"
	text := "within a second of AWS's"
	if off >= time.Second {
		text = "off by " + off.String() + " against AWS's"
	}
	switch {
	case off >= badSkew:
		all.add(LevelWrong, "clock", text, hint)
	case off > goodSkew:
		all.add(LevelWarning, "clock", text, hint)
	default:
		all.ok("clock", "%s", text)
	}
}

// checkEndpoints asks each service that the pools use one question. dryRun
// says that EC2 heeds DryRun, without which nothing may be tried; reachable
// that it answers at all.
func (p *Provider) checkEndpoints(ctx context.Context, all *findings, pools []CheckPool) (dryRun, reachable bool) {
	type question struct {
		service, permission string
		level               Level // if there is no answer
		without             string
		ask                 func(context.Context) error
	}
	questions := []question{
		{"ec2", "ec2:DescribeInstances", LevelWrong, "nothing can be launched: open the way to it (NAT, proxy or an interface endpoint)", func(ctx context.Context) error {
			_, err := p.clients.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{DryRun: aws.Bool(true)})
			dryRun = err != nil
			return err
		}},
		{"servicequotas", "servicequotas:GetServiceQuota", LevelWarning, "jobs that can never fit the quota are found out by EC2's refusal only", func(ctx context.Context) error {
			_, err := p.newQuotas().GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String("ec2"), QuotaCode: aws.String(standardOnDemand)})
			return err
		}},
	}
	if home := pricingHome(p.c.Region); home != "" {
		questions = append(questions, question{"pricing", "pricing:GetProducts", LevelWarning, "on-demand prices come from the built-in table, or from price_table", func(ctx context.Context) error {
			_, err := p.newPricing(home).GetProducts(ctx, &pricing.GetProductsInput{ServiceCode: aws.String("AmazonEC2"), MaxResults: aws.Int32(1)})
			return err
		}})
	}
	for _, pool := range pools {
		if name := parameterOf(pool.Image); name != "" {
			questions = append(questions, question{"ssm", "ssm:GetParameter", LevelWrong, "images named by a parameter cannot be found", func(ctx context.Context) error {
				_, err := p.newSSM().GetParameter(ctx, &ssm.GetParameterInput{Name: &name})
				return err
			}})
			break
		}
	}
	reachable = true
	for _, q := range questions {
		start := time.Now()
		within, cancel := context.WithTimeout(ctx, answerWithin)
		err := q.ask(within)
		cancel()
		took := time.Since(start).Round(time.Millisecond)
		var api smithy.APIError
		var response *awshttp.ResponseError
		switch {
		case err == nil, errors.As(err, &api) && !denied(err) && cloud.KindOf(failure("check", err)) != cloud.Auth:
			all.ok("endpoint "+q.service, "answers in %s", took)
		case errors.As(err, &api) && q.service != "ec2": // EC2's permissions come below
			all.ok("endpoint "+q.service, "answers in %s", took)
			all.add(q.level, "permission "+q.permission, brief(err), "allow it in the controller's policy; until then "+q.without)
		case errors.As(err, &api):
			all.ok("endpoint ec2", "answers in %s", took)
		case errors.As(err, &response) && response.HTTPStatusCode() > 0:
			all.add(q.level, "endpoint "+q.service, fmt.Sprintf("answers with HTTP status %d, not as AWS does", response.HTTPStatusCode()), "look for a proxy in between; until it can be reached, "+q.without)
			reachable = reachable && q.service != "ec2"
		default:
			all.add(q.level, "endpoint "+q.service, "no answer after "+took.String()+": "+brief(err), "until it can be reached, "+q.without)
			reachable = reachable && q.service != "ec2"
		}
	}
	return dryRun, reachable
}

// denied says that the policy forbids the call, in the words of EC2 or of the others.
func denied(err error) bool {
	return isCode(err, "UnauthorizedOperation") || isCode(err, "AccessDenied")
}

// brief is an error in one line without AWS's long attachments.
func brief(err error) string {
	var texts []string
	for _, e := range cloud.Errors(err) {
		texts = append(texts, reason(e.Err))
	}
	if len(texts) == 0 {
		texts = []string{reason(err)}
	}
	text := strings.Join(strings.Fields(strings.Join(texts, "; ")), " ")
	const most = 400
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}

// reason is AWS's own word of an error where it has said one.
func reason(err error) string {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err.Error()
	}
	text, _, _ := strings.Cut(api.ErrorMessage(), " Encoded authorization failure message")
	text = api.ErrorCode() + ": " + text
	if hint := hints[bare(api.ErrorCode())]; hint != "" && !denied(err) {
		text += "; " + hint
	}
	return text
}

// parameterOf is the SSM parameter that an image is named by; "" if by its id.
func parameterOf(image string) string {
	name, ok := strings.CutPrefix(image, ssmPrefix)
	if !ok {
		return ""
	}
	return name
}
