package bench

import "time"

// bucket is one of EC2's token buckets: it holds size at the start and gains
// rate a second.
type bucket struct {
	size, rate float64
}

// after is the least time until n tokens have been given.
func (b bucket) after(n int) time.Duration {
	if over := float64(n) - b.size; over > 0 {
		return time.Duration(over / b.rate * float64(time.Second))
	}
	return 0
}

// ec2Limits are what bounds a launch of many nodes: EC2's published buckets
// and the latencies that a measurement supposes.
type ec2Limits struct {
	runRequests, runInstances, fleetRequests bucket

	run, fleet, describe time.Duration // latency of one call
}

// bound is the least time in which any mix of RunInstances and CreateFleet
// gives addresses to groups of nodes, each group by as few calls as the mix
// needs. A fleet's answer has no addresses, so a Describe follows it.
// RunInstances starts its calls as its request bucket allows, and the last
// when its resource bucket has given all their instances.
func (l ec2Limits) bound(groups []int) time.Duration {
	total := 0
	for _, g := range groups {
		total += g
	}
	// By RunInstances alone, and by fleets alone.
	least := min(l.byRun(len(groups), total), l.byFleet(len(groups)))
	// A mix: the first i groups by RunInstances, and k nodes of the next one.
	nodes := 0
	for i, g := range groups {
		for k := range g {
			calls := i
			if k > 0 {
				calls++
			}
			least = min(least, max(l.byRun(calls, nodes+k), l.byFleet(len(groups)-i)))
		}
		nodes += g
	}
	return least
}

func (l ec2Limits) byRun(calls, nodes int) time.Duration {
	if calls == 0 {
		return 0
	}
	return max(l.runRequests.after(calls), l.runInstances.after(nodes)) + l.run
}

func (l ec2Limits) byFleet(calls int) time.Duration {
	if calls == 0 {
		return 0
	}
	return l.fleetRequests.after(calls) + l.fleet + l.describe
}
