package mpi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ours is what srun --mpi=list of Slurm 22.05 prints, and older what 18.08 did.
const (
	ours  = "MPI plugin types are...\n\tpmix\n\tnone\n\tcray_shasta\n\tpmi2\nspecific pmix plugin versions available: pmix_v4\n"
	older = "srun: MPI types are...\nsrun: pmix_v2\nsrun: pmix_v3\nsrun: none\nsrun: openmpi\nsrun: pmi2\n"
	bare  = "MPI plugin types are...\n\tnone\n\tcray_shasta\n"
)

func TestReadTypes(t *testing.T) {
	for text, want := range map[string]string{
		ours: "pmix none cray_shasta pmi2 pmix_v4", older: "pmix_v2 pmix_v3 none openmpi pmi2", "": "",
		"specific pmix plugin versions available: pmix_v3,pmix_v4\n": "pmix_v3 pmix_v4",
	} {
		if got := strings.Join(ReadTypes(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := offered(ReadTypes(older), PMIx); got != "pmix_v3" {
		t.Errorf("of two the newer: %q", got)
	}
}

func FuzzReadTypes(f *testing.F) {
	f.Add(ours)
	f.Add(older)
	f.Fuzz(func(t *testing.T, text string) {
		for _, typ := range ReadTypes(text) {
			if !typeWord.MatchString(typ) {
				t.Errorf("%q", typ)
			}
		}
	})
}

func TestReadWord(t *testing.T) {
	for _, c := range []struct {
		value string
		want  Word
		own   bool
		wrong bool
	}{
		{"pmix", Word{}, false, false},
		{"list", Word{}, false, false},
		{"", Word{}, false, false},
		{"mpich", Word{Kind: MPICH}, true, false},
		{"openmpi5", Word{Kind: OpenMPI5}, true, false},
		{"openmpi", Word{}, false, false}, // an older srun's
		{"intel,pmix", Word{Kind: Intel, Type: "pmix"}, true, false},
		{"mvapich,mpirun", Word{Kind: MVAPICH, Launcher: true}, true, false},
		{"mpirun", Word{Launcher: true}, true, false},
		{"mpirun,mpich", Word{}, false, false},
		{"mpich,", Word{}, true, true},
		{"mpich,pmi2,x", Word{}, true, true},
	} {
		got, own, err := ReadWord(c.value)
		if got != c.want || own != c.own || (err != nil) != c.wrong {
			t.Errorf("%q: %+v %t %v", c.value, got, own, err)
		}
	}
}

// What the programs of these tests were found to be.
var (
	ompi4   = Found{Kind: OpenMPI4, Version: "4.1.4", Library: "/usr/lib/libmpi.so.40", PMI: []PMI{PMIx}}
	ompi2   = Found{Kind: OpenMPI4, Version: "4.1.4", Library: "/usr/lib/libmpi.so.40", PMI: []PMI{PMI2}}
	ompi0   = Found{Kind: OpenMPI4, Version: "4.1.4", Library: "/usr/lib/libmpi.so.40", PMI: []PMI{}}
	ompi5   = Found{Kind: OpenMPI5, Version: "5.0.7", Library: "/opt/ompi/lib/libmpi.so.40", PMI: []PMI{PMIx}}
	mpich   = Found{Kind: MPICH, Version: "4.0.2", Library: "/usr/lib/libmpich.so.12", PMI: []PMI{PMI2}}
	mpich42 = Found{Kind: MPICH, Version: "4.2.1", Library: "/usr/lib/libmpi.so.12", PMI: []PMI{PMI2}}
	mpichX  = Found{Kind: MPICH, Library: "/usr/lib/libmpi.so.12", PMI: []PMI{PMIx}}
	intel   = Found{Kind: Intel, Version: "2021.10.0", Library: "/opt/intel/lib/libmpi.so.12", PMI: []PMI{PMI2}}
	mvapich = Found{Kind: MVAPICH, Version: "2.3.7", Library: "/opt/mvapich/lib/libmpi.so.12", PMI: []PMI{PMI2}}
)

// world is a host with plain Ethernet, where srun offers types.
func world(types string, env ...string) World {
	return World{
		Env: environment(env...), Types: func() []string { return ReadTypes(types) },
		Launcher: func(Found) string { return "" }, Library: func(string) string { return "" },
		Bridges: func() []string { return nil }, Network: func() Network { return Network{} }, Params: func(f Found) map[string]string {
			if f.Library == "" {
				return nil
			}
			return map[string]string{}
		},
		Fabric: func(Found) Fabric { return Fabric{} }, UCX: func(Found) bool { return false }, Free: true,
		Locked: func() uint64 { return 1<<64 - 1 },
	}
}

// texts are the settings of a plan without their reasons, what is kept in brackets, and its
// warnings behind a sign.
func texts(p Plan) string {
	var all []string
	for _, s := range p.Settings {
		if s.Why == "" {
			all = append(all, "NO REASON FOR")
		}
		if s.Kept != "" {
			all = append(all, "("+s.Kept+")")
		} else {
			all = append(all, s.Text())
		}
	}
	for range p.Warnings {
		all = append(all, "!")
	}
	return strings.Join(all, " ")
}

func TestChoice(t *testing.T) {
	two := Step{Program: "./app", Nodes: 2, Tasks: 2, Whole: true}
	user := func(typ, from string) Step {
		s := two
		s.Type, s.From = typ, from
		return s
	}
	one := func(s Step) Step { s.Nodes, s.Tasks = 1, 1; return s }
	part := two
	part.Whole = false
	srun := two
	srun.Stands = true
	const none = ""
	for _, c := range []struct {
		name, types, site string
		f                 Found
		s                 Step
		said              string
		want, wrong       string // the launch; words of the error
	}{
		{"what srun offers", ours, none, ompi4, two, none, "--mpi=pmix", ""},
		{"the site's own choice", ours, "pmix", ompi4, two, none, "(MpiDefault=pmix)", ""},
		{"and by its version", none, "pmix_v3", ompi5, two, none, "(MpiDefault=pmix_v3)", ""},
		{"the site's does not suit", ours, "pmix", mpich, two, none, "--mpi=pmi2", ""},
		{"none is the site's", ours, "none", mpich, two, none, "--mpi=pmi2", ""},
		{"by its version", older, none, ompi5, two, none, "--mpi=pmix_v3", ""},
		{"an MPICH of PMIx", ours, "pmi2", mpichX, two, none, "--mpi=pmix", ""},
		{"Intel MPI", ours, "pmix", intel, two, none, "--mpi=pmi2", ""},
		{"MVAPICH", ours, "pmix", mvapich, two, none, "--mpi=pmi2", ""},
		{"Open MPI of PMI2", ours, "pmix", ompi2, two, none, "--mpi=pmi2", ""},
		{"srun does not say", none, none, mpich, two, none, "(srun's own choice of MPI)", ""},

		{"the user's word suits", ours, none, ompi4, user("pmix", "--mpi=pmix"), none, "(--mpi=pmix)", ""},
		{"the user's word by its version", ours, none, ompi4, user("pmix_v4", "--mpi=pmix_v4"), none, "(--mpi=pmix_v4)", ""},
		{"the user's word does not suit", ours, none, mpich, user("pmix", "--mpi=pmix"), none, "", "--mpi=pmix: ./app is built with MPICH 4.0.2, which is started by pmi2: its 2 tasks would not find each other; leave --mpi=pmix out, or write --mpi=pmi2"},
		{"the environment's does not", ours, none, ompi5, user("pmi2", "SLURM_MPI_TYPE=pmi2"), none, "", "leave SLURM_MPI_TYPE=pmi2 out, or write --mpi=pmix"},
		{"nor does anything, as far as is seen", bare, none, ompi0, user("pmix", "--mpi=pmix"), none, "(--mpi=pmix) !", ""},
		{"a way past is named", ours, none, mpich, user("pmix", "--mpi=pmix"), none, "", "BURST_MPI=none leaves the step to srun as it is"},
		{"an MPICH that may speak more", ours, none, mpich42, user("pmix", "--mpi=pmix"), none, "(--mpi=pmix) !", ""},
		{"Intel MPI does speak more", ours, none, intel, user("pmix", "--mpi=pmix"), none, "(--mpi=pmix) !", ""},
		{"one linked statically", ours, none, Found{Kind: OpenMPI4, Version: "4.1.4", Library: "/x"}, user("pmi2", "--mpi=pmi2"), none, "(--mpi=pmi2) !", ""},
		{"a default that is not known", ours, "pspmix", mpich, two, none, "(MpiDefault=pspmix)", ""},
		{"worlds of one rank, which somebody may want", ours, none, mpich, user("none", "--mpi=none"), none, "(--mpi=none) !", ""},
		{"with one rank nothing is wrong", ours, none, mpich, one(user("pmix", "--mpi=pmix")), none, "(--mpi=pmix)", ""},
		{"a type of the site's own", ours, none, mpich, user("cray_shasta", "--mpi=cray_shasta"), none, "(--mpi=cray_shasta)", ""},

		{"named by the user", ours, "pmix", Found{Script: "python3"}, two, "mpich", "--mpi=pmi2", ""},
		{"named with srun's type", ours, "pmix", Found{}, two, "intel,pmix", "--mpi=pmix", ""},
		{"named over what was seen", ours, "pmix", ompi4, two, "mpich", "--mpi=pmi2", ""},
		{"not seen and not named", ours, "pmix", Found{}, two, none, "", ""},

		{"by its own launcher", bare, "none", ompi4, two, none, "/bin/openmpi4 -n 2 OMPI_MCA_hwloc_base_binding_policy=none", ""},
		{"which is not chosen where it ends well without a node", bare, "none", ompi5, two, none, "", "not chosen unasked on several nodes, since it ends with exit code 0"},
		{"nor for one who has written srun", bare, "none", ompi4, srun, none, "(MpiDefault=none) !", ""},
		{"nor for one rank", bare, "none", ompi4, one(two), none, "(MpiDefault=none)", ""},
		{"asked for it is", bare, "none", ompi5, two, "mpirun", "/bin/openmpi5 -n 2 PRTE_MCA_hwloc_default_binding_policy=none !", ""},
		{"so MPICH", bare, "none", mpich, two, none, "/bin/mpich -bootstrap slurm -n 2 SLURM_MPI_TYPE=none", ""},
		{"as the user wants it", ours, "pmix", mpich, two, "mpirun", "/bin/mpich -bootstrap slurm -n 2 SLURM_MPI_TYPE=none", ""},
		{"of what is named", ours, "pmix", Found{}, two, "openmpi4,mpirun", "/bin/openmpi4 -n 2", ""},
		{"but whose", ours, "pmix", Found{}, two, "mpirun", "", "as --mpi=openmpi5,mpirun"},
		{"there is none", bare, "none", mvapich, two, none, "(MpiDefault=none) !", ""},
		{"there is none of what is named", bare, "none", mvapich, two, "mvapich", "", "of what srun offers (none, cray_shasta) nothing suits MVAPICH 2.3.7, and no launcher"},
		{"one rank does without", bare, "none", mvapich, one(two), none, "(MpiDefault=none)", ""},
		{"it would take all nodes", bare, "none", ompi4, part, none, "", "leave out --nodes"},
	} {
		w := world(c.types)
		w.Default = c.site
		if c.types == none {
			w.Types = func() []string { return nil }
		}
		w.Launcher = func(f Found) string {
			if f.Kind == MVAPICH {
				return ""
			}
			return "/bin/" + string(f.Kind)
		}
		w.Fence = "tree" // by mpi.conf
		said, _, err := ReadWord(c.said)
		said.Line = true
		if err != nil {
			t.Fatal(err)
		}
		p, err := w.Plan(c.f, c.s, said)
		switch {
		case c.wrong != "":
			if err == nil || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("%s: %v, want %q", c.name, err, c.wrong)
			}
		case err != nil || texts(p) != c.want:
			t.Errorf("%s: %q, want %q, %v", c.name, texts(p), c.want, err)
		}
	}
}

func TestSettings(t *testing.T) {
	mesh := func(w *World) { w.Bridges = func() []string { return []string{"docker0", "virbr0"} } }
	efa := func(w *World) {
		w.Fabric = func(Found) Fabric { return Fabric{Devices: true, EFA: true, Provider: true} }
	}
	for _, c := range []struct {
		name  string
		f     Found
		s     Step
		env   string
		world func(*World)
		want  string // beside the launch
	}{
		{"one node", ompi4, Step{Nodes: 1, Tasks: 1}, "", nil, ""},
		{"one node with all that could be set on several", ompi4, Step{Nodes: 1, Tasks: 1}, "", func(w *World) { mesh(w); efa(w) }, ""},
		{"threads are CPUs", ompi4, Step{Nodes: 1, Tasks: 2, CPUs: 4}, "", nil, "OMP_NUM_THREADS=4"},
		{"several ranks of a node", mpich, Step{Nodes: 1, Tasks: 2}, "", nil, "OMP_NUM_THREADS=1"},
		{"by the tasks of a node", mpich, Step{Nodes: 2, Tasks: 4, PerNode: 2}, "", nil, "OMP_NUM_THREADS=1"},
		{"a rank alone on its node may want it all", mpich, Step{Nodes: 2, Tasks: 2}, "", nil, ""},
		{"Slurm binds, and OpenMP counts what it leaves", mpich, Step{Nodes: 1, Tasks: 2}, "", func(w *World) { w.Free = false }, ""},
		{"what a rank gets is said otherwise", mpich, Step{Nodes: 1, Tasks: 2, Shaped: true}, "", nil, ""},
		{"of a heterogeneous job", ompi5, Step{Nodes: 2, Tasks: 8, PerNode: 4, CPUs: 2, Mixed: true}, "", func(w *World) { mesh(w); efa(w) }, ""},
		{"the user's threads", mpich, Step{Nodes: 1, Tasks: 2, CPUs: 4}, "OMP_NUM_THREADS=2", nil, "(OMP_NUM_THREADS=2)"},

		{"PMIx on several nodes", ompi5, Step{Nodes: 2, Tasks: 2}, "", nil, "SLURM_PMIX_FENCE=ring"},
		{"mpi.conf says it", ompi5, Step{Nodes: 2, Tasks: 2}, "", func(w *World) { w.Fence = "tree" }, ""},
		{"the user says it", ompi5, Step{Nodes: 2, Tasks: 2}, "SLURM_PMIX_FENCE=tree", nil, "(SLURM_PMIX_FENCE=tree)"},
		{"PMI2 has none", mpich, Step{Nodes: 2, Tasks: 2}, "", nil, ""},

		{"bridges, Open MPI", ompi4, Step{Nodes: 2, Tasks: 2}, "SLURM_PMIX_FENCE=ring", mesh, "(SLURM_PMIX_FENCE=ring) OMPI_MCA_btl_tcp_if_exclude=127.0.0.0/8,docker0,virbr0"},
		{"bridges, and the user's choice", ompi5, Step{Nodes: 2, Tasks: 2}, "OMPI_MCA_btl_tcp_if_include=eth0", mesh, "SLURM_PMIX_FENCE=ring (OMPI_MCA_btl_tcp_if_include=eth0)"},
		{"bridges, MPICH", mpich, Step{Nodes: 2, Tasks: 2}, "", mesh, ""},
		{"bridges, and the site's file", ompi4, Step{Nodes: 2, Tasks: 2}, "SLURM_PMIX_FENCE=ring", func(w *World) {
			mesh(w)
			w.Params = func(Found) map[string]string { return map[string]string{"btl_tcp_if_include": "/etc/x.conf"} }
		}, "(SLURM_PMIX_FENCE=ring) (btl_tcp_if_include)"},
		{"bridges, Open MPI in an image", Found{Kind: OpenMPI4, PMI: []PMI{PMIx}}, Step{Nodes: 2, Tasks: 2}, "SLURM_PMIX_FENCE=ring", func(w *World) {
			mesh(w)
			w.Params = func(Found) map[string]string { return map[string]string{} }
		}, "(SLURM_PMIX_FENCE=ring) OMPI_MCA_btl_tcp_if_exclude=127.0.0.0/8,docker0,virbr0"},
		{"bridges, and its parameter files are not known", Found{Kind: OpenMPI4, PMI: []PMI{PMIx}}, Step{Nodes: 2, Tasks: 2}, "SLURM_PMIX_FENCE=ring", mesh, "(SLURM_PMIX_FENCE=ring)"},

		{"EFA", mpich, Step{Nodes: 2, Tasks: 2}, "", efa, "FI_PROVIDER=efa"},
		{"EFA, Intel MPI", intel, Step{Nodes: 2, Tasks: 2}, "", efa, "I_MPI_OFI_PROVIDER=efa"},
		{"EFA, and little memory to lock", mpich, Step{Nodes: 2, Tasks: 2}, "", func(w *World) {
			efa(w)
			w.Locked = func() uint64 { return 8 << 20 }
		}, "FI_PROVIDER=efa !"},
		{"EFA that the user does not want, and little memory to lock", mpich, Step{Nodes: 2, Tasks: 2}, "FI_PROVIDER=tcp", func(w *World) {
			efa(w)
			w.Locked = func() uint64 { return 8 << 20 }
		}, "(FI_PROVIDER=tcp)"},
		{"EFA, and the user wants another", intel, Step{Nodes: 2, Tasks: 2}, "FI_PROVIDER=tcp", efa, "(FI_PROVIDER=tcp)"},
		{"EFA that the libfabric does not know", mpich, Step{Nodes: 2, Tasks: 2}, "", func(w *World) { w.Fabric = func(Found) Fabric { return Fabric{Devices: true, EFA: true} } }, ""},

		{"Intel MPI with Slurm's libpmi2", intel, Step{Nodes: 1, Tasks: 1}, "", func(w *World) { w.Library = func(n string) string { return "/usr/lib/" + n } }, "I_MPI_PMI_LIBRARY=/usr/lib/libpmi2.so.0"},
		{"with the user's", intel, Step{Nodes: 1, Tasks: 1}, "I_MPI_PMI_LIBRARY=/mine.so", func(w *World) { w.Library = func(n string) string { return "/usr/lib/" + n } }, "(I_MPI_PMI_LIBRARY=/mine.so)"},
	} {
		w := world(ours, strings.Fields(c.env)...)
		if c.world != nil {
			c.world(&w)
		}
		p, err := w.Plan(c.f, c.s, Word{})
		if err != nil || len(p.Settings) == 0 || !strings.HasPrefix(p.Settings[0].Option, "--mpi=") {
			t.Errorf("%s: %q, %v", c.name, texts(p), err)
			continue
		}
		p.Settings = p.Settings[1:]
		if texts(p) != c.want {
			t.Errorf("%s: %q, want %q", c.name, texts(p), c.want)
		}
	}
}

func TestBinding(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Step
		env  string
		off  bool
		want bool
	}{
		{"a core for each rank", Step{Nodes: 1, Tasks: 4, PerNode: 4}, "", false, true},
		{"two threads of a core for each rank", Step{Nodes: 1, Tasks: 4, PerNode: 4, CPUs: 2}, "", false, true},
		{"more ranks than cores", Step{Nodes: 1, Tasks: 5, PerNode: 5}, "", false, false},
		{"more threads than the cores have", Step{Nodes: 1, Tasks: 4, PerNode: 4, CPUs: 3}, "", false, false},
		{"one rank has the node", Step{Nodes: 1, Tasks: 1, PerNode: 1}, "", false, false},
		{"how many on a node is not said", Step{Nodes: 1, Tasks: 4}, "", false, false},
		{"the site or the user binds", Step{Nodes: 1, Tasks: 4, PerNode: 4}, "", true, false},
		{"the environment does", Step{Nodes: 1, Tasks: 4, PerNode: 4}, "SLURM_CPU_BIND=none", false, false},
		{"threads beyond the CPUs are wanted", Step{Nodes: 1, Tasks: 4, PerNode: 4}, "OMP_NUM_THREADS=8", false, false},
	} {
		w := world(ours, strings.Fields(c.env)...)
		w.Binds, w.Cores, w.Threads = !c.off, 4, 2
		p, err := w.Plan(ompi4, c.s, Word{})
		if got := strings.Contains(texts(p), "--cpu-bind=cores"); err != nil || got != c.want {
			t.Errorf("%s: %s, %v", c.name, texts(p), err)
		}
	}
}

// TestEveryStepIsOneWorld: whatever is found, offered and said, a plan either starts the ranks
// by what they speak, or warns, or is refused.
func TestEveryStepIsOneWorld(t *testing.T) {
	n := 0
	for _, f := range []Found{ompi4, ompi2, ompi0, ompi5, mpich, mpichX, intel, mvapich} {
		for _, types := range []string{ours, older, bare} {
			for _, def := range []string{"", "none", "pmix", "pmi2", "pmix_v4"} {
				for _, typ := range []string{"", "none", "pmix", "pmi2"} {
					s := Step{Program: "a", Nodes: 2, Tasks: 4, Whole: true, Type: typ, From: "--mpi=" + typ}
					w := world(types)
					w.Default = def
					p, err := w.Plan(f, s, Word{})
					n++
					if err != nil || p.Launch.Launcher != "" || len(p.Warnings) > 0 {
						continue
					}
					what := p.Launch.Type
					for _, held := range []string{typ, def} {
						if what == "" {
							what = held
						}
					}
					if is, ok := speaks(what); !ok || !slices.Contains(f.can(), is) {
						t.Errorf("%s, offered %q, default %q, user %q: by %q", f.Text(), types, def, typ, what)
					}
				}
			}
		}
	}
	if n != 8*3*5*4 {
		t.Error(fmt.Sprint(n, " cases"))
	}
}

func TestMissingLibrary(t *testing.T) {
	f := Found{Missing: "libmpi.so.40", Kind: OpenMPI4}
	p, err := world(ours).Plan(f, Step{Program: "./app", Nodes: 1, Tasks: 2}, Word{})
	if err != nil || len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "./app needs libmpi.so.40, which ld.so does not find here: load the module") {
		t.Errorf("%q, %v", p.Warnings, err)
	}
}

