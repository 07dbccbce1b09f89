/* A computation of one process that survives evictions:
 *
 *   #BURST ckpt=libburst
 *   burst-srun ./count 1000000000
 *
 * With a second number it works in phases of so many iterations, and has Burst ask for a
 * checkpoint at the end of each.
 *
 * Build: cc count.c $(pkg-config --cflags burst) $(pkg-config --variable=libdir burst)/libburst.a */
#include <burst.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t sum;
static int64_t at;

/* open_state opens the file of the state in a folder. */
static FILE *open_state(const char *folder, const char *how)
{
	char path[BURST_PATH_MAX + 16];
	snprintf(path, sizeof path, "%s/state", folder);
	return fopen(path, how);
}

static int save(const char *folder)
{
	FILE *f = open_state(folder, "w");
	if (!f)
		return 0;
	int good = fprintf(f, "%" PRId64 " %" PRIu64 "\n", at, sum) > 0;
	return fclose(f) == 0 && good;
}

static int load(const char *folder)
{
	FILE *f = open_state(folder, "r");
	if (!f)
		return 0;
	int good = fscanf(f, "%" SCNd64 " %" SCNu64, &at, &sum) == 2;
	fclose(f);
	return good;
}

/* checkpoint writes one, and says whether the program is to end. One that fails is
 * no reason to end: the work is still here. */
static int checkpoint(void)
{
	char folder[BURST_PATH_MAX];
	int code = burst_checkpoint_begin(folder, sizeof folder);
	if (code == BURST_OK)
		code = save(folder) ? burst_checkpoint_commit() : burst_checkpoint_abort();
	if (code < 0)
		fprintf(stderr, "count: no checkpoint: %s\n", burst_strerror(code));
	return code == BURST_STOP;
}

int main(int argc, char **argv)
{
	int64_t to = argc > 1 ? atoll(argv[1]) : 1000;
	int64_t phase = argc > 2 ? atoll(argv[2]) : 0;
	int code = burst_init();
	if (code < 0)
		fprintf(stderr, "count: it runs on without Burst: %s\n", burst_strerror(code));
	const char *from = burst_restart_path();
	if (from && !load(from)) {
		fprintf(stderr, "count: %s cannot be read\n", from);
		return 1;
	}
	while (at < to) {
		at++;
		sum = sum * 6364136223846793005u + (uint64_t)at;
		burst_progress(at, to);
		if (phase > 0 && at % phase == 0 && at < to)
			burst_want_checkpoint(); /* Burst asks now: the next line hears it */
		if (burst_should_checkpoint() && checkpoint()) {
			burst_finalize();
			return 75;
		}
	}
	burst_finalize();
	printf("done %" PRId64 " %" PRIu64 "\n", at, sum);
	return 0;
}
