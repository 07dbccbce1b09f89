/* A new world: without the lost ranks, or with ranks on other nodes.
 *
 *   lost:  shrink --> describe --> spawn --> merge --> restore, copy --> commit
 *   moved:            describe --> ...
 *
 * After each step all ranks agree whether it went well on all; if not, all of
 * them begin again, from the old world, whose copies are all still there. */
#include "ulfm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* So many attempts are made without an iteration between them. */
enum { ATTEMPTS = 6 };

static void on_error(MPI_Comm *c, int *code, ...)
{
	(void)code;
	world_broken = true;
	MPIX_Comm_revoke(*c);
}

void world_watch(MPI_Comm c)
{
	static MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
	if (handler == MPI_ERRHANDLER_NULL)
		MPI_Comm_create_errhandler(on_error, &handler);
	MPI_Comm_set_errhandler(c, handler);
}

bool all_good(MPI_Comm c, bool good)
{
	int flag = good && !world_broken;
	MPIX_Comm_agree(c, &flag);
	return flag;
}

/* progress has Open MPI go on with what it has to do, for 0.2 s. */
static void progress(void)
{
	int flag;
	for (double end = now() + 0.2; now() < end;)
		MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &flag, MPI_STATUS_IGNORE);
}

void depart(void)
{
	fflush(stdout);
	progress(); /* what others still want of us goes out */
	_exit(0);
}

/* A head is what all ranks of the next world must know, new ones too. */
struct head {
	uint64_t seed;
	int64_t n, serial, computed, iteration;
	double started;
	int64_t moved;
	int size, spawned, lost, cause, tries;
	struct plan plan;
};

static void roster_make(struct roster *r, int size)
{
	r->size = size;
	r->source = calloc((size_t)size, sizeof *r->source);
	r->at = calloc((size_t)size, sizeof *r->at);
}

static void roster_free(struct roster *r)
{
	free(r->source);
	free(r->at);
}

/* share gives all of c head and roster of its rank 0. */
static void share(MPI_Comm c, struct head *h, struct roster *r)
{
	MPI_Bcast(h, sizeof *h, MPI_BYTE, 0, c);
	if (world_broken)
		return;
	if (!r->source)
		roster_make(r, h->size);
	r->size = h->size;
	r->spawned = h->spawned;
	MPI_Bcast(r->source, r->size, MPI_INT, 0, c);
	MPI_Bcast(r->at, r->size * PLACE_LEN, MPI_BYTE, 0, c);
}

/* describe has rank 0 of the survivors say who is to be where. */
static bool describe(struct run *r, MPI_Comm base, enum cause why, struct head *h, struct roster *to)
{
	int ranks, me;
	MPI_Comm_size(base, &ranks);
	MPI_Comm_rank(base, &me);
	int64_t own[2] = {r->g.rank, r->copies.serial}, *all = calloc((size_t)ranks * 2, sizeof *all);
	int *index = malloc((size_t)r->crew.size * sizeof *index);
	MPI_Allgather(own, 2, MPI_INT64_T, all, 2, MPI_INT64_T, base);
	roster_make(to, r->crew.size);
	*h = (struct head){.seed = r->g.seed, .n = r->g.n, .computed = r->computed, .iteration = r->iteration, .started = r->started, .cause = why, .plan = r->plan,
		.moved = why == MOVED ? r->plan.number : r->moved, .tries = r->tries};
	if (me == 0 && !world_broken) {
		memset(index, -1, (size_t)r->crew.size * sizeof *index);
		for (int i = 0; i < ranks; i++) {
			index[all[2 * i]] = i;
			h->serial = all[2 * i + 1] > h->serial ? all[2 * i + 1] : h->serial;
		}
		h->lost = r->crew.size - ranks;
		if (why == MOVED) {
			crew_spread(&r->crew, &r->plan, to);
		} else if (r->x.shrink) {
			to->size = 0;
			for (int i = 0; i < r->crew.size; i++)
				if (index[i] >= 0) {
					to->source[to->size] = index[i];
					memcpy(to->at[to->size++], r->crew.at[i], PLACE_LEN);
				}
		} else {
			crew_mend(&r->crew, index, &r->plan, to);
		}
		h->size = to->size;
		h->spawned = to->spawned;
	}
	share(base, h, to);
	free(all);
	free(index);
	return all_good(base, true);
}

/* enter makes the next world of all and fills it. Whatever fails, all ranks get
 * the same answer, and the old world stays as it was. */
