package mpi

import (
	"bufio"
	"path/filepath"
	"strings"
)

// Params are the parameters that an Open MPI on this host has from files, each with its file:
// those of the site, beside its library or where Debian and Red Hat have them, and the user's own. A variable
// of the environment would count over them. nil: its library is not known.
func Params(f Found, env func(string) string) map[string]string {
	if f.Library == "" {
		return nil
	}
	s := &search{}
	var files []string
	for _, dir := range s.homes(f.Library) {
		if strings.HasPrefix(dir, "/usr/lib") { // a distribution's
			some, _ := filepath.Glob("/etc/openmpi*/openmpi-mca-params.conf") // the pattern is right
			files = append(append(files, some...), "/etc/prte-mca-params.conf")
		}
		for up, n := dir, 0; n < 3 && up != "/"; n++ {
			up = filepath.Dir(up)
			files = append(files, filepath.Join(up, "etc/openmpi-mca-params.conf"), filepath.Join(up, "etc/prte-mca-params.conf"))
		}
	}
	all := map[string]string{}
	for _, file := range append(files, OwnParams(env)...) {
		for _, name := range s.names(file) {
			all[name] = file
		}
	}
	return all
}

// OwnParams are the files of a user's own parameters, which need not be there.
func OwnParams(env func(string) string) (files []string) {
	if home := env("HOME"); home != "" {
		files = append(files, filepath.Join(home, ".openmpi/mca-params.conf"), filepath.Join(home, ".prte/mca-params.conf"))
	}
	return append(files, strings.FieldsFunc(env("OMPI_MCA_mca_base_param_files"), func(r rune) bool { return r == ',' || r == ':' })...)
}

// names are those of the parameters that a file sets; one that cannot be read sets none.
func (t tree) names(file string) (names []string) {
	f, err := t.open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if name, _, ok := strings.Cut(line, "="); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}
