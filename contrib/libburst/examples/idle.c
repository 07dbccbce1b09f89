/* What a call costs while there is nothing to say: idle RUNS prints, a line for each
 * run, nanoseconds of one burst_progress and of one burst_should_checkpoint, and in the
 * end "connected" if burst-srun heard it. */
#include <burst.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 20 * 1000 * 1000 };

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
	int runs = argc > 1 ? atoi(argv[1]) : 5;
	int code = burst_init();
	if (code < 0) {
		fprintf(stderr, "idle: %s\n", burst_strerror(code));
		return 1;
	}
	for (int run = 0; run < runs; run++) {
		double begin = now();
		for (int64_t i = 0; i < CALLS; i++)
			burst_progress(i, CALLS);
		double middle = now();
		for (int64_t i = 0; i < CALLS; i++)
			if (burst_should_checkpoint()) {
				fputs("idle: there is something to say\n", stderr);
				return 1;
			}
		printf("%.3f %.3f\n", (middle - begin) / CALLS, (now() - middle) / CALLS);
	}
	puts(burst_connected() ? "connected" : "alone");
	burst_finalize();
	return 0;
}