// TestWhatTheEnvironmentSpeaks: an MPI that its user has told what to speak is started by that.
func TestWhatTheEnvironmentSpeaks(t *testing.T) {
	for _, c := range []struct {
		f         Found
		env, site string
		want      string // the launch
	}{
		{intel, "I_MPI_PMI=pmix", "pmix", "(MpiDefault=pmix)"},
		{intel, "I_MPI_PMI=pmix", "none", "--mpi=pmix"},
		{intel, "I_MPI_PMI_LIBRARY=/usr/lib64/libpmix.so.2", "pmix", "(MpiDefault=pmix)"},
		{intel, "I_MPI_PMI_LIBRARY=/usr/lib64/libpmi2.so", "pmix", "--mpi=pmi2 (I_MPI_PMI_LIBRARY=/usr/lib64/libpmi2.so)"},
		{intel, "I_MPI_PMI_LIBRARY=/usr/lib64/libpmi.so", "pmix", "(MpiDefault=pmix)"},
		{mpich42, "MPIR_CVAR_PMI_VERSION=x", "pmix", "(MpiDefault=pmix)"},
		{mpich42, "MPIR_CVAR_PMI_VERSION=2", "pmix", "--mpi=pmi2"},
		{mpich, "MPIR_CVAR_PMI_VERSION=x", "pmix", "--mpi=pmi2"}, // which does not read it
	} {
		w := world(ours, c.env)
		w.Default, w.Library = c.site, func(string) string { return "/libpmi2.so.0" }
		p, err := w.Plan(c.f, Step{Program: "a", Nodes: 1, Tasks: 2, Shaped: true}, Word{})
		if err != nil || texts(p) != c.want {
			t.Errorf("%s of %s: %q, want %q, %v", c.env, c.f.Text(), texts(p), c.want, err)
		}
	}
}

