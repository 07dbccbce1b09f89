package session

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// HubConfig says what a hub may hold; zero fields take the defaults.
type HubConfig struct {
	Poll   time.Duration // the longest that a question waits; Poll
	Silent time.Duration // a session that asks nothing for so long is forgotten; four times Poll
	Most   int           // sessions; 20,000
	Steps  int           // sessions of one attempt of a job that are open at once; 256
	User   int           // sessions of one user; half of Most
	// AtOnce is how many steps may write a checkpoint at once because they are asked
	// to, those that must be ready first before the others, and of each user in turn;
	// 0: all. One that waits until its time does not do any more is told to leave.
	AtOnce int
	// Interval advises a time between periodic checkpoints, 0 for none, to a step
	// whose Hello has its present cost; nil: never. It must not block.
	Interval func(Hello) time.Duration
}

// Hub is burstd's end of all sessions. Whether the uid that speaks owns the job,
// and whether the attempt is Slurm's present one, is for the caller to check.
type Hub struct {
	cfg     HubConfig
	journal journal
	log     *slog.Logger

	mu       sync.Mutex
	attempts map[attemptID]*attempt
	newest   map[uint32]int      // attempt of each job in attempts
	asked    map[*order]*attempt // those that are not over, and some that are
	users    map[int]int         // sessions of each
	sessions int
	toldFull time.Time // when the log was told last that there is no room

	entering map[Key]int     // sessions that are being written down as opened
	shutting chan struct{}   // closed when others are written down as closed; nil: none are being
	fresh    []*order        // of which nobody has been told
	stirred  bool            // turns are given in a moment
	given    time.Time       // when they were last
	took     []time.Duration // that the last steps wrote which were let do so
	loaded   time.Time       // when the journal's sessions were taken up
	unheard  int             // of them, those that have asked nothing since
}

type attemptID struct {
	job     uint32
	attempt int
}

// attempt is one run of a job; it is there while it has a session or an order.
type attempt struct {
	id    attemptID
	steps map[string]*session
	order *order // the last; nil: none
	// waited: no step had a turn to write for the order before, which was cancelled.
	waited bool
	full   bool // the log was told that no more steps of it are taken
	spoke  bool // a step of it has opened a session since burstd was started
}

type session struct {
	Session
	// lost: it is known from the journal alone, and has not spoken since burstd was
	// started. Its step is waited for, but has to open it again.
	lost     bool
	costs    []time.Duration // of the last three checkpoints
	newest   string          // the last generation that was learnt of
	unheard  bool            // nor has it asked anything since: it may be writing
	turn     turn
	progress Progress
	told     time.Time     // when it said so
	seen     time.Time     // when it asked last
	poll     chan struct{} // of the question that waits, of which there is one: a value has it look again; closed: it is over
}

// NewHub makes a hub without sessions. Load has it take up the journal's, Run
// has it forget.
func NewHub(c HubConfig, j journal, log *slog.Logger) *Hub {
	if c.Poll == 0 {
		c.Poll = Poll
	}
	if c.Silent == 0 {
		c.Silent = 4 * c.Poll
	}
	if c.Most == 0 {
		c.Most = 20_000
	}
	if c.Steps == 0 {
		c.Steps = 256
	}
	if c.User == 0 {
		c.User = c.Most / 2
	}
	return &Hub{cfg: c, journal: j, log: log, attempts: map[attemptID]*attempt{}, newest: map[uint32]int{},
		asked: map[*order]*attempt{}, users: map[int]int{}, entering: map[Key]int{}}
}

// Open opens a session, or opens it again.
func (h *Hub) Open(ctx context.Context, uid int, hello Hello) (Word, error) {
	if err := hello.check(); err != nil {
		return Word{}, err
	}
	hello.Last.Error = oneLine(hello.Last.Error)
	if err := h.knock(ctx, uid, hello); err != nil {
		return Word{}, err
	}
	defer h.through(hello.Key)
	c := Change{Opened: []Session{{uid, hello}}}
	if hello.Last.ID != "" {
		c.Answers = []Given{{hello.Key, hello.Token, hello.Last}}
	}
	if err := h.journal.CommitSession(ctx, c); err != nil {
		return Word{}, fmt.Errorf("writing down the session of job %d: %w", hello.Job, err)
	}
	// Also of an attempt that is known: it may be forgotten before it is locked.
	last, err := h.journal.OrderOf(ctx, hello.Job, hello.Attempt)
	if err != nil {
		return Word{}, fmt.Errorf("reading what job %d was asked: %w", hello.Job, err)
	}
	if err := h.letIn(uid, hello, last); err != nil {
		return Word{}, err
	}
	return Word{Interval: h.advice(hello)}, nil
}

