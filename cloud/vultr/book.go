package vultr

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/burst-hpc/burst/cloud"
)

// A book is what was written down of one launch, as lines of JSON:
//
//	{"i":0,"begun":"2026-11-22T05:00:00Z"}   instance 0 is about to be asked for, the first with its "tags"
//	{"i":0,"id":"cb676a46-…"}                it was made
//	{"i":1,"refused":true}                   it was not, by Vultr's own word
//	{"i":2,"begun":"…","said":"…"}           a server's fault, with its words: it may have been made
//	{"i":0,"over":"…","kind":"capacity"}     nothing more is asked for under this token
//	{"i":0,"id":"cb676a46-…","back":"…"}     it is about to be destroyed: too few came
//
// "begun", "over" and "back" are on disk before the request that needs them. A line that
// a crash has cut off was not needed yet: what followed it did not happen.
type book struct {
	file string // empty: in memory alone
	kept bool   // something was written down, by this process or one before

	items map[int]item
	tags  []string // as the instances were asked for
	over  line     // its Over is empty while more may be asked for
}

// item is what the book says of one instance of a launch.
type item struct {
	begun  time.Time // of the last request whose outcome is not written; zero: none
	id     string
	said   string     // of a server's fault that the last request met
	kind   cloud.Kind // what was said means
	faults int        // requests in a row that have met one

	back    time.Time // when it was to be destroyed last, as too few came; zero: it was not
	created time.Time // with back: by Vultr's word
	plan    string    // with back
}

// line is one line of a book.
type line struct {
	I       int       `json:"i"`
	Begun   time.Time `json:"begun,omitzero"`
	Tags    []string  `json:"tags,omitempty"` // with the first that is begun
	ID      string    `json:"id,omitempty"`
	At      time.Time `json:"at,omitzero"` // when it was made
	Refused bool      `json:"refused,omitempty"`

	Said string     `json:"said,omitempty"` // with Begun, after the request
	Over string     `json:"over,omitempty"`
	Kind cloud.Kind `json:"kind,omitempty"` // of the error that ended it, or was Said

	Back    time.Time `json:"back,omitzero"` // with ID
	Created time.Time `json:"created,omitzero"`
	Plan    string    `json:"plan,omitempty"`
}

func (b *book) take(l line) {
	b.kept = true
	switch {
	case l.Over != "":
		b.over = l
	case !l.Back.IsZero():
		b.items[l.I] = item{begun: b.items[l.I].begun, id: l.ID, back: l.Back, created: l.Created, plan: l.Plan}
	case l.ID != "":
		b.items[l.I] = item{begun: l.At, id: l.ID}
	case l.Refused:
		delete(b.items, l.I)
	case l.Said != "" && !l.Begun.IsZero():
		b.items[l.I] = item{begun: l.Begun, said: l.Said, kind: l.Kind, faults: b.items[l.I].faults + 1}
	case !l.Begun.IsZero():
		b.items[l.I] = item{begun: l.Begun, faults: b.items[l.I].faults}
	}
	if len(l.Tags) > 0 {
		b.tags = l.Tags
	}
}

// readBook reads lines up to the first that is not whole.
func readBook(text []byte) *book {
	b := &book{items: map[int]item{}}
	in := bufio.NewReader(bytes.NewReader(text))
	for {
		raw, err := in.ReadBytes('\n')
		var l line
		if err != nil || json.Unmarshal(raw, &l) != nil || l.I < 0 || l.I >= maxLaunch {
			return b
		}
		b.take(l)
	}
}

// write writes lines down, and returns when they are on disk.
func (b *book) write(lines ...line) error {
	if len(lines) == 0 {
		return nil
	}
	if b.file != "" {
		if err := appendTo(b.file, lines); err != nil {
			return fmt.Errorf("writing down a launch: %w", err)
		}
	}
	for _, l := range lines {
		b.take(l)
	}
	return nil
}

func appendTo(path string, lines []line) (err error) {
	var text bytes.Buffer
	for _, l := range lines {
		raw, err := json.Marshal(l)
		if err != nil {
			return err
		}
		text.Write(append(raw, '\n'))
	}
	fresh := false
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		fresh = true
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if !fresh {
		// After a line that a crash or a full disk has cut off nothing would be read.
		if err := mend(f, path); err != nil {
			return err
		}
	}
	if _, err := f.Write(text.Bytes()); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if fresh {
		return syncDir(filepath.Dir(path))
	}
	return nil
}

// mend cuts off what follows the last whole line.
func mend(f *os.File, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if whole := bytes.LastIndexByte(text, '\n') + 1; whole < len(text) {
		return f.Truncate(int64(whole))
	}
	return nil
}

func syncDir(path string) (err error) {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}

// books are a provider's, one for each token.
type books struct {
	dir string

	mu     sync.Mutex
	memory map[string]*book
	swept  time.Time
}

// keptFor is how long a book is kept, and longer while an instance of its launch
// lives: much longer than burstd asks for a launch again.
const keptFor = 7 * 24 * time.Hour

// open returns the book of a token; the caller holds its turn.
func (bs *books) open(token string) (*book, error) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.dir == "" {
		if bs.memory == nil {
			bs.memory = map[string]*book{}
		}
		if bs.memory[token] == nil {
			bs.memory[token] = &book{items: map[int]item{}}
		}
		return bs.memory[token], nil
	}
	path := filepath.Join(bs.dir, token+suffix)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading what was written down of a launch: %w", err)
	}
	b := readBook(text)
	b.file = path
	return b, nil
}

const suffix = ".launch"

// tags are those with which a token's instances were asked for, as far as is
// written down.
func (bs *books) tags(token string) []string {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.dir == "" {
		if b := bs.memory[token]; b != nil {
			return b.tags
		}
		return nil
	}
	text, err := os.ReadFile(filepath.Join(bs.dir, token+suffix))
	if err != nil {
		return nil // most of all, there is none: the label is another cluster's
	}
	return readBook(text).tags
}

// read is what is written down of a token, on disk: what is in memory this process
// knows in other ways.
func (bs *books) read(token string) *book {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.dir == "" || !tokens().MatchString(token) {
		return &book{}
	}
	text, err := os.ReadFile(filepath.Join(bs.dir, token+suffix))
	if err != nil {
		return &book{} // most of all, there is none
	}
	return readBook(text)
}

// made are the ids of all instances that are written down.
func (bs *books) made() []string {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	var ids []string
	take := func(b *book) {
		for _, it := range b.items {
			if it.id != "" {
				ids = append(ids, it.id)
			}
		}
	}
	for _, b := range bs.memory {
		take(b)
	}
	files, _ := filepath.Glob(filepath.Join(bs.dir, "*"+suffix)) // the pattern is a good one
	for _, path := range files {
		if text, err := os.ReadFile(path); err == nil && bs.dir != "" {
			take(readBook(text))
		}
	}
	return ids
}

// sweep removes, each hour, old books of launches that have no live instance. An
// instance's may be all that says whose it is. What cannot be removed now stays: it
// does no harm.
func (bs *books) sweep(live map[string]bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.dir == "" || time.Since(bs.swept) < time.Hour {
		return
	}
	bs.swept = time.Now()
	entries, err := os.ReadDir(bs.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		token, ours := strings.CutSuffix(e.Name(), suffix)
		info, err := e.Info()
		if err == nil && ours && !live[token] && info.Mode().IsRegular() && time.Since(info.ModTime()) > keptFor {
			_ = os.Remove(filepath.Join(bs.dir, e.Name()))
		}
	}
}
