package aws

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// files reads the named ones as one text, without comments.
func files(t *testing.T, names ...string) string {
	t.Helper()
	var all strings.Builder
	for _, n := range names {
		text, err := os.ReadFile(n)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(strings.TrimSpace(line), "#") {
				all.WriteString(line)
			}
		}
	}
	return all.String()
}

func template(t *testing.T) string { return files(t, "burst.yaml") }

func terraform(t *testing.T) string {
	return files(t, "main.tf", "network.tf", "variables.tf", "outputs.tf")
}

var (
	sid    = regexp.MustCompile(`(?m)^\s*(?:- Sid: |Sid\s*= ")(\w+)`)
	action = regexp.MustCompile(`\b(ec2|iam|sts|sqs|ssm|kms|pricing|servicequotas|secretsmanager):[A-Z]\w+`)
)

// permissions are the actions by statement; those of statements without a
// name, the nodes', are by "".
func permissions(text string) map[string][]string {
	all := map[string][]string{}
	starts := sid.FindAllStringSubmatchIndex(text, -1)
	add := func(name, part string) {
		// The nodes' own are set apart by their policies, which follow.
		own, rest := cut(part)
		all[name] = append(all[name], action.FindAllString(own, -1)...)
		all[""] = append(all[""], action.FindAllString(rest, -1)...)
	}
	for i, s := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		add(text[s[2]:s[3]], text[s[1]:end])
	}
	for name := range all {
		slices.Sort(all[name])
	}
	return all
}

// resource is where one begins, or the locals.
var resource = regexp.MustCompile(`(?m)^(resource |locals |  [A-Z]\w+:$|  [A-Z]\w+: #)`)

// cut ends a statement where the next resource begins.
func cut(text string) (own, rest string) {
	if at := resource.FindStringIndex(text); at != nil {
		return text[:at[0]], text[at[0]:]
	}
	return text, ""
}

func TestBothPermitTheSame(t *testing.T) {
	yaml, hcl := permissions(template(t)), permissions(terraform(t))
	if diff := cmp.Diff(yaml, hcl); diff != "" {
		t.Errorf("burst.yaml and main.tf differ:\n%s", diff)
	}
	if len(yaml["Look"]) != 15 || len(yaml) != 14 {
		t.Errorf("%d statements: %v", len(yaml), yaml)
	}
}

// call is one of the SDK's in the provider's source: by a client, or by a paginator.
var call = regexp.MustCompile(`(?:(p\.clients\.ec2|\bc|\bs\.queue|p\.new\w+\([^)]*\))\.([A-Z]\w+)\(ctx|\b(\w+)\.New(\w+)Paginator\()`)

// TestWhatBurstCalls holds the policy against the provider's source: it
// permits all that is called there, and nothing else but what calls entail.
func TestWhatBurstCalls(t *testing.T) {
	var have []string
	for name, actions := range permissions(template(t)) {
		if name != "" && name != "EventsSend" && name != "TlsOnly" { // the queue's own policy
			have = append(have, actions...)
		}
	}
	called := map[string]bool{
		"iam:PassRole": true, "iam:CreateServiceLinkedRole": true,
		"iam:PassedToService": true, "iam:AWSServiceName": true, "ec2:CreateAction": true, // keys of conditions
	}
	sources, err := filepath.Glob("../../cloud/aws/*.go")
	if err != nil || len(sources) < 20 {
		t.Fatalf("the provider's source: %d files, %v", len(sources), err)
	}
	services := map[string]string{"p.newSQS()": "sqs", "s.queue": "sqs", "p.newSSM()": "ssm", "p.newSTS()": "sts", "p.newQuotas()": "servicequotas", "p.newPricing(home)": "pricing", "pricing": "pricing"}
	for _, path := range sources {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, m := range call.FindAllStringSubmatch(files(t, path), -1) {
			service, ok := services[m[1]+m[3]]
			if !ok {
				service = "ec2"
			}
			name := m[2] + m[4]
			if service == "sqs" {
				name = strings.TrimSuffix(name, "Batch") // permitted with the single call
			}
			called[service+":"+name] = true
		}
	}
	for a := range called {
		if !slices.Contains(have, a) {
			t.Errorf("%s is called, and not permitted", a)
		}
	}
	for _, a := range have {
		if !called[a] {
			t.Errorf("%s is permitted, and not called", a)
		}
	}
}

