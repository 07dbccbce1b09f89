package power

// Closed says why the pool launches nothing, whatever job asks and at whichever of its
// sources: all are paused, or it is stopped. "": it launches.
func (e *Engine) Closed(pool string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := ""
	for _, s := range e.pools[pool].Sources() {
		why, stopped := e.mem.stopped(pool, s.Provider)
		if !stopped {
			return ""
		}
		if first == "" {
			first = why
		}
	}
	return first
}
