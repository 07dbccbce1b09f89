/* An application that checkpoints through SCR: a count on every rank.
 *
 * Usage: scr TO PACE_MS [exit|alone EVERY]
 *
 * exit: it leaves by SCR_Should_exit; else by SCR_HALT_EXIT. alone: it does not ask
 * SCR_Need_checkpoint but writes every so often. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>
#include <scr.h>

static int rank;

static void check(int rc, const char *what)
{
	if (rc == SCR_SUCCESS)
		return;
	fprintf(stderr, "%s failed on rank %d\n", what, rank);
	MPI_Abort(MPI_COMM_WORLD, 3);
}

static void route(const char *name, char file[SCR_MAX_FILENAME])
{
	char path[SCR_MAX_FILENAME];
	snprintf(path, sizeof path, "%.900s/rank_%d.ckpt", name, rank);
	check(SCR_Route_file(path, file), "SCR_Route_file");
}

static void load(long *at, uint64_t *sum)
{
	int have = 0;
	char name[SCR_MAX_FILENAME], file[SCR_MAX_FILENAME];
	check(SCR_Have_restart(&have, name), "SCR_Have_restart");
	if (!have)
		return;
	check(SCR_Start_restart(name), "SCR_Start_restart");
	route(name, file);
	FILE *f = fopen(file, "r");
	int good = f && fscanf(f, "%ld %" SCNu64, at, sum) == 2;
	if (f)
		fclose(f);
	check(SCR_Complete_restart(good), "SCR_Complete_restart");
}

static void save(long at, uint64_t sum)
{
	char name[SCR_MAX_FILENAME], file[SCR_MAX_FILENAME];
	snprintf(name, sizeof name, "ckpt.%ld", at);
	check(SCR_Start_output(name, SCR_FLAG_CHECKPOINT), "SCR_Start_output");
	route(name, file);
	FILE *f = fopen(file, "w");
	int good = f && fprintf(f, "%ld %" PRIu64 "\n", at, sum) > 0;
	good = f && fclose(f) == 0 && good;
	check(SCR_Complete_output(good), "SCR_Complete_output");
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	long to = atol(argv[1]), at = 0, every = argc > 4 && strcmp(argv[3], "alone") == 0 ? atol(argv[4]) : 0;
	int leaves = argc > 3 && strcmp(argv[3], "exit") == 0, leaving = 0;
	struct timespec pace = {.tv_nsec = atol(argv[2]) * 1000000};
	uint64_t sum = 0;
	setvbuf(stdout, NULL, _IOLBF, 0);
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	check(SCR_Init(), "SCR_Init");
	load(&at, &sum);
	while (at < to && !leaving) {
		at++;
		sum = sum * UINT64_C(6364136223846793005) + (uint64_t)at;
		nanosleep(&pace, NULL);
		if (rank == 0)
			printf("at %ld\n", at);
		int need = every && at % every == 0;
		if (!every)
			check(SCR_Need_checkpoint(&need), "SCR_Need_checkpoint");
		if (need)
			save(at, sum);
		if (leaves)
			check(SCR_Should_exit(&leaving), "SCR_Should_exit");
	}
	if (rank == 0 && at == to)
		printf("done %ld %" PRIu64 "\n", at, sum);
	check(SCR_Finalize(), "SCR_Finalize");
	MPI_Finalize();
	return leaving ? 75 : 0;
}
