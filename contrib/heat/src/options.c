#include "heat.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char usage[] =
	"Usage: heat [-n CELLS] [-i ITERATIONS] [options]\n"
	"2-D heat diffusion by Jacobi iteration over MPI. The final field is the same\n"
	"to the bit for any number of ranks and any decomposition.\n"
	"\n"
	"  -n CELLS            grid of CELLS x CELLS (default 512, or the checkpoint's)\n"
	"  -i ITERATIONS       iterations in all, those before a restart included (1000)\n"
	"  --seed S            border and first field are made from S (1, or the checkpoint's)\n"
	"  --decomp 1d|2d|auto strips of rows, tiles, or whichever suits (auto)\n"
	"  --checkpoint FILE   write FILE on SIGUSR1 and at the end\n"
	"  --every K           and every K iterations\n"
	"  --exit-on-signal    after SIGUSR1's checkpoint leave with exit code 75\n"
	"  --restart FILE      go on from FILE, on any number of ranks\n"
	"  --restart auto      go on from --checkpoint's FILE if it is there; if it is\n"
	"                      damaged, rename it to FILE.bad and begin at the start\n"
	"  --progress SECONDS  a line of progress each SECONDS\n"
	"  --pace MS           an iteration takes at least MS milliseconds, without those\n"
	"                      in which the process is stopped\n"
	"  --help              this text\n"
	"\n"
	"SIGUSR1 may reach any rank: all write at the same iteration. FILE is replaced\n"
	"as a whole or not at all. A run killed while it writes may leave FILE.tmp-*\n"
	"behind: it can be deleted.\n"
	"\n"
	"Exit codes: 0 done, 1 failed (also: the last checkpoint could not be written),\n"
	"2 wrong usage or a checkpoint that cannot be used, 75 left on SIGUSR1.\n";

/* The largest grid: its file is 8 TB, and all its products fit in 64 bits. */
static const int64_t max_cells = 1000000;

static bool to_int(const char *text, int64_t least, int64_t most, int64_t *value)
{
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (errno || end == text || *end || v < least || v > most)
		return false;
	*value = v;
	return true;
}

static bool to_seed(const char *text, uint64_t *value)
{
	char *end;
	errno = 0;
	unsigned long long v = strtoull(text, &end, 0);
	if (errno || end == text || *end || strchr(text, '-'))
		return false;
	*value = v;
	return true;
}

static bool to_number(const char *text, double most, double *value)
{
	char *end;
	double v = strtod(text, &end);
	if (end == text || *end || !isfinite(v) || v < 0 || v > most)
		return false;
	*value = v;
	return true;
}

static bool to_decomp(const char *text, enum decomp *d)
{
	static const char *const names[] = {[DECOMP_AUTO] = "auto", [DECOMP_1D] = "1d", [DECOMP_2D] = "2d"};
	for (int i = 0; i < 3; i++)
		if (strcmp(text, names[i]) == 0) {
			*d = (enum decomp)i;
			return true;
		}
	return false;
}

/* The long options' values; the short ones are their letters. */
enum { OPT_SEED = 256, OPT_EVERY, OPT_CHECKPOINT, OPT_RESTART, OPT_DECOMP, OPT_EXIT, OPT_PROGRESS, OPT_PACE, OPT_HELP };

static const struct option longs[] = {
	{"seed", required_argument, NULL, OPT_SEED},
	{"every", required_argument, NULL, OPT_EVERY},
	{"checkpoint", required_argument, NULL, OPT_CHECKPOINT},
	{"restart", required_argument, NULL, OPT_RESTART},
	{"decomp", required_argument, NULL, OPT_DECOMP},
	{"exit-on-signal", no_argument, NULL, OPT_EXIT},
	{"progress", required_argument, NULL, OPT_PROGRESS},
	{"pace", required_argument, NULL, OPT_PACE},
	{"help", no_argument, NULL, OPT_HELP},
	{NULL, 0, NULL, 0},
};

/* set takes one option; it returns NULL, or what its value should have been. */
static const char *set(struct options *o, int opt, const char *arg)
{
	switch (opt) {
	case 'n':
		return to_int(arg, 1, max_cells, &o->n) ? NULL : "-n takes a number from 1 to 1000000";
	case 'i':
		return to_int(arg, 0, INT64_MAX, &o->iterations) ? NULL : "-i takes a number from 0 on";
	case OPT_SEED:
		o->seed_given = true;
		return to_seed(arg, &o->seed) ? NULL : "--seed takes a number from 0 to 2^64-1";
	case OPT_EVERY:
		return to_int(arg, 1, INT64_MAX, &o->every) ? NULL : "--every takes a number from 1 on";
	case OPT_CHECKPOINT:
		o->checkpoint = arg;
		return *arg ? NULL : "--checkpoint takes a file's name";
	case OPT_RESTART:
		o->restart_auto = strcmp(arg, "auto") == 0;
		o->restart = arg;
		return *arg ? NULL : "--restart takes a file's name or auto";
	case OPT_DECOMP:
		return to_decomp(arg, &o->decomp) ? NULL : "--decomp takes 1d, 2d or auto";
	case OPT_EXIT:
		o->exit_on_signal = true;
		return NULL;
	case OPT_PROGRESS:
		return to_number(arg, 1e9, &o->progress) ? NULL : "--progress takes seconds";
	case OPT_PACE:
		if (!to_number(arg, 1e9, &o->pace))
			return "--pace takes milliseconds";
		o->pace /= 1000;
		return NULL;
	default:
		o->help = true;
		return NULL;
	}
}

/* Options that need --checkpoint are of no use without it. */
static const char *combine(struct options *o)
{
	if (o->checkpoint)
		return NULL;
	if (o->every)
		return "--every needs --checkpoint FILE";
	if (o->exit_on_signal)
		return "--exit-on-signal needs --checkpoint FILE";
	if (o->restart_auto)
		return "--restart auto needs --checkpoint FILE";
	return NULL;
}

bool options_parse(int argc, char **argv, struct options *o, char err[ERR_LEN])
{
	*o = (struct options){.iterations = 1000, .seed = 1};
	opterr = 0;
	for (;;) {
		int opt = getopt_long(argc, argv, ":n:i:", longs, NULL);
		if (opt == -1)
			break;
		if (opt == '?' || opt == ':') {
			char letter[3] = {'-', (char)optopt, '\0'};
			bool is_letter = optopt > 0 && optopt < OPT_SEED;
			snprintf(err, ERR_LEN, "%s %s; see --help", is_letter ? letter : argv[optind - 1], opt == ':' ? "needs a value" : "is not an option");
			return false;
		}
		const char *wrong = set(o, opt, optarg);
		if (wrong) {
			snprintf(err, ERR_LEN, "%s, not \"%s\"", wrong, optarg);
			return false;
		}
	}
	if (o->help)
		return true;
	if (optind < argc) {
		snprintf(err, ERR_LEN, "\"%s\" is not an option; see --help", argv[optind]);
		return false;
	}
	const char *wrong = combine(o);
	if (wrong)
		snprintf(err, ERR_LEN, "%s", wrong);
	return wrong == NULL;
}
