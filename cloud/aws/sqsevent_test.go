package aws

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// Events as AWS documents them.
const (
	spotEvent      = `{"version":"0","id":"1e5527d7-bb36-4607-3370-4164db56a40e","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","account":"123456789012","time":"2026-01-01T00:00:00Z","region":"us-east-1","resources":["arn:aws:ec2:us-east-1b:instance/i-0b662ef9931388ba0"],"detail":{"instance-id":"i-0b662ef9931388ba0","instance-action":"terminate"}}`
	rebalanceEvent = `{"version":"0","id":"5d5555d5-dd55-5555-5555-5555dd55d55d","detail-type":"EC2 Instance Rebalance Recommendation","source":"aws.ec2","account":"123456789012","time":"2026-10-26T14:14:14Z","region":"us-east-1","resources":["arn:aws:ec2:us-east-1b:instance/i-0b662ef9931388ba0"],"detail":{"instance-id":"i-0b662ef9931388ba0"}}`
	stateEvent     = `{"version":"0","id":"7bf73129-1428-4cd3-a780-95db273d1602","detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","account":"123456789012","time":"2026-11-11T21:29:54Z","region":"us-east-1","resources":["arn:aws:ec2:us-east-1:123456789012:instance/i-abcd1111"],"detail":{"instance-id":"i-abcd1111","state":"stopping"}}`
	healthEvent    = `{"version":"0","id":"7fb65329-1628-4cf3-a740-95fg457h1402","detail-type":"AWS Health Event","source":"aws.health","account":"123456789012","time":"2026-06-05T06:27:57Z","region":"us-east-1","resources":["i-12345678","i-87654321"],"detail":{"eventArn":"arn:aws:health:region::event/id","service":"EC2","eventTypeCode":"AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED","eventTypeCategory":"scheduledChange","startTime":"Sat, 05 Jun 2026 15:10:09 GMT","affectedEntities":[{"entityValue":"i-12345678"},{"entityValue":"i-87654321"}]}}`
)

func with(text string, oldNew ...string) string { return strings.NewReplacer(oldNew...).Replace(text) }

