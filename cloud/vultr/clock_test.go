package vultr

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		date   time.Time // of the answer
		took   time.Duration
		header http.Header
		want   string
	}{
		{"the same", now, time.Second, nil, ""},
		{"within a second of what is tolerated", now.Add(-31 * time.Second), 0, nil, ""},
		{"ahead", now.Add(-301 * time.Second), 0, nil, "5m0s ahead of Vultr's"},
		{"behind", now.Add(302 * time.Second), 2 * time.Second, nil, "5m0s behind Vultr's"},
		{"a slow answer says nothing", now.Add(50 * time.Second), time.Minute, nil, ""},
		{"a cache's", now.Add(-time.Hour), 0, http.Header{"Age": {"3600"}}, ""},
		{"none", time.Time{}, 0, http.Header{}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			header := tt.header
			if header == nil {
				header = http.Header{}
			}
			if !tt.date.IsZero() {
				header.Set("Date", tt.date.Format(http.TimeFormat))
			}
			var c clock
			c.saw(header, now, now.Add(tt.took))
			if got := c.off(); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("%q, want %q in it", got, tt.want)
			}
		})
	}
}
