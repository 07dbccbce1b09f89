/* program.c with a count that writes checkpoints through libburst. */
#define OWN_COUNT
#include "program.c"

#include <burst.h>
#include <inttypes.h>

static int64_t at;
static uint64_t sum;

static FILE *state(const char *folder, const char *how)
{
	char path[BURST_PATH_MAX + 16];
	snprintf(path, sizeof path, "%s/state", folder);
	return fopen(path, how);
}

/* save writes slowly if it is told to, with a part of the file on disk. */
static int save(const char *folder, long slow)
{
	FILE *f = state(folder, "w");
	if (!f)
		return 0;
	fprintf(f, "%" PRId64 " ", at);
	if (slow) {
		fflush(f);
		struct timespec t = {slow / 1000, slow % 1000 * 1000000};
		nanosleep(&t, NULL);
	}
	fprintf(f, "%" PRIu64 "\n", sum);
	return fclose(f) == 0;
}

/* checkpoint does what is asked for, or one of the things that go wrong. */
static int checkpoint(const char *fault, long slow)
{
	char folder[BURST_PATH_MAX], again[BURST_PATH_MAX];
	if (strcmp(fault, "short") == 0) {
		int code = burst_checkpoint_begin(folder, 10);
		printf("short %d\n", code);
	}
	int code = burst_checkpoint_begin(folder, sizeof folder);
	if (code != BURST_OK) {
		printf("begin %d\n", code);
		return code;
	}
	if (strcmp(fault, "twice") == 0)
		printf("again %d\n", burst_checkpoint_begin(again, sizeof again));
	if (strcmp(fault, "die") == 0)
		die(SIGKILL);
	if (strcmp(fault, "leave") == 0) {
		burst_finalize();
		return BURST_OK;
	}
	if (strcmp(fault, "abort") == 0)
		code = burst_checkpoint_abort();
	else if (strcmp(fault, "empty") == 0 || save(folder, slow))
		code = burst_checkpoint_commit();
	printf("commit %d\n", code);
	return code;
}

static int count(char **args)
{
	long to = 100, pace = 0, slow = 0, wants = 0; /* a checkpoint, each so many */
	const char *fault = "";
	for (; *args; args++) {
		if (strncmp(*args, "-to=", 4) == 0)
			to = atol(*args + 4);
		else if (strncmp(*args, "-pace=", 6) == 0)
			pace = atol(*args + 6);
		else if (strncmp(*args, "-slow=", 6) == 0)
			slow = atol(*args + 6);
		else if (strncmp(*args, "-wants=", 7) == 0)
			wants = atol(*args + 7);
		else if (strncmp(*args, "-fault=", 7) == 0)
			fault = *args + 7;
		else if (strcmp(*args, "-deaf") == 0)
			signal(SIGTERM, SIG_IGN);
		else
			return 2;
	}
	if (strcmp(fault, "none") != 0 && burst_init() != BURST_OK)
		return 3;
	const char *from = burst_restart_path();
	if (from) {
		FILE *f = state(from, "r");
		if (!f || fscanf(f, "%" SCNd64 " %" SCNu64, &at, &sum) != 2)
			return 4;
		fclose(f);
	}
	if (strcmp(fault, "fork") == 0 && fork() == 0) {
		char folder[BURST_PATH_MAX];
		burst_progress(-1, -1);
		while (getppid() != 1 && !burst_should_checkpoint() && burst_checkpoint_begin(folder, sizeof folder) == BURST_ENOTASKED)
			usleep(1000);
		_exit(0);
	}
	ready();
	while (at < to) {
		at++;
		sum = sum * 6364136223846793005u + (uint64_t)at;
		struct timespec t = {pace / 1000, pace % 1000 * 1000000};
		while (nanosleep(&t, &t) != 0)
			;
		printf("at %" PRId64 "\n", at);
		if (strcmp(fault, "never") == 0)
			continue;
		burst_progress(at, to);
		if (wants && at % wants == 0)
			printf("want %d\n", burst_want_checkpoint());
		if (burst_should_checkpoint() && checkpoint(fault, slow) == BURST_STOP && strcmp(fault, "stay") != 0)
			return 75;
	}
	printf("done %" PRId64 " %" PRIu64 "\n", at, sum);
	return 0;
}
