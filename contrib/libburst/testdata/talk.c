/* talk makes the calls that its standard input names, one a line, and prints what they
 * return. */
#include <burst.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int call(const char *name, long a, long b)
{
	static char folder[2 * BURST_PATH_MAX];
	const char *from = burst_restart_path();
	if (strcmp(name, "init") == 0)
		return burst_init();
	if (strcmp(name, "connected") == 0)
		return burst_connected();
	if (strcmp(name, "should") == 0)
		return burst_should_checkpoint();
	if (strcmp(name, "want") == 0)
		return burst_want_checkpoint();
	if (strcmp(name, "commit") == 0)
		return burst_checkpoint_commit();
	if (strcmp(name, "abort") == 0)
		return burst_checkpoint_abort();
	if (strcmp(name, "progress") == 0)
		return burst_progress(a, b), 0;
	if (strcmp(name, "finalize") == 0)
		return burst_finalize(), 0;
	if (strcmp(name, "restart") == 0)
		return printf("%s ", from ? from : "none") < 0;
	if (strcmp(name, "begin") == 0) {
		int code = burst_checkpoint_begin(folder, (size_t)a);
		printf("%s ", folder);
		return code;
	}
	if (strcmp(name, "fork") == 0) {
		fflush(stdout);
		if (fork() == 0) {
			burst_progress(77, 77);
			printf("%d %d %d %d ", burst_connected(), burst_should_checkpoint(), burst_checkpoint_begin(folder, sizeof folder), burst_checkpoint_commit());
			printf("%d %d ", burst_init(), burst_connected());
			burst_finalize();
			fflush(stdout);
			_exit(0);
		}
		int status = -1;
		wait(&status);
		return status;
	}
	return 1000;
}

int main(void)
{
	char line[256], name[256];
	signal(SIGPIPE, SIG_DFL); /* of which it dies, if one is raised */
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		long a = 0, b = 0;
		if (sscanf(line, "%255s %ld %ld", name, &a, &b) > 0)
			printf("%d\n", call(name, a, b));
	}
	return 0;
}
