package ec2test

import (
	"bufio"
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer writes XML as it goes: one of 1,000 instances is never whole in
// memory. Errors show in the last Flush.
type answer struct{ w *bufio.Writer }

func (a *answer) open(name string) {
	a.w.WriteByte('<')
	a.w.WriteString(name)
	a.w.WriteByte('>')
}

func (a *answer) close(name string) {
	a.w.WriteString("</")
	a.w.WriteString(name)
	a.w.WriteByte('>')
}

// in writes an element with what inside writes.
func (a *answer) in(name string, inside func()) {
	a.open(name)
	inside()
	a.close(name)
}

// text writes an element, or nothing if the value is empty.
func (a *answer) text(name, value string) {
	if value == "" {
		return
	}
	a.open(name)
	if strings.ContainsAny(value, "<>&\"'\r\n\t") {
		_ = xml.EscapeText(a.w, []byte(value)) // bufio keeps the error
	} else {
		a.w.WriteString(value)
	}
	a.close(name)
}

func (a *answer) number(name string, n int) { a.text(name, strconv.Itoa(n)) }

func (a *answer) yes(name string, v bool) { a.text(name, strconv.FormatBool(v)) }

func (a *answer) time(name string, t time.Time) {
	a.text(name, t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

func (a *answer) items(name string, values []string) {
	a.in(name, func() {
		for _, v := range values {
			a.text("item", v)
		}
	})
}

// list writes one item for each value.
func list[T any](a *answer, name string, values []T, one func(T)) {
	a.in(name, func() {
		for _, v := range values {
			a.in("item", func() { one(v) })
		}
	})
}

func (a *answer) tags(tags map[string]string) {
	if len(tags) == 0 {
		return
	}
	list(a, "tagSet", slices.Sorted(maps.Keys(tags)), func(k string) {
		a.text("key", k)
		a.open("value")
		_ = xml.EscapeText(a.w, []byte(tags[k])) // bufio keeps the error
		a.close("value")
	})
}
