package vultr

// Hasten shortens the waits before something is tried again, for tests that have little time.
func Hasten() {
	repeatWait /= 5
}
