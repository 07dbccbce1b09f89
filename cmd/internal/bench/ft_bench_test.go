package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFTBenches(t *testing.T) {
	runs := map[string]FTRun{ // by method; FTNone by nodes, too
		"none 2":     {Seconds: 100, AllUSD: 1, Checksum: "0x1"},
		"none 1":     {Seconds: 200, AllUSD: 1, Checksum: "0x1"},
		"signal 2":   {Seconds: 106, BootSeconds: 1, Restarts: []int{1, 2}, Checksum: "0x1"},
		"command 2":  {Seconds: 107, BootSeconds: 1, Restarts: []int{1, 2}, Checksum: "0x1"},
		"dmtcp 1":    {Seconds: 230, BootSeconds: 1, Restarts: []int{1, 2}, Checksum: "0x1"},
		"scr 2":      {Seconds: 101, BootSeconds: 1, Restarts: []int{1, 2}, Checksum: "0x2"}, // wrong
		"libburst 2": {Seconds: 105, BootSeconds: 1, Restarts: []int{1, 2}, Checksum: "0x1"},
	}
	var took []string
	benches := ftBenches(func(_ context.Context, _ Env, k ftTask) (FTRun, error) {
		name := k.Method + " " + map[int]string{1: "1", 2: "2"}[k.Nodes]
		took = append(took, name)
		if k.Evicted != (k.Method != FTNone) || k.Evicted && k.Strategy != ftPreemptive || k.size != FTDefault() {
			return FTRun{}, errors.New("not what is to be measured")
		}
		r, ok := runs[name]
		if !ok {
			return FTRun{}, errors.New("not known")
		}
		r.FTCase = k.FTCase
		return r, nil
	})
	values := map[string]float64{}
	for _, b := range benches {
		var notes []string
		got, err := b.Run(t.Context(), Env{notes: &notes})
		if err == nil && len(got) == 1 && len(notes) == 1 {
			values[b.Name] = got[0]
		} else if b.Name != "ft-preemptive-scr-ratio" || err == nil || !strings.Contains(err.Error(), `its checksum is 0x2, and "0x1" undisturbed`) {
			t.Errorf("%s: %v, %v, %q", b.Name, got, err, notes)
		}
		if granted := strings.Contains(b.Method, "less a node's boot"); !b.Long || granted != (b.Goal == 1.05) {
			t.Errorf("%+v", b)
		}
	}
	want := map[string]float64{"ft-preemptive-signal-ratio": 1.04, "ft-preemptive-command-ratio": 1.07, "ft-preemptive-dmtcp-ratio": 1.15, "ft-preemptive-libburst-ratio": 1.03}
	if d := diff(want, values); d != "" {
		t.Error(d)
	}
	if d := diff([]string{"none 2", "signal 2", "command 2", "none 1", "dmtcp 1", "scr 2", "libburst 2"}, took); d != "" {
		t.Error(d)
	}
}

// What is not on this host is not measured, and its name is in the reason.
func TestFTAbsent(t *testing.T) {
	dir := t.TempDir()
	env, path := Env{Programs: filepath.Join(dir, "bin")}, filepath.Join(dir, "path")
	t.Setenv("PATH", path)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	absent := func(name string) string {
		for _, b := range ftBenches(nil) {
			if b.Name == "ft-preemptive-"+name+"-ratio" {
				return b.Absent(env)
			}
		}
		t.Fatalf("no benchmark of %s", name)
		return ""
	}
	names := func() (all []string) {
		cases, _ := FTCases(env)
		for _, c := range cases {
			all = append(all, c.Name())
		}
		return all
	}
	always := []string{"undisturbed", "no fault tolerance", "signal periodic", "signal preemptive", "command periodic", "command preemptive"}
	if d := diff(always, names()); d != "" || absent("signal") != "" || absent("command") != "" {
		t.Errorf("%q %q\n%s", absent("signal"), absent("command"), d)
	}
	if got := absent("dmtcp"); got != "NOT MEASURED: dmtcp: dmtcp_launch is not on PATH" {
		t.Error(got)
	}
	for _, tool := range []string{"path/dmtcp_launch", "path/scr_halt", "heat"} {
		standIn(t, filepath.Join(dir, tool), "exit 1")
	}
	if got := absent("scr"); !strings.Contains(got, "heat-scr is not there") || absent("dmtcp") != "" {
		t.Errorf("%q, %q", got, absent("dmtcp"))
	}
	standIn(t, filepath.Join(dir, "heat-scr"), "exit 1")
	if got := absent("libburst"); !strings.Contains(got, "heat-libburst is not there") {
		t.Error(got)
	}
	standIn(t, filepath.Join(dir, "heat-libburst"), "exit 1")
	all := append(always, "undisturbed, one node", "dmtcp periodic", "dmtcp preemptive", "scr periodic", "scr preemptive", "libburst periodic", "libburst preemptive")
	if d := diff(all, names()); d != "" {
		t.Error(d)
	}
	if _, absent := FTCases(env); len(absent) != 1 || !strings.Contains(absent[0], "ulfm: ") || !strings.Contains(absent[0], "`make deps-ulfm build` builds it") {
		t.Errorf("%q", absent)
	}
	standIn(t, filepath.Join(dir, "heat-ulfm"), "exit 1")
	if d := diff(append(all, "undisturbed, ulfm", "ulfm"), names()); d != "" {
		t.Error(d)
	}
}

// standIn is a program in sh.
func standIn(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}
