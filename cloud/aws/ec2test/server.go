package ec2test

import (
	"bufio"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// body writes what stands inside an answer.
type body func(*answer)

// failure is an error as EC2 answers it.
type failure struct {
	status        int
	code, message string
}

// fail makes an error of a code, with the status that EC2 gives it.
func fail(code, format string, args ...any) *failure {
	status := http.StatusBadRequest
	switch {
	case code == "RequestLimitExceeded" || code == "Unavailable":
		status = http.StatusServiceUnavailable
	case strings.HasPrefix(code, "Insufficient") || code == "InternalError":
		status = http.StatusInternalServerError
	case code == "AuthFailure":
		status = http.StatusUnauthorized
	case code == "UnauthorizedOperation":
		status = http.StatusForbidden
	case code == "DryRunOperation":
		status = http.StatusPreconditionFailed
	}
	return &failure{status, code, fmt.Sprintf(format, args...)}
}

// actions are the requests that the cloud knows.
var actions = map[string]func(*Cloud, *params) (body, *failure){
	"RunInstances":                   (*Cloud).runInstances,
	"CreateFleet":                    (*Cloud).createFleet,
	"DescribeInstances":              (*Cloud).describeInstances,
	"TerminateInstances":             (*Cloud).terminateInstances,
	"GetConsoleOutput":               (*Cloud).consoleOutput,
	"CreateTags":                     (*Cloud).createTags,
	"DescribeTags":                   (*Cloud).describeTags,
	"CreateLaunchTemplate":           (*Cloud).createTemplate,
	"CreateLaunchTemplateVersion":    (*Cloud).createVersion,
	"ModifyLaunchTemplate":           (*Cloud).modifyTemplate,
	"DescribeLaunchTemplates":        (*Cloud).describeTemplates,
	"DescribeLaunchTemplateVersions": (*Cloud).describeVersions,
	"DeleteLaunchTemplate":           (*Cloud).deleteTemplate,
	"DeleteLaunchTemplateVersions":   (*Cloud).deleteVersions,
	"CreatePlacementGroup":           (*Cloud).createGroup,
	"DescribePlacementGroups":        (*Cloud).describeGroups,
	"DeletePlacementGroup":           (*Cloud).deleteGroup,
	"DescribeSubnets":                (*Cloud).describeSubnets,
	"DescribeSecurityGroups":         (*Cloud).describeSecurityGroups,
	"DescribeVpcs":                   (*Cloud).describeVPCs,
	"DescribeAvailabilityZones":      (*Cloud).describeZones,
	"DescribeKeyPairs":               (*Cloud).describeKeys,
	"DescribeImages":                 (*Cloud).describeImages,
	"CreateImage":                    (*Cloud).createImage,
	"DeregisterImage":                (*Cloud).deregisterImage,
	"DescribeSnapshots":              (*Cloud).describeSnapshots,
	"DeleteSnapshot":                 (*Cloud).deleteSnapshot,
	"DescribeInstanceTypes":          (*Cloud).describeTypes,
	"DescribeInstanceTypeOfferings":  (*Cloud).describeOfferings,
	"DescribeSpotPriceHistory":       (*Cloud).describeSpotPrices,
}

// maxBody is more than any request has.
const maxBody = 4 << 20

// ServeHTTP answers one request.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return // the caller has gone
	}
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		c.serveJSON(w, r, target, text)
		return
	}
	p, err := parseParams(string(text))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	action := p.get("Action")
	call := c.begin(action, p)
	latency := c.latency(action)
	c.sleep(latency / 2)
	write, failed, fault := c.perform(action, p, r)
	c.sleep(latency - latency/2)
	code := ""
	if failed != nil {
		code = failed.code
	}
	c.end(call, code)
	if fault.Lost {
		panic(http.ErrAbortHandler) // cuts the connection
	}
	c.stamp(w)
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	a := &answer{bufio.NewWriterSize(w, 32<<10)}
	a.w.WriteString(`<?xml version="1.0" encoding="UTF-8"?>`)
	if failed != nil {
		w.WriteHeader(failed.status)
		a.failure(action, failed)
	} else {
		a.w.WriteString("<" + action + `Response xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">`)
		a.text("requestId", rand.Text())
		write(a)
		a.close(action + "Response")
	}
	_ = a.w.Flush() // the caller may have gone
}

// perform gives the action its effect, and says what to answer.
func (c *Cloud) perform(action string, p *params, r *http.Request) (body, *failure, Fault) {
	if failed := c.admit(action, p, r.Header.Get("X-Amz-Date")); failed != nil {
		return nil, failed, Fault{}
	}
	fault, met := c.nextFault(action)
	if met && !fault.Lost {
		return nil, fault.failure(), fault
	}
	if action == "GetCallerIdentity" {
		return callerIdentity, nil, fault
	}
	do, ok := actions[action]
	if !ok {
		return nil, fail("InvalidAction", "The action %s is not valid for this web service.", action), fault
	}
	if p.yes("DryRun") && action != "RunInstances" {
		return nil, dryRun(), fault
	}
	write, failed := do(c, p)
	return write, failed, fault
}

func dryRun() *failure {
	return fail("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
}

func callerIdentity(a *answer) {
	a.in("GetCallerIdentityResult", func() {
		a.text("Account", Account)
		a.text("UserId", "AIDAEXAMPLE")
		a.text("Arn", "arn:aws:iam::"+Account+":user/burst")
	})
}

// failure writes an error as the service of the action does.
func (a *answer) failure(action string, f *failure) {
	if action == "GetCallerIdentity" {
		a.in("ErrorResponse", func() {
			a.in("Error", func() {
				a.text("Type", "Sender")
				a.text("Code", f.code)
				a.text("Message", f.message)
			})
		})
		return
	}
	a.in("Response", func() {
		a.in("Errors", func() {
			a.in("Error", func() {
				a.text("Code", f.code)
				a.text("Message", f.message)
			})
		})
		a.text("RequestID", rand.Text())
	})
}

func (c *Cloud) latency(action string) time.Duration {
	d, ok := c.o.Latency[action]
	if !ok {
		d = c.o.Default
	}
	return max(d, time.Millisecond)
}

// sleep ends early when the cloud does. It does not watch the request: what
// a caller has sent happens, whether it waits for the answer or not.
func (c *Cloud) sleep(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.done:
	}
}

// stamp dates the answer by our clock.
func (c *Cloud) stamp(w http.ResponseWriter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.Header().Set("Date", time.Now().Add(c.skew).UTC().Format(http.TimeFormat))
}
