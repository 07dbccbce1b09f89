package vultr

import "sync"

// Hasten shortens the waits before something is tried again, and lets requests follow
// each other ten times as fast as Vultr allows, for tests that have little time. To an
// address that Unhurried names Vultr's limit is kept.
func Hasten() {
	repeatWait /= 5
	namePause /= 10
	paceOf = func(endpoint string) pace {
		if _, slow := unhurried.Load(endpoint); slow {
			return allowed
		}
		return pace{perSecond: 10 * allowed.perSecond, atOnce: 10 * allowed.atOnce, counted: allowed.counted / 10}
	}
}

var unhurried sync.Map

// Unhurried is called before the first provider at an address is made.
func Unhurried(endpoint string) { unhurried.Store(endpoint, nil) }
