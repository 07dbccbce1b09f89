package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/burst-hpc/burst/cloud"
	"github.com/burst-hpc/burst/cmd/internal/config"
	"github.com/burst-hpc/burst/slurm/conf"
)

// unshaped are the pools of which the file does not say all that slurm.conf must.
func unshaped(cfg *config.Config) []config.Pool {
	return slices.DeleteFunc(slices.Clone(cfg.Pools), func(p config.Pool) bool { return p.Slurm.CPUs > 0 && p.Slurm.RealMemory > 0 })
}

// shapes asks the providers' catalogs for what the file does not say of its
// pools, and puts it into in. The errors are by pool; a pool with one is left as it is.
// All are asked at once: a cloud that does not answer takes no time from the others.
func shapes(ctx context.Context, cfg *config.Config, open *opened, in *conf.Input) map[string]error {
	errs := map[string]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, p := range unshaped(cfg) {
		i := slices.IndexFunc(in.Pools, func(q conf.Pool) bool { return q.Name == p.Power.Name })
		have := in.Pools[i]
		wg.Go(func() {
			shaped, err := shapeOf(ctx, cfg, open, p, have)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs[p.Power.Name] = err
				return
			}
			in.Pools[i] = shaped
		})
	}
	wg.Wait()
	return errs
}

// shapeOf is what a pool's nodes have, whichever of its sources they come from.
func shapeOf(ctx context.Context, cfg *config.Config, open *opened, p config.Pool, have conf.Pool) (conf.Pool, error) {
	var shaped conf.Pool
	for i, s := range p.Sources() {
		name := s.Power.Provider
		provider, err := open.get(ctx, name)
		if err != nil {
			return have, err
		}
		catalog, ok := provider.(cloud.Catalog)
		if !ok {
			return have, fmt.Errorf("provider %s does not describe its types: add cpus and real_memory", name)
		}
		types, err := catalog.Types(ctx, s.Power.Fleet.Types)
		if err != nil {
			return have, fmt.Errorf("asking provider %s for its types: %w", name, err)
		}
		one, err := shape(have, types, threadsOf(cfg, s))
		if err != nil {
			return have, err
		}
		if i > 0 {
			if one, err = least(shaped, one); err != nil {
				return have, fmt.Errorf("%s and %s: %w", p.Power.Provider, name, err)
			}
		}
		shaped = one
	}
	return shaped, nil
}

// least is what nodes of both have. Where they differ in cores and threads, CPUs
// alone are said.
func least(a, b conf.Pool) (conf.Pool, error) {
	if !slices.EqualFunc(a.GPUs, b.GPUs, func(a, b conf.GPU) bool { return a.Type == b.Type }) {
		return a, errors.New("their types have other GPUs: a job asks for one kind, so make a pool for each")
	}
	if arch := func(p conf.Pool) bool { return slices.Contains(p.Features, "arm64") }; arch(a) != arch(b) {
		return a, errors.New("one has arm64 and one x86_64: one program cannot run on both, so make a pool for each")
	}
	if a.Cores != b.Cores || a.Threads != b.Threads {
		a.Cores, a.Threads = 0, 0
	}
	a.CPUs, a.RealMemory = min(a.CPUs, b.CPUs), min(a.RealMemory, b.RealMemory)
	a.GPUNote = cmp.Or(a.GPUNote, b.GPUNote)
	a.GPUs = slices.Clone(a.GPUs)
	for i := range a.GPUs {
		a.GPUs[i].Count = min(a.GPUs[i].Count, b.GPUs[i].Count)
	}
	a.Features = slices.DeleteFunc(slices.Clone(a.Features), func(f string) bool { return !slices.Contains(b.Features, f) })
	return a, nil
}

// threadsOf is how many threads per core the pool's instances are launched
// with; 0: the type's own.
func threadsOf(cfg *config.Config, p config.Pool) int {
	provider, _ := cfg.Provider(p.Power.Provider)
	return provider.AWS.Pools[p.Power.Name].ThreadsPerCore
}

// shape adds to have what all types have: the least of each. Types that Slurm
// cannot take for one another are an error. threads is for each core, 0: the type's own.
func shape(have conf.Pool, types []cloud.InstanceType, threads int) (conf.Pool, error) {
	first := types[0]
	cores, least, memory := first.Cores, first.ThreadsPerCore, first.MemoryMiB
	gpus, note := slices.Clone(first.GPUs), first.GPUNote
	for _, t := range types[1:] {
		if t.Arch != first.Arch {
			return have, fmt.Errorf("%s is %s and %s is %s: one program cannot run on both, so make a pool for each", first.Name, first.Arch, t.Name, t.Arch)
		}
		if !slices.EqualFunc(gpus, t.GPUs, func(a, b cloud.GPU) bool { return a.Name == b.Name }) {
			return have, fmt.Errorf("%s and %s have other GPUs: a job asks for one kind, so make a pool for each", first.Name, t.Name)
		}
		for i := range gpus {
			gpus[i].Count = min(gpus[i].Count, t.GPUs[i].Count)
		}
		if t.ThreadsPerCore != first.ThreadsPerCore && threads == 0 && have.CPUs == 0 {
			return have, fmt.Errorf("%s has %d threads on each core and %s has %d: set threads_per_core = 1, or make a pool for each",
				first.Name, first.ThreadsPerCore, t.Name, t.ThreadsPerCore)
		}
		cores, least, memory = min(cores, t.Cores), min(least, t.ThreadsPerCore), min(memory, t.MemoryMiB)
		note = cmp.Or(note, t.GPUNote)
	}
	if threads == 0 || threads > least {
		threads = least
	}
	if have.CPUs == 0 {
		have.CPUs, have.Cores, have.Threads = cores*threads, cores, threads
	}
	if have.RealMemory == 0 {
		have.RealMemory = usable(memory)
	}
	have.GPUNote = note
	for _, g := range gpus {
		have.GPUs = append(have.GPUs, conf.GPU{Type: g.Name, Count: g.Count})
	}
	have.Features = slices.Clone(have.Features)
	features := []string{first.Arch}
	if len(types) == 1 {
		features = append(features, first.Name)
	}
	for _, f := range features {
		if !slices.Contains(have.Features, f) {
			have.Features = append(have.Features, f)
		}
	}
	return have, nil
}

// usable is how much of a type's memory Slurm may give to jobs, in MiB. The
// firmware and the kernel take up to 5 % and a few hundred MiB before slurmd
// counts, and a node with less than slurm.conf says is drained.
func usable(advertised int) int {
	return max(advertised*95/100-512, advertised/2)
}
