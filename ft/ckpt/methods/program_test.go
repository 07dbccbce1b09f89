package methods

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/burst-hpc/burst/packaging/quick"
)

// The test binary is its own test program: with programEnv it is the step that
// the methods start, checkpoint and kill.
const (
	programEnv = "BURST_TEST_PROGRAM"
	tokenEnv   = "BURST_TEST_TOKEN" // by it a test finds what it has left behind
	tempEnv    = "BURST_TEST_TEMP"  // libTemp; deleted in the end
)

// token marks every process of this run of the tests.
var token = rand.Text()

func TestMain(m *testing.M) {
	libTemp = cmp.Or(os.Getenv(tempEnv), libTemp)
	if os.Getenv(programEnv) != "" {
		os.Exit(program(os.Args[1:]))
	}
	os.Setenv(tokenEnv, token)
	heed()
	quietTime, lookTime, leaveTime, killWait = quietTime/3, lookTime/3, leaveTime/3, 3*time.Second
	settleTime /= 4
	libLeaveTime /= 10
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) { // nobody has said otherwise
		flag.Set("test.parallel", "24") // the tests wait more than they work
	}
	temp, err := os.MkdirTemp("", "burst-methods-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	libTemp = temp
	os.Setenv(tempEnv, temp)
	code := quick.Run(m)
	if err := os.RemoveAll(temp); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if left := awaitNone(token); len(left) > 0 {
		fmt.Fprintf(os.Stderr, "processes left behind: %v\n", left)
		code = 1
	}
	os.Exit(code)
}

// heed has what the tests start die of signals that this process was started to ignore, as
// under nohup: a signal with a handler is the default again in a program that is started.
func heed() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT} { // Go heeds all others
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// awaitNone returns the processes that have the mark in their environment, once
// there are none or some seconds are over.
func awaitNone(mark string) []string {
	for deadline := time.Now().Add(8 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var found []string
		for _, pid := range processes() {
			env, err := os.ReadFile(filepath.Join("/proc", pid, "environ"))
			if err == nil && strings.Contains(string(env), mark) && pid != strconv.Itoa(os.Getpid()) {
				line, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline")) // it may have ended
				found = append(found, pid+" "+strings.ReplaceAll(string(line), "\x00", " "))
			}
		}
		if len(found) == 0 || time.Now().After(deadline) {
			return found
		}
	}
}

// program is a step. What it does is the first argument; testdata/program.c does
// the same for methods that cannot checkpoint a Go program.
func program(args []string) int {
	switch what := args[0]; what {
	case "exit":
		code, _ := strconv.Atoi(args[1])
		return code
	case "die":
		n, _ := strconv.Atoi(args[1])
		signal.Reset()
		syscall.Kill(os.Getpid(), syscall.Signal(n))
		select {}
	case "cat":
		io.Copy(os.Stdout, os.Stdin)
		return 0
	case "where":
		dir, _ := os.Getwd()
		fmt.Println(dir)
		fmt.Println("BURST_RESTART=" + os.Getenv("BURST_RESTART"))
		return 0
	case "order":
		for i := range 2000 {
			fmt.Fprintln([]io.Writer{os.Stdout, os.Stderr}[i%2], i)
		}
		return 0
	case "trap":
		got := make(chan os.Signal, 10)
		signal.Notify(got, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGCONT)
		fmt.Println("ready", os.Getpid())
		for s := range got {
			fmt.Println("got", int(s.(syscall.Signal)))
			if s == syscall.SIGTERM {
				return 7
			}
		}
	case "deaf":
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2)
		fmt.Println("ready", os.Getpid())
		time.Sleep(time.Hour)
	case "count":
		return count(args[1:])
	case "burst-srun":
		return runAsBurstSrun(args[1:])
	}
	return 2
}

// counting is a computation that writes its own checkpoints.
type counting struct {
	to      int
	pace    time.Duration
	state   string // file; empty: it cannot checkpoint
	leave   bool   // with exit code 75 after a checkpoint
	deaf    bool   // to SIGTERM
	slow    time.Duration
	inPlace bool // the file is written over, not replaced

	at  int
	sum uint64
}

func count(args []string) int {
	var c counting
	f := flag.NewFlagSet("count", flag.ContinueOnError)
	f.IntVar(&c.to, "to", 100, "")
	f.DurationVar(&c.pace, "pace", 0, "")
	f.StringVar(&c.state, "state", "", "")
	f.BoolVar(&c.leave, "leave", false, "")
	f.BoolVar(&c.deaf, "deaf", false, "")
	f.DurationVar(&c.slow, "slow", 0, "")
	f.BoolVar(&c.inPlace, "in-place", false, "")
	if f.Parse(args) != nil {
		return 2
	}
	usr1 := make(chan os.Signal, 1)
	if c.state != "" {
		signal.Notify(usr1, syscall.SIGUSR1)
	}
	if c.deaf {
		signal.Ignore(syscall.SIGTERM)
	}
	if text, err := os.ReadFile(c.state); err == nil {
		if n, err := fmt.Sscan(string(text), &c.at, &c.sum); n != 2 {
			fmt.Println("damaged", c.state, err)
			return 3
		}
	}
	fmt.Println("ready", os.Getpid())
	for c.at < c.to {
		c.at++
		c.sum = mix(c.sum, c.at)
		time.Sleep(c.pace)
		fmt.Println("at", c.at)
		select {
		case <-usr1:
			if err := c.save(); err != nil {
				fmt.Println(err)
				return 4
			}
			fmt.Println("checkpoint at iteration", c.at)
			if c.leave {
				return leftCode
			}
		default:
		}
	}
	fmt.Println("done", c.at, c.sum)
	return 0
}

func (c *counting) save() error {
	name := c.state + ".new"
	if c.inPlace {
		name = c.state
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	fmt.Fprint(w, c.at, " ")
	if c.slow > 0 {
		w.Flush()
		time.Sleep(c.slow)
	}
	fmt.Fprint(w, c.sum, "\n")
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil || c.inPlace {
		return err
	}
	return os.Rename(name, c.state)
}

// mix makes the sum depend on every step, once, in order.
func mix(sum uint64, i int) uint64 { return sum*6364136223846793005 + uint64(i) }

// undisturbed is the last line of a run of count.
func undisturbed(to int) string {
	var sum uint64
	for i := 1; i <= to; i++ {
		sum = mix(sum, i)
	}
	return fmt.Sprintf("done %d %d\n", to, sum)
}
