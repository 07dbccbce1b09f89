package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/burst-hpc/burst/slurm"
)

func pending(id uint32, submitted int) slurm.Job {
	j := running(id, 0)
	j.State, j.Start, j.Submitted, j.Nodes = "PENDING", time.Time{}, at(submitted), ""
	return j
}

// completing is a job that is requeued, as Slurm has it while its processes end.
func completing(id uint32, now int) slurm.Job {
	j := running(id, now)
	j.State = "COMPLETING"
	return j
}

func TestTurnover(t *testing.T) {
	foreign := running(7, 40)
	foreign.Nodes = "onprem1"
	again := running(7, 95)
	type look struct {
		at   int
		jobs []slurm.Job
		want string // the times of the readings that are booked
	}
	for _, tt := range []struct {
		name  string
		looks []look
	}{
		{"nothing goes on", []look{{50, nil, ""}, {51, nil, ""}}},
		{"burstd has just started", []look{{50, []slurm.Job{running(7, 40)}, ""}, {51, []slurm.Job{running(7, 40)}, "51"}, {57, []slurm.Job{running(7, 40)}, ""}}},
		{"an attempt begins", []look{{50, nil, ""}, {51, []slurm.Job{running(7, 51)}, ""}, {52, []slurm.Job{running(7, 51)}, "52"}, {58, []slurm.Job{running(7, 51)}, ""}}},
		{"another just after", []look{{50, nil, ""}, {51, []slurm.Job{running(7, 40)}, ""}, {52, []slurm.Job{running(7, 40)}, "52"}, {53, []slurm.Job{running(7, 40), running(8, 53)}, ""},
			{56, []slurm.Job{running(7, 40), running(8, 53)}, ""}, {57, []slurm.Job{running(7, 40), running(8, 53)}, "57"}, {63, []slurm.Job{running(7, 40), running(8, 53)}, ""}}},
		{"one in the reading that is booked for another", []look{{50, nil, ""}, {51, []slurm.Job{running(7, 51)}, ""}, {52, []slurm.Job{running(7, 51), running(8, 52)}, "52"},
			{57, []slurm.Job{running(7, 51), running(8, 52)}, "57"}, {63, []slurm.Job{running(7, 51), running(8, 52)}, ""}}},
		{"it is requeued", []look{{50, []slurm.Job{running(7, 40)}, ""}, {51, []slurm.Job{pending(7, 50)}, "50 51"}, {52, []slurm.Job{pending(7, 50)}, ""}}},
		{"it completes before", []look{{50, []slurm.Job{running(7, 40)}, ""}, {51, []slurm.Job{completing(7, 51)}, "51"}, {52, []slurm.Job{completing(7, 52)}, ""},
			{53, []slurm.Job{pending(7, 52)}, "52 53"}}},
		{"and runs again already", []look{{94, []slurm.Job{running(7, 40)}, ""}, {96, []slurm.Job{again}, "94 96"}}},
		{"it came and went", []look{{50, []slurm.Job{running(8, 1)}, ""}, {51, []slurm.Job{running(8, 1), running(7, 51)}, "51"}, {52, []slurm.Job{running(8, 1), pending(7, 52)}, "51 52"}}},
		{"it has ended, and Slurm says when", []look{{50, []slurm.Job{running(7, 40)}, ""}, {51, []slurm.Job{finished(7, 40, 50)}, "51"}, {52, nil, ""}}},
		{"not on our nodes", []look{{50, nil, ""}, {51, []slurm.Job{foreign}, ""}, {52, nil, ""}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			turn := Turnover{Ours: func(j slurm.Job) bool { return strings.HasPrefix(j.Nodes, "c") }}
			for _, l := range tt.looks {
				var got []string
				due := turn.Due(snapshot(l.at, l.jobs...), at(l.at))
				for _, s := range due {
					got = append(got, fmt.Sprint(s.Taken.Sub(t0).Seconds()))
				}
				if len(due) > 0 {
					turn.Booked(at(l.at), time.Millisecond)
				}
				if strings.Join(got, " ") != l.want {
					t.Errorf("at %d %v is booked, want %q", l.at, got, l.want)
				}
			}
		})
	}
}

