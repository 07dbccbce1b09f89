package config

// Cost is the section [cost].
type Cost struct {
	// Comment: what a job has cost goes into slurmdbd's record of it, for sacct.
	Comment bool
}

// costs reads [cost].
func costs(top *section) Cost {
	s := top.sub("cost")
	defer s.done()
	return Cost{Comment: s.on("comment")}
}
