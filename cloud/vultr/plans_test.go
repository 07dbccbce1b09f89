package vultr

import (
	"slices"
	"testing"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cloud/price"
)

// Names, types and memory are as Vultr's lists have them.
func TestGPUsOfPlans(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		id, gpu string
		vram    int
		want    []cloud.GPU
		note    string
	}{
		{"vhp-8c-16gb", "", 0, nil, ""},
		{"vbm-6c-32gb", "none", 0, nil, ""},
		{"vcg-a100-12c-120g-80vram", "NVIDIA_A100", 80, []cloud.GPU{{Name: "a100", Count: 1}}, ""},
		{"vcg-a100-24c-240g-160vram", "NVIDIA_A100", 160, []cloud.GPU{{Name: "a100", Count: 2}}, ""},
		{"vcg-a100-48c-480g-320vram", "NVIDIA_A100", 320, []cloud.GPU{{Name: "a100", Count: 4}}, ""},
		{"vcg-a100-96c-960g-640vram", "NVIDIA_A100", 640, []cloud.GPU{{Name: "a100", Count: 8}}, ""},
		{"vcg-a16-12c-128g-32vram", "NVIDIA_A16", 32, []cloud.GPU{{Name: "a16", Count: 2}}, ""},
		{"vbm-112c-2048gb-8-a100-gpu", "NVIDIA_A100_SXM", 640, []cloud.GPU{{Name: "a100", Count: 8}}, ""},
		{"vcg-a100-1c-6g-4vram", "NVIDIA_A100", 4, nil, "has a part of a GPU (a100): 4 of its 80 GB"},
		{"vcg-a100-120vram", "NVIDIA_A100", 120, nil, "has GPUs (NVIDIA_A100) with 120 GB, and it is not clear how many"},
		{"vcg-new", "NVIDIA_X1", 32, nil, "has GPUs (NVIDIA_X1) with 32 GB, and it is not clear how many"},
		{"vbm-48c-1024gb-4-a100-gpu", "NVIDIA_A100", 0, nil, "has GPUs (NVIDIA_A100), and Vultr does not say how many"},
	} {
		got, note := plan{ID: tt.id, GPU: tt.gpu, VRAM: tt.vram}.gpus()
		if !slices.Equal(got, tt.want) || tt.note == "" != (note == "") || note != "" && note != tt.id+" "+tt.note {
			t.Errorf("%s: %v, %q; want %v, %q", tt.id, got, note, tt.want, tt.note)
		}
	}
}

// A month's price is that of the hours that the ledger charges of a month at most.
func TestMonthsHours(t *testing.T) {
	t.Parallel()
	for _, pl := range []plan{
		{ID: "vhp-8c-16gb"}, {ID: "vcg-a100-12c-120g-80vram", GPU: "NVIDIA_A100"}, {ID: "vbm-48c-1024gb-4-a100-gpu", GPU: "NVIDIA_A100", metal: true},
		{ID: "vbm-new", GPU: "NVIDIA_A100", metal: true}, // of a name that the ledger knows no GPU by
		{ID: "vbm-112c-2048gb-8-h100-gpu", metal: true},  // of which the list names no GPU
	} {
		pl.MonthlyCost = 7000
		if month := pl.hourly("lhr") * price.Of("vultr", pl.ID).Month.Hours(); month < 6999.99 || month > 7000.01 {
			t.Errorf("%s: the hours of a month that are charged cost %g USD, its price is 7000", pl.ID, month)
		}
	}
}
