package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/api"
)

func TestOrderValidate(t *testing.T) {
	good := api.NewOrder(api.Resume, "c[1-4],d7", "")
	for _, test := range []struct {
		name string
		edit func(o *api.Order)
		want string // part of the error; empty: valid
	}{
		{"as made", func(*api.Order) {}, ""},
		{"suspend", func(o *api.Order) { o.Kind = api.Suspend }, ""},
		{"resume-fail", func(o *api.Order) { o.Kind = api.ResumeFail }, ""},
		{"no id", func(o *api.Order) { o.ID = "" }, "32 lower-case hex"},
		{"upper-case id", func(o *api.Order) { o.ID = strings.Repeat("AB", 16) }, "32 lower-case hex"},
		{"id is a path", func(o *api.Order) { o.ID = "../../../../../../etc/passwd-----" }, "32 lower-case hex"},
		{"unknown kind", func(o *api.Order) { o.Kind = "reboot" }, `"reboot" is none of`},
		{"no nodes", func(o *api.Order) { o.Nodes = "" }, "names no nodes"},
		{"a line break", func(o *api.Order) { o.Nodes = "c1\nc2" }, `'\n' at byte 2`},
		{"no time", func(o *api.Order) { o.Made = time.Time{} }, "no time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := good
			test.edit(&o)
			err := o.Validate()
			if test.want == "" && err != nil {
				t.Errorf("Validate: %v", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("Validate: %v, want %q", err, test.want)
			}
		})
	}
	if api.NewOrder(api.Resume, "c1", "").ID == good.ID {
		t.Error("two orders have the same id")
	}
}
