package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestReadPairs(t *testing.T) {
	var b strings.Builder
	b.WriteString("burst-srun: the job is not protected\n")
	var want []float64
	for i := range overheadPairs {
		if i%2 == 0 {
			fmt.Fprintf(&b, "%d %d srun warm\n", 40_000_000, 50_000_000+i*1_000_000)
		} else {
			fmt.Fprintf(&b, "%d %d burst-srun warm\n", 50_000_000+i*1_000_000, 40_000_000)
		}
		want = append(want, float64(10+i))
	}
	b.WriteString("1000000 9000000 srun cold\n")
	got, err := readPairs(b.String(), "warm", overheadPairs)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
	if got, err := readPairs(b.String(), "cold", 1); err != nil || !slices.Equal(got, []float64{8}) {
		t.Errorf("a first launch: %v, %v", got, err)
	}
	if _, err := readPairs("1 2 srun warm\n", "warm", 2); err == nil {
		t.Error("one pair is taken for all")
	}
}