// TestTurnoverTakesItsTime: rounds that take long are made seldom, and then nothing
// that has left is missing.
func TestTurnoverTakesItsTime(t *testing.T) {
	turn := Turnover{Ours: func(slurm.Job) bool { return true }}
	turn.Due(snapshot(0, running(7, 0)), at(0))
	turn.Booked(at(0), time.Second)
	for s := range 19 {
		if due := turn.Due(snapshot(s+1, pending(7, 1)), at(s+1)); due != nil {
			t.Fatalf("booked again after %d s", s+1)
		}
	}
	if due := turn.Due(snapshot(20, pending(7, 1)), at(20)); len(due) != 2 || !due[0].Taken.Equal(at(0)) {
		t.Errorf("%v", due)
	}
	if all := turn.All(nil, at(50)); len(all) != 1 || all[0] != nil {
		t.Errorf("without a reading: %v", all)
	}
}

// TestEveryAttemptIsBookedToItsEnd, exactly once: attempts come and go at any time,
// burstd looks each second and books as it does, and is killed and away now and then.
func TestEveryAttemptIsBookedToItsEnd(t *testing.T) {
	type attempt struct{ from, leaves, to int }
	rapid.Check(t, func(t *rapid.T) {
		var attempts []attempt
		for at := 3; at < 250; {
			a := attempt{from: at, leaves: at + rapid.IntRange(16, 60).Draw(t, "runs")}
			a.to = a.leaves + rapid.IntRange(0, 9).Draw(t, "completes")
			attempts = append(attempts, a)
			at = a.to + rapid.IntRange(2, 20).Draw(t, "waits")
		}
		shows := func(now int) *slurm.Snapshot {
			j := pending(7, -10)
			for _, a := range attempts {
				if now >= a.from {
					j = requeued(running(7, a.from), int(j.Submitted.Sub(t0).Seconds()))
				}
				if now >= a.leaves {
					j.State, j.Start = "COMPLETING", at(now) // as Slurm has it
				}
				if now >= a.to {
					j = pending(7, a.to)
				}
			}
			return snapshot(now, j)
		}
		b := &book{price: 1}
		ours := func(slurm.Job) bool { return true }
		turn, away, killed := Turnover{Ours: ours}, 0, 0
		end := attempts[len(attempts)-1].to + 40
		for now := 0; now < end; now++ {
			if now < away {
				continue
			}
			if killed < 2 && rapid.IntRange(0, 60).Draw(t, "killed") == 0 {
				turn, killed, away = Turnover{Ours: ours}, killed+1, now+rapid.IntRange(1, 5).Draw(t, "away")
				continue
			}
			look := turn.Due
			if now%30 == 0 || now == away {
				look = turn.All
			}
			due := look(shows(now), at(now))
			for _, s := range due {
				b.round(s, instance())
			}
			if len(due) > 0 {
				turn.Booked(at(now), 0)
			}
		}
		gone := ended(instance(), end)
		b.round(shows(end), gone)
		checkTiles(t, b, gone)
		for _, a := range attempts {
			got := 0.0
			for _, r := range b.rows {
				if r.Job == 7 && r.From.Before(at(a.to)) && r.To.After(at(a.from)) {
					got += r.To.Sub(r.From).Seconds()
				}
			}
			if want := float64(a.to - a.from); got != want {
				t.Fatalf("the attempt of %g s from %d is booked for %g s: %s", want, a.from, got, b.text())
			}
		}
	})
}

// TestOnlyTheGapIsGuessed: a reading that lacks an attempt and does not say when it was
// requeued costs it half of a second at most.
func TestOnlyTheGapIsGuessed(t *testing.T) {
	b := &book{price: 1}
	turn := Turnover{Ours: func(slurm.Job) bool { return true }}
	for now := range 90 {
		s := snapshot(now)
		if now >= 40 && now < 52 {
			s = snapshot(now, running(7, 40))
		}
		look := turn.Due
		if now%30 == 0 {
			look = turn.All
		}
		due := look(s, at(now))
		for _, s := range due {
			b.round(s, instance())
		}
		if len(due) > 0 {
			turn.Booked(at(now), 0)
		}
	}
	i := slices.IndexFunc(b.rows, func(r Row) bool { return r.Job == 7 })
	if i < 0 || !b.rows[i].From.Equal(at(40)) || !b.rows[i].To.Equal(at(51).Add(500*time.Millisecond)) {
		t.Errorf("booked %s", b.text())
	}
}
