package bench

import (
	"context"
	"path/filepath"
	"slices"
)

// All lists the benchmarks, in the order in which they run.
func All() []Bench {
	return slices.Concat(
		[]Bench{hostlist100k(), resumeHandover()},
		resume1000(),
		sbatchToRunning(),
		[]Bench{noticeToRunning(), noticeAgent(), noticeQueue()},
		[]Bench{storm1000()},
		awsBenches(),
		bigBenches(),
		[]Bench{reconcileReal()},
		[]Bench{ordersOut(), sessionsRSS()},
		srunOverhead(),
		[]Bench{burstSrunOverhead(), libburstIdleCall()},
		containerBenches(containerFull),
		ulfmBenches(ulfmFull),
		ftBenches(ftMeasure),
		[]Bench{hourlySaving(), overflowRound(), costRecords()},
	)
}

func resumeHandover() Bench {
	return Bench{
		Name:   "resume-handover",
		Method: "burst-resume with a resume file of 1,000 nodes, process start to end, against burstd's API in memory: median of 20 runs",
		Unit:   "ms",
		Better: Lower,
		Goal:   20,
		Run: func(ctx context.Context, env Env) ([]float64, error) {
			return ResumeHandover(ctx, filepath.Join(env.Programs, "burst-resume"))
		},
	}
}
