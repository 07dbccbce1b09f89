package bench

import (
	"math"
	"slices"
	"strconv"
)

// Median is the middle sample, or the mean of the two in the middle. There
// must be one.
func Median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// Max is the greatest sample, for benchmarks that promise a bound.
func Max(samples []float64) float64 { return slices.Max(samples) }

// Percentile is the smallest sample that at least p percent of the samples do
// not exceed (nearest rank). There must be one.
func Percentile(samples []float64, p float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(p / 100 * float64(len(s))))
	return s[min(max(rank, 1), len(s))-1]
}

// round keeps four digits: what follows is noise.
func round(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v // infinite or not a number
	}
	return r
}
