package ckpt

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The first three are what Daly's paper predicts in its figures 3 to 5.
func TestInterval(t *testing.T) {
	for _, test := range []struct {
		name          string
		cost, between time.Duration
		heeded        float64
		want          time.Duration
	}{
		{"figure 3", 5 * time.Minute, 24 * time.Hour, 0, 117 * time.Minute},
		{"figure 4", 5 * time.Minute, 6 * time.Hour, 0, 57 * time.Minute},
		{"figure 5", 5 * time.Minute, 15 * time.Minute, 0, 9*time.Minute + 6*time.Second},
		{"three of four are told", 5 * time.Minute, 6 * time.Hour, 0.75, 117 * time.Minute},
		{"all are told", 5 * time.Minute, 6 * time.Hour, 1, 0},
		{"more than all", 5 * time.Minute, 6 * time.Hour, 7, 0},
		{"no number", 5 * time.Minute, 6 * time.Hour, math.NaN(), 0},
		{"less than none", 5 * time.Minute, 6 * time.Hour, -3, 57 * time.Minute},
		{"no faults ever", 5 * time.Minute, 0, 0, 0},
		{"too dear: one after the other", time.Hour, 10 * time.Minute, 0, time.Hour},
		{"too cheap to measure", 0, 24 * time.Hour, 0, 131*time.Second + 500*time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := Interval(test.cost, test.between, test.heeded)
			if diff := math.Abs(float64(got - test.want)); diff > 0.01*float64(test.want) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestIntervalProperty(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cost := time.Duration(rapid.Int64Range(0, int64(100*time.Hour)).Draw(r, "cost"))
		between := time.Duration(rapid.Int64().Draw(r, "between"))
		heeded := rapid.Float64().Draw(r, "heeded")
		got := Interval(cost, between, heeded)
		if got < 0 || got > 0 && got < cost {
			r.Fatalf("the interval is %s", got)
		}
		if between <= 0 || between >= math.MaxInt64/2 || !(heeded >= 0 && heeded < 1) {
			return
		}
		rarer := Interval(cost, 2*between, heeded)
		if rarer == 0 && got > math.MaxInt64/8 {
			return // more than a time.Duration holds: none pays
		}
		if rarer < got-time.Nanosecond {
			r.Fatalf("with rarer faults it is %s, shorter than %s", rarer, got)
		}
	})
	if cost := 515396075551 * time.Nanosecond; Interval(cost, 1, 0) != cost {
		t.Errorf("%s, want %s", Interval(cost, 1, 0), cost)
	}
}

func TestRate(t *testing.T) {
	month := 30 * 24 * time.Hour
	for _, test := range []struct {
		name  string
		rate  Rate
		nodes int
		want  time.Duration
	}{
		{"nothing seen: once a month", Rate{}, 1, month},
		{"of ten nodes one goes ten times as often", Rate{}, 10, month / 10},
		{"a year without", Rate{0, 11 * month}, 1, 12 * month},
		{"much seen outweighs it", Rate{999, 999 * time.Hour}, 1, (999*time.Hour + month) / 1000},
		{"garbage", Rate{-5, -time.Hour}, -1, month},
		{"never under a second", Rate{1 << 40, 0}, 1 << 30, time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.rate.Between(test.nodes); got.Round(time.Second) != test.want.Round(time.Second) {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestNext(t *testing.T) {
	last := time.Unix(1000, 0)
	for _, test := range []struct {
		u    float64
		want time.Duration
	}{{0, 95}, {0.5, 100}, {1, 105}, {-1, 95}, {9, 105}} {
		if got := Next(last, 100*time.Second, test.u).Sub(last); got.Round(time.Millisecond) != test.want*time.Second {
			t.Errorf("u=%g: after %s, want %d s", test.u, got, test.want)
		}
	}
}

func TestAgain(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for _, test := range []struct {
		name        string
		every, took time.Duration
		between     time.Duration
		failed      int
		want        time.Duration
	}{
		{"none failed", 10 * time.Minute, time.Hour, month, 0, 10 * time.Minute},
		{"one, at once", time.Hour, 0, month / 1000, 1, 2 * time.Hour},
		{"two", 30 * time.Minute, 0, month, 2, 2 * time.Hour},
		{"many", time.Minute, 0, month, 1 << 40, 4 * time.Hour},
		{"what pays by the time that is lost, twice", time.Minute, 10 * time.Second, month / 10, 1, 2 * Interval(10*time.Second, month/10, 0)},
		{"half an hour is lost by each", time.Minute, 30 * time.Minute, month, 1, 4 * time.Hour},
		{"never sooner than without", 12 * time.Hour, time.Second, month, 3, 12 * time.Hour},
		{"none pays", 0, time.Hour, month, 3, 0},
		{"garbage", time.Minute, math.MaxInt64, 0, -1, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Again(test.every, test.took, test.between, test.failed); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestACheckpointFits(t *testing.T) {
	for _, test := range []struct {
		name       string
		cost, left time.Duration
		want       bool
	}{
		{"it fits", 40 * time.Second, 41 * time.Second, true},
		{"just", 40 * time.Second, 40 * time.Second, true},
		{"a moment too late", 40 * time.Second, 40*time.Second - 1, false},
		{"a first one tries", 0, time.Second, true},
		{"a first one has no time", 0, time.Second - 1, false},
		{"it is over", time.Second, -time.Second, false},
		{"garbage", -time.Second, time.Hour, true},
	} {
		if got := Fits(test.cost, test.left); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
