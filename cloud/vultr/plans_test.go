package vultr

import (
	"encoding/json"
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
		{"vhp-8c-16gb-amd", "", 0, nil, ""},
		{"vbm-6c-32gb", "none", 0, nil, ""},
		{"vcg-a100-12c-120g-80vram", "NVIDIA_A100", 80, []cloud.GPU{{Name: "a100", Count: 1}}, ""},
		{"vcg-a100-24c-240g-160vram", "NVIDIA_A100", 160, []cloud.GPU{{Name: "a100", Count: 2}}, ""},
		{"vcg-a100-48c-480g-320vram", "NVIDIA_A100", 320, []cloud.GPU{{Name: "a100", Count: 4}}, ""},
		{"vcg-a100-96c-960g-640vram", "NVIDIA_A100", 640, []cloud.GPU{{Name: "a100", Count: 8}}, ""},
		{"vcg-a16-12c-128g-32vram", "NVIDIA_A16", 32, []cloud.GPU{{Name: "a16", Count: 2}}, ""},
		{"vbm-112c-2048gb-8-a100-gpu", "NVIDIA_A100_SXM", 640, []cloud.GPU{{Name: "a100", Count: 8}}, ""},
		{"vcg-a100-1c-6g-4vram", "NVIDIA_A100", 4, nil, "has a part of a GPU (a100): 4 of its 80 GB"},
		{"vcg-a100-120vram", "NVIDIA_A100", 120, nil, "has GPUs (NVIDIA_A100) with 120 GB, and it is not clear how many"},
		{"vcg-a100-24c-240g-160vram", "", 0, []cloud.GPU{{Name: "a100", Count: 2}}, ""}, // as it is listed
		{"vcg-a40-96c-480g-192vram", "none", 0, []cloud.GPU{{Name: "a40", Count: 4}}, ""},
		{"vcg-a16-2c-8g-2vram", "", 0, nil, "has a part of a GPU (a16): 2 of its 16 GB"},
		{"vcg-x9-8c-64g-32vram", "", 0, nil, "has GPUs (x9) with 32 GB, and it is not clear how many"},
		{"vcg-newest", "", 0, nil, "has GPUs, and Vultr does not say which"},
		{"vcg-new", "NVIDIA_X1", 32, nil, "has GPUs (NVIDIA_X1) with 32 GB, and it is not clear how many"},
		{"vbm-48c-1024gb-4-a100-gpu", "NVIDIA_A100", 0, nil, "has GPUs (NVIDIA_A100), and Vultr does not say how many"},
	} {
		got, note := plan{ID: tt.id, GPU: tt.gpu, VRAM: tt.vram}.gpus()
		if !slices.Equal(got, tt.want) || tt.note == "" != (note == "") || note != "" && note != tt.id+" "+tt.note {
			t.Errorf("%s: %v, %q; want %v, %q", tt.id, got, note, tt.want, tt.note)
		}
	}
}

// TestArch: what Vultr's lists do not say is told by the GPU, which Grace comes with.
func TestArch(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ id, gpu, want string }{
		{"vhp-8c-16gb-amd", "", "x86_64"},
		{"vbm-72c-480gb-gh200-gpu", "NVIDIA_GH200", "arm64"},
		{"vbm-72c-480gb-gh200-gpu", "", "arm64"},
		{"vcg-gh200-72c-480g-96vram", "", "arm64"},
		{"vbm-new", "NVIDIA_GH200", "arm64"},
		{"vbm-112c-2048gb-8-h100-gpu", "NVIDIA_H100", "x86_64"},
		{"vbm-gh2000", "", "x86_64"},
	} {
		if got := (plan{ID: tt.id, GPU: tt.gpu}).arch(); got != tt.want {
			t.Errorf("%s (%s) is %s, want %s", tt.id, tt.gpu, got, tt.want)
		}
	}
}

// TestGPUCount: the number that a list says is before the memory; of what is no number the memory tells.
func TestGPUCount(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		count string // as the list has it
		want  int    // of a plan with the memory of 8 GPUs
		note  string
	}{
		{`8`, 8, ""},
		{`"8"`, 8, ""},
		{`"4"`, 4, ""},
		{`8.0`, 8, ""},
		{`"1/16"`, 0, "b has a part of a GPU (b200): 1/16"},
		{`0.25`, 0, "b has a part of a GPU (b200): 0.25"},
		{`"16/16"`, 1, ""},
		{`0`, 8, ""},
		{`null`, 8, ""},
		{`""`, 8, ""},
		{`"3/2"`, 8, ""},
		{`"1/0"`, 8, ""},
		{`"many"`, 8, ""},
		{`1e99`, 8, ""},
		{`[8]`, 8, ""},
	} {
		var pl plan
		if err := json.Unmarshal([]byte(`{"id": "b", "gpu_type": "NVIDIA_B200", "gpu_vram_gb": 1536, "gpu_count": `+tt.count+`}`), &pl); err != nil {
			t.Fatalf("%s: %v", tt.count, err)
		}
		got, note := pl.gpus()
		if n := len(got); note != tt.note || n > 1 || (n == 1) != (tt.want > 0) || n == 1 && got[0] != (cloud.GPU{Name: "b200", Count: tt.want}) {
			t.Errorf("gpu_count %s: %v, %q; want %d, %q", tt.count, got, note, tt.want, tt.note)
		}
	}
	// Without the memory, and of a GPU that is not known.
	for text, want := range map[string]int{`{"gpu_type": "AMD_MI999", "gpu_count": 8}`: 8, `{"gpu_type": "AMD_MI999"}`: 0, `{"gpu_count": 8}`: 0} {
		var pl plan
		if err := json.Unmarshal([]byte(text), &pl); err != nil {
			t.Fatal(err)
		}
		if got, _ := pl.gpus(); len(got) > 0 != (want > 0) || want > 0 && got[0].Count != want {
			t.Errorf("%s: %v, want %d", text, got, want)
		}
	}
}

// The hours of a month that the ledger charges at most cost the month's price, but for the rounding of the hour's,
// whether Vultr lists both or the month's alone, and in the region's own price too.
func TestMonthsHours(t *testing.T) {
	t.Parallel()
	own := locationCost{"sao": {Monthly: 144, Hourly: 0.197}, "blr": {Monthly: 144}}
	for _, pl := range []plan{
		{ID: "vhp-8c-16gb-amd", MonthlyCost: 96, HourlyCost: 0.132, LocationCost: own}, {ID: "vhp-8c-16gb-intel", MonthlyCost: 96, LocationCost: own},
		{ID: "vc2-2c-4gb", MonthlyCost: 20, HourlyCost: 0.027}, {ID: "vx1-g-2c-8g", MonthlyCost: 55.48, HourlyCost: 0.076},
		{ID: "vcg-a100-12c-120g-80vram", GPU: "NVIDIA_A100", MonthlyCost: 1750}, {ID: "vbm-112c-2048gb-8-h100-gpu", metal: true, MonthlyCost: 16790, HourlyCost: 23},
	} {
		for _, region := range []string{"lhr", "sao", "blr"} {
			c := pl.price(region)
			month := c.Hourly * price.Of("vultr").UpTo(c.Hourly, c.Monthly).Month.Hours()
			if diff := month - c.Monthly; c.Monthly == 0 || c.Hourly == 0 || diff > c.Hourly/2+1e-9 || diff < -c.Hourly/2-1e-9 {
				t.Errorf("%s in %s: the hours of a month that are charged cost %g USD, its price is %g", pl.ID, region, month, c.Monthly)
			}
		}
	}
}
