package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/slurm/conf"
)

func TestShape(t *testing.T) {
	c6i := cloud.InstanceType{Name: "c6i.2xlarge", CPUs: 8, Cores: 4, ThreadsPerCore: 2, MemoryMiB: 16384, Arch: "x86_64"}
	c5 := cloud.InstanceType{Name: "c5.4xlarge", CPUs: 16, Cores: 8, ThreadsPerCore: 2, MemoryMiB: 8192, Arch: "x86_64"}
	c7a := cloud.InstanceType{Name: "c7a.2xlarge", CPUs: 8, Cores: 8, ThreadsPerCore: 1, MemoryMiB: 16384, Arch: "x86_64"}
	c7g := cloud.InstanceType{Name: "c7g.2xlarge", CPUs: 8, Cores: 8, ThreadsPerCore: 1, MemoryMiB: 16384, Arch: "arm64"}
	nano := cloud.InstanceType{Name: "t3.nano", CPUs: 2, Cores: 1, ThreadsPerCore: 2, MemoryMiB: 512, Arch: "x86_64"}
	p4 := cloud.InstanceType{Name: "p4d.24xlarge", CPUs: 96, Cores: 48, ThreadsPerCore: 2, MemoryMiB: 1179648, Arch: "x86_64",
		GPUs: []cloud.GPU{{Name: "a100", Count: 8}}}
	half := p4
	half.Name, half.GPUs = "p4half", []cloud.GPU{{Name: "a100", Count: 4}}
	part := c6i
	part.Name, part.GPUNote = "part", "a part"
	for _, test := range []struct {
		name    string
		have    conf.Pool
		types   []cloud.InstanceType
		threads int
		want    conf.Pool
		err     string
	}{
		{"one type", conf.Pool{Features: []string{"cloud"}}, []cloud.InstanceType{c6i}, 0,
			conf.Pool{CPUs: 8, Cores: 4, Threads: 2, RealMemory: 15052, Features: []string{"cloud", "x86_64", "c6i.2xlarge"}}, ""},
		{"the least of two", conf.Pool{}, []cloud.InstanceType{c6i, c5}, 0,
			conf.Pool{CPUs: 8, Cores: 4, Threads: 2, RealMemory: 7270, Features: []string{"x86_64"}}, ""},
		{"one thread per core", conf.Pool{}, []cloud.InstanceType{c6i, c7a}, 1,
			conf.Pool{CPUs: 4, Cores: 4, Threads: 1, RealMemory: 15052, Features: []string{"x86_64"}}, ""},
		{"two threads where a type has one", conf.Pool{}, []cloud.InstanceType{c7a}, 2,
			conf.Pool{CPUs: 8, Cores: 8, Threads: 1, RealMemory: 15052, Features: []string{"x86_64", "c7a.2xlarge"}}, ""},
		{"a small one", conf.Pool{}, []cloud.InstanceType{nano}, 0,
			conf.Pool{CPUs: 2, Cores: 1, Threads: 2, RealMemory: 256, Features: []string{"x86_64", "t3.nano"}}, ""},
		{"what the file says stays", conf.Pool{CPUs: 6}, []cloud.InstanceType{c6i, c7a}, 0,
			conf.Pool{CPUs: 6, RealMemory: 15052, Features: []string{"x86_64"}}, ""},
		{"GPUs", conf.Pool{RealMemory: 1}, []cloud.InstanceType{p4, half}, 0,
			conf.Pool{CPUs: 96, Cores: 48, Threads: 2, RealMemory: 1, GPUs: []conf.GPU{{Type: "a100", Count: 4}}, Features: []string{"x86_64"}}, ""},
		{"what is said of GPUs", conf.Pool{RealMemory: 1}, []cloud.InstanceType{c6i, part}, 0,
			conf.Pool{CPUs: 8, Cores: 4, Threads: 2, RealMemory: 1, GPUNote: "a part", Features: []string{"x86_64"}}, ""},
		{"two architectures", conf.Pool{}, []cloud.InstanceType{c6i, c7g}, 0, conf.Pool{}, "is x86_64 and c7g.2xlarge is arm64"},
		{"other threads", conf.Pool{}, []cloud.InstanceType{c6i, c7a}, 0, conf.Pool{}, "set threads_per_core = 1"},
		{"other GPUs", conf.Pool{}, []cloud.InstanceType{p4, c6i}, 0, conf.Pool{}, "have other GPUs"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := shape(test.have, test.types, test.threads)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("shape: %v, want an error with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(test.want, got); d != "" {
				t.Errorf("shape (-want +got):\n%s", d)
			}
		})
	}
	if p4.GPUs[0].Count != 8 {
		t.Error("shape changed what it was given")
	}
}

// TestLeast: what nodes of two sources have, as shape says of each.
func TestLeast(t *testing.T) {
	a := conf.Pool{CPUs: 8, Cores: 4, Threads: 2, RealMemory: 15000, Features: []string{"east", "x86_64", "c6i.2xlarge"}, GPUs: []conf.GPU{{Type: "a100", Count: 2}}}
	b := conf.Pool{CPUs: 6, Cores: 6, Threads: 1, RealMemory: 16000, Features: []string{"east", "x86_64", "vhp"}, GPUs: []conf.GPU{{Type: "a100", Count: 1}}}
	got, err := least(a, b)
	want := conf.Pool{CPUs: 6, RealMemory: 15000, Features: []string{"east", "x86_64"}, GPUs: []conf.GPU{{Type: "a100", Count: 1}}}
	if d := diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	b.Features = []string{"arm64"}
	if _, err := least(a, b); err == nil {
		t.Error("two architectures are taken for one")
	}
	if _, err := least(a, conf.Pool{Features: a.Features}); err == nil {
		t.Error("a source without GPUs is taken")
	}
}

// diff shows how got is not what was wanted; "" if it is. go-cmp would do it better, and
// has the linker keep every call of every cloud's client.
func diff(want, got any) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return fmt.Sprintf("- %+v\n+ %+v", want, got)
}
