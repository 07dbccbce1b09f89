package vultr

import (
	"fmt"
	"math/big"
	"regexp"
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

// gpus are the plan's. What is not whole GPUs by their number, or else by its memory, as the part of one that
// cloud compute sells, is none: the note says so.
func (pl plan) gpus() (all []cloud.GPU, note string) {
	name := gpuName(pl.GPU)
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
	case each > 0 && pl.VRAM > 0 && pl.VRAM%each == 0:
		return []cloud.GPU{{Name: name, Count: pl.VRAM / each}}, ""
	case each > 0 && pl.VRAM > 0 && pl.VRAM < each:
		return nil, fmt.Sprintf("%s has a part of a GPU (%s): %d of its %d GB", pl.ID, name, pl.VRAM, each)
	case pl.VRAM > 0:
		return nil, fmt.Sprintf("%s has GPUs (%s) with %d GB, and it is not clear how many", pl.ID, pl.GPU, pl.VRAM)
	}
	return nil, fmt.Sprintf("%s has GPUs (%s), and Vultr does not say how many", pl.ID, pl.GPU)
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
