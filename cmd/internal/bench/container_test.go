package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestReadContainer(t *testing.T) {
	size := containerSize{launches: 2, pairs: 1}
	got, err := readContainer("90000000 30000000\n80000000 20000000\n61000000000 60000000000\n", size)
	if err != nil || !slices.Equal(got.launchInside, []float64{90, 80}) || !slices.Equal(got.launchOutside, []float64{30, 20}) ||
		!slices.Equal(got.inside, []float64{61}) || !slices.Equal(got.outside, []float64{60}) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "1 2\n3 4\n", "1 2\n3 4\nx 6\n", "1 2\n3 4\n5 0\n", strings.Repeat("1 2\n", 4)} {
		if got, err := readContainer(bad, size); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}
