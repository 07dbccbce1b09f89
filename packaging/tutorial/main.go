// Command tutorial does what docs/tutorial.md says, from its first line to its last, on a machine that
// may be spoiled: commands behind # as root, behind $ as the user ann, in her folder. It compares what
// they print with what the page has, but for times, ids and figures that differ from run to run; with
// --update it writes what they print into the page. It is what packaging/test-tutorial.sh runs in a
// root of Debian.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience is for what a command's output is waited for, and for a command itself.
const patience = 2 * time.Minute

// settle is how long an output that has what is waited for is looked at again while the rest is not as the page has it.
const settle = 30 * time.Second

func main() {
	update := flag.Bool("update", false, "write what the commands print into the page")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: tutorial [--update] PAGE")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *update); err != nil {
		fmt.Fprintln(os.Stderr, "tutorial: error:", err)
		os.Exit(1)
	}
}

func run(page string, update bool) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	steps, err := read(lines)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	var out []string
	done, differ := 0, 0 // lines of the page that are in out; outputs that are others
	var failed error
	var chapters []string
	took := map[string]float64{}
	for _, s := range steps {
		if s.file != "" {
			if failed = write(s); failed != nil {
				break
			}
			continue
		}
		for _, c := range s.commands {
			begun := time.Now()
			var got []string
			if got, failed = carry(c, update || differ > 0); failed != nil {
				failed = fmt.Errorf("line %d: %w", c.first, failed)
				break
			}
			seconds := time.Since(begun).Seconds()
			fmt.Printf("%6.1f s  line %d: %s\n", seconds, c.first, c.text)
			if len(chapters) == 0 || chapters[len(chapters)-1] != s.chapter {
				chapters = append(chapters, s.chapter)
			}
			took[s.chapter] += seconds
			if !c.prints(got) {
				differ++
				if !update {
					fmt.Printf("--- the page has\n%s\n+++ printed is\n%s\n", strings.Join(c.printed, "\n"), strings.Join(got, "\n"))
				}
			}
			out = append(append(out, lines[done:c.first]...), got...)
			done = c.first + len(c.printed)
		}
		if failed != nil {
			break
		}
	}
	if update && failed == nil {
		var times []string
		for _, chapter := range chapters {
			times = append(times, fmt.Sprintf("%3.0f s  %s", took[chapter], chapter))
		}
		out = withTimes(append(out, lines[done:]...), times)
		err = os.WriteFile(page, []byte(strings.Join(out, "\n")), 0o644)
	}
	switch {
	case failed != nil || err != nil:
		return errors.Join(failed, err)
	case differ > 0 && !update:
		return fmt.Errorf("%d outputs are not those of the page: make test-tutorial UPDATE=1 writes them there", differ)
	}
	fmt.Printf("all of the page has gone; %d outputs are new\n", differ)
	return nil
}

// write writes a step's file: root's with an absolute path, else ann's.
func write(s step) error {
	path, flags := s.file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC
	if s.add {
		flags = os.O_WRONLY | os.O_APPEND
	}
	uid, gid, home, err := ann()
	if err != nil {
		return err
	}
	own := filepath.IsAbs(path)
	if !own {
		path = filepath.Join(home, path)
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return fmt.Errorf("line %d: %w", s.line, err)
	}
	_, err = f.WriteString(s.text)
	if !own {
		err = errors.Join(err, f.Chown(uid, gid))
	}
	return errors.Join(err, f.Close())
}

func ann() (uid, gid int, home string, err error) {
	u, err := user.Lookup("ann")
	if err != nil {
		return 0, 0, "", err
	}
	uid, err = strconv.Atoi(u.Uid)
	gid, gerr := strconv.Atoi(u.Gid)
	return uid, gid, u.HomeDir, errors.Join(err, gerr)
}

// carry runs a command, again and again where it is waited for something, and returns what it has printed. With
// once nothing is compared: the first output that has what is waited for is taken.
func carry(c command, once bool) ([]string, error) {
	uid, gid, home, err := ann()
	if err != nil {
		return nil, err
	}
	return await(c, once, func() (string, int, error) {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-c", c.text)
		cmd.Dir, cmd.Env = "/root", []string{"HOME=/root", "USER=root", "LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
		if !c.root {
			cmd.Dir, cmd.Env[0], cmd.Env[1] = home, "HOME="+home, "USER=ann"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
		cmd.WaitDelay = 5 * time.Second
		text, err := cmd.CombinedOutput()
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			return string(text), exit.ExitCode(), nil
		}
		return string(text), 0, err
	})
}

// await looks until there is what is waited for, and until all else is the page's, too: a part of an output may come a
// moment after another. What does not come to be the page's is returned as it was first.
func await(c command, once bool, look func() (string, int, error)) ([]string, error) {
	end := time.Now().Add(patience)
	var other []string
	for {
		text, code, err := look()
		there := code == c.exit && (c.until == nil || c.until.MatchString(text))
		got := split(text)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", c.text, err)
		case there && (once || c.until == nil || c.prints(got)):
			return got, nil
		case other != nil && time.Now().After(end):
			return other, nil
		case c.until == nil || time.Now().After(end):
			return nil, fmt.Errorf("%s: exit code %d, not %d, or it does not come to what is waited for:\n%s", c.text, code, c.exit, text)
		case there && other == nil:
			other, end = got, time.Now().Add(settle)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// split are the lines of an output as the page has them: without blanks at their ends.
func split(text string) []string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		l = strings.TrimRight(l, " \t\r")
		lines[i] = l[strings.LastIndex(l, "\r")+1:]
	}
	return lines
}
