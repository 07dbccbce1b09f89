package main

import (
	"strings"
	"testing"
)

// TestView: a package's line, all of a test that fails, nothing of one that does not, and
// at the end what was not tried.
func TestView(t *testing.T) {
	const events = `{"Action":"start","Package":"m/a"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"    a_test.go:3: a word\n"}
{"Action":"output","Package":"m/a","Test":"TestGood","Output":"--- PASS: TestGood (0.00s)\n"}
{"Action":"pass","Package":"m/a","Test":"TestGood"}
{"Action":"output","Package":"m/a","Test":"TestReal","Output":"    a_test.go:7: NOT TESTED: no tool is here\n"}
{"Action":"skip","Package":"m/a","Test":"TestReal"}
{"Action":"output","Package":"m/a","Test":"TestReal/two","Output":"    a_test.go:9: NOT TESTED: no tool is here\n"}
{"Action":"skip","Package":"m/a","Test":"TestReal/two"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.002s\n"}
{"Action":"pass","Package":"m/a"}
{"Action":"output","Package":"m/b","Output":"?   \tm/b\t[no test files]\n"}
{"Action":"skip","Package":"m/b"}
go: a warning
{"Action":"output","Package":"m/c","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"m/c","Test":"TestBad","Output":"    c_test.go:4: it is wrong\n"}
{"Action":"output","Package":"m/c","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"m/c","Test":"TestBad"}
{"Action":"output","Package":"m/c","Test":"TestLate","Output":"    c_test.go:9: panic: late\n"}
{"Action":"output","Package":"m/c","Output":"FAIL\tm/c\t0.1s\n"}
{"Action":"fail","Package":"m/c"}
{"ImportPath":"m/d","Action":"build-output","Output":"d.go:1: wrong\n"}
`
	const want = "ok  \tm/a\t0.002s\n?   \tm/b\t[no test files]\ngo: a warning\n" +
		"    c_test.go:4: it is wrong\n--- FAIL: TestBad (0.00s)\n    c_test.go:9: panic: late\nFAIL\tm/c\t0.1s\nd.go:1: wrong\n" +
		"\nWHAT THESE TESTS HAVE NOT TRIED HERE:\n  NOT TESTED: no tool is here\n      m/a TestReal\n      m/a TestReal/two\n"
	var out strings.Builder
	v := newView(&out)
	if err := v.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	v.end()
	if out.String() != want {
		t.Errorf("shown:\n%s\nwant:\n%s", out.String(), want)
	}
	out.Reset()
	v = newView(&out)
	if v.end(); out.Len() > 0 {
		t.Errorf("of nothing: %q", out.String())
	}
}

// TestShort: what a test says itself comes again below its logs, and only if these are long.
func TestShort(t *testing.T) {
	const own = "    c_test.go:4: boots\n    c_test.go:9: not within 2m0s: the journal is closed\n"
	logs := "    helpers_test.go:52: burstd.log:\n" + strings.Repeat("        a line\n", 50) + "--- FAIL: TestBad (0.00s)\n"
	for text, want := range map[string]string{
		own + "--- FAIL: TestBad (0.00s)\n": "",
		own + logs:                          "    in short: c_test.go:4: boots\n    in short: c_test.go:9: not within 2m0s: the journal is closed\n",
		strings.Repeat("    c_test.go:4: "+strings.Repeat("x", 1000)+"\n", 50): strings.Repeat("    in short: c_test.go:4: "+strings.Repeat("x", 387)+"\n", 12),
	} {
		if got := short(text); got != want {
			t.Errorf("%.300q: %q, want %q", text, got, want)
		}
	}
}
