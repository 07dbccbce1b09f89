package munge

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const answer = "STATUS:          0\nENCODE_TIME:     1795236906\nUID:             0\nGID:             12\nLENGTH:          6\n\n"

func TestParse(t *testing.T) {
	c, err := parse([]byte(answer + "POST\n\n"))
	want := Credential{GID: 12, Encoded: time.Unix(1795236906, 0), Payload: []byte("POST\n\n")}
	if diff := cmp.Diff(want, c); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", "no empty line"},
		{"cut off", answer + "POST", "4 bytes of payload where LENGTH says 6"},
		{"too long", answer + "POST\n\n\n", "7 bytes of payload where LENGTH says 6"},
		{"no uid", strings.Replace(answer, "UID:             0\n", "", 1) + "POST\n\n", "UID is missing"},
		{"two uids", "UID: 0\n" + answer + "POST\n\n", "UID is there twice"},
		{"uid below zero", strings.Replace(answer, "UID:             0\n", "UID: -1\n", 1) + "POST\n\n", "UID is missing or below zero"},
		{"a name", strings.Replace(answer, " 0\n", " Success\n", 1) + "POST\n\n", "is no key with a number"},
		{"refused", strings.Replace(answer, " 0\n", " 17\n", 1) + "POST\n\n", "STATUS is 17"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if c, err := parse([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v, %v", c, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(answer + "POST\n\n"))
	f.Add([]byte("STATUS: 0\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := parse(text); err == nil && (c.UID < 0 || c.GID < 0 || !strings.HasSuffix(string(text), string(c.Payload))) {
			t.Errorf("%q is %+v", text, c)
		}
	})
}
