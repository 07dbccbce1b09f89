package daemon

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/burst-hpc/burst/ft/session"
)

// TestAStepAsItIsTold: what is not known is null.
func TestAStepAsItIsTold(t *testing.T) {
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	hello := session.Hello{Key: session.Key{Job: 7, Attempt: 2, Step: "0"}, Method: "scr", Strategy: "both", Host: "c1", Token: "secret", Dir: "/home/u"}
	const head = `{"job":7,"attempt":2,"step":"0","host":"c1","method":"scr","strategy":"both",`
	for _, tt := range []struct {
		name string
		s    session.Seen
		want string
	}{
		{"all", session.Seen{Progress: session.Progress{Iteration: 4, Of: 9, Generation: 3, Attempt: 1, Since: 90 * time.Second}},
			`"checkpoint":{"attempt":1,"generation":3,"since_seconds":90},"iteration":4,"iterations":9,"heard":"2026-08-01T12:00:00Z","silent":false}`},
		{"nothing", session.Seen{Progress: session.Progress{Iteration: -1, Of: 9}, Lost: true},
			`"checkpoint":null,"iteration":null,"iterations":null,"heard":"2026-08-01T12:00:00Z","silent":true}`},
	} {
		tt.s.Session, tt.s.At = session.Session{Hello: hello}, at
		got, err := json.Marshal(stepsOf([]session.Seen{tt.s})[0])
		if err != nil || string(got) != head+tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.name, got, err, head+tt.want)
		}
	}
}