// TestTheNameCountsWhereNothingIsSeen: BURST_MPI stands for all steps of a script, of which
// hostname is one.
func TestTheNameCountsWhereNothingIsSeen(t *testing.T) {
	for _, c := range []struct {
		f    Found
		said Word
		want string
	}{
		{Found{Program: "/bin/hostname"}, Word{Kind: MPICH}, ""},
		{Found{Program: "/bin/hostname"}, Word{Kind: MPICH, Launcher: true}, ""},
		{Found{Program: "/bin/hostname"}, Word{Kind: MPICH, Line: true}, "--mpi=pmi2"},
		{Found{Program: "/bin/python3", Opaque: true}, Word{Kind: MPICH}, "--mpi=pmi2"},
		{Found{}, Word{Kind: MPICH}, "--mpi=pmi2"}, // not here
		{Found{Program: "/bin/sh", Opaque: true}, Word{Launcher: true}, ""},
		{mpich, Word{Kind: OpenMPI5}, "--mpi=pmi2"},
		{mpich, Word{Kind: OpenMPI5, Launcher: true}, "--mpi=pmi2"},
		{mpich, Word{Kind: MPICH, Type: "pmix_v4"}, "REFUSED"},
		{mpichX, Word{Kind: MPICH, Type: "pmix_v4"}, "--mpi=pmix_v4"},
		{mpich, Word{Kind: OpenMPI4, Line: true}, "--mpi=pmix"},
	} {
		w := world(ours)
		w.Fence = "tree" // by mpi.conf
		p, err := w.Plan(c.f, Step{Program: "a", Nodes: 2, Tasks: 2}, c.said)
		if c.want == "REFUSED" && err != nil {
			continue
		}
		if err != nil || texts(p) != c.want {
			t.Errorf("%+v, %+v: %q, want %q, %v", c.f, c.said, texts(p), c.want, err)
		}
	}
}
