package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	base := errors.New("it broke")
	for _, tt := range []struct {
		name string
		err  error
		code int
		want string // after "NAME: "
	}{
		{"no error", nil, OK, ""},
		{"an error", base, Failed, "error: it broke\n"},
		{"with a hint", WithHint(base, "try %d", 2), Failed, "error: it broke\nhint: try 2\n"},
		{"wrong usage, wrapped", fmt.Errorf("reading: %w", UsageError(base, "see --help")), Usage, "error: reading: it broke\nhint: see --help\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var b bytes.Buffer
			if code := Report(&b, tt.err); code != tt.code {
				t.Errorf("exit code %d, want %d", code, tt.code)
			}
			got := strings.ReplaceAll(b.String(), "cli.test: ", "")
			if got != tt.want {
				t.Errorf("printed %q, want %q", got, tt.want)
			}
		})
	}
}
