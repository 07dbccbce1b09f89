// Package packaging is what a package installs beside the programs: the
// systemd unit, the spool's tmpfiles line, the manual pages, the packages themselves
// (packages.sh, nfpm) and their trial (test-packages.sh), and what to install for
// the tests (deps.sh). Its tests hold them to what the programs are.
package packaging
