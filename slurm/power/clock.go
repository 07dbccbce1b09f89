package power

import "time"

// notAfter takes back times that lie ahead, as after a step of the clock: what
// happened cannot be younger than now, nor a cooldown longer than the longest.
func notAfter(st State, now time.Time) State {
	past := func(t *time.Time, most time.Duration) {
		if limit := now.Add(most); t.After(limit) {
			*t = limit
		}
	}
	for i := range st.Nodes {
		past(&st.Nodes[i].Since, 0)
		past(&st.Nodes[i].Made, 0)
	}
	for i := range st.Launches {
		past(&st.Launches[i].Created, 0)
	}
	longest := maxRetry
	for i := range st.Coolings {
		c := &st.Coolings[i]
		past(&c.Until, maxRetry)
		past(&c.Paid, maxPaid)
		longest = max(longest, c.Paid.Sub(now))
	}
	for i := range st.Holds {
		most := longest
		if st.Holds[i].putOff() {
			most = max(most, longestOff)
		}
		past(&st.Holds[i].Start, most)
	}
	return st
}