// TestGuideAndDefaults: who follows docs/aws.md with the defaults of both
// files has a key, and images, that the policies let be read.
func TestGuideAndDefaults(t *testing.T) {
	guide := files(t, "../../docs/aws.md", "../../cmd/burst/burst.toml")
	for name, text := range map[string]string{"burst.yaml": template(t), "variables.tf": terraform(t)} {
		for what, used := range map[string]string{"/burst/munge-key": `"ssm:/burst/munge-key"`, "/burst/images/*": `"ssm:/burst/images/`} {
			if !regexp.MustCompile(`(?i)default\s*[:=] "?`+regexp.QuoteMeta(what)+`"?\n`).MatchString(text) || !strings.Contains(guide, used) {
				t.Errorf("%s lets %s be read by default, docs/aws.md uses another, or the other way round", name, what)
			}
		}
	}
	if !strings.Contains(guide, "--name /burst/munge-key ") {
		t.Error("docs/aws.md puts the MUNGE key elsewhere")
	}
}

// TestChangesAreScoped shows that what changes anything asks for the cluster's tag or names its resource.
func TestChangesAreScoped(t *testing.T) {
	for name, text := range map[string]string{"burst.yaml": template(t), "main.tf": terraform(t)} {
		starts := sid.FindAllStringSubmatchIndex(text, -1)
		for i, s := range starts {
			end := len(text)
			if i+1 < len(starts) {
				end = starts[i+1][0]
			}
			own, _ := cut(text[s[1]:end])
			everything := regexp.MustCompile(`Resource\s*[:=]\s*"\*"`).MatchString(own)
			if id := text[s[2]:s[3]]; everything && id != "Look" && !strings.Contains(own, "Condition") {
				t.Errorf("%s: statement %s holds for everything", name, id)
			}
		}
		for _, want := range []string{"aws:RequestTag/burst:cluster", "aws:ResourceTag/burst:cluster", "iam:PassedToService", "ec2:CreateAction"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
	}
}

func TestNotices(t *testing.T) {
	for name, text := range map[string]string{"burst.yaml": template(t), "main.tf": terraform(t)} {
		for _, want := range []string{
			"EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation", "EC2 Instance State-change Notification",
			"AWS Health Event", "scheduledChange", "aws:SecureTransport", "events.amazonaws.com", "aws:SourceAccount",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		for _, want := range []string{`(MessageRetentionPeriod:|message_retention_seconds\s*=) 300\b`, `(SqsManagedSseEnabled:|sqs_managed_sse_enabled\s*=) true`} {
			if !regexp.MustCompile(want).MatchString(text) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
	}
}

// TestReferences finds names in the template that nothing has, and variables
// of Terraform's that are not declared or not used.
func TestReferences(t *testing.T) {
	yaml := template(t)
	defined := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^  ([A-Z]\w+):`).FindAllStringSubmatch(yaml, -1) {
		defined[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`!(?:Ref|GetAtt) "?([A-Z][\w:]+)|Condition: ([A-Z]\w+)|\$\{([A-Z]\w+)[.}]`).FindAllStringSubmatch(yaml, -1) {
		if n := m[1] + m[2] + m[3]; !defined[n] && !strings.HasPrefix(n, "AWS::") {
			t.Errorf("burst.yaml: nothing is called %s", n)
		}
	}
	hcl := terraform(t)
	declared := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(variable|resource|data) "(\w+)"(?: "(\w+)")?`).FindAllStringSubmatch(hcl, -1) {
		declared[map[string]string{"variable": "var." + m[2], "resource": m[2] + "." + m[3], "data": "data." + m[2] + "." + m[3]}[m[1]]] = true
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`\b(var\.\w+|data\.aws_\w+\.\w+|aws_\w+\.\w+)`).FindAllString(hcl, -1) {
		used[m] = true
		if !declared[m] {
			t.Errorf("Terraform: %s is not declared", m)
		}
	}
	for d := range declared {
		if strings.HasPrefix(d, "var.") && !used[d] {
			t.Errorf("Terraform: %s is not used", d)
		}
	}
	if depth := fmt.Sprint(strings.Count(hcl, "{")-strings.Count(hcl, "}"), strings.Count(hcl, "[")-strings.Count(hcl, "]")); depth != "0 0" {
		t.Errorf("Terraform: brackets are open: %s", depth)
	}
}
