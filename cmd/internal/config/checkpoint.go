package config

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/burst-hpc/burst/slurm/directive"
)

// Checkpoint is what holds for jobs that say nothing of their own, and what
// their checkpoints may take of the site.
type Checkpoint struct {
	Signal string        // of [checkpoint], as "USR1" or "B:USR1"; empty: none is sent
	Grace  time.Duration // between that signal and the requeue; 0 without one
	// AtOnce is how many steps may write a checkpoint at once; 0: all.
	AtOnce int
	// Reserve is left free on the file system of the checkpoints, in bytes; 0:
	// the methods' own default.
	Reserve int64
	// Margin is kept before a node's end for what follows a checkpoint.
	Margin time.Duration
	// Layers are the sections that say something: those of pools, of partitions,
	// and the site's.
	Layers []directive.Layer
}

const (
	defaultAtOnce = 32
	defaultMargin = 5 * time.Second
	mostMargin    = 10 * time.Minute
)

// Defaults are what the site says of a job on nodes of a pool of a partition;
// either may be empty, or of no section.
func (c *Config) Defaults(partition, pool string) directive.Defaults {
	d := directive.Defaults{Reserve: c.Checkpoint.Reserve}
	for _, l := range c.Checkpoint.Layers {
		if l.Source == (directive.Source{Kind: directive.Site}) ||
			l.Source == (directive.Source{Kind: directive.Partition, Name: partition}) ||
			l.Source == (directive.Source{Kind: directive.Pool, Name: pool}) {
			d.Layers = append(d.Layers, l)
		}
	}
	return d
}

// checkpoint reads [checkpoint].
func checkpoint(s *section) Checkpoint {
	c := Checkpoint{
		AtOnce:  s.limit("at_once", defaultAtOnce),
		Reserve: int64(s.gibibytes("reserve")) << 30,
		Margin:  s.duration("margin", defaultMargin),
	}
	if c.Margin > mostMargin {
		s.failAt("margin", "is %s: write at most 10m, more than most clouds give notice", c.Margin)
	}
	l := layer(s, directive.Source{Kind: directive.Site})
	c.add(l)
	plain := directive.Layer{Source: l.Source} // whether the rest can be is judged with the pools
	for _, key := range []string{"signal", "grace"} {
		if v, ok := l.Value(key); ok {
			plain.Settings = append(plain.Settings, v)
		}
	}
	if m, err := directive.Merge(plain); err == nil {
		c.Signal, c.Grace = m.Value("signal"), m.Grace
	}
	s.done()
	return c
}

// asksForCheckpoints says whether any section of a file has a method: [checkpoint], or
// that of a pool or partition. What the nodes of one pool are told, they are told before
// all pools are read.
func asksForCheckpoints(tree map[string]any) bool {
	asks := func(of any) bool {
		t, _ := of.(map[string]any)
		c, _ := t["checkpoint"].(map[string]any)
		method, is := c["ckpt"]
		return is && method != directive.None
	}
	if asks(tree) {
		return true
	}
	for _, kind := range []string{"pool", "partition"} {
		named, _ := tree[kind].(map[string]any)
		for _, of := range named {
			if asks(of) {
				return true
			}
		}
	}
	return false
}

// add keeps a layer that says something.
func (c *Checkpoint) add(l directive.Layer) {
	if len(l.Settings) > 0 {
		c.Layers = append(c.Layers, l)
	}
}

// perJob are keys of a directive that make no sense for more than one job.
var perJob = []string{"label", "container", "stay", "budget"}

// layer reads the keys of a directive that a section has.
func layer(s *section, from directive.Source) directive.Layer {
	l := directive.Layer{Source: from}
	for _, k := range directive.Keys() {
		if slices.Contains(perJob, k.Name) {
			continue
		}
		text := ""
		switch v := s.value(k.Name).(type) {
		case nil:
			continue
		case string:
			text = v
		case int64:
			if !k.Number {
				s.failAt(k.Name, "is a number: write it in quotes, as in %s = %s", k.Name, quoted(k.Example))
				continue
			}
			text = strconv.FormatInt(v, 10)
		default:
			s.failAt(k.Name, "is %s: write %s = %s", kind(v), k.Name, quoted(k.Example))
			continue
		}
		if err := directive.Check(k.Name, text); err != nil {
			s.failAt(k.Name, "%v", err)
			continue
		}
		l.Settings = append(l.Settings, directive.Setting{Key: k.Name, Value: text, Line: s.lines[s.key(k.Name).String()]})
	}
	return l
}

// quoted is an example of a directive as TOML has it.
func quoted(example string) string { return strconv.Quote(strings.Trim(example, `"'`)) }

// partitions reads the sections [partition.NAME], when the pools are known.
func (f *file) partitions(top *section, c *Config) {
	known := map[string]bool{}
	for _, p := range c.Pools {
		known[p.Slurm.Partition] = true
	}
	for _, s := range top.named("partition") {
		if !known[s.name()] {
			s.fail(s.at, "no pool is in the partition %q: name one of %s", s.name(), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		c.Checkpoint.read(s, directive.Partition)
		s.done()
	}
}

// mixedPartitions makes sure that they are the site's, when the pools are known.
func (f *file) mixedPartitions(s *section, c *Config) {
	for _, name := range c.mixed {
		switch {
		case !names().MatchString(name):
			s.failAt("mixed_partitions", "%q is no partition's name: %s", name, namesRule)
		case slices.ContainsFunc(c.Pools, func(p Pool) bool { return p.Slurm.Partition == name }):
			s.failAt("mixed_partitions", "%q is the partition of a pool: name the site's own that are to hold the cloud's nodes, too", name)
		}
	}
}

// read reads the section checkpoint of a partition or pool.
func (c *Checkpoint) read(s *section, kind directive.Kind) {
	sub := s.sub("checkpoint")
	c.add(layer(sub, directive.Source{Kind: kind, Name: s.name()}))
	sub.done()
}

// judge merges what holds for jobs that say nothing of their own: what fails
// here would fail all of them.
func (f *file) judge(c *Config) {
	type place struct{ partition, pool string }
	places := []place{}
	for _, p := range c.Pools {
		places = append(places, place{p.Slurm.Partition, p.Power.Name})
	}
	if len(places) == 0 {
		places = []place{{}}
	}
	said := map[string]bool{}
	for _, p := range places {
		var wrong *directive.Error
		_, err := directive.Merge(c.Defaults(p.partition, p.pool).Layers...)
		if err == nil || !errors.As(err, &wrong) || said[err.Error()] {
			continue
		}
		said[err.Error()] = true
		at := append(sectionOf(wrong.From), wrong.Key)
		f.errs = append(f.errs, Error{File: f.path, Line: max(1, wrong.Line), Key: at.String(), What: wrong.Err.Error()})
	}
}

// sectionOf is where a layer is written.
func sectionOf(from directive.Source) toml.Key {
	if from.Kind == directive.Site {
		return toml.Key{"checkpoint"}
	}
	return toml.Key{string(from.Kind), from.Name, "checkpoint"}
}
