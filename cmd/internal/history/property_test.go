package history

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/burst-hpc/burst/slurm"
)

// TestNoRunIsLostOrDoubled: jobs run, are requeued and end, while burstd is killed
// between any two rows, and away for a while; each that it could see has one row,
// and with the last of Slurm's words where it was seen.
func TestNoRunIsLostOrDoubled(t *testing.T) {
	for seed := range uint64(60) {
		dice := rand.New(rand.NewPCG(seed, 1))
		jobs := map[uint32]slurm.Job{}
		seen, ended := map[uint32]bool{}, map[uint32]string{}
		rows := map[string]Run{}
		b := book{t: t, rows: rows}
		for now := 0; now < 3000; now += 10 + dice.IntN(20) {
			if now < 2000 && dice.IntN(4) == 0 {
				id := uint32(now + 1)
				jobs[id] = slurm.Job{ID: id, Nodes: "c1", State: "RUNNING", Submitted: at(now), Start: at(now)}
			}
			for id, j := range jobs {
				switch dice.IntN(12) {
				case 0:
					if j.State == "RUNNING" {
						j.State, j.End = "COMPLETED", at(now)
					}
				case 1:
					if j.State == "RUNNING" {
						j.State, j.Restarts, j.Submitted = "PENDING", j.Restarts+1, at(now)
					}
				case 2, 3:
					if j.State == "PENDING" {
						j.State, j.Start = "RUNNING", at(now)
					}
				}
				if jobs[id] = j; j.State == "COMPLETED" && now-int(j.End.Sub(t0).Seconds()) > 300 {
					delete(jobs, id)
				}
			}
			if dice.IntN(10) == 0 {
				continue // away
			}
			in := Input{Snapshot: &slurm.Snapshot{Taken: at(now), Jobs: jobs}, Pools: map[string]string{"c1": "p"}}
			written := Book(b.known(in), in)
			if dice.IntN(3) == 0 {
				written = written[:dice.IntN(len(written)+1)] // killed
			} else {
				for id, j := range jobs {
					seen[id] = seen[id] || j.State == "RUNNING" || j.State == "COMPLETED"
					if j.State == "COMPLETED" {
						ended[id] = j.State
					}
				}
			}
			for _, r := range written {
				rows[fmt.Sprint(r.Job, " ", r.Submitted.Unix())] = r
			}
		}
		in := Input{Snapshot: &slurm.Snapshot{Taken: at(9000), Jobs: nil}}
		for _, r := range Book(b.known(in), in) {
			rows[fmt.Sprint(r.Job, " ", r.Submitted.Unix())] = r
		}
		of := map[uint32]int{}
		for _, r := range rows {
			if of[r.Job]++; of[r.Job] > 1 || r.Open || ended[r.Job] != "" && r.State != ended[r.Job] || r.Time() < 0 || r.Ended.IsZero() {
				t.Fatalf("seed %d: %d rows, ended as %q: %+v", seed, of[r.Job], ended[r.Job], r)
			}
		}
		for id := range seen {
			if seen[id] && of[id] != 1 {
				t.Fatalf("seed %d: job %d has %d rows", seed, id, of[id])
			}
		}
	}
}
