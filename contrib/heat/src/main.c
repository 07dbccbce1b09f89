#include "heat.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static volatile sig_atomic_t signalled;

static void on_usr1(int sig)
{
	(void)sig;
	signalled = 1;
}

/* catch_signals is called before MPI_Init, so that an early SIGUSR1 does not
 * end the process. A file that grows too large is a failed write, not a
 * signal. */
static void catch_signals(void)
{
	struct sigaction usr1 = {.sa_handler = on_usr1, .sa_flags = SA_RESTART};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigaction(SIGUSR1, &usr1, NULL);
	sigaction(SIGXFSZ, &ignore, NULL);
}

static int rank; /* in MPI_COMM_WORLD */

/* say prints a line on rank 0, at once, also into a pipe. */
__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	if (rank != 0)
		return;
	va_list args;
	va_start(args, format);
	fputs("heat: ", stdout);
	vprintf(format, args);
	putchar('\n');
	fflush(stdout);
	va_end(args);
}

static void complain(const char *err)
{
	if (rank == 0)
		fprintf(stderr, "heat: error: %s\n", err);
}

static double seconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double now(void) { return seconds(CLOCK_MONOTONIC); }

/* idle sleeps for that long, in slices. A slice that took far longer, beyond what
 * a busy host makes of it, counts as what it should have taken: whatever stops
 * the process meanwhile, as a checkpoint does, lengthens the run by all of its
 * time. Nor does it matter that the clock is another after a restart. */
static void idle(double left)
{
	const double slice = 0.01, late = 0.05;
	while (left > 0) {
		double want = left < slice ? left : slice, begin = now();
		struct timespec t = {.tv_nsec = (long)(want * 1e9)};
		nanosleep(&t, NULL);
		double took = now() - begin;
		left -= took > 0 && took < want + late ? took : want;
	}
}

/* step does one iteration and returns its own processor time, which does not
 * pass while the process is stopped either. */
static double step(struct grid *g)
{
	double begin = seconds(CLOCK_PROCESS_CPUTIME_ID);
	grid_step(g);
	double took = seconds(CLOCK_PROCESS_CPUTIME_ID) - begin;
	return took > 0 ? took : 0; /* the clock of a restored process begins anew */
}

/* any_signalled says, with one answer for all ranks, whether a rank has got
 * SIGUSR1 and it has not been served. */
static bool any_signalled(void)
{
	int any = signalled;
	MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	return any;
}

/* save writes a checkpoint and says so. */
static bool save(const struct grid *g, const struct options *o, int64_t iteration, const char *why)
{
	char err[ERR_LEN];
	double begin = now();
	if (!store_write(g, o->checkpoint, iteration, err)) {
		complain(err);
		return false;
	}
	say("checkpoint at iteration %" PRId64 " (%s), %.3f s", iteration, why, now() - begin);
	return true;
}

/* serve_signal answers SIGUSR1, and says whether the run is to leave. A signal
 * that came during a good write is answered by it too, for no iteration has
 * passed. After a failed one the run goes on, for leaving would lose its work. */
static bool serve_signal(const struct grid *g, const struct options *o, int64_t iteration)
{
	signalled = 0;
	if (!o->checkpoint) {
		say("SIGUSR1 at iteration %" PRId64 ": no --checkpoint was given, nothing is written", iteration);
		return false;
	}
	if (!save(g, o, iteration, "SIGUSR1"))
		return false;
	signalled = 0;
	return o->exit_on_signal;
}

/* between does what is due after an iteration that is not the last, and says
 * whether the run is to leave. The store is asked after each one, for it hears by
 * that how far the run is, and is served first: it has a deadline. A good write for
 * it is the periodic one too; a signal is served after the next iteration. */
static bool between(const struct grid *g, const struct options *o, int64_t iteration)
{
	if (store_due(o, iteration) && save(g, o, iteration, store_name))
		return store_leaves();
	if (any_signalled())
		return serve_signal(g, o, iteration);
	if (o->every && iteration % o->every == 0)
		save(g, o, iteration, "every");
	return false;
}

static int run(struct grid *g, const struct options *o, int64_t iteration)
{
	double begin = now(), next_line = begin + o->progress, computed = 0;
	int64_t first = iteration;
	while (iteration < o->iterations) {
		double took = step(g);
		computed += took;
		iteration++;
		idle(o->pace - took);
		if (iteration < o->iterations && between(g, o, iteration))
			return EXIT_STOPPED;
		if (o->progress > 0 && now() >= next_line) {
			say("iteration %" PRId64 " of %" PRId64 ", %.1f s", iteration, o->iterations, now() - begin);
			next_line = now() + o->progress;
		}
	}
	bool saved = !o->checkpoint || save(g, o, iteration, "end");
	uint64_t sum = grid_checksum(g);
	say("done iterations=%" PRId64 " checksum=0x%016" PRIx64 " seconds=%.3f compute=%.6f", iteration, sum, now() - begin,
		iteration > first ? computed / (double)(iteration - first) : 0);
	return saved ? EXIT_DONE : EXIT_FAILED;
}

