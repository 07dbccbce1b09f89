/* heat-ulfm's own options, the plan's file, and deaths that tests ask for. */
#include "ulfm.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char extras_usage[] =
	"\n"
	"heat-ulfm goes on when ranks are lost, from copies of the field in the memory\n"
	"of other ranks; any two ranks may be lost at once, and a node. It takes also:\n"
	"\n"
	"  --copy-every K      iterations between two copies (10)\n"
	"  --on-loss respawn   start as many ranks as were lost (default)\n"
	"  --on-loss shrink    go on with fewer\n"
	"  --plan FILE         where the ranks may be, read by rank 0 when it changes:\n"
	"                      \"plan NUMBER\", then \"node NAME\" lines, or \"stop\": write the\n"
	"                      checkpoint and leave\n"
	"  --launcher PROGRAM  starts new ranks: PROGRAM rank --on NODE -- COMMAND\n"
	"  --stall SECONDS     end when nothing has moved for so long (60)\n"
	"  --trace             a line for each iteration\n"
	"  --die PHASE:RANK:COUNT  for tests: that rank kills itself when it comes into\n"
	"                      PHASE (step, copy, recover, restore) for the COUNT'th time\n"
	"\n"
	"Only \"heat: done\" says that it is done, never the exit code: mpirun's is 0\n"
	"also when it has lost them all.\n";

/* The deaths of this process. */
static const struct extras *asked;

static bool number(const char *text, int64_t least, int64_t most, int64_t *value)
{
	char *end;
	errno = 0;
	long long v = strtoll(text, &end, 10);
	if (errno || end == text || *end || v < least || v > most)
		return false;
	*value = v;
	return true;
}

static bool to_death(const char *text, struct extras *x)
{
	struct death *d = &x->death[x->deaths];
	int end = 0;
	if (x->deaths == MAX_DEATHS || sscanf(text, "%15[a-z]:%d:%d%n", d->phase, &d->rank, &d->count, &end) != 3 || text[end])
		return false;
	x->deaths++;
	return true;
}

/* set takes one option; it returns NULL, or what its value should have been. */
static const char *set(struct extras *x, const char *name, const char *value)
{
	int64_t n = 0;
	if (strcmp(name, "--copy-every") == 0)
		return number(value, 1, INT64_MAX, &x->copy_every) ? NULL : "a number from 1 on";
	if (strcmp(name, "--stall") == 0) {
		if (!number(value, 1, 1000000, &n))
			return "seconds";
		x->stall = (unsigned)n;
		return NULL;
	}
	if (strcmp(name, "--on-loss") == 0) {
		x->shrink = strcmp(value, "shrink") == 0;
		return x->shrink || strcmp(value, "respawn") == 0 ? NULL : "respawn or shrink";
	}
	if (strcmp(name, "--plan") == 0)
		x->plan = value;
	else if (strcmp(name, "--launcher") == 0)
		x->launcher = value;
	else
		return to_death(value, x) ? NULL : "PHASE:RANK:COUNT, at most 8 times";
	return *value ? NULL : "a file's name";
}

bool extras_take(int *argc, char **argv, struct extras *x, char err[ERR_LEN])
{
	static const char *const names[] = {"--copy-every", "--stall", "--on-loss", "--plan", "--launcher", "--die", NULL};
	*x = (struct extras){.copy_every = 10, .stall = 60};
	asked = x;
	int left = 1;
	for (int i = 1; i < *argc; i++) {
		const char *const *name = names;
		while (*name && strcmp(*name, argv[i]) != 0)
			name++;
		if (strcmp(argv[i], "--trace") == 0) {
			x->trace = true;
		} else if (!*name) {
			argv[left++] = argv[i];
		} else if (i + 1 == *argc) {
			snprintf(err, ERR_LEN, "%s needs a value; see --help", *name);
			return false;
		} else {
			const char *want = set(x, *name, argv[++i]);
			if (want) {
				snprintf(err, ERR_LEN, "%s takes %s, not \"%s\"", *name, want, argv[i]);
				return false;
			}
		}
	}
	*argc = left;
	argv[left] = NULL;
	return true;
}

bool plan_read(const char *path, struct plan *p)
{
	static struct stat seen;
	struct stat st;
	if (stat(path, &st) || (st.st_ino == seen.st_ino && st.st_mtim.tv_nsec == seen.st_mtim.tv_nsec && st.st_mtim.tv_sec == seen.st_mtim.tv_sec))
		return false;
	FILE *f = fopen(path, "r");
	if (!f)
		return false;
	seen = st;
	struct plan *got = calloc(1, sizeof *got);
	char line[256], word[PLACE_LEN];
	bool many = false, good = got && fgets(line, sizeof line, f) && sscanf(line, "plan %" SCNd64, &got->number) == 1;
	while (good && fgets(line, sizeof line, f))
		if (strcmp(line, "stop\n") == 0)
			got->stop = true;
		else if (sscanf(line, "node %63s", word) != 1)
			good = false;
		else if (got->count < MAX_NODES)
			memcpy(got->node[got->count++], word, sizeof word);
		else
			many = true;
	fclose(f);
	good = good && got->number > p->number && (got->stop || got->count > 0);
	if (good && many)
		fprintf(stderr, "heat: plan %" PRId64 " has more than %d nodes: the ranks are to be on the first of them\n", got->number, MAX_NODES);
	if (good)
		*p = *got;
	free(got);
	return good;
}

void die_at(int rank, const char *phase)
{
	static int came[MAX_DEATHS], first = -1;
	first = first < 0 ? rank : first; /* ranks that shrink have other numbers later */
	for (int i = 0; asked && i < asked->deaths; i++) {
		const struct death *d = &asked->death[i];
		if (d->rank == first && strcmp(d->phase, phase) == 0 && ++came[i] == d->count)
			raise(SIGKILL);
	}
}
