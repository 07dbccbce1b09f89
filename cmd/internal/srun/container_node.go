package srun

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/burst-hpc/burst/cmd/internal/cli"
	"github.com/burst-hpc/burst/slurm/step/container"
)

// The words by which burst-srun calls itself on the nodes; no user writes them.
const (
	aheadWord = "--container-ahead" // has an image ready on this node
	execWord  = "--container-exec"  // runs a program in it
	probeWord = "--container-probe" // says, in a container, which MPI a program has
)

// nodeNames are the variables that such a call has as words: with --export=NONE they do not
// reach the nodes.
var nodeNames = map[string]string{"BURST_CONTAINER_CACHE": "--cache", "BURST_CONTAINER_CACHE_MAX": "--max"}

// nodeCall is such a call.
type nodeCall struct {
	tool    string            // where the host that runs the script has it
	env     map[string]string // variables of nodeNames
	image   container.Image
	binds   []string
	dir     string
	program []string
}

// readNodeCall reads the words after the first.
func readNodeCall(words []string) (c nodeCall, err error) {
	ref := ""
	c.env = map[string]string{}
	for i, w := range words {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "--image":
			ref = value
		case "--key":
			c.image.Key = value
		case "--size":
			c.image.Size, err = strconv.ParseInt(value, 10, 64)
		case "--bind":
			c.binds = append(c.binds, value)
		case "--tool":
			c.tool = value
		case "--cache":
			c.env["BURST_CONTAINER_CACHE"] = value
		case "--max":
			c.env["BURST_CONTAINER_CACHE_MAX"] = value
		case "--dir":
			c.dir = value
		case "--":
			c.program = words[i+1:]
		default:
			err = fmt.Errorf("%q is not for users: see burst-srun --help", w)
		}
		if err != nil || name == "--" {
			break
		}
	}
	if err != nil {
		return c, err
	}
	c.image.Ref, err = container.Parse(ref, "/")
	return c, err
}

// onNode carries out a call of burst-srun's own; false: it is none.
func (p *program) onNode(ctx context.Context) (code int, is bool) {
	if len(p.args) == 0 || !slices.Contains([]string{aheadWord, execWord, probeWord}, p.args[0]) {
		return 0, false
	}
	what, words := p.args[0], p.args[1:]
	if what == probeWord {
		return p.probed(words), true
	}
	c, err := readNodeCall(words)
	if err != nil {
		return p.wrong(err), true
	}
	node := nodeName(p.env)
	if what == execWord {
		return p.failed(fmt.Errorf("node %s: %w", node, p.execute(ctx, c))), true
	}
	find := c.findTool(p.env)
	_, err = find() // a rank that lacks it would leave the others in MPI_Init
	if err == nil {
		_, err = p.readyFor(ctx, c, find)
	}
	if err != nil {
		return p.failed(fmt.Errorf("node %s: %w", node, err)), true
	}
	return cli.OK, true
}

// execute has the tool take this process's place, with the program in the image.
func (p *program) execute(ctx context.Context, c nodeCall) error {
	find := c.findTool(p.env)
	tool, err := find()
	if err != nil {
		return err
	}
	path := c.image.Path
	if c.image.Key != "" {
		// It is there, but on a node that came to the job, or when it was deleted since.
		if path, err = p.readyFor(ctx, c, find); err != nil {
			return err
		}
	}
	run := container.Run{Tool: tool, Image: path, Dir: c.dir, Binds: append(c.binds, container.Found(p.env)...), Program: c.program}
	here := container.ThisNode("/")
	return p.become(tool.Path, run.Line(here), run.Environ(here, p.environ))
}

// toolFinder finds the program that runs images.
type toolFinder func() (container.Tool, error)

// findTool looks where this node's PATH leads, and then where the script's host has it.
func (c nodeCall) findTool(env func(string) string) toolFinder {
	return func() (container.Tool, error) {
		tool, err := container.FindTool(env("PATH"))
		if err == nil || c.tool == "" {
			return tool, err
		}
		return container.FindTool(filepath.Dir(c.tool))
	}
}

// readyFor has the image in this node's cache.
func (p *program) readyFor(ctx context.Context, c nodeCall, find toolFinder) (string, error) {
	env := func(name string) string { return cmp.Or(c.env[name], p.env(name)) }
	cache, err := imageCache(env, p.sayOf(nodeName(p.env)))
	if err != nil {
		return "", err
	}
	return ready(ctx, cache, c.image, fetching{find, p.environ})
}

// fetching is what a pull needs.
type fetching struct {
	find    toolFinder
	environ []string
}

// ready has the image in a cache of this node.
func ready(ctx context.Context, cache container.Cache, i container.Image, f fetching) (string, error) {
	if cache.Dir == "" {
		return i.Path, nil
	}
	return cache.Ready(ctx, i, func(ctx context.Context, part string) error {
		var tool container.Tool
		if i.Remote() {
			var err error
			if tool, err = f.find(); err != nil {
				return err
			}
		}
		return container.Fetch(i, tool, f.environ)(ctx, part)
	})
}

// sayOf says which node a line is of.
func (p *program) sayOf(node string) func(string, ...any) {
	return func(format string, args ...any) { p.say("node %s "+format, append([]any{node}, args...)...) }
}

// nodeName is Slurm's name of this node, or the host's.
func nodeName(env func(string) string) string { return cmp.Or(env("SLURMD_NODENAME"), hostname()) }

// imageCache is where this node keeps images: BURST_CONTAINER_CACHE, in which %n is the
// node's name; none: images are run where they are, and Dir is empty.
func imageCache(env func(string) string, say func(string, ...any)) (container.Cache, error) {
	c := container.Cache{Dir: env("BURST_CONTAINER_CACHE"), Max: container.DefaultMax, Say: say}
	switch {
	case c.Dir == "none":
		c.Dir = ""
	case c.Dir == "":
		c.Dir = filepath.Join("/var/tmp", fmt.Sprintf("burst-images-%d", os.Geteuid()))
	case !filepath.IsAbs(c.Dir):
		return c, fmt.Errorf("BURST_CONTAINER_CACHE=%s is no absolute path, nor none", c.Dir)
	}
	if strings.Contains(c.Dir, "%n") {
		c.Dir = strings.ReplaceAll(c.Dir, "%n", nodeName(env))
	}
	if text := env("BURST_CONTAINER_CACHE_MAX"); text != "" {
		n, err := bytesOf(text)
		if err != nil {
			return c, fmt.Errorf("BURST_CONTAINER_CACHE_MAX=%s: %w", text, err)
		}
		c.Max = n
	}
	return c, nil
}

// bytesOf reads a number of bytes: 500M, 20G.
func bytesOf(text string) (int64, error) {
	shift, digits := 0, text
	if i := strings.IndexByte("KMGT", text[len(text)-1]); i >= 0 {
		shift, digits = 10*(i+1), text[:len(text)-1]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > 1<<62>>shift {
		return 0, fmt.Errorf("is no number of bytes, such as 500M or 20G")
	}
	return n << shift, nil
}

// registryTime bounds a question to a registry.
const registryTime = 30 * time.Second

// registry asks as the tools would.
func registry(env func(string) string) container.Registry {
	plain := func(name string) bool {
		on, err := strconv.ParseBool(env(name))
		return err == nil && on
	}
	return container.Registry{HTTP: &http.Client{Timeout: registryTime}, Login: container.Logins(env, env("HOME")),
		Plain: plain("APPTAINER_NOHTTPS") || plain("SINGULARITY_NOHTTPS")}
}
