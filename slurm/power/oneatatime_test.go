package power

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// TestOthersTurns compares what is remembered of each offering with all that was said of it.
func TestOthersTurns(t *testing.T) {
	keys := []coolKey{{"east", smallA}, {"east", smallB}}
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 1))
		all, busy := map[coolKey]map[uint32]time.Time{}, byOffering{}
		for range dice.IntN(12) {
			job, until, some := uint32(dice.IntN(5)), at.Add(time.Duration(dice.IntN(9))*time.Second), keys[dice.IntN(2):]
			busy.take(job, until, some)
			for _, k := range some {
				if all[k] == nil {
					all[k] = map[uint32]time.Time{}
				}
				all[k][job] = later(until, all[k][job])
			}
		}
		for job := range uint32(5) {
			var until time.Time
			var oldest uint32
			var where cloud.Offering
			for _, k := range keys {
				for other, end := range all[k] {
					if other == job {
						continue
					}
					if until.IsZero() || other < oldest {
						oldest, where = other, k.offering
					}
					until = later(until, end)
				}
			}
			if u, o, w := busy.others(job, keys); !u.Equal(until) || o != oldest || w != where {
				t.Fatalf("seed %d, job %d: job %d at %s until %s, want job %d at %s until %s", seed, job, o, w, u, oldest, where, until)
			}
		}
	}
}

// BenchmarkTurns plans for many jobs of two nodes each that want the same offering.
func BenchmarkTurns(b *testing.B) {
	for _, jobs := range []int{500, 5000} {
		b.Run(fmt.Sprint("jobs ", jobs), func(b *testing.B) {
			pool := testPools()[0]
			pool.Nodes = nil
			var st State
			for job := range jobs {
				for n := range 2 {
					name := fmt.Sprintf("c%05d-%d", job, n)
					pool.Nodes = append(pool.Nodes, name)
					st.Nodes = append(st.Nodes, wholeJob(uint32(job+1), "p", Wanted, name)...)
				}
			}
			for b.Loop() {
				p := planning{mem: newMemory(st), pools: map[string]Pool{"p": pool}, limits: map[string]cloud.Limits{"east": {MaxLaunch: 9, Lag: time.Minute}},
					now: at, market: newMarket(), shut: map[string]shut{}, least: func(string, cloud.Offering) time.Duration { return time.Hour }}
				if out := p.plan(); len(out.drafts) != 1 {
					b.Fatalf("launched are %d jobs, want the oldest", len(out.drafts))
				}
			}
		})
	}
}
