package vultr

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/burst-hpc/burst/cloud"
)

// gpuCount is how many GPUs a plan has, as Vultr's lists write it: a number, or a text as "8"
// or "1/16". Empty: they do not say.
type gpuCount string

var gpuCounts = regexp.MustCompile(`^[0-9]{1,4}([./][0-9]{1,4})?$`)

// UnmarshalJSON implements json.Unmarshaler. What is none of these is not known: the other plans are.
func (c *gpuCount) UnmarshalJSON(raw []byte) error {
	*c = ""
	if text := strings.Trim(string(raw), `"`); gpuCounts.MatchString(text) {
		*c = gpuCount(text)
	}
	return nil
}

// whole is how many they are; 0: a part of one. ok is false where it is not known.
func (c gpuCount) whole() (n int, ok bool) {
	r, ok := new(big.Rat).SetString(string(c))
	if !ok || r.Sign() <= 0 {
		return 0, false
	}
	if !r.IsInt() {
		return 0, r.Cmp(big.NewRat(1, 1)) < 0
	}
	return int(r.Num().Int64()), true
}

// gpuMemory is what each of Vultr's GPUs has, in GB as its lists count: not all of them say
// how many GPUs a plan has, but how much memory they have together. An A16 is a
// card of four GPUs of 16 GB.
var gpuMemory = map[string]int{
	"a16": 16, "a40": 48, "a100": 80, "l40s": 48, "h100": 80, "gh200": 96, "b200": 192,
	"mi300x": 192, "mi325x": 256, "mi355x": 288,
}

// gpuPlan is the name of a plan of cloud compute with GPUs: vcg-a100-24c-240g-160vram. Of those with whole GPUs
// the list of plans may say nothing else about them.
var gpuPlan = regexp.MustCompile(`^vcg-([a-z0-9]+)-(?:.*-)?([0-9]{1,5})vram$`)

// gpu is the kind of the plan's GPUs, and their memory in GB, by its list or else its name.
func (pl plan) gpu() (kind string, memory int) {
	if m := gpuPlan.FindStringSubmatch(pl.ID); gpuName(pl.GPU) == "" && m != nil {
		memory, _ = strconv.Atoi(m[2]) // the pattern is right
		return m[1], memory
	}
	return pl.GPU, pl.VRAM
}

// gpus are the plan's. What is not whole GPUs by their number, or else by its memory, as the part of one that
// cloud compute sells, is none: the note says so.
func (pl plan) gpus() (all []cloud.GPU, note string) {
	kind, memory := pl.gpu()
	name := gpuName(kind)
	if name == "" && strings.HasPrefix(pl.ID, "vcg-") {
		return nil, fmt.Sprintf("%s has GPUs, and Vultr does not say which", pl.ID)
	}
	if name == "" {
		return nil, ""
	}
	each := gpuMemory[name]
	n, counted := pl.GPUs.whole()
	switch {
	case counted && n > 0:
		return []cloud.GPU{{Name: name, Count: n}}, ""
	case counted:
		return nil, fmt.Sprintf("%s has a part of a GPU (%s): %s", pl.ID, name, pl.GPUs)
	case each > 0 && memory > 0 && memory%each == 0:
		return []cloud.GPU{{Name: name, Count: memory / each}}, ""
	case each > 0 && memory > 0 && memory < each:
		return nil, fmt.Sprintf("%s has a part of a GPU (%s): %d of its %d GB", pl.ID, name, memory, each)
	case memory > 0:
		return nil, fmt.Sprintf("%s has GPUs (%s) with %d GB, and it is not clear how many", pl.ID, kind, memory)
	}
	return nil, fmt.Sprintf("%s has GPUs (%s), and Vultr does not say how many", pl.ID, kind)
}

// arch is the plan's processors'. Vultr's lists do not say it: all are x86_64 but Grace, which comes with the
// GPU of a GH200.
func (pl plan) arch() string {
	if kind, _ := pl.gpu(); gpuName(kind) == "gh200" || slices.Contains(strings.Split(pl.ID, "-"), "gh200") {
		return "arm64"
	}
	return "x86_64"
}

// gpuName is the GRES name of "NVIDIA_A100", and of "NVIDIA_A100_SXM".
func gpuName(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return r == '_' || r == ' ' })
	if len(words) > 1 && (words[0] == "nvidia" || words[0] == "amd") {
		words = words[1:]
	}
	if len(words) == 0 || words[0] == "none" {
		return ""
	}
	return words[0]
}
