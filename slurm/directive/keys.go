package directive

import "strings"

// Key is one key of a directive.
type Key struct {
	Name    string
	Example string // a value, as it is written
	Meaning string // one line for people
	Number  bool   // its value is a whole number
	set     func(d *Directive, value string) error
	get     func(d *Directive) string // "" where there is none
}

// Keys are all keys, in the order in which people are shown them. A new key is
// one entry here, one of rules if it goes only with others, and one in
// contrib/job_submit/values.lua, whose test asks for it.
func Keys() []Key { return keys }

var keys = []Key{
	{"ckpt", "dmtcp", "the method: dmtcp, mana, scr, libburst, criu, signal, command or none", false, setMethod,
		func(d *Directive) string { return d.Method }},
	{"strategy", "both", "when: periodic, preemptive (on a notice), both or none", false, setStrategy,
		func(d *Directive) string { return d.Strategy }},
	{"interval", "10m", "time between periodic checkpoints, or auto", false, setInterval, getInterval},
	{"dir", "/scratch/%u", "folder of the checkpoints, on storage that all nodes share", false, setDir,
		func(d *Directive) string { return d.Dir }},
	{"keep", "2", "so many good generations are kept", true, setKeep, getKeep},
	{"keep_after", "yes", "yes: the generations stay when the job has ended well; no: they are deleted", false, setKeepAfter, getKeepAfter},
	{"signal", "USR1", "the signal that tells the job to checkpoint; B:USR1 reaches the batch script only", false, setSignal, getSignal},
	{"grace", "60s", "how long the job may take after the signal", false, setGrace,
		func(d *Directive) string { return short(d.Grace) }},
	{"files", `"out/*.ckpt"`, "what proves a checkpoint of ckpt=signal: patterns of files", false, setFiles,
		func(d *Directive) string { return d.Files }},
	{"setup", `"module load app"`, "of ckpt=command: what prepares the node for the others", false, command(func(d *Directive) *string { return &d.Setup }),
		func(d *Directive) string { return d.Setup }},
	{"run", `"tool run ./app"`, "of ckpt=command: what starts the step; else its own command", false, command(func(d *Directive) *string { return &d.Run }),
		func(d *Directive) string { return d.Run }},
	{"checkpoint", `"tool save"`, "of ckpt=command: what writes a checkpoint", false, command(func(d *Directive) *string { return &d.Checkpoint }),
		func(d *Directive) string { return d.Checkpoint }},
	{"restart", `"tool load"`, "of ckpt=command: what starts the step from a checkpoint", false, command(func(d *Directive) *string { return &d.Restart }),
		func(d *Directive) string { return d.Restart }},
	{"preset", "blcr", "of ckpt=command: a tool whose commands are known", false, setPreset,
		func(d *Directive) string { return d.Preset }},
	{"retries", "5", "so often in a row at most Burst requeues the job without a new checkpoint", true, setRetries, getRetries},
	{"label", "heat-4k", "a name for the runs of this program; else the job's name", false, setLabel,
		func(d *Directive) string { return d.Label }},
	{"container", "sim.sif", "the Apptainer image that burst-srun runs the steps in: a file, a folder, docker://… or oras://…; or none", false, setContainer,
		func(d *Directive) string { return d.Container }},
	{"after", "power_down", "power_down: the nodes are powered down soon after the job's end, not after SuspendTime; or none", false, setAfter,
		func(d *Directive) string { return d.After }},
	{stay, "yes", "yes, or the key alone: no rule of the site's overflow moves the job to a cloud; no: rules may ask for it", false, setStay,
		func(d *Directive) string { return d.Stay }},
	{"budget", "20", "USD that the job's instances may cost over all its attempts", false, setBudget, getBudget},
}

// stay is the one key that may stand without a value: "#BURST stay".
const stay = "stay"

func keyNamed(name string) *Key {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}

func known() string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	return strings.Join(names, ", ")
}
