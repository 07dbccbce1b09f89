package power

import "github.com/burst-hpc/burst/cloud"

// action is what a round of reconciliation does about one node.
type action string

const (
	wait     action = "wait"     // nothing is wrong, or somebody is at it, or nothing is known
	recreate action = "recreate" // a resume order was lost: make it again
	suspend  action = "suspend"  // a suspend order was lost: end the instance
	forget   action = "forget"   // drop the record: Slurm has no use for the node any more
	free     action = "free"     // give the node back by power_down_force
	dead     action = "dead"     // the instance is gone: DOWN, so that its jobs are requeued, then free
	retry    action = "retry"    // the instance died before it registered: launch again
	register action = "register" // the node is up: note it
	address  action = "address"  // Slurm has another address: send ours again
	isolate  action = "isolate"  // slurmctld has given up a node whose instance lives: end it, so that what runs there ends
	reclaim  action = "reclaim"  // Slurm waits for a node that no instance is: DOWN, then free
)

// What a round does beside the table, to instances.
const (
	unserving action = "unserving" // an instance of the journal serves no node: end it
	absent    action = "absent"    // the cloud's lists lack it, and show others: it is gone
)

// What a round does beside the table, to jobs.
const requeue action = "requeue" // Slurm has it run on a node that is gone

// Beside the cloud's states, what is known of an instance may be:
const (
	noInstance cloud.State = "none"    // the record has none
	noAnswer   cloud.State = "unknown" // the cloud did not answer, or does not show it (yet)
)

// noRecord is the phase of a node that the journal does not have.
const noRecord Phase = "none"

// cell is one node as the three sides have it.
type cell struct {
	slurm    power
	journal  Phase
	instance cloud.State
	// addrWrong: the instance's address is known and Slurm has another.
	addrWrong bool
	// cut: the node is down by slurmctld's own doing, for want of an answer (cutOff).
	cut bool
	// stranger: what answers as the node, which is fenced, may be another machine (Engine.stranger), and is idle.
	stranger bool
	// serves: the node is a server of files (Pool.Serves).
	serves bool
}

// decide is the table of reconciliation. Its rules, first match first:
//
//	journal    Slurm                   instance           action
//	any        unknown                 any                wait (an empty answer is no answer)
//	none       powering-up             any                recreate
//	none       down, failed            none               reclaim (its cloud has shown others of ours, and none that is it)
//	none       else                    any                wait
//	wanted,    off, powering-down, on, any                forget
//	launching  removed
//	           down, failed            any                free (ResumeTimeout has passed)
//	           powering-up             any                wait
//	booting    off, powering-down,     any                suspend
//	           removed
//	           failed                  any                free
//	           powering-up             terminated         retry
//	           on, down                going, terminated  dead
//	           on, down                else               register (it has, if it does not answer now)
//	up         off, powering-down,     any                suspend
//	           removed
//	           failed                  any                free
//	           powering-up             any                recreate (a power-up without its order)
//	           on, down                going, terminated  dead
//	           down                    pending, running   isolate, if slurmctld has given it up
//	           on                      pending, running   isolate, if a stranger answers
//	freeing    off, powering-down,     any                forget
//	           removed
//	           else                    any                wait (freeing repeats itself)
//	booting,   powering-up, on         pending, running   address, if Slurm has another
//	up
//
// A server of files that is up stays so, whatever Slurm has of it, until its instance is
// terminated: one that is stopped still has its files. Only an order ends it (taking.keeps).
//
// A node that does not respond while its instance lives is left alone: only
// the cloud's word makes an instance dead. When slurmctld has given it up, its
// jobs are requeued already, and what still runs there has to end.
func decide(c cell) action {
	gone := c.instance == cloud.Terminated
	going := gone || c.instance == cloud.Terminating
	ended := c.slurm == off || c.slurm == poweringDown || c.slurm == removed
	switch {
	case c.slurm == unknown:
		return wait
	case c.journal == noRecord:
		if c.slurm == poweringUp {
			return recreate
		}
		if (c.slurm == down || c.slurm == failed) && c.instance == noInstance {
			return reclaim
		}
	case c.journal == Wanted || c.journal == Launching:
		if ended || c.slurm == on {
			return forget
		}
		if c.slurm == down || c.slurm == failed {
			return free
		}
	case c.journal == Freeing:
		if ended {
			return forget
		}
	case c.serves && c.journal == Up && !gone && c.instance != noInstance && (going || c.slurm != on && c.slurm != down):
		return wait
	case ended:
		return suspend
	case c.slurm == failed:
		return free
	case c.journal == Booting && c.slurm == poweringUp && gone:
		return retry
	case c.journal == Up && c.slurm == poweringUp:
		return recreate
	case going && c.slurm != poweringUp:
		return dead
	case c.addrWrong && c.slurm != down && (c.instance == cloud.Running || c.instance == cloud.Pending):
		return address
	case c.journal == Booting && (c.slurm == on || c.slurm == down):
		return register
	case c.slurm == down && c.cut && (c.instance == cloud.Running || c.instance == cloud.Pending):
		return isolate
	case c.slurm == on && c.stranger && (c.instance == cloud.Running || c.instance == cloud.Pending):
		return isolate
	}
	return wait
}

// stray is what a round does about an instance of ours that serves no node of the journal.
type stray struct {
	launchOpen bool // its launch is not resolved: the launcher will claim or end it
	first      bool // the first answer of its provider after a start: that round only adopts
	young      bool // a list may show it before the launch's answer has come, or after a journal that is older
	adoptable  bool // it says its node; Slurm has that node, and the journal has nothing that lives or that Slurm knows
	unknown    bool // Slurm does not know that node, nor takes an address for it
	up         bool // Slurm has that node down, perhaps behind a broken network: it is up until Slurm says more
}

type strayAction string

const (
	leave     strayAction = "leave"
	adopt     strayAction = "adopt"
	terminate strayAction = "terminate"
)

func (s stray) decide() strayAction {
	switch {
	case s.launchOpen:
		return leave
	case s.adoptable:
		return adopt
	case s.first, s.young:
		return leave
	}
	return terminate
}
