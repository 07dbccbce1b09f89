package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/burst-hpc/burst/cloud"
)

// The two ways in which a message is none of ours. It is deleted either way:
// no reader would make more of it.
var (
	errUnparsable = errors.New("is no event as EventBridge writes them")
	errForeign    = errors.New("is an event that no rule for Burst sends")
)

// spotLead is between the event and the interruption: the event, other than
// the instance's metadata, does not say when. A hibernation begins at once.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
const spotLead = 120 * time.Second

// sourceSQS is the notices' Source, and what their messages are counted under.
const sourceSQS = "sqs"

// event is what all of EventBridge's events have.
type event struct {
	Source     string          `json:"source"`
	DetailType string          `json:"detail-type"`
	Time       string          `json:"time"`
	Resources  []string        `json:"resources"`
	Detail     json.RawMessage `json:"detail"`
}

// readEvent makes notices of a message's body; Received is left to the caller.
// None, without an error: the event is well-formed and announces nothing. Whether
// an instance is ours cannot be known here.
func readEvent(body []byte) ([]cloud.Notice, error) {
	var e event
	if err := json.Unmarshal(body, &e); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnparsable, err)
	}
	if e.Source == "" || e.DetailType == "" || len(e.Detail) == 0 {
		return nil, fmt.Errorf("%w: it lacks source, detail-type or detail", errUnparsable)
	}
	read, ok := readers[e.Source+"\n"+e.DetailType]
	if !ok {
		return nil, fmt.Errorf("%w: %.60q of %.60q", errForeign, e.DetailType, e.Source)
	}
	return read(e)
}

var readers = map[string]func(event) ([]cloud.Notice, error){
	"aws.ec2\nEC2 Spot Instance Interruption Warning": readSpot,
	"aws.ec2\nEC2 Instance Rebalance Recommendation":  readRebalance,
	"aws.ec2\nEC2 Instance State-change Notification": readStateChange,
	"aws.health\nAWS Health Event":                    readHealth,
}

// oneInstance is how EC2 names instances.
var oneInstance = regexp.MustCompile(`^i-[0-9a-f]{8,17}$`)

// ec2Detail is the detail of EC2's own events.
type ec2Detail struct {
	Instance string `json:"instance-id"`
	Action   string `json:"instance-action"`
	State    string `json:"state"`
}

func (e event) ec2() (ec2Detail, error) {
	var d ec2Detail
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return d, fmt.Errorf("%w: its detail: %w", errUnparsable, err)
	}
	if !oneInstance.MatchString(d.Instance) {
		return d, fmt.Errorf("%w: its instance-id is %.40q", errUnparsable, d.Instance)
	}
	if !readable(d.Action) || !readable(d.State) {
		return d, fmt.Errorf("%w: its detail has no proper words", errUnparsable)
	}
	return d, nil
}

// readSpot leaves the deadline away where the event's time cannot be read: the
// instance goes all the same.
func readSpot(e event) ([]cloud.Notice, error) {
	d, err := e.ec2()
	if err != nil {
		return nil, err
	}
	n := cloud.Notice{Instance: d.Instance, Kind: cloud.SpotInterruption, Action: d.Action, Source: sourceSQS}
	if at, err := time.Parse(time.RFC3339, e.Time); err == nil {
		n.Deadline = at.UTC()
		if d.Action != "hibernate" {
			n.Deadline = n.Deadline.Add(spotLead)
		}
	}
	return []cloud.Notice{n}, nil
}

func readRebalance(e event) ([]cloud.Notice, error) {
	d, err := e.ec2()
	if err != nil {
		return nil, err
	}
	return []cloud.Notice{{Instance: d.Instance, Kind: cloud.Rebalance, Source: sourceSQS}}, nil
}