static bool enter(struct run *r, MPI_Comm all, struct head *h, struct roster *to)
{
	int me, rank = MPI_UNDEFINED;
	MPI_Comm next = MPI_COMM_NULL, former = world;
	struct grid g = {0};
	char err[ERR_LEN];
	MPI_Comm_rank(all, &me);
	for (int i = 0; i < to->size; i++)
		if (to->source[i] == me)
			rank = i;
	alive(r, "restore");
	if (MPI_Comm_split(all, rank == MPI_UNDEFINED ? MPI_UNDEFINED : 0, rank, &next) != MPI_SUCCESS)
		world_broken = true;
	if (next != MPI_COMM_NULL)
		world_watch(next);
	if (!all_good(all, true))
		return false;

	bool member = next != MPI_COMM_NULL, good = true;
	struct crew crew = {to->size, to->at};
	int64_t iteration;
	if (member) {
		world = next;
		good = grid_open(&g, h->n, r->o.decomp, err);
		if (good)
			grid_seed(&g, h->seed);
	}
	die_at(r->g.rank, "restore");
	iteration = copies_restore(&r->copies, all, good && member ? &g : NULL, to);
	if (iteration < 0 && !world_broken && member) {
		grid_close(&g);
		good = begin(r, &g, &iteration);
		if (g.rank == 0)
			printf("heat: the copies of a block are all lost: beginning again at iteration %" PRId64 "\n", iteration);
	}
	r->copies.serial = h->serial;
	if (member)
		good = copies_take(&r->copies, &g, &crew, iteration, good && !world_broken);
	if (!all_good(all, good)) {
		world = former;
		grid_close(&g);
		return false;
	}
	MPI_Barrier(all); /* none waits any more for one that leaves; if it fails, that shows in the next world */
	if (!member)
		depart();
	world_broken = false;
	r->rebuilt = true;
	grid_close(&r->g);
	r->g = g;
	free(r->crew.at);
	r->crew.size = to->size;
	r->crew.at = to->at;
	to->at = NULL;
	r->iteration = iteration;
	r->computed = h->computed;
	r->plan = h->plan; /* some may have heard of another before the failure */
	r->moved = h->moved;
	r->tries = h->tries;
	return true;
}

/* tell says what has been done; of those in all who are still there, the first. */
static void tell(const struct run *r, const struct head *h, const struct roster *to, double began)
{
	double took = now() - began;
	for (int i = 0; i < to->size; i++)
		if (to->source[i] < to->source[r->g.rank])
			return;
	printf("heat: ");
	if (h->cause == MOVED)
		printf("plan %" PRId64 ": moved %d ranks", h->plan.number, h->spawned);
	else
		printf("lost %d ranks, %d new ones", h->lost, h->spawned);
	printf(" at iteration %" PRId64 ", going on from %" PRId64 " with %d ranks after %.3f s, on", h->iteration, r->iteration, r->crew.size, took);
	for (int i = 0; i < r->crew.size; i++)
		printf(" %s", r->crew.at[i]);
	printf("\n");
	fflush(stdout);
}

void rebuild(struct run *r, enum cause why)
{
	double began = now();
	for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
		MPI_Comm base = world, all;
		if (why == LOST) {
			alive(r, "shrink");
			/* Ranks seldom go alone, and Open MPI 5.0.11 crashes, or waits for ever, when
			 * it hears of another in the midst of a shrink or a spawn. */
			progress();
			world_broken = false;
			if (MPIX_Comm_shrink(world, &base) != MPI_SUCCESS)
				break;
			world_watch(base);
			die_at(r->g.rank, "recover");
		}
		struct head h;
		struct roster to = {0};
		bool done = describe(r, base, why, &h, &to);
		if (done && why == MOVED && to.spawned == 0) {
			r->moved = h.moved;
			tell(r, &h, &to, began);
			roster_free(&to);
			return;
		}
		all = done ? gather(r, base, &to) : MPI_COMM_NULL;
		if (all != MPI_COMM_NULL) {
			if (all != base) /* the new ones have not heard it */
				share(all, &h, &to);
			done = enter(r, all, &h, &to);
		}
		if (done && all != MPI_COMM_NULL) {
			tell(r, &h, &to, began);
			roster_free(&to);
			return;
		}
		roster_free(&to);
		why = LOST;
	}
	fprintf(stderr, "heat: error: rank %d gives up: %d attempts to go on without the lost ranks have failed\n", r->g.rank, ATTEMPTS);
	fflush(stderr);
	_exit(0);
}

void join(struct run *r, MPI_Comm parents)
{
	struct head h;
	struct roster to = {0};
	MPI_Comm all;
	double began = now();
	alive(r, "join");
	world_watch(parents);
	if (MPI_Intercomm_merge(parents, 1, &all) != MPI_SUCCESS)
		_exit(0);
	world_watch(all);
	MPI_Comm_disconnect(&parents);
	share(all, &h, &to);
	if (world_broken)
		_exit(0);
	r->started = h.started;
	if (!enter(r, all, &h, &to))
		_exit(0);
	tell(r, &h, &to, began);
	roster_free(&to);
}
