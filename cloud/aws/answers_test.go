package aws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// answers is an AWS that gives recorded answers: to EC2's and STS's calls by
// the action, to the JSON services' by the last part of X-Amz-Target.
type answers struct {
	mu     sync.Mutex
	given  map[string]answer
	asked  []string // actions, in order
	log    bytes.Buffer
	offset time.Duration // of the server's clock
}

// answer makes the answer to a call: its form (EC2, STS) or its JSON body.
type answer func(form url.Values, body string) (status int, text string)

// fixed answers with the text, in an XML envelope of the action's name.
func fixed(text string) answer {
	return func(form url.Values, _ string) (int, string) {
		name := form.Get("Action") + "Response"
		return http.StatusOK, fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><%s xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>%s</%s>`, name, text, name)
	}
}

func jsonAnswer(text string) answer {
	return func(url.Values, string) (int, string) { return http.StatusOK, text }
}

// refusal answers with an error, in the form of the service.
func refusal(status int, code, message string) answer {
	return func(form url.Values, _ string) (int, string) {
		switch form.Get("Action") {
		case "":
			return status, fmt.Sprintf(`{"__type":%q,"message":%q}`, code, message)
		case "GetCallerIdentity":
			return status, fmt.Sprintf(`<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>r</RequestId></ErrorResponse>`, code, message)
		}
		return status, fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>r</RequestID></Response>`, code, message)
	}
}

func (a *answers) set(action string, give answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.given[action] = give
}

// count is how often the action was asked for.
func (a *answers) count(action string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, one := range a.asked {
		if one == action {
			n++
		}
	}
	return n
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	// A server that answers within the millisecond trips the SDK's client.
	time.Sleep(time.Millisecond)
	var form url.Values
	_, action, isJSON := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if !isJSON {
		if form, err = url.ParseQuery(string(body)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		action = form.Get("Action")
	}
	a.mu.Lock()
	a.asked = append(a.asked, action)
	give, ok := a.given[action]
	offset := a.offset
	a.mu.Unlock()
	switch {
	case form.Get("DryRun") == "true" && !ok:
		give = refusal(http.StatusPreconditionFailed, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	case !ok:
		give = refusal(http.StatusBadRequest, "InvalidAction", "no answer to "+action)
	}
	status, text := give(form, string(body))
	w.Header().Set("Date", time.Now().Add(offset).UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "text/xml")
	if isJSON {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	}
	w.WriteHeader(status)
	if _, err := io.WriteString(w, text); err != nil {
		return
	}
}

// answering returns a provider whose AWS is the answers.
func answering(t *testing.T, c Config, given map[string]answer) (*Provider, *answers) {
	t.Helper()
	a := &answers{given: given}
	if a.given == nil {
		a.given = map[string]answer{}
	}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	c.Name, c.Endpoint = "east", server.URL
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	c.Log = slog.New(slog.NewTextHandler(&a.log, nil))
	p, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p, a
}

// values are the values of a list in a form: "InstanceId" for InstanceId.1, ….
func values(form url.Values, list string) []string {
	var all []string
	for i := 1; form.Has(fmt.Sprintf("%s.%d", list, i)); i++ {
		all = append(all, form.Get(fmt.Sprintf("%s.%d", list, i)))
	}
	return all
}

// filtered are the values of a form's filter.
func filtered(form url.Values, name string) []string {
	for i := 1; ; i++ {
		switch form.Get(fmt.Sprintf("Filter.%d.Name", i)) {
		case "":
			return nil
		case name:
			return values(form, fmt.Sprintf("Filter.%d.Value", i))
		}
	}
}

// someTypes answers DescribeInstanceTypes: each type of vcpus ("c6i.large": 2)
// with two threads per core, 4 GiB for a vCPU, on x86_64, sold as spot, and
// with one EFA card if its name says large.
func someTypes(vcpus map[string]int) answer {
	return func(form url.Values, body string) (int, string) {
		var items strings.Builder
		for name, n := range vcpus {
			if slices.Contains(filtered(form, "instance-type"), name) {
				fmt.Fprintf(&items, `<item><instanceType>%s</instanceType><supportedUsageClasses><item>on-demand</item><item>spot</item></supportedUsageClasses>
<processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures></processorInfo>
<vCpuInfo><defaultVCpus>%d</defaultVCpus><defaultCores>%d</defaultCores><defaultThreadsPerCore>2</defaultThreadsPerCore></vCpuInfo>
<memoryInfo><sizeInMiB>%d</sizeInMiB></memoryInfo></item>`, name, n, n/2, n*4096)
			}
		}
		return fixed("<instanceTypeSet>"+items.String()+"</instanceTypeSet>")(form, body)
	}
}

// someQuota answers GetServiceQuota with the vCPUs of each code.
func someQuota(vcpus map[string]float64) answer {
	return func(_ url.Values, body string) (int, string) {
		var in struct{ QuotaCode string }
		if err := json.Unmarshal([]byte(body), &in); err != nil {
			return http.StatusBadRequest, err.Error()
		}
		n, ok := vcpus[in.QuotaCode]
		if !ok {
			return http.StatusBadRequest, `{"__type":"NoSuchResourceException","Message":"no such quota"}`
		}
		return http.StatusOK, fmt.Sprintf(`{"Quota":{"ServiceCode":"ec2","QuotaCode":%q,"QuotaName":"Quota %s","Value":%g}}`, in.QuotaCode, in.QuotaCode, n)
	}
}