// readStateChange tells of ends only: launches are watched by who launched.
func readStateChange(e event) ([]cloud.Notice, error) {
	d, err := e.ec2()
	if err != nil {
		return nil, err
	}
	switch d.State {
	case "stopping", "stopped", "shutting-down", "terminated":
		return []cloud.Notice{{Instance: d.Instance, Kind: cloud.StateChange, Action: d.State, Source: sourceSQS}}, nil
	case "pending", "running":
		return nil, nil
	}
	return nil, fmt.Errorf("%w: no state is called %.40q", errUnparsable, d.State)
}

// healthDetail is of https://docs.aws.amazon.com/health/latest/ug/aws-health-events-eventbridge-schema.html
type healthDetail struct {
	Event    string `json:"eventArn"`
	Service  string `json:"service"`
	Code     string `json:"eventTypeCode"`
	Category string `json:"eventTypeCategory"`
	Status   string `json:"statusCode"` // open, upcoming, closed; older events lack it
	Start    string `json:"startTime"`
	Entities []struct {
		Value  string `json:"entityValue"`
		Status string `json:"status"` // PENDING, RESOLVED, …; may be missing
	} `json:"affectedEntities"`
}

// readHealth gives every instance of the event its own notice.
func readHealth(e event) ([]cloud.Notice, error) {
	var d healthDetail
	if err := json.Unmarshal(e.Detail, &d); err != nil {
		return nil, fmt.Errorf("%w: its detail: %w", errUnparsable, err)
	}
	if d.Service != "EC2" || d.Category != "scheduledChange" {
		return nil, fmt.Errorf("%w: a Health event of %.40q, %.40q", errForeign, d.Service, d.Category)
	}
	if !readable(d.Event) || !readable(d.Code) || d.Event == "" {
		return nil, fmt.Errorf("%w: a Health event without a proper eventArn or eventTypeCode", errUnparsable)
	}
	n := cloud.Notice{Kind: cloud.Maintenance, Action: healthAction(d.Code), Event: d.Event, Source: sourceSQS}
	n.Cancelled = strings.EqualFold(d.Status, "closed") || strings.HasSuffix(d.Code, "CANCELLED") || strings.HasSuffix(d.Code, "CANCELED")
	for _, layout := range []string{time.RFC1123, time.RFC3339} {
		if at, err := time.Parse(layout, d.Start); err == nil {
			n.Deadline = at.UTC()
		}
	}
	if n.Deadline.IsZero() && !n.Cancelled {
		return nil, fmt.Errorf("%w: a Health event whose startTime is %.40q", errUnparsable, d.Start)
	}
	var all []cloud.Notice
	seen := map[string]bool{}
	add := func(entity string, over bool) {
		entity = entity[strings.LastIndexByte(entity, '/')+1:] // an ARN's end is the id
		if seen[entity] || !oneInstance.MatchString(entity) {
			return
		}
		one := n
		one.Instance, one.Cancelled = entity, n.Cancelled || over
		seen[entity] = true
		all = append(all, one)
	}
	for _, entity := range d.Entities {
		add(entity.Value, strings.EqualFold(entity.Status, "RESOLVED"))
	}
	for _, r := range e.Resources {
		add(r, false)
	}
	return all, nil
}

// healthAction says what an eventTypeCode announces in the words of the
// instance's metadata; one that has no such word is left as it is.
func healthAction(code string) string {
	words := []struct{ part, action string }{
		{"INSTANCE_RETIREMENT", "instance-retirement"},
		{"INSTANCE_STOP", "instance-stop"},
		{"INSTANCE_REBOOT", "instance-reboot"},
		{"SYSTEM_REBOOT", "system-reboot"},
		{"SYSTEM_MAINTENANCE", "system-maintenance"},
		{"NETWORK_MAINTENANCE", "system-maintenance"},
		{"POWER_MAINTENANCE", "system-maintenance"},
	}
	if i := slices.IndexFunc(words, func(w struct{ part, action string }) bool { return strings.Contains(code, w.part) }); i >= 0 {
		return words[i].action
	}
	return code
}

// maxWord is far beyond AWS's words and ARNs.
const maxWord = 512

// readable says whether a word of AWS may go into messages and the journal.
func readable(s string) bool {
	return len(s) <= maxWord && !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsGraphic(r) })
}
