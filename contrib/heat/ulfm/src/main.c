#include "ulfm.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int speaker = -1; /* the rank in world */

void say(const char *format, ...)
{
	if (speaker != 0)
		return;
	va_list args;
	va_start(args, format);
	fputs("heat: ", stdout);
	vprintf(format, args);
	putchar('\n');
	fflush(stdout);
	va_end(args);
}

double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double wall(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The watchdog: what the handler of SIGALRM says. */
static char stalled[128];
static bool finished;

static void on_alarm(int sig)
{
	(void)sig;
	if (!finished && write(STDERR_FILENO, stalled, strlen(stalled)) < 0)
		_exit(0);
	_exit(0); /* another code would have mpirun count this process twice */
}

void alive(const struct run *r, const char *phase)
{
	alarm(0);
	snprintf(stalled, sizeof stalled, "heat: error: rank %d ends: nothing has moved for %u s (%s, iteration %" PRId64 ")\n",
		r->g.rank, r->x.stall, phase, r->iteration);
	alarm(r->x.stall);
}

static void pace(double left)
{
	struct timespec t = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - floor(left)) * 1e9)};
	if (left > 0)
		nanosleep(&t, NULL);
}

bool begin(struct run *r, struct grid *g, int64_t *iteration)
{
	struct checkpoint_info c = {0};
	char err[ERR_LEN] = "";
	const char *path = r->o.restart_auto ? r->o.checkpoint : r->o.restart;
	enum load got = path ? checkpoint_info(path, &c, err) : LOAD_MISSING;
	bool fits = (!r->o.n || r->o.n == c.n) && (!r->o.seed_given || r->o.seed == c.seed) && c.iteration <= r->o.iterations;
	*iteration = 0;
	if (got == LOAD_OK && fits && grid_open(g, c.n, r->o.decomp, err)) {
		grid_seed(g, c.seed);
		got = checkpoint_read(g, path, &c, err);
		if (got == LOAD_OK) {
			*iteration = c.iteration;
			say("restarted from iteration %" PRId64, c.iteration);
			return true;
		}
		grid_close(g);
	}
	/* A damaged one stays where it is until the next has taken its place. */
	if (got != LOAD_MISSING && speaker == 0)
		fprintf(stderr, "heat: error: %s\n", *err ? err : "the checkpoint is of another run");
	if (path && (got == LOAD_REFUSED || got == LOAD_OK || !r->o.restart_auto))
		return false;
	if (!grid_open(g, r->o.n ? r->o.n : 512, r->o.decomp, err)) {
		if (speaker == 0)
			fprintf(stderr, "heat: error: %s\n", err);
		return false;
	}
	grid_seed(g, r->o.seed);
	return true;
}

/* copy takes copies. If it fails, it does so on all ranks. */
static bool copy(struct run *r)
{
	r->lost = !copies_take(&r->copies, &r->g, &r->crew, r->iteration, true);
	world_broken = world_broken || r->lost;
	return !r->lost;
}

/* So often a plan is tried. */
enum { MOVES = 3 };

/* look has all ranks follow the plan that one of them reads, and says whether they are to stop. */
static bool look(struct run *r)
{
	if (r->plan.stop) /* and a failure has come between */
		return true;
	struct plan p = r->plan;
	int reader = crew_reader(&r->crew, &r->plan);
	if (r->x.plan && r->g.rank == reader) {
		plan_read(r->x.plan, &r->told);
		if (r->told.number > p.number)
			p = r->told;
	}
	int64_t newest = p.number;
	MPI_Bcast(&newest, 1, MPI_INT64_T, reader, world);
	if (world_broken)
		return false;
	if (newest != r->plan.number) {
		MPI_Bcast(&p, sizeof p, MPI_BYTE, reader, world);
		if (world_broken)
			return false;
		r->plan = p;
		r->tries = 0;
	}
	if (p.stop)
		return true;
	if (r->moved == newest)
		return false;
	/* A move that a failure has ended is made again, but not for ever. */
	if (r->tries == MOVES) {
		say("plan %" PRId64 ": given up: failures have ended %d moves, the ranks stay where they are", newest, MOVES);
		r->moved = newest;
		return false;
	}
	r->tries++;
	if (copy(r))
		rebuild(r, MOVED);
	speaker = r->g.rank; /* a loss in between may have renumbered */
	return false;
}

static bool save(struct run *r)
{
	char err[ERR_LEN] = "";
	bool good = !r->o.checkpoint || checkpoint_write(&r->g, r->o.checkpoint, r->iteration, err);
	if (*err && speaker == 0)
		fprintf(stderr, "heat: error: %s\n", err);
	return good;
}

/* advance does an iteration and what is due after it, and says whether the run
 * is to leave. What fails in it is seen by the caller. */
static bool advance(struct run *r)
{
	double began = now();
	alive(r, "step");
	die_at(r->g.rank, "step");
	grid_step(&r->g);
	pace(r->o.pace - (now() - began));
	if (world_broken)
		return false;
	r->iteration++;
	r->computed++;
	if (r->x.trace)
		say("step %" PRId64, r->iteration);
	if (r->iteration == r->o.iterations)
		return false;
	if (r->iteration % r->x.copy_every == 0)
		copy(r);
	if (!world_broken && r->o.every && r->iteration % r->o.every == 0)
		save(r);
	/* Last: ranks that a move has started go on with the next iteration, and the
	 * others must do nothing more for this one. */
	return !world_broken && look(r);
}

