/* threads: four threads compute and write into a pipe, from which main reads and
 * prints; a sum of everything at the end depends on every step.
 *
 *	threads STEPS MILLISECONDS MEGABYTES CODE */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4 };

static long steps, milliseconds;
static size_t words;
static int ends[2];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void pause_for(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};
	while (nanosleep(&t, &t) != 0)
		;
}

static void *work(void *arg)
{
	uint64_t sum = 1 + (uintptr_t)arg, *a = malloc(words * sizeof *a);
	if (!a)
		exit(1);
	for (size_t i = 0; i < words; i++)
		a[i] = i * 2654435761u + sum;
	for (long k = 1; k <= steps; k++) {
		for (size_t i = 0; i < words; i++)
			sum = sum * 6364136223846793005u + (a[i] ^= sum);
		pause_for(milliseconds);
		pthread_mutex_lock(&lock);
		if (write(ends[1], &sum, sizeof sum) != sizeof sum)
			exit(1);
		pthread_mutex_unlock(&lock);
	}
	free(a);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 5 || pipe(ends) != 0)
		return 2;
	steps = atol(argv[1]);
	milliseconds = atol(argv[2]);
	words = strtoul(argv[3], NULL, 10) * 1024 * 1024 / sizeof(uint64_t);
	pthread_t threads[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i) != 0)
			return 1;
	uint64_t all = 0, one;
	for (long k = 0; k < steps * THREADS; k++) {
		if (read(ends[0], &one, sizeof one) != sizeof one)
			return 1;
		all += one; /* in any order */
		printf("at %ld\n", k / THREADS + 1);
		fflush(stdout);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("sum %016llx\n", (unsigned long long)all);
	return atoi(argv[4]);
}
