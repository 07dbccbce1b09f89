package directive

import "strconv"

// Defaults is what a site says of one job. A node has no burst.toml: burstd, which
// knows the job's partition and pool, sends them to burst-srun, as JSON. A receiver
// of another version leaves out what it does not know.
type Defaults struct {
	Layers []Layer `json:"layers"` // of kinds Pool, Partition and Site
	// Reserve is left free on the file system of the checkpoints, in bytes; 0: the
	// methods' own default.
	Reserve int64 `json:"reserve,omitempty"`
}

// Said is all that is said of the checkpoints of a job, or of one of its steps.
type Said struct {
	Script  string   // the batch script; empty: there is none
	Comment string   // of the job: its user's words, and the site's before them
	Options []string // of burst-srun --ckpt
	Site    Defaults
}

// Merge reads all of it and merges it. An error is an *Error, in one line, and a
// job ends with it before its step has begun.
func (s Said) Merge() (Merged, error) {
	layers, site, err := s.own()
	if err != nil {
		return Merged{}, err
	}
	layers = append(layers, site)
	for _, l := range s.Site.Layers {
		if !l.Kind.byAdmin() {
			l.Kind = "" // a site cannot speak for its users: Merge says so
		}
		layers = append(layers, l)
	}
	return Merge(layers...)
}

// Own is what the job's user says, though it may lack what only the site says. An error,
// an *Error, is of what no site can mend.
func (s Said) Own() (Merged, error) {
	layers, _, err := s.own()
	if err != nil {
		return Merged{}, err
	}
	m, err := chosen(layers)
	if err != nil {
		return Merged{}, err
	}
	for _, r := range append([]rule{strategyRule}, rules...) {
		if m.kind(r.on).byAdmin() {
			continue // nobody of the job's says it
		}
		if err := m.apply(r); err != nil {
			return Merged{}, err
		}
	}
	m.byDefault("ckpt", None)
	m.byDefault("retries", strconv.Itoa(defaultRetries))
	m.name()
	return m.Merged, nil
}

// own are the layers of the job's user; site is what stands beside them in the comment.
func (s Said) own() (user []Layer, site Layer, err error) {
	script, err := ReadScript(s.Script)
	if err != nil {
		return nil, site, err
	}
	comment, site, err := ReadComment(s.Comment)
	if err != nil {
		return nil, site, err
	}
	options, err := ReadOptions(s.Options...)
	return []Layer{script, comment, options}, site, err
}
