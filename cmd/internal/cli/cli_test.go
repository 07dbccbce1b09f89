package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is a program that runs until a signal ends it, where it is started as one.
func TestMain(m *testing.M) {
	if os.Getenv("BURST_TEST_CLI") != "" {
		Main(func(ctx context.Context) error {
			fmt.Println("runs")
			<-ctx.Done()
			return context.Cause(ctx)
		})
	}
	os.Exit(m.Run())
}

// TestNohup: a program ends by the end of its terminal, but under nohup.
func TestNohup(t *testing.T) {
	for before, want := range map[string]string{"": "hangup", "trap '' HUP; ": "terminated"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", before+`exec "$0"`, os.Args[0])
		cmd.Env = append(os.Environ(), "BURST_TEST_CLI=1")
		heed := make(chan os.Signal, 1) // what has a handler here is the default there, though this runs under nohup
		signal.Notify(heed, syscall.SIGHUP)
		defer signal.Stop(heed)
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		signals := []os.Signal{syscall.SIGHUP}
		if want == "terminated" {
			signals = append(signals, syscall.SIGTERM)
		}
		for _, s := range signals {
			if err := cmd.Process.Signal(s); err != nil {
				t.Error(err)
			}
		}
		if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), want) {
			t.Errorf("%sit ends by %q, want %s", before, said.String(), want)
		}
	}
}

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
