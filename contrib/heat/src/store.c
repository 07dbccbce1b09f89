/* Where checkpoints are kept: in the file that is named, or, built with SCR
 * (make SCR=PREFIX), where SCR says, under the name that is given. With libburst
 * (make LIBBURST=PREFIX) see store_libburst.c. */
#include "heat.h"

#ifdef HEAT_SCR

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <scr.h>

const char store_name[] = "SCR";

void store_open(void)
{
	if (SCR_Init() == SCR_SUCCESS)
		return;
	fputs("heat: error: SCR_Init failed\n", stderr);
	MPI_Abort(MPI_COMM_WORLD, EXIT_FAILED);
}

void store_close(void)
{
	SCR_Finalize();
}

bool store_due(const struct options *o, int64_t iteration)
{
	int need = 0;
	(void)iteration;
	return o->checkpoint && SCR_Need_checkpoint(&need) == SCR_SUCCESS && need;
}

/* SCR itself ends the run, where it is to leave. */
bool store_leaves(void) { return false; }

/* route is the file in the dataset that was begun: its folder lies where the
 * file that is named would, which must be below SCR_PREFIX. */
static bool route(const char *set, const char *name, char file[SCR_MAX_FILENAME])
{
	char path[SCR_MAX_FILENAME];
	const char *slash = strrchr(name, '/');
	int folder = slash ? (int)(slash + 1 - name) : 0;
	if (snprintf(path, sizeof path, "%.*s%s/%s", folder, name, set, name + folder) >= (int)sizeof path)
		return false;
	return SCR_Route_file(path, file) == SCR_SUCCESS;
}

/* One rank writes, and it alone tells SCR of a file. */
bool store_write(const struct grid *g, const char *path, int64_t iteration, char err[ERR_LEN])
{
	char set[64], file[SCR_MAX_FILENAME] = "";
	snprintf(set, sizeof set, "heat.%" PRId64, iteration);
	snprintf(err, ERR_LEN, "SCR does not take checkpoint %s", set);
	if (SCR_Start_output(set, SCR_FLAG_CHECKPOINT) != SCR_SUCCESS)
		return false;
	int routed = g->rank != 0 || route(set, path, file);
	MPI_Bcast(&routed, 1, MPI_INT, 0, MPI_COMM_WORLD);
	bool good = routed && checkpoint_write(g, file, iteration, err);
	return SCR_Complete_output(good) == SCR_SUCCESS && good;
}

bool store_find(const struct options *o, char file[STORE_PATH])
{
	int have = 0;
	char set[SCR_MAX_FILENAME], found[SCR_MAX_FILENAME] = "";
	if (SCR_Have_restart(&have, set) != SCR_SUCCESS || !have || SCR_Start_restart(set) != SCR_SUCCESS)
		return false;
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (rank == 0 && !route(set, o->checkpoint, found))
		found[0] = '\0';
	snprintf(file, STORE_PATH, "%s", found);
	return true;
}

void store_found(bool good, const char *err)
{
	(void)err;
	SCR_Complete_restart(good);
}

#elif !defined(HEAT_LIBBURST)

#include <stdio.h>

const char store_name[] = "file";

void store_open(void) {}
void store_close(void) {}
bool store_leaves(void) { return false; }

bool store_due(const struct options *o, int64_t iteration)
{
	(void)o, (void)iteration;
	return false;
}

void store_found(bool good, const char *err) { (void)good, (void)err; }

bool store_write(const struct grid *g, const char *path, int64_t iteration, char err[ERR_LEN])
{
	return checkpoint_write(g, path, iteration, err);
}

bool store_find(const struct options *o, char file[STORE_PATH])
{
	snprintf(file, STORE_PATH, "%s", o->checkpoint);
	return true;
}

#endif