/* fits says whether the checkpoint is of the run that was asked for. */
static bool fits(const struct checkpoint_info *c, const struct options *o, const char *path, char err[ERR_LEN])
{
	if (o->n && o->n != c->n)
		snprintf(err, ERR_LEN, "checkpoint %s has a grid of -n %" PRId64 ", not %" PRId64, path, c->n, o->n);
	else if (o->seed_given && o->seed != c->seed)
		snprintf(err, ERR_LEN, "checkpoint %s has --seed %" PRIu64 ", not %" PRIu64, path, c->seed, o->seed);
	else if (c->iteration > o->iterations)
		snprintf(err, ERR_LEN, "checkpoint %s is at iteration %" PRId64 ", beyond -i %" PRId64, path, c->iteration, o->iterations);
	else
		return true;
	return false;
}

/* set_aside renames a damaged checkpoint to FILE.bad. */
static bool set_aside(const char *path, char err[ERR_LEN])
{
	int failed = 0;
	if (rank == 0) {
		char *bad = malloc(strlen(path) + sizeof ".bad");
		if (!bad || (strcat(strcpy(bad, path), ".bad"), rename(path, bad))) {
			failed = 1;
			snprintf(err, ERR_LEN, "renaming %s to %s.bad: %s", path, path, strerror(errno));
		}
		free(bad);
	}
	MPI_Bcast(&failed, 1, MPI_INT, 0, MPI_COMM_WORLD);
	return !failed;
}

static enum load load_file(struct grid *g, const struct options *o, const char *path, struct checkpoint_info *c, char err[ERR_LEN])
{
	enum load got = checkpoint_info(path, c, err);
	if (got != LOAD_OK)
		return got;
	if (!fits(c, o, path, err) || !grid_open(g, c->n, o->decomp, err))
		return LOAD_REFUSED;
	grid_seed(g, c->seed);
	got = checkpoint_read(g, path, c, err);
	if (got != LOAD_OK)
		grid_close(g);
	return got;
}

static enum load load_grid(struct grid *g, const struct options *o, struct checkpoint_info *c, char err[ERR_LEN])
{
	char file[STORE_PATH];
	if (!o->restart_auto)
		return load_file(g, o, o->restart, c, err);
	if (!store_find(o, file))
		return LOAD_MISSING;
	enum load got = load_file(g, o, file, c, err);
	store_found(got == LOAD_OK, err);
	return got;
}

/* begin makes the grid, new or from the checkpoint, and sets the iterations
 * that it has done. */
static int begin(struct grid *g, const struct options *o, int64_t *iteration)
{
	char err[ERR_LEN];
	struct checkpoint_info c;
	enum load got = o->restart ? load_grid(g, o, &c, err) : LOAD_MISSING;
	if (got == LOAD_OK) {
		*iteration = c.iteration;
		say("restarted from iteration %" PRId64, c.iteration);
		return EXIT_DONE;
	}
	if (o->restart && (got == LOAD_REFUSED || !o->restart_auto)) {
		complain(err);
		return EXIT_USAGE;
	}
	if (o->restart && got == LOAD_MISSING)
		say("no checkpoint at %s, beginning at the start", o->checkpoint);
	if (got == LOAD_DAMAGED) {
		complain(err);
		if (!set_aside(o->checkpoint, err)) {
			complain(err);
			return EXIT_FAILED;
		}
		say("set the damaged checkpoint aside as %s.bad", o->checkpoint);
	}
	if (!grid_open(g, o->n ? o->n : 512, o->decomp, err)) {
		complain(err);
		return EXIT_USAGE;
	}
	grid_seed(g, o->seed);
	*iteration = 0;
	return EXIT_DONE;
}

static int heat(int argc, char **argv)
{
	struct options o;
	struct grid g;
	char err[ERR_LEN];
	int64_t iteration;
	if (!options_parse(argc, argv, &o, err)) {
		complain(err);
		return EXIT_USAGE;
	}
	if (o.help) {
		if (rank == 0)
			fputs(usage, stdout);
		return EXIT_DONE;
	}
	int code = begin(&g, &o, &iteration);
	if (code != EXIT_DONE)
		return code;
	say("%" PRId64 " x %" PRId64 " cells, seed %" PRIu64 ", iterations %" PRId64 " to %" PRId64 ", %d ranks as %d x %d",
		g.n, g.n, g.seed, iteration, o.iterations, g.ranks, g.prows, g.pcols);
	code = run(&g, &o, iteration);
	grid_close(&g);
	return code;
}

int main(int argc, char **argv)
{
	catch_signals();
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	store_open();
	int code = heat(argc, argv);
	store_close();
	MPI_Finalize();
	return code;
}