func TestReadEvent(t *testing.T) {
	midnight := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	start := time.Date(2026, 6, 5, 15, 10, 9, 0, time.UTC)
	spot := func(deadline time.Time, action string) []cloud.Notice {
		return []cloud.Notice{{Instance: "i-0b662ef9931388ba0", Kind: cloud.SpotInterruption, Deadline: deadline, Action: action, Source: "sqs"}}
	}
	state := func(action string) []cloud.Notice {
		return []cloud.Notice{{Instance: "i-abcd1111", Kind: cloud.StateChange, Action: action, Source: "sqs"}}
	}
	health := func(change func(*cloud.Notice), ids ...string) []cloud.Notice {
		var all []cloud.Notice
		for _, id := range ids {
			n := cloud.Notice{Instance: id, Kind: cloud.Maintenance, Deadline: start, Action: "instance-retirement", Event: "arn:aws:health:region::event/id", Source: "sqs"}
			change(&n)
			all = append(all, n)
		}
		return all
	}
	same := func(*cloud.Notice) {}
	cancelled := func(n *cloud.Notice) { n.Cancelled = true }
	for _, tt := range []struct {
		name, body string
		want       []cloud.Notice
		err        error
	}{
		{"spot", spotEvent, spot(midnight.Add(2*time.Minute), "terminate"), nil},
		{"spot, stop", with(spotEvent, `"terminate"`, `"stop"`), spot(midnight.Add(2*time.Minute), "stop"), nil},
		{"spot, hibernate has no lead", with(spotEvent, `"terminate"`, `"hibernate"`), spot(midnight, "hibernate"), nil},
		{"spot, no time", with(spotEvent, `"2026-01-01T00:00:00Z"`, `"soon"`), spot(time.Time{}, "terminate"), nil},
		{"spot, another zone's time", with(spotEvent, "00:00:00Z", "01:00:00+01:00"), spot(midnight.Add(2*time.Minute), "terminate"), nil},
		{"rebalance", rebalanceEvent, []cloud.Notice{{Instance: "i-0b662ef9931388ba0", Kind: cloud.Rebalance, Source: "sqs"}}, nil},
		{"stopping", stateEvent, state("stopping"), nil},
		{"stopped", with(stateEvent, "stopping", "stopped"), state("stopped"), nil},
		{"shutting down", with(stateEvent, "stopping", "shutting-down"), state("shutting-down"), nil},
		{"terminated", with(stateEvent, "stopping", "terminated"), state("terminated"), nil},
		{"pending", with(stateEvent, "stopping", "pending"), nil, nil},
		{"running", with(stateEvent, "stopping", "running"), nil, nil},
		{"no such state", with(stateEvent, "stopping", "flying"), nil, errUnparsable},
		{"health, an instance each", healthEvent, health(same, "i-12345678", "i-87654321"), nil},
		{"health, by resources alone", with(healthEvent, `,"affectedEntities":[{"entityValue":"i-12345678"},{"entityValue":"i-87654321"}]`, ""), health(same, "i-12345678", "i-87654321"), nil},
		{"health, by ARN", with(healthEvent, `["i-12345678","i-87654321"]`, `["arn:aws:ec2:us-east-1:123456789012:instance/i-12345678"]`), health(same, "i-12345678", "i-87654321"), nil},
		{"health, other entities", with(healthEvent, "i-87654321", "vol-87654321"), health(same, "i-12345678"), nil},
		{"health, RFC 3339", with(healthEvent, "Sat, 05 Jun 2026 15:10:09 GMT", "2026-06-05T15:10:09Z"), health(same, "i-12345678", "i-87654321"), nil},
		{"health, closed", with(healthEvent, `"startTime"`, `"statusCode":"closed","startTime"`), health(cancelled, "i-12345678", "i-87654321"), nil},
		{"health, upcoming", with(healthEvent, `"startTime"`, `"statusCode":"upcoming","startTime"`), health(same, "i-12345678", "i-87654321"), nil},
		{"health, cancelled by code", with(healthEvent, "RETIREMENT_SCHEDULED", "RETIREMENT_CANCELLED"), health(cancelled, "i-12345678", "i-87654321"), nil},
		{"health, one entity resolved", with(healthEvent, `{"entityValue":"i-87654321"}`, `{"entityValue":"i-87654321","status":"RESOLVED"}`),
			append(health(same, "i-12345678"), health(cancelled, "i-87654321")...), nil},
		{"health, reboot", with(healthEvent, "INSTANCE_RETIREMENT", "SYSTEM_REBOOT_MAINTENANCE"), health(func(n *cloud.Notice) { n.Action = "system-reboot" }, "i-12345678", "i-87654321"), nil},
		{"health, a code of tomorrow", with(healthEvent, "INSTANCE_RETIREMENT", "BEAUTY"), health(func(n *cloud.Notice) { n.Action = "AWS_EC2_BEAUTY_SCHEDULED" }, "i-12345678", "i-87654321"), nil},
		{"health, no start", with(healthEvent, "Sat, 05 Jun", "some day in"), nil, errUnparsable},
		{"health, no ARN", with(healthEvent, "eventArn", "arn"), nil, errUnparsable},
		{"health, a volume's", with(healthEvent, `"EC2"`, `"EBS"`), nil, errForeign},
		{"health, an issue", with(healthEvent, "scheduledChange", "issue"), nil, errForeign},
		{"another detail-type", with(spotEvent, "EC2 Spot Instance Interruption Warning", "EC2 Instance Launch Successful"), nil, errForeign},
		{"another source", with(spotEvent, "aws.ec2", "com.example"), nil, errForeign},
		{"wrapped by SNS", `{"Type":"Notification","MessageId":"1","Message":"{\"source\":\"aws.ec2\"}"}`, nil, errUnparsable},
		{"transformed", `"the instance i-0b662ef9931388ba0 goes"`, nil, errUnparsable},
		{"no instance", with(spotEvent, `"instance-id":"i-0b662ef9931388ba0"`, `"x":1`), nil, errUnparsable},
		{"no id of an instance", with(spotEvent, `"instance-id":"i-0b662ef9931388ba0"`, `"instance-id":"i-../../etc"`), nil, errUnparsable},
		{"control characters", with(spotEvent, `"terminate"`, `"term\u001binate"`), nil, errUnparsable},
		{"a detail that is a list", `{"source":"aws.ec2","detail-type":"EC2 Instance Rebalance Recommendation","detail":[]}`, nil, errUnparsable},
		{"no JSON", "hello", nil, errUnparsable},
		{"cut off", spotEvent[:len(spotEvent)-3], nil, errUnparsable},
		{"empty", "", nil, errUnparsable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readEvent([]byte(tt.body))
			if !errors.Is(err, tt.err) {
				t.Errorf("the error is %v, want %v", err, tt.err)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("notices %+v, want %+v", got, tt.want)
			}
		})
	}
}

func FuzzReadEvent(f *testing.F) {
	for _, body := range []string{spotEvent, rebalanceEvent, stateEvent, healthEvent, "", "[]", `{"source":"aws.ec2"}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		all, err := readEvent(body)
		if err != nil && (len(all) > 0 || !errors.Is(err, errForeign) && !errors.Is(err, errUnparsable)) {
			t.Fatalf("%d notices and %v", len(all), err)
		}
		type key struct {
			instance string
			kind     cloud.NoticeKind
		}
		seen := map[key]bool{}
		for _, n := range all {
			k := key{n.Instance, n.Kind}
			if seen[k] || !oneInstance.MatchString(n.Instance) || n.Kind == "" || n.Source != "sqs" || !readable(n.Action) || !readable(n.Event) {
				t.Errorf("a notice is %+v", n)
			}
			seen[k] = true
		}
	})
}
