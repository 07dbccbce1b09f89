package ckpt

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Here says what this host is. What cannot be found out stays empty, and is not
// compared.
func Here(ctx context.Context) Machine {
	m := Machine{Arch: runtime.GOARCH, Kernel: kernel(), Glibc: glibc(ctx)}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.Features = cpuFeatures(string(text))
	}
	return m
}

func kernel() string {
	var u syscall.Utsname
	if syscall.Uname(&u) != nil {
		return ""
	}
	var b strings.Builder
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// glibc asks getconf, which glibc brings along; other C libraries' knows nothing
// of it.
func glibc(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "getconf", "GNU_LIBC_VERSION").Output()
	if err != nil {
		return ""
	}
	v, ok := strings.CutPrefix(strings.TrimSpace(string(out)), "glibc ")
	if _, _, number := version(v); !ok || !number {
		return ""
	}
	return v
}

// cpuFeatures reads /proc/cpuinfo: what all its processors have of what programs
// choose their code by, sorted. Most words there are the kernel's own, and differ
// between kernels on the same processor.
func cpuFeatures(cpuinfo string) []string {
	have := map[string]int{}
	processors := 0
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		key = strings.TrimSpace(key)
		if key != "flags" && key != "Features" {
			continue
		}
		processors++
		words := strings.Fields(value)
		slices.Sort(words)
		for _, w := range slices.Compact(words) {
			// Features is Arm's, and has the processor's alone.
			if key == "Features" || choosesCode(w) {
				have[w]++
			}
		}
	}
	var all []string
	for w, n := range have {
		if n >= processors && len(w) <= 40 && printable(w) {
			all = append(all, w)
		}
	}
	slices.Sort(all)
	return all
}

// choosesCode: x86 features for which compilers, glibc and BLAS have code of their
// own, or that change what a process's registers look like.
func choosesCode(flag string) bool {
	for _, prefix := range []string{"avx", "amx", "sse", "xsave"} {
		if strings.HasPrefix(flag, prefix) {
			return true
		}
	}
	return slices.Contains(codeFlags, flag)
}

var codeFlags = strings.Fields(`cmov cx8 cx16 mmx fxsr pni ssse3 movbe popcnt abm lzcnt aes vaes pclmulqdq
	vpclmulqdq gfni f16c fma fma4 xop tbm bmi1 bmi2 adx rdrand rdseed sha_ni lahf_lm rdtscp rdpid fsgsbase
	xgetbv1 erms fsrm rtm hle clflushopt clwb cldemote movdiri movdir64b waitpkg serialize pku ospke
	3dnowprefetch user_shstk`)

// Fits says in one line why images of processes that were made on a machine like
// need cannot restart on here; nil: they can, as far as this tells. It is for methods
// whose images hold a process: what an application writes itself goes anywhere. The
// kernel is not compared: it keeps its promises to programs.
func (need Machine) Fits(here Machine) error {
	if need.Arch != "" && here.Arch != "" && need.Arch != here.Arch {
		return fmt.Errorf("the images are of a %s processor, and this host has %s", need.Arch, here.Arch)
	}
	if len(here.Features) > 0 {
		var missing []string
		for _, w := range need.Features {
			if !slices.Contains(here.Features, w) {
				missing = append(missing, w)
			}
		}
		if n := len(missing); n > 0 {
			more := ""
			if n > 5 {
				missing, more = missing[:5], fmt.Sprintf(" and %d more", n-5)
			}
			return fmt.Errorf("the images may use %s%s, which this host's processor does not have", strings.Join(missing, ", "), more)
		}
	}
	nMajor, nMinor, ok1 := version(need.Glibc)
	hMajor, hMinor, ok2 := version(here.Glibc)
	if ok1 && ok2 && (hMajor < nMajor || hMajor == nMajor && hMinor < nMinor) {
		return fmt.Errorf("the images need glibc %s, and this host has %s", need.Glibc, here.Glibc)
	}
	return nil
}

// version reads "2.36".
func version(s string) (major, minor int, ok bool) {
	a, b, _ := strings.Cut(s, ".")
	b, _, _ = strings.Cut(b, ".")
	major, err1 := strconv.Atoi(a)
	minor, err2 := strconv.Atoi(b)
	return major, minor, err1 == nil && err2 == nil
}
