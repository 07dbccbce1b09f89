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
			fmt.Fprintf(&b, "%d %d srun first\n", 40_000_000, 50_000_000+i*1_000_000)
		} else {
			fmt.Fprintf(&b, "%d %d burst-srun first\n", 50_000_000+i*1_000_000, 40_000_000)
		}
		want = append(want, float64(10+i))
	}
	got, err := readPairs(b.String())
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
	if _, err := readPairs("1 2 srun first\n"); err == nil {
		t.Error("one pair is taken for all")
	}
}
