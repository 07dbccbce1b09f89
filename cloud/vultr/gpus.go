package vultr

import (
	"fmt"
	"strings"

	"github.com/burst-hpc/burst/cloud"
)

// gpuMemory is what each of Vultr's GPUs has, in GB as its lists count: they say of a plan
// how much memory its GPUs have together, and not how many they are. An A16 is a
// card of four GPUs of 16 GB.
var gpuMemory = map[string]int{
	"a16": 16, "a40": 48, "a100": 80, "l40s": 48, "h100": 80, "gh200": 96, "b200": 192,
	"mi300x": 192, "mi325x": 256, "mi355x": 288,
}

// gpus are the plan's. What is not whole GPUs by its memory, as the part of one that
// cloud compute sells, is none: the note says so.
func (pl plan) gpus() (all []cloud.GPU, note string) {
	name := gpuName(pl.GPU)
	if name == "" {
		return nil, ""
	}
	each := gpuMemory[name]
	switch {
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
