package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/burst-hpc/burst/cloud"
)

// queueHosts are SQS's names: with the region in front or behind, or without one.
var queueHosts = regexp.MustCompile(`^(?:sqs(?:-fips)?\.([a-z0-9-]+)|([a-z0-9-]+)\.queue|queue)\.amazonaws\.com(?:\.cn)?$`)

// queuePath is an account and a queue.
var queuePath = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[0-9]{12}/[A-Za-z0-9_-]{1,80}$`) })

// CheckQueue says what is wrong with the URL of a queue for a provider in
// region, as far as it can be told without asking; nil: nothing.
func CheckQueue(queue, region string) error {
	u, err := url.Parse(queue)
	if err != nil || u.Host == "" {
		return nil // burst.toml's reader says it
	}
	if strings.HasSuffix(u.Path, ".fifo") {
		return fmt.Errorf("%q is a FIFO queue, whose notices would wait for one another: make a standard one", queue)
	}
	host := queueHosts.FindStringSubmatch(u.Hostname())
	if host == nil {
		return nil // a private endpoint or an emulator
	}
	if !queuePath().MatchString(u.Path) {
		return fmt.Errorf("%q has no path like /123456789012/burst-notices", queue)
	}
	if of := host[1] + host[2]; of != "" && of != region {
		return fmt.Errorf("%q is in the region %s, and the provider in %s: EventBridge brings the events of one region to a queue there", queue, of, region)
	}
	return nil
}

// retention is how long the queue should keep what nobody reads, in seconds:
// what is older has come true.
const (
	leastRetention = 120
	mostRetention  = 3600
)

// checkQueue looks at the queue of notices.
func (p *Provider) checkQueue(ctx context.Context, all *findings) {
	const subject = "notices"
	if p.c.Queue == "" {
		all.add(LevelOK, subject, "no queue: they come from the agents on the nodes alone",
			"contrib/aws makes a queue; with it, notices come also from a node whose agent is silent")
		return
	}
	if err := CheckQueue(p.c.Queue, p.c.Region); err != nil {
		all.add(LevelWrong, subject, err.Error(), "write the stack's output QueueUrl as queue in burst.toml")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	out, err := p.newSQS().GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &p.c.Queue, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		err = failure("check", err)
		level := LevelWarning // launches go on without it
		if cloud.KindOf(err) == cloud.Throttled || cloud.KindOf(err) == cloud.Transient {
			level = LevelUnknown
		}
		all.add(level, subject, "the queue cannot be looked at: "+brief(err), "until it can be read, notices come from the agents on the nodes alone")
		return
	}
	get := func(name types.QueueAttributeName) string { return out.Attributes[string(name)] }
	all.ok(subject, "the queue exists and has about %s messages", get(types.QueueAttributeNameApproximateNumberOfMessages))
	if arn := strings.Split(get(types.QueueAttributeNameQueueArn), ":"); len(arn) == 6 && arn[3] != p.c.Region {
		all.add(LevelWarning, subject, fmt.Sprintf("the queue is in %s, and the provider in %s", arn[3], p.c.Region), "make a queue and its rules in the provider's region")
	}
	seconds, err := strconv.Atoi(get(types.QueueAttributeNameMessageRetentionPeriod))
	if err == nil && (seconds < leastRetention || seconds > mostRetention) {
		all.add(LevelWarning, subject, fmt.Sprintf("the queue keeps messages for %d s", seconds), "300 s are good: notices that are older have come true, and burstd would read all of them after a rest")
	}
	checkQueuePolicy(all, subject, get(types.QueueAttributeNamePolicy))
}

// queuePolicy is what is looked at of a queue's policy.
type queuePolicy struct {
	Statement statements
}

type statement struct {
	Effect    string
	Principal any
	Action    any
	Condition map[string]map[string]any
}

type statements []statement

// UnmarshalJSON reads a list, or a statement alone, as AWS does.
func (s *statements) UnmarshalJSON(text []byte) error {
	var all []statement
	err := json.Unmarshal(text, &all)
	if err != nil && text[0] == '{' {
		all = make([]statement, 1)
		err = json.Unmarshal(text, &all[0])
	}
	*s = all
	return err
}

// sends says whether the pattern of actions has sqs:SendMessage among them.
func sends(pattern string) bool {
	ok, err := path.Match(strings.ToLower(strings.ReplaceAll(pattern, "[", `\[`)), "sqs:sendmessage") // AWS has * and ? alone
	return err == nil && ok
}

// checkQueuePolicy says whether events can come in, and whether others are kept out.
func checkQueuePolicy(all *findings, subject, text string) {
	const fix = "contrib/aws has the queue's policy"
	var policy queuePolicy
	if text != "" {
		if err := json.Unmarshal([]byte(text), &policy); err != nil {
			all.add(LevelUnknown, subject, "the queue's policy cannot be read: "+err.Error(), "")
			return
		}
	}
	var events, tls bool
	for _, s := range policy.Statement {
		sends := slices.ContainsFunc(words(s.Action), sends)
		who := s.Principal
		if by, ok := who.(map[string]any); ok {
			who = append(append([]any{}, anyWords(by["Service"])...), anyWords(by["AWS"])...)
		}
		from := words(who)
		switch {
		case s.Effect == "Allow" && sends && slices.Contains(from, "events.amazonaws.com"):
			events = true
		case s.Effect == "Allow" && sends && slices.Contains(from, "*") && len(s.Condition) == 0:
			all.add(LevelWarning, subject, "the queue's policy lets anybody send messages", fix)
		case s.Effect == "Deny" && slices.Contains(from, "*") && slices.Contains(words(s.Condition["Bool"]["aws:SecureTransport"]), "false"):
			tls = true
		}
	}
	if !events {
		all.add(LevelWarning, subject, "the queue's policy does not let EventBridge (events.amazonaws.com) send messages: none will come", fix)
	}
	if !tls {
		all.add(LevelWarning, subject, "the queue's policy does not refuse what comes without TLS", fix)
	}
	if events && tls {
		all.ok(subject, "the queue's policy lets EventBridge in, and nothing without TLS")
	}
}

// words are a policy's value, which may be one or several.
func words(v any) []string {
	var all []string
	for _, one := range anyWords(v) {
		all = append(all, strings.TrimSpace(fmt.Sprint(one)))
	}
	return all
}

func anyWords(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}
