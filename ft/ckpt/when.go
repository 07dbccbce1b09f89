package ckpt

import (
	"math"
	"time"
)

// Rate is what is known of how often instances of a kind are evicted.
type Rate struct {
	Evictions int
	Watched   time.Duration // summed over the instances that were, until each went
}

// Before anything was seen an instance counts as evicted once a month. The highest
// band that AWS's Spot Instance Advisor knows begins at 20 % a month, so this is on
// the careful side, which costs only checkpoints.
const (
	priorEvictions = 1
	priorWatched   = 30 * 24 * time.Hour
)

// Between is the expected time between two evictions that hit a job of so many
// nodes. With the prior as a Gamma distribution of the rate, this is the inverse of the
// rate's posterior mean: (watched + a month) / (evictions + 1), over the nodes.
func (r Rate) Between(nodes int) time.Duration {
	watched := float64(max(r.Watched, 0)) + float64(priorWatched)
	between := watched / float64(max(r.Evictions, 0)+priorEvictions) / float64(max(nodes, 1))
	return time.Duration(max(between, float64(time.Second)))
}

// Interval is the time from the end of one periodic checkpoint to the beginning of
// the next that costs least, for checkpoints that take cost each, and faults that come
// after between on average. heeded is the part of the faults, 0 to 1, that a notice
// tells in time for a checkpoint: periodic ones are for the others, which come after
// between/(1-heeded). 0: no periodic checkpoint pays.
//
// J. T. Daly, "A higher order estimate of the optimum checkpoint interval for
// restart dumps", Future Generation Computer Systems 22 (2006) 303–312, equation 37:
//
//	sqrt(2·C·M)·(1 + sqrt(C/2M)/3 + (C/2M)/9) − C  for C < 2M, else M
//
// of which sqrt(2·C·M) is Young's of 1974. That faults which are told count not, and
// M becomes M/(1-heeded), is of G. Aupy, Y. Robert, F. Vivien, D. Zaidouni,
// "Checkpointing algorithms and fault prediction", arXiv:1302.3752 (2013), for
// predictions that come true.
func Interval(cost, between time.Duration, heeded float64) time.Duration {
	if between <= 0 || !(heeded < 1) {
		return 0
	}
	c := max(cost, minCost).Seconds()
	m := between.Seconds() / (1 - max(heeded, 0))
	best := m
	if x := c / (2 * m); x < 1 {
		best = math.Sqrt(2*c*m)*(1+math.Sqrt(x)/3+x/9) - c
	}
	// Never more often than a checkpoint takes: the job would do nothing else.
	best = max(best, c)
	if best > math.MaxInt64/float64(time.Second)/2 {
		return 0
	}
	return max(time.Duration(best*float64(time.Second)), cost) // seconds in floating point may fall short by one nanosecond
}

// minCost stands for costs that were too small to measure.
const minCost = 100 * time.Millisecond

// Next is when the next periodic checkpoint is due that follows one that ended at
// last. u, a random number from 0 to 1, spreads it by a tenth of the interval: jobs that
// began together must not write together for ever.
func Next(last time.Time, every time.Duration, u float64) time.Time {
	spread := 0.1 * (min(max(u, 0), 1) - 0.5)
	return last.Add(every + time.Duration(spread*float64(every)))
}

// mostAgain bounds the wait after failures: what was wrong may be mended.
const mostAgain = 4 * time.Hour

// Again is the interval to the next periodic checkpoint when the last ones, so many
// in a row, were tried and failed: every, but not less than what pays by the time
// that the last try took, and twice as long for each failure; up to 4 h, or every if
// that is more. between is as in Interval.
func Again(every, took, between time.Duration, failed int) time.Duration {
	if failed <= 0 || every <= 0 {
		return every
	}
	wait := max(every, Interval(took, between, 0))
	for range failed {
		if wait >= mostAgain {
			break
		}
		wait *= 2
	}
	return max(every, min(wait, mostAgain))
}

// GuessedCost stands for what a checkpoint takes before there was one.
const GuessedCost = 10 * time.Second

// leastTry is the least time in which a first checkpoint is tried.
const leastTry = time.Second

// Fits says whether a checkpoint that begins now is over in the time that is left, if
// it takes cost. A step that has made none, of cost 0, has nothing to lose: it tries.
func Fits(cost, left time.Duration) bool {
	if cost <= 0 {
		return left >= leastTry
	}
	return left >= cost
}