// letIn has a session that is written down, of an attempt that was asked this last.
func (h *Hub) letIn(uid int, hello Hello, last Order) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.admit(uid, hello); err != nil { // another came meanwhile
		return err
	}
	a := h.attempt(attemptID{hello.Job, hello.Attempt})
	a.spoke = true
	if a.order == nil && last.Request.ID != "" && last.Request.By.After(time.Now()) {
		h.place(newOrder(last))
	}
	h.enter(a, uid, hello)
	if hello.Last.ID != "" {
		h.note(a, hello.Step, hello.Last)
	}
	h.turns()
	return nil
}

// attempt finds or makes the attempt; those before it are over. The lock is held.
func (h *Hub) attempt(id attemptID) *attempt {
	a := h.attempts[id]
	if a != nil {
		return a
	}
	a = &attempt{id: id, steps: map[string]*session{}}
	if old, ok := h.newest[id.job]; ok && old < id.attempt {
		for n := range h.attempts {
			if n.job == id.job {
				h.drop(h.attempts[n])
			}
		}
	}
	h.attempts[id], h.newest[id.job] = a, max(h.newest[id.job], id.attempt)
	return a
}

// drop ends an attempt whose job has been started anew. The lock is held.
func (h *Hub) drop(a *attempt) {
	if a.order != nil {
		a.order.end(ErrReplaced)
	}
	for _, s := range a.steps {
		h.leave(a, s)
	}
	h.tidy(a)
}

// enter puts the session into its attempt. The lock is held.
func (h *Hub) enter(a *attempt, uid int, hello Hello) {
	now := time.Now()
	s := &session{Session: Session{uid, hello}, progress: Progress{Done: -1, Iteration: -1}, seen: now}
	if old := a.steps[hello.Step]; old != nil {
		s.costs = old.costs
		if old.Token == hello.Token {
			s.turn = old.turn
		}
		if s.unheard = old.unheard; s.unheard {
			h.unheard++
		}
		h.leave(a, old) // a question under the old token, or of a client that opens again, is over
	}
	if a.order != nil {
		a.order.asked = true
	}
	if hello.Cost > 0 {
		s.costs = []time.Duration{hello.Cost}
	}
	a.steps[hello.Step] = s
	h.sessions++
	h.users[uid]++
}

// leave takes the session out of its attempt. The lock is held.
func (h *Hub) leave(a *attempt, s *session) {
	if s.poll != nil {
		close(s.poll)
		s.poll = nil
	}
	delete(a.steps, s.Step)
	if s.unheard {
		h.unheard--
	}
	h.sessions--
	if h.users[s.UID]--; h.users[s.UID] == 0 {
		delete(h.users, s.UID)
	}
}

// tidy forgets an attempt that has nothing. The lock is held.
func (h *Hub) tidy(a *attempt) {
	if len(a.steps) > 0 || a.order != nil && !a.order.over {
		return
	}
	delete(h.attempts, a.id)
	if h.newest[a.id.job] == a.id.attempt {
		delete(h.newest, a.id.job)
	}
}

// find returns the session that the token's owner has opened. The lock is held.
func (h *Hub) find(uid int, k Key, token string) (*attempt, *session, error) {
	a, s, err := h.holds(uid, k, token)
	if err == nil && s.lost {
		return nil, nil, ErrUnknown
	}
	return a, s, err
}

// holds is find, with those that have not been opened again.
func (h *Hub) holds(uid int, k Key, token string) (*attempt, *session, error) {
	a := h.attempts[attemptID{k.Job, k.Attempt}]
	if a == nil || a.steps[k.Step] == nil {
		if k.Attempt < h.newest[k.Job] {
			return nil, nil, ErrReplaced
		}
		return nil, nil, ErrUnknown
	}
	switch s := a.steps[k.Step]; {
	case s.lost && (s.UID != uid || s.Token != token): // who is right shows when it is opened
		return nil, nil, ErrUnknown
	case s.UID != uid:
		return nil, nil, ErrNotYours
	case s.Token != token:
		return nil, nil, ErrReplaced
	default:
		return a, s, nil
	}
}

// advice is asked for without the lock: it looks the job up.
func (h *Hub) advice(hello Hello) time.Duration {
	if h.cfg.Interval == nil {
		return 0
	}
	return h.cfg.Interval(hello)
}

// learn has the session's cost follow a checkpoint, once.
func (s *session) learn(a Answer) {
	if a.Generation == s.newest {
		return
	}
	s.newest = a.Generation
	s.costs = lately(s.costs, a)
	s.Cost = longest(s.costs)
	if a.Generation != "" {
		s.progress.Generation, s.progress.Attempt, s.progress.Since, s.told = a.N, s.Attempt, a.Took, time.Now()
	}
}
