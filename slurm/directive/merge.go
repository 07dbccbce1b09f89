package directive

import (
	"errors"
	"maps"
	"slices"
	"strconv"
)

// Merged is what holds for a job, and why.
type Merged struct {
	Directive
	// From says of every key where its value comes from; of one that no layer
	// sets, or whose settings are all unused, that is Default.
	From map[string]Origin
	// Unused is what was said and has no effect.
	Unused []Unused
}

// Unused is a setting without effect.
type Unused struct {
	Setting
	From Source
	Why  string
}

// Value is a key's value as a directive would have it; "" for none.
func (m Merged) Value(key string) string {
	if k := keyNamed(key); k != nil {
		return k.get(&m.Directive)
	}
	return ""
}

// Settings are what somebody has set and what holds, in the order of Keys: merged as one
// layer they give the same.
func (m Merged) Settings() []Setting {
	var all []Setting
	for _, k := range keys {
		if v := k.get(&m.Directive); v != "" && m.From[k.Name].Kind != Default {
			all = append(all, Setting{Key: k.Name, Value: v})
		}
	}
	return all
}

// Startles says that the signal is the site's, and that the job's user has named none
// or a method that needs none: it would kill a program that does not expect it.
func (m Merged) Startles() bool {
	return m.Unnamed() && !m.From["ckpt"].Kind.byAdmin()
}

// Unnamed says that the signal is the site's, and that the job's user has named neither
// it nor the method of that name. It is for jobs that are requeued then: one that is not
// would be killed by it, and end before its node does.
func (m Merged) Unnamed() bool {
	return m.Signal != "" && m.From["signal"].Kind.byAdmin() && (m.Method != BySignal || m.From["ckpt"].Kind.byAdmin())
}

// Merge puts layers one over the other, by Order whatever order they come in,
// and fills in the defaults. A key that cannot go with what a stronger layer says,
// or that an admin wrote for jobs that ask for something else, is Unused; one that
// its own user made senseless is an *Error, and so is a method that lacks what it
// needs. Of an admin's layer that a newer burstd may have sent, what this version does
// not know is Unused: no job fails for it.
func Merge(layers ...Layer) (Merged, error) {
	m, err := chosen(layers)
	if err == nil {
		err = m.judge()
	}
	if err != nil {
		return Merged{}, err
	}
	return m.Merged, nil
}

// chosen has of each key what the strongest layer says.
func chosen(layers []Layer) (*merging, error) {
	layers = slices.Clone(layers)
	slices.SortStableFunc(layers, func(a, b Layer) int { return a.Kind.rank() - b.Kind.rank() })
	m := &merging{chosen: map[string]Setting{}, Merged: Merged{From: map[string]Origin{}}}
	for _, l := range layers {
		if _, err := l.checked(); err != nil && !l.foreign() {
			return nil, err
		}
		for _, s := range l.Settings {
			if err := l.takes(s); err != nil {
				m.Unused = append(m.Unused, Unused{s, l.Source, err.Error()})
				continue
			}
			if o, taken := m.From[s.Key]; taken {
				m.Unused = append(m.Unused, Unused{s, l.Source, "it is set by the " + o.String()})
				continue
			}
			m.choose(s, l.Source)
		}
	}
	return m, nil
}

// merging is a merge under way: its Directive is what is chosen.
type merging struct {
	Merged
	chosen map[string]Setting
}

// choose takes a setting that was checked.
func (m *merging) choose(s Setting, from Source) {
	m.chosen[s.Key], m.From[s.Key] = s, Origin{from, s.Line}
	m.build()
}

func (m *merging) drop(key, why string) {
	m.Unused = append(m.Unused, Unused{m.chosen[key], m.From[key].Source, why})
	delete(m.chosen, key)
	delete(m.From, key)
	m.build()
}

func (m *merging) build() {
	m.Directive = Layer{Settings: slices.Collect(maps.Values(m.chosen))}.directive()
}

// byDefault sets a key that nobody has set.
func (m *merging) byDefault(key, value string) {
	if _, set := m.From[key]; !set {
		m.choose(Setting{Key: key, Value: value}, Source{Kind: Default})
	}
}

func (m *merging) kind(key string) Kind {
	if o, ok := m.From[key]; ok {
		return o.Kind
	}
	return Default
}

func (m *merging) rank(key string) int { return m.kind(key).rank() }

// rule is what a key needs of another.
type rule struct {
	key, on string
	ok      func(m *merging) bool
	why     string
}

func hasMethod(m *merging) bool { return m.Method != None }

func method(name string) func(m *merging) bool {
	return func(m *merging) bool { return m.Method == name }
}

const (
	needsMethod = "needs a method: add ckpt=dmtcp or another"
	ofCommand   = "is for ckpt=command"
)

