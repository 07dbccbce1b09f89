/* program: the test program of program_test.go for methods that make images of
 * processes, which they cannot of a Go program. It writes no checkpoints itself.
 *
 * A restart of an image is the program as it was, arguments and all: how far it
 * is to count it reads from the file "to", if there is one. */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* real_pid is the kernel's number: getpid may be told another. */
static long real_pid(void)
{
	char text[64] = {0};
	int fd = open("/proc/self/stat", O_RDONLY);
	if (fd >= 0) {
		if (read(fd, text, sizeof text - 1) < 0)
			text[0] = 0;
		close(fd);
	}
	return atol(text);
}

static void ready(void)
{
	printf("ready %ld\n", real_pid());
}

_Noreturn static int die(int signal_number)
{
	signal(signal_number, SIG_DFL);
	kill(getpid(), signal_number);
	for (;;)
		pause();
}

static int cat(void)
{
	char text[65536];
	ssize_t n;
	while ((n = read(0, text, sizeof text)) > 0)
		for (ssize_t at = 0, k; at < n; at += k)
			if ((k = write(1, text + at, n - at)) < 0)
				return 1;
	return n < 0;
}

static int where(void)
{
	char dir[4096];
	const char *restart = getenv("BURST_RESTART");
	if (!getcwd(dir, sizeof dir))
		return 1;
	printf("%s\nBURST_RESTART=%s\n", dir, restart ? restart : "");
	return 0;
}

static int order(void)
{
	for (int i = 0; i < 2000; i++)
		dprintf(1 + i % 2, "%d\n", i);
	return 0;
}

static int trap(void)
{
	const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGCONT};
	sigset_t set;
	sigemptyset(&set);
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	ready();
	for (;;) {
		int got;
		if (sigwait(&set, &got) != 0)
			continue;
		printf("got %d\n", got);
		if (got == SIGTERM)
			return 7;
	}
}

_Noreturn static int deaf(void)
{
	const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		signal(signals[i], SIG_IGN);
	ready();
	for (;;)
		sleep(3600);
}

#ifdef OWN_COUNT /* libburst.c's */
static int count(char **args);
#else
/* target is how far to count. */
static long target(long to)
{
	char text[32] = {0};
	int fd = open("to", O_RDONLY);
	if (fd < 0)
		return to;
	if (read(fd, text, sizeof text - 1) > 0)
		to = atol(text);
	close(fd);
	return to;
}

static int count(char **args)
{
	long to = 100, pace = 0;
	for (; *args; args++) {
		if (strncmp(*args, "-to=", 4) == 0)
			to = atol(*args + 4);
		else if (strncmp(*args, "-pace=", 6) == 0)
			pace = atol(*args + 6);
		else if (strcmp(*args, "-deaf") == 0)
			signal(SIGTERM, SIG_IGN);
		else
			return 2;
	}
	ready();
	uint64_t sum = 0;
	long at = 0;
	while (at < target(to)) {
		at++;
		sum = sum * 6364136223846793005u + (uint64_t)at;
		struct timespec t = {pace / 1000, pace % 1000 * 1000000};
		while (nanosleep(&t, &t) != 0)
			;
		printf("at %ld\n", at);
	}
	printf("done %ld %llu\n", at, (unsigned long long)sum);
	return 0;
}
#endif

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	const char *what = argc > 1 ? argv[1] : "";
	if (strcmp(what, "exit") == 0 && argc > 2)
		return atoi(argv[2]);
	if (strcmp(what, "die") == 0 && argc > 2)
		return die(atoi(argv[2]));
	if (strcmp(what, "cat") == 0)
		return cat();
	if (strcmp(what, "where") == 0)
		return where();
	if (strcmp(what, "order") == 0)
		return order();
	if (strcmp(what, "trap") == 0)
		return trap();
	if (strcmp(what, "deaf") == 0)
		return deaf();
	if (strcmp(what, "count") == 0)
		return count(argv + 2);
	return 2;
}
