// The header in C++, of the oldest kind.
#include <burst.h>
#include <cstdio>
#include <cstdlib>

int main(int argc, char **argv)
{
	char folder[BURST_PATH_MAX];
	int to = argc > 1 ? std::atoi(argv[1]) : 10;
	if (burst_init() != BURST_OK || burst_connected() || burst_restart_path())
		return 1;
	for (int at = 1; at <= to; at++) {
		burst_progress(at, to);
		if (burst_should_checkpoint() || burst_checkpoint_begin(folder, sizeof folder) != BURST_ENOTASKED)
			return 1;
	}
	if (burst_checkpoint_commit() != BURST_ENOTBEGUN || burst_checkpoint_abort() != BURST_ENOTBEGUN || !*burst_strerror(BURST_ELATE) || !*burst_version())
		return 1;
	burst_finalize();
	std::printf("done %d \n", to);
	return 0;
}
