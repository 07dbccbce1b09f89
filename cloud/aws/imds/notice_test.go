package imds

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/aws/imds/imdstest"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

const planned = `[{"NotBefore":"21 Jan 2026 09:00:43 GMT","Code":"system-reboot","Description":"scheduled reboot","EventId":"instance-event-0d59937288b749b32","NotAfter":"21 Jan 2026 09:17:23 GMT","State":"active"}]`

func TestParse(t *testing.T) {
	spot := func(action, time string) []cloud.Notice {
		return []cloud.Notice{{Kind: cloud.SpotInterruption, Action: action, Deadline: at(time)}}
	}
	event := func(id, code, time string) cloud.Notice {
		return cloud.Notice{Kind: cloud.Maintenance, Action: code, Event: id, Deadline: at(time)}
	}
	reboot := event("instance-event-0d59937288b749b32", "system-reboot", "2026-01-21T09:00:43Z")
	over := reboot
	over.Cancelled = true
	for _, tt := range []struct {
		name, path, text string
		want             []cloud.Notice
		err              string
	}{
		{"terminate", imdstest.SpotPath, `{"action":"terminate","time":"2026-04-24T17:11:44Z"}`, spot("terminate", "2026-04-24T17:11:44Z"), ""},
		{"stop, with a zone", imdstest.SpotPath, `{"action":"stop","time":"2026-04-24T19:11:44+02:00"}`, spot("stop", "2026-04-24T17:11:44Z"), ""},
		{"hibernate", imdstest.SpotPath, "{\"action\": \"hibernate\", \"time\": \"2026-04-24T17:11:44Z\"}\n", spot("hibernate", "2026-04-24T17:11:44Z"), ""},
		{"a new action", imdstest.SpotPath, `{"action":"melt","time":"2026-04-24T17:11:44Z"}`, spot("melt", "2026-04-24T17:11:44Z"), ""},
		{"no time: the instance goes all the same", imdstest.SpotPath, `{"action":"terminate"}`,
			[]cloud.Notice{{Kind: cloud.SpotInterruption, Action: "terminate"}}, "cannot parse"},
		{"no action", imdstest.SpotPath, `{"time":"2026-04-24T17:11:44Z"}`, nil, "no action"},
		{"an action of many lines", imdstest.SpotPath, `{"action":"a\nb","time":"2026-04-24T17:11:44Z"}`, nil, "no action"},
		{"null", imdstest.SpotPath, `null`, nil, "no action"},
		{"a page", imdstest.SpotPath, `<html>`, nil, "is not what EC2 writes there"},
		{"empty", imdstest.SpotPath, ``, nil, "is not what EC2 writes there"},
		{"cut", imdstest.SpotPath, `{"action":"terminate","ti`, nil, "is not what EC2 writes there"},

		{"rebalance", imdstest.RebalancePath, `{"noticeTime":"2026-10-16T19:18:24Z"}`, []cloud.Notice{{Kind: cloud.Rebalance}}, ""},
		{"rebalance without time", imdstest.RebalancePath, `{}`, nil, "no noticeTime"},

		{"maintenance", imdstest.MaintenancePath, planned, []cloud.Notice{reboot}, ""},
		{"cancelled", imdstest.MaintenancePath, strings.Replace(planned, "active", "canceled", 1), []cloud.Notice{over}, ""},
		{"completed", imdstest.MaintenancePath, strings.Replace(planned, "active", "completed", 1), []cloud.Notice{over}, ""},
		{"an unknown state", imdstest.MaintenancePath, strings.Replace(planned, "active", "likely", 1), []cloud.Notice{reboot}, ""},
		{"no event", imdstest.MaintenancePath, `[]`, nil, ""},
		{"one that is broken hides no other", imdstest.MaintenancePath, `[{"EventId":"e1","NotBefore":"soon"},7,` + planned[1:], []cloud.Notice{reboot}, `"soon"`},
		{"no id", imdstest.MaintenancePath, `[{"NotBefore":"21 Jan 2026 09:00:43 GMT"}]`, nil, "no EventId"},
		{"twice, the sooner", imdstest.MaintenancePath, `[{"EventId":"e","Code":"c","NotBefore":"1 Feb 2026 09:00:00 GMT"},{"EventId":"e","Code":"c","NotBefore":"1 Jan 2026 09:00:00 GMT"}]`,
			[]cloud.Notice{event("e", "c", "2026-01-01T09:00:00Z")}, ""},
		{"twice, once over", imdstest.MaintenancePath, `[{"EventId":"e","Code":"c","State":"canceled","NotBefore":"1 Jan 2026 09:00:00 GMT"},{"EventId":"e","Code":"c","NotBefore":"1 Feb 2026 09:00:00 GMT"}]`,
			[]cloud.Notice{event("e", "c", "2026-02-01T09:00:00Z")}, ""},
		{"an object", imdstest.MaintenancePath, planned[1 : len(planned)-1], nil, "is not what EC2 writes there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := imdstest.New("i-1")
			c := newClient(t, s, Options{})
			s.Set(tt.path, tt.text)
			if tt.text == "" {
				s.Fail("/latest/meta-data/"+tt.path, imdstest.Fault{Status: 200})
			}
			for _, topic := range Topics() {
				var want []cloud.Notice
				message := ""
				if topic.path == tt.path {
					want, message = tt.want, tt.err
				}
				got, err := c.Notices(t.Context(), topic)
				if (err != nil) != (message != "") || err != nil && !strings.Contains(err.Error(), message) {
					t.Errorf("%s: error %v, want %q", topic.Kind, err, message)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s (-want +got):\n%s", topic.Kind, d)
				}
			}
		})
	}
}

func TestManyEvents(t *testing.T) {
	text := `[` + strings.Repeat(`{"EventId":"x"},`, 10_000) + `7]`
	if all, err := parseMaintenance([]byte(text)); len(all) > 0 || err == nil || len(err.Error()) > 64<<8 {
		t.Errorf("%d notices, %d bytes of error", len(all), len(err.Error()))
	}
}

// FuzzNotices: whatever the service writes, what is taken has a kind, and an
// event can be told from others.
func FuzzNotices(f *testing.F) {
	f.Add([]byte(planned))
	f.Add([]byte(`{"action":"terminate","time":"2026-04-24T17:11:44Z"}`))
	f.Add([]byte(`{"noticeTime":"2026-10-16T19:18:24Z"}`))
	f.Add([]byte(`[{"EventId":"e","State":"canceled"},{}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, topic := range Topics() {
			all, err := topic.parse(text)
			seen := map[string]bool{}
			for _, n := range all {
				switch {
				case n.Kind != topic.Kind, !plain(n.Action), !plain(n.Event), seen[n.Event]:
					t.Errorf("%q gives %+v", text, n)
				case n.Kind == cloud.Maintenance && (n.Event == "" || n.Deadline.IsZero() && !n.Cancelled):
					// 1 Jan 0001 is the zero time, and such an event has been for long.
					if n.Event == "" || !strings.Contains(string(text), "0001") {
						t.Errorf("%q gives %+v", text, n)
					}
				case n.Kind == cloud.SpotInterruption && n.Action == "":
					t.Errorf("%q gives %+v", text, n)
				}
				seen[n.Event] = true
			}
			if len(all) == 0 && err == nil && topic.Kind != cloud.Maintenance {
				t.Errorf("%q is neither a %s nor an error", text, topic.Kind)
			}
		}
	})
}
