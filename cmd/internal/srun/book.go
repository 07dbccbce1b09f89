package srun

import (
	"github.com/burst-hpc/burst/cmd/internal/steprecord"
)

// book is the job's in a checkpoint directory.
func (k known) book(dir string) steprecord.Book {
	return steprecord.Book{Dir: dir, Cluster: k.job.Cluster, Ctld: k.ctld, Job: k.job.Folder(), Attempt: k.job.Attempt, Script: k.script, Began: k.began, Identity: k.identity(), Ends: k.word.Evicted}
}
