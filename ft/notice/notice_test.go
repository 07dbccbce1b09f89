package notice

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/cloud"
)

var t0 = time.UnixMicro(1_800_000_000_000_000)

// TestAnyOrderIsOneRecord: whatever the sources, delays and repetitions.
func TestAnyOrderIsOneRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) cloud.Notice {
			n := cloud.Notice{
				Event:    rapid.SampledFrom([]string{"", "e1", "e2", "e3"}).Draw(t, "event"),
				Action:   rapid.SampledFrom([]string{"", "stop", "terminate"}).Draw(t, "action"),
				Source:   rapid.SampledFrom([]string{"imds", "sqs", "local"}).Draw(t, "source"),
				Received: t0.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "received")) * time.Second),
			}
			if d := rapid.IntRange(0, 4).Draw(t, "deadline"); d > 0 {
				n.Deadline = t0.Add(time.Duration(d) * time.Minute)
			}
			n.Cancelled = n.Event != "" && rapid.Bool().Draw(t, "cancelled")
			return n
		}), 1, 10).Draw(t, "notices")
		var a, b Record
		for _, n := range all {
			a.Add(n, false)
		}
		for _, n := range append(rapid.Permutation(all).Draw(t, "order"), all...) { // and each again
			b.Add(n, false)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatal(diff)
		}
		if b.Add(all[0], false) != Nothing {
			t.Fatal("what is known is no news")
		}
	})
}

func TestAdd(t *testing.T) {
	at := func(min int) time.Time { return t0.Add(time.Duration(min) * time.Minute) }
	say := func(event string, min int) cloud.Notice {
		return cloud.Notice{Event: event, Deadline: at(min), Received: t0, Source: "imds"}
	}
	cancel := func(event string) cloud.Notice { return cloud.Notice{Event: event, Cancelled: true, Received: t0} }
	closed := cloud.Notice{Instance: "closed"} // a mark: what comes after it comes when all is over
	for _, tt := range []struct {
		name    string
		notices []cloud.Notice
		want    []Effect
		next    Event
	}{
		{"the same twice", []cloud.Notice{say("", 2), say("", 2)}, []Effect{Opened, Nothing}, Event{Deadline: at(2)}},
		{"an earlier deadline", []cloud.Notice{say("", 2), say("", 1)}, []Effect{Opened, Changed}, Event{Deadline: at(1)}},
		{"a later deadline", []cloud.Notice{say("", 2), say("", 3)}, []Effect{Opened, Nothing}, Event{Deadline: at(2)}},
		{"no deadline, then one", []cloud.Notice{{}, say("", 3)}, []Effect{Opened, Changed}, Event{Deadline: at(3)}},
		{"cancelled", []cloud.Notice{say("a", 2), cancel("a")}, []Effect{Opened, Changed}, Event{ID: "a", Deadline: at(2), Cancelled: true}},
		{"cancelled by any", []cloud.Notice{say("a", 2), say("b", 3), cancel("")}, []Effect{Opened, Nothing, Changed}, Event{Cancelled: true}},
		{"cancelled first, and a late copy", []cloud.Notice{cancel("a"), closed, say("a", 2)}, []Effect{Opened, Nothing}, Event{ID: "a", Deadline: at(2), Cancelled: true}},
		{"another one is cancelled", []cloud.Notice{say("a", 2), cancel("b")}, []Effect{Opened, Nothing}, Event{ID: "a", Deadline: at(2)}},
		{"of two the sooner is cancelled", []cloud.Notice{say("a", 2), say("b", 3), cancel("a")}, []Effect{Opened, Nothing, Changed}, Event{ID: "b", Deadline: at(3)}},
		{"a new one after a cancelled one", []cloud.Notice{say("a", 2), cancel("a"), closed, say("b", 9)}, []Effect{Opened, Changed, Opened}, Event{ID: "b", Deadline: at(9)}},
		{"a new one without an id", []cloud.Notice{say("", 2), cancel(""), closed, say("", 9)}, []Effect{Opened, Changed, Opened}, Event{Deadline: at(9)}},
		{"another one when the first is over", []cloud.Notice{say("a", 2), closed, say("b", 9)}, []Effect{Opened, Opened}, Event{ID: "a", Deadline: at(2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r Record
			var got []Effect
			over := false
			for _, n := range tt.notices {
				if n.Instance == "closed" {
					over = true
					continue
				}
				got = append(got, r.Add(n, over))
			}
			if !slices.Equal(got, tt.want) || r.Next() != tt.next {
				t.Errorf("effects %v, next %+v", got, r.Next())
			}
		})
	}
}

// TestARecordIsBounded: the most urgent is kept, whoever floods.
func TestARecordIsBounded(t *testing.T) {
	var r Record
	r.Add(cloud.Notice{Event: "mine", Deadline: t0}, false)
	for i := range 1000 {
		r.Add(cloud.Notice{Event: fmt.Sprint(i), Deadline: t0.Add(time.Hour), Cancelled: i%2 == 0}, false)
	}
	if len(r.Events) != maxEvents || r.Next().ID != "mine" {
		t.Errorf("%d events, next %+v", len(r.Events), r.Next())
	}
}

func TestSane(t *testing.T) {
	for _, tt := range []struct {
		name     string
		kind     cloud.NoticeKind
		in, want time.Time
	}{
		{"none", cloud.SpotInterruption, time.Time{}, time.Time{}},
		{"two minutes", cloud.SpotInterruption, t0.Add(2 * time.Minute), t0.Add(2 * time.Minute)},
		{"past", cloud.SpotInterruption, t0.Add(-time.Hour), t0},
		{"before 1970", cloud.SpotInterruption, time.Unix(-1, 0), t0},
		{"years ahead", cloud.SpotInterruption, t0.AddDate(3, 0, 0), time.Time{}},
		{"a maintenance in two weeks", cloud.Maintenance, t0.AddDate(0, 0, 14), t0.AddDate(0, 0, 14)},
		{"a maintenance in years", cloud.Maintenance, t0.AddDate(9, 0, 0), time.Time{}},
	} {
		if got := Sane(cloud.Notice{Kind: tt.kind, Deadline: tt.in, Received: t0}).Deadline; !got.Equal(tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