var strategyRule = rule{"strategy", "ckpt", func(m *merging) bool { return hasMethod(m) || m.Strategy == None }, needsMethod}

// rules are judged when ckpt and strategy are known.
var rules = []rule{
	{"interval", "ckpt", hasMethod, needsMethod},
	{"interval", "strategy", func(m *merging) bool { return m.Periodical() }, "is for strategy=periodic or both"},
	{"dir", "ckpt", hasMethod, needsMethod},
	{"keep", "ckpt", hasMethod, needsMethod},
	{"keep_after", "ckpt", hasMethod, needsMethod},
	{"files", "ckpt", method(BySignal), "is for ckpt=signal"},
	{"setup", "ckpt", method(ByCommand), ofCommand},
	{"run", "ckpt", method(ByCommand), ofCommand},
	{"checkpoint", "ckpt", method(ByCommand), ofCommand},
	{"restart", "ckpt", method(ByCommand), ofCommand},
	{"preset", "ckpt", method(ByCommand), ofCommand},
	{"grace", "signal", func(m *merging) bool { return m.Signal != "" }, "needs a signal: add signal=USR1 or another"},
	// A time that was meant for another signal says nothing of this one.
	{"grace", "signal", func(m *merging) bool { return m.kind("grace").author() <= m.kind("signal").author() }, "it goes with another signal"},
}

// tool are the commands of one tool: those of two authors do not go together.
var tool = []string{"run", "checkpoint", "restart", "preset"}

// oneTool keeps the commands of the strongest author who names a tool; with run=
// alone nobody does.
func (m *merging) oneTool() {
	best := min(m.kind("checkpoint").author(), m.kind("restart").author(), m.kind("preset").author())
	for _, key := range tool {
		if _, set := m.From[key]; set && m.kind(key).author() > best {
			m.drop(key, "it goes with the commands of another tool")
		}
	}
}

// judge applies the rules and the defaults.
func (m *merging) judge() error {
	if m.Method == BySignal && m.Batch && m.kind("ckpt").byAdmin() && !m.kind("signal").byAdmin() {
		m.drop("ckpt", "the job's own signal is for its batch script") // it asks for no more
	}
	m.oneTool()
	m.byDefault("ckpt", None)
	if err := m.apply(strategyRule); err != nil {
		return err
	}
	if m.Method == None {
		m.byDefault("strategy", None)
	} else {
		m.byDefault("strategy", Both)
	}
	for _, r := range rules {
		if err := m.apply(r); err != nil {
			return err
		}
	}
	if m.Method != None {
		m.byDefault("dir", defaultDir)
		m.byDefault("keep", strconv.Itoa(defaultKeep))
	}
	if m.Signal != "" {
		m.byDefault("grace", short(defaultGrace))
	}
	m.byDefault("retries", strconv.Itoa(defaultRetries))
	m.name()
	return m.needs()
}

// name says of each key that nobody has set where it comes from.
func (m *merging) name() {
	for _, k := range keys {
		if _, ok := m.From[k.Name]; !ok {
			m.From[k.Name] = Origin{Source: Source{Kind: Default}}
		}
	}
}

func (m *merging) apply(r rule) error {
	o, set := m.From[r.key]
	if !set || r.ok(m) {
		return nil
	}
	why := r.why
	switch {
	case r.on == "ckpt" && m.Method == None && m.rank("ckpt") < Default.rank():
		why = "ckpt=none turns it off" // what else was said may stay, to be turned on again
	case !o.Kind.byAdmin() && m.rank(r.key) <= m.rank(r.on):
		return &Error{o.Source, o.Line, r.key, errors.New(r.why)}
	}
	m.drop(r.key, why)
	return nil
}

// needs reports a method without what it cannot be without, where its author stands
// who said the most of it.
func (m *merging) needs() error {
	fail := func(text string, keys ...string) error {
		at := slices.MinFunc(keys, func(a, b string) int { return m.rank(a) - m.rank(b) })
		if at != "ckpt" {
			text = "ckpt=" + text
		}
		o := m.From[at]
		return &Error{o.Source, o.Line, at, errors.New(text)}
	}
	switch {
	case m.Method == BySignal && m.Signal == "":
		return fail("signal needs a signal: add signal=USR1 or another", "ckpt")
	case m.Method == BySignal && m.Batch:
		return fail("signal reaches the step that burst-srun starts, not the batch script: write signal="+m.Signal, "ckpt")
	case m.Method == ByCommand && m.Preset == "" && (m.Checkpoint == "" || m.Restart == ""):
		return fail("command needs checkpoint= and restart=, or preset=blcr", "ckpt", "checkpoint", "restart")
	}
	return nil
}
