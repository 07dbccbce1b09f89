/* Checkpoints on Burst's word, in the folder that it gives: heat that is built with
 * libburst (make LIBBURST=PREFIX). Those that Burst has not asked for, as --every's and
 * the last one, are files where they are named, as of plain heat. */
#ifdef HEAT_LIBBURST

#include "heat.h"

#include <burst.h>
#include <stdio.h>
#include <string.h>

const char store_name[] = "libburst";

static int speaker; /* the rank that burst-srun hears */
static int order;   /* what was asked for last, until it is served */
static bool leaves;
static char from[BURST_PATH_MAX]; /* the folder to go on from, on all ranks; "": none */

static int is_rank(void)
{
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	return rank;
}

void store_open(void)
{
	int ranks, mine, least, rank = is_rank();
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	int code = burst_init();
	if (code < 0)
		fprintf(stderr, "heat: rank %d runs without Burst: %s\n", rank, burst_strerror(code));
	mine = burst_connected() ? rank : ranks;
	MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	speaker = least < ranks ? least : 0;
}

void store_close(void)
{
	burst_finalize();
}

bool store_leaves(void) { return leaves; }

bool store_due(const struct options *o, int64_t iteration)
{
	if (is_rank() == speaker) {
		burst_progress(iteration, o->iterations);
		order = o->checkpoint ? burst_should_checkpoint() : 0;
	}
	MPI_Bcast(&order, 1, MPI_INT, speaker, MPI_COMM_WORLD);
	return order != 0;
}

/* below is the file in the folder, under the last name of the path. */
static bool below(const char *folder, const char *path, char file[BURST_PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	return snprintf(file, BURST_PATH_MAX, "%s/%s", folder, slash ? slash + 1 : path) < BURST_PATH_MAX;
}

/* explain has rank 0, which speaks for all, say what libburst said to the speaker. */
static bool explain(int code, char err[ERR_LEN])
{
	if (code < 0)
		snprintf(err, ERR_LEN, "libburst: %s", burst_strerror(code));
	return code >= 0;
}

bool store_write(const struct grid *g, const char *path, int64_t iteration, char err[ERR_LEN])
{
	char file[BURST_PATH_MAX] = "";
	int code = BURST_OK, was = order;
	order = 0;
	if (was == 0)
		return checkpoint_write(g, path, iteration, err);
	if (g->rank == speaker) {
		char folder[BURST_PATH_MAX];
		code = burst_checkpoint_begin(folder, sizeof folder);
		if (code == BURST_OK && !below(folder, path, file)) {
			burst_checkpoint_abort();
			code = BURST_ETOOLONG;
		}
	}
	MPI_Bcast(&code, 1, MPI_INT, speaker, MPI_COMM_WORLD);
	if (!explain(code, err))
		return false;
	MPI_Bcast(file, sizeof file, MPI_CHAR, speaker, MPI_COMM_WORLD);
	bool good = checkpoint_write(g, file, iteration, err);
	if (g->rank == speaker)
		code = good ? burst_checkpoint_commit() : burst_checkpoint_abort();
	MPI_Bcast(&code, 1, MPI_INT, speaker, MPI_COMM_WORLD);
	leaves = code == BURST_STOP;
	return good && explain(code, err);
}

/* Launchers do not pass every variable to every node: the speaker's word counts. */
bool store_find(const struct options *o, char file[STORE_PATH])
{
	char found[BURST_PATH_MAX];
	const char *path = burst_restart_path();
	if (is_rank() == speaker && path)
		snprintf(from, sizeof from, "%s", path);
	MPI_Bcast(from, sizeof from, MPI_CHAR, speaker, MPI_COMM_WORLD);
	if (!from[0])
		snprintf(file, STORE_PATH, "%s", o->checkpoint);
	else if (!below(from, o->checkpoint, found) || strlen(found) >= STORE_PATH)
		file[0] = '\0'; /* no such file */
	else
		memcpy(file, found, strlen(found) + 1);
	return true;
}

/* To begin anew would have Burst take the new beginning for the old work. */
void store_found(bool good, const char *err)
{
	if (good || !from[0])
		return;
	if (is_rank() == 0)
		fprintf(stderr, "heat: error: restarting from %s: %s\n", from, err);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Abort(MPI_COMM_WORLD, EXIT_FAILED);
}

#endif
