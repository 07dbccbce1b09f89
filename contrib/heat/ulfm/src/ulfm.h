/* heat-ulfm: heat over Open MPI 5 with ULFM. Its field outlives the loss of
 * ranks, and its ranks move between nodes while it computes. Grid, options and
 * checkpoint files are plain heat's. */
#ifndef ULFM_H
#define ULFM_H

#include "../../src/heat.h"

#include <mpi-ext.h>

enum { PLACE_LEN = 64, MAX_NODES = 1024, MAX_DEATHS = 8 };

/* A place is the name of the node where a rank is. */
typedef char place[PLACE_LEN];

/* A plan is what the launcher says of the nodes: those where ranks may be, the
 * first of them, the launcher's own, for rank 0, or that the run is to stop. */
struct plan {
	int64_t number; /* grows with every plan; 0: there is none */
	int count;      /* of nodes */
	bool stop;
	place node[MAX_NODES];
};

/* A death is one that a test asks for: that rank kills itself when it comes
 * into that phase for the count'th time. */
struct death {
	char phase[16];
	int rank, count;
};

/* What heat-ulfm has beside plain heat's options. */
struct extras {
	int64_t copy_every;   /* iterations between two copies in memory */
	bool shrink;          /* go on with fewer ranks, do not replace them */
	bool trace;           /* a line for each iteration */
	unsigned stall;       /* seconds without an iteration or a step of a recovery */
	const char *plan;     /* file; NULL: ranks never move */
	const char *launcher; /* starts ranks on nodes; NULL: they are started here */
	struct death death[MAX_DEATHS];
	int deaths;
};

extern const char extras_usage[];
/* extras_take reads the extras out of argv and leaves the others in it. It
 * returns false with one line in err. */
bool extras_take(int *argc, char **argv, struct extras *x, char err[ERR_LEN]);

/* plan_read reads the file if it has changed since. It returns whether *p is a
 * later plan now; what cannot be read, or is no plan, is none. Of more than
 * MAX_NODES nodes it has the first. */
bool plan_read(const char *path, struct plan *p);

/* A crew is the ranks and where each is. */
struct crew {
	int size;
	place *at; /* by rank */
};

/* A roster says who the ranks of the next world are: source is by rank, an
 * index in the survivors, or, beyond these, the number of a new process. */
struct roster {
	int size, spawned;
	int *source;
	place *at;
};

/* crew_mend gives every rank that index (by rank; -1: lost) says is lost to a
 * new process, on its node if that is the plan's first or others of its ranks live,
 * else elsewhere. */
void crew_mend(const struct crew *c, const int *index, const struct plan *p, struct roster *r);
/* crew_reader is the rank that reads the next plan: the first on the node of the
 * present one's launcher, where the file is. Without such a rank it is 0. */
int crew_reader(const struct crew *c, const struct plan *p);
/* crew_spread takes ranks off nodes that the plan does not have and spreads
 * them over those that it has, moving as few as can be. All ranks are there. */
void crew_spread(const struct crew *c, const struct plan *p, struct roster *r);
/* crew_buddies are the two ranks that hold the copies of a rank's block: on
 * other nodes than it and than each other if there are, else far away. -1: none. */
void crew_buddies(const struct crew *c, int rank, int buddy[2]);

/* A copy is a rank's tile in memory: its own or another's. */
struct copy {
	int block;      /* the rank whose tile it is */
	int64_t cells;
	double *data;   /* cells, and then their sum's bits */
};

/* A generation is the copies of one iteration that a rank holds. */
struct generation {
	int64_t serial; /* 0: none. Never used twice, by no rank */
	int64_t iteration;
	int ranks, prows, pcols; /* of the grid that was copied */
	int count;
	struct copy *copy;
};

/* Copies are two generations, so that the former is there until the latter is
 * whole on all ranks. */
struct copies {
	int64_t serial; /* the last that was given */
	struct generation kept, spare;
};

/* copies_take copies the grid to the buddies. Collective over world; all ranks
 * get the same answer. good: whether this rank has a grid. */
bool copies_take(struct copies *c, const struct grid *g, const struct crew *crew, int64_t iteration, bool good);
/* copies_restore fills g, which is NULL on a rank that leaves, from the newest
 * generation of which all blocks are left. Collective over all; member: the
 * ranks of g's layout in all. It returns the iteration, or -1 if none is whole. */
int64_t copies_restore(struct copies *c, MPI_Comm all, struct grid *g, const struct roster *r);
void copies_free(struct copies *c);

/* run is all that a rank knows. */
struct run {
	struct options o;
	struct extras x;
	int argc;
	char **argv; /* as they were given, for new processes */
	struct grid g;
	struct crew crew;
	struct plan plan;
	struct plan told; /* on the rank that reads: the last that was read, the others may not have it yet */
	int64_t moved;    /* number of the last plan by which all ranks are placed, or that was given up */
	int tries;        /* moves by the present plan that a failure has ended */
	struct copies copies;
	int64_t iteration;
	int64_t computed; /* iterations in all, those done twice included */
	double started;   /* when the first rank began, in seconds of wall clock */
	bool rebuilt;     /* this is not the first world */
	bool lost;        /* all ranks know that the world is broken */
};

/* world_watch makes failures on c set world_broken. */
void world_watch(MPI_Comm c);
/* all_good says on all ranks of c alike whether good holds on all of them. Each
 * living rank must call it equally often: it waits for all. */
bool all_good(MPI_Comm c, bool good);

/* gather starts the roster's new processes and is base with them behind it;
 * MPI_COMM_NULL on all ranks of base if it failed. */
MPI_Comm gather(struct run *r, MPI_Comm base, const struct roster *to);

enum cause { LOST, MOVED };
/* rebuild makes a new world, without lost ranks, or with ranks elsewhere. It is
 * called by all ranks that live. If it cannot, the process ends. */
void rebuild(struct run *r, enum cause why);
/* depart ends this process without MPI_Finalize, which waits for those of the
 * first world that go on, and crashes over those that have gone. */
void depart(void);
/* join is where a process begins that was started by rebuild. */
void join(struct run *r, MPI_Comm parents);
/* begin makes the grid anew: from the checkpoint's file if there is one. */
bool begin(struct run *r, struct grid *g, int64_t *iteration);

/* alive tells the watchdog that something has moved, and where we are. */
void alive(const struct run *r, const char *phase);
/* die_at is where a test may kill this process, rank in world. */
void die_at(int rank, const char *phase);
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
double now(void);
double wall(void);

#endif
