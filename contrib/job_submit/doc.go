// Package jobsubmit holds the tests of Burst's part of Slurm's job_submit.lua: that
// it reads directives as slurm/directive does, and what a real slurmctld makes of it.
// docs/job-submit.md says how a site uses it.
package jobsubmit
