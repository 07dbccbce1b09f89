package bench

import (
	"slices"
	"strings"
	"testing"
)

func TestReadIdle(t *testing.T) {
	step := strings.Repeat("2.5 1.25\n", idleRuns) + "connected\n"
	progress, should, err := readIdle(strings.Repeat(step, idleSteps))
	if err != nil || len(progress) != idleRuns*idleSteps || slices.Max(progress) != 2.5 || slices.Min(should) != 1.25 {
		t.Errorf("%v %v %v", progress, should, err)
	}
	for name, bad := range map[string]string{
		"nothing":        "",
		"a step fewer":   strings.Repeat(step, idleSteps-1),
		"a run fewer":    strings.Repeat(step, idleSteps-1) + step[len("2.5 1.25\n"):],
		"not under it":   strings.Repeat(strings.Replace(step, "connected\n", "", 1), idleSteps),
		"alone":          strings.Repeat(strings.Replace(step, "connected", "alone", 1), idleSteps),
		"another's word": strings.Repeat(step, idleSteps) + "srun: error\n",
	} {
		if _, _, err := readIdle(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