/* compute iterates to the end and gives the checksum; false: it was told to stop. */
static bool compute(struct run *r, uint64_t *sum)
{
	double next = now() + r->o.progress;
	for (;;) {
		bool stop = false;
		while (r->iteration < r->o.iterations && !stop && !world_broken) {
			stop = advance(r);
			if (r->o.progress > 0 && now() >= next) {
				say("iteration %" PRId64 " of %" PRId64, r->iteration, r->o.iterations);
				next = now() + r->o.progress;
			}
		}
		if (!world_broken) {
			alive(r, "end");
			save(r);
			*sum = grid_checksum(&r->g);
		}
		/* Where a rank has seen a failure, all meet here, or at the next copy. */
		if (!r->lost && all_good(world, true))
			return !stop;
		r->lost = false;
		rebuild(r, LOST);
		speaker = r->g.rank;
	}
}

static void leave(const struct run *r)
{
	finished = true; /* MPI_Finalize waits for ranks that may be lost meanwhile */
	alarm(5);
	if (r->rebuilt)
		depart();
	MPI_Finalize();
	_exit(0);
}

static int heat(struct run *r, MPI_Comm parents)
{
	uint64_t sum = 0;
	place here = "";
	if (parents != MPI_COMM_NULL) {
		r->x.deaths = 0; /* it is the first ones that a test kills */
		join(r, parents);
	} else {
		const char *at = getenv("HEAT_PLACE");
		if (at || gethostname(here, sizeof here - 1))
			snprintf(here, sizeof here, "%s", at ? at : "here");
		if (!begin(r, &r->g, &r->iteration))
			return EXIT_USAGE;
		r->computed = r->iteration;
		r->started = wall();
		r->crew = (struct crew){r->g.ranks, calloc((size_t)r->g.ranks, sizeof(place))};
		MPI_Allgather(here, sizeof here, MPI_BYTE, r->crew.at, sizeof here, MPI_BYTE, world);
		if (r->x.plan && r->g.rank == 0)
			plan_read(r->x.plan, &r->plan);
		MPI_Bcast(&r->plan, sizeof r->plan, MPI_BYTE, 0, world);
		/* The launcher may have written another since it chose our places. */
		const char *laid = getenv("HEAT_PLAN");
		r->moved = r->plan.number && laid ? strtoll(laid, NULL, 10) : 0;
		MPI_Bcast(&r->moved, 1, MPI_INT64_T, 0, world);
		say("%" PRId64 " x %" PRId64 " cells, seed %" PRIu64 ", iterations %" PRId64 " to %" PRId64 ", %d ranks as %d x %d",
			r->g.n, r->g.n, r->g.seed, r->iteration, r->o.iterations, r->g.ranks, r->g.prows, r->g.pcols);
		copy(r);
	}
	speaker = r->g.rank;
	bool done = compute(r, &sum);
	if (done)
		say("done iterations=%" PRId64 " checksum=0x%016" PRIx64 " seconds=%.3f repeated=%" PRId64, r->iteration, sum, wall() - r->started,
			r->computed - r->iteration);
	else
		say("stopped at iteration %" PRId64 "%s", r->iteration, r->o.checkpoint ? ", the checkpoint is written" : ", nothing is written: no --checkpoint was given");
	return EXIT_DONE;
}

int main(int argc, char **argv)
{
	static struct run r;
	char err[ERR_LEN];
	struct sigaction on = {.sa_handler = on_alarm};
	r.argc = argc;
	r.argv = calloc((size_t)argc + 1, sizeof *r.argv);
	memcpy(r.argv, argv, (size_t)argc * sizeof *argv);
	bool good = extras_take(&argc, argv, &r.x, err) && options_parse(argc, argv, &r.o, err);
	if (!good || r.o.help) {
		const char *rank = getenv("OMPI_COMM_WORLD_RANK");
		if ((!rank || strcmp(rank, "0") == 0) && good)
			printf("%s%s", usage, extras_usage);
		else if (!rank || strcmp(rank, "0") == 0)
			fprintf(stderr, "heat: error: %s\n", err);
		return good ? EXIT_DONE : EXIT_USAGE;
	}
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigaction(SIGALRM, &on, NULL);
	sigaction(SIGPIPE, &ignore, NULL); /* Open MPI writes to those that have died */
	alive(&r, "start");
	MPI_Comm parents;
	if (MPI_Init(NULL, NULL) != MPI_SUCCESS || MPI_Comm_get_parent(&parents) != MPI_SUCCESS)
		_exit(0);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	if (parents == MPI_COMM_NULL) {
		MPI_Comm_dup(MPI_COMM_WORLD, &world);
		world_watch(world);
		MPI_Comm_rank(world, &speaker);
	}
	int code = heat(&r, parents);
	if (code == EXIT_DONE)
		leave(&r);
	MPI_Finalize();
	return code;
}
