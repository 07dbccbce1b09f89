package progtest

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name, text string
		flags      map[string]bool
		subs       []string
	}{
		{"subcommands", "Burst does.\n\nUsage:\n  burst [command]\n\nAvailable Commands:\n  check       Check it\n  completion  Generate\n  help        Help\n  local       Local\n\nFlags:\n      --config file   which\n  -h, --help          help\n",
			map[string]bool{"--config": true}, []string{"check", "local"}},
		{"a short flag", "Usage:\n  burst init\n\nFlags:\n  -o, --output file   file\n",
			map[string]bool{"--output": true, "-o": true}, nil},
		{"package flag", "Usage: burstd [flags]\n\n  -config file\n    \tfile --not this\n  -version\n    \tprint\n",
			map[string]bool{"--config": true, "--version": true}, nil},
		{"our own text", "Usage: burst-gate [--then PROGRAM]\n\n  --then PROGRAM  run\n                  --not this\n  --help          this text\n",
			map[string]bool{"--then": true}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := parse(tt.text)
			if !reflect.DeepEqual(h.Flags, tt.flags) || !reflect.DeepEqual(h.Subs, tt.subs) {
				t.Errorf("flags %v, subcommands %v", h.Flags, h.Subs)
			}
		})
	}
}
