/* Copies of the field in memory: each block at its rank and at two buddies. */
#include "copies.h"

#include <stdlib.h>
#include <string.h>

static uint64_t sum(const struct copy *c)
{
	uint64_t sum = mix64((uint64_t)c->block);
	for (int64_t i = 0; i < c->cells; i++) {
		uint64_t bits;
		memcpy(&bits, &c->data[i], sizeof bits);
		sum += mix64(bits ^ mix64((uint64_t)i));
	}
	return sum;
}

static void seal(struct copy *c)
{
	uint64_t s = sum(c);
	memcpy(&c->data[c->cells], &s, sizeof s);
}

bool copy_sound(const struct copy *c)
{
	uint64_t s = sum(c);
	return memcmp(&c->data[c->cells], &s, sizeof s) == 0;
}

static void drop(struct generation *g)
{
	for (int i = 0; i < g->count; i++)
		free(g->copy[i].data);
	free(g->copy);
	*g = (struct generation){0};
}

void copies_free(struct copies *c)
{
	drop(&c->kept);
	drop(&c->spare);
}

struct rect rect_of(int64_t n, int prows, int pcols, int block)
{
	struct rect r;
	grid_share(n, prows, block / pcols, &r.row, &r.rows);
	grid_share(n, pcols, block % pcols, &r.col, &r.cols);
	return r;
}

void rect_move(struct rect part, double *first, int64_t stride, double *packed, bool pack)
{
	for (int64_t i = 0; i < part.rows; i++) {
		double *row = first + i * stride, *p = packed + i * part.cols;
		memcpy(pack ? p : row, pack ? row : p, (size_t)part.cols * sizeof *p);
	}
}

MPI_Request *requests(size_t count)
{
	MPI_Request *all = malloc(count * sizeof *all);
	for (size_t i = 0; all && i < count; i++)
		all[i] = MPI_REQUEST_NULL; /* what a call leaves that fails */
	return all;
}

static bool make_copy(struct generation *to, int64_t n, int block)
{
	struct rect r = rect_of(n, to->prows, to->pcols, block);
	struct copy *c = &to->copy[to->count++];
	*c = (struct copy){.block = block, .cells = r.rows * r.cols};
	c->data = calloc((size_t)c->cells + 1, sizeof *c->data);
	return c->data != NULL;
}

void finish(MPI_Request *all, int count)
{
	for (int i = 0; i < count; i++)
		MPI_Wait(&all[i], MPI_STATUS_IGNORE);
}

/* exchange sends this rank's block to its buddies and takes theirs. */
static bool exchange(struct generation *to, const struct grid *g, const struct crew *crew)
{
	MPI_Request *wait = requests((size_t)crew->size * 2 + 2);
	to->copy = calloc((size_t)crew->size, sizeof *to->copy);
	int waits = 0, mine[2];
	bool good = wait && to->copy && make_copy(to, g->n, g->rank);
	if (!good)
		goto end;
	struct copy *own = &to->copy[0];
	struct rect r = rect_of(g->n, g->prows, g->pcols, g->rank);
	rect_move(r, g->cur + g->stride + 1, g->stride, own->data, true);
	seal(own);
	for (int rank = 0; good && rank < crew->size; rank++) {
		int buddy[2];
		crew_buddies(crew, rank, buddy);
		if (rank == g->rank || (buddy[0] != g->rank && buddy[1] != g->rank))
			continue;
		good = make_copy(to, g->n, rank);
		struct copy *c = &to->copy[to->count - 1];
		if (good)
			MPI_Irecv(c->data, (int)c->cells + 1, MPI_DOUBLE, rank, 0, world, &wait[waits++]);
	}
	crew_buddies(crew, g->rank, mine);
	for (int i = 0; good && i < 2; i++)
		if (mine[i] >= 0) {
			if (i == 1)
				die_at(g->rank, "copy");
			MPI_Isend(own->data, (int)own->cells + 1, MPI_DOUBLE, mine[i], 0, world, &wait[waits++]);
		}
	if (!good) { /* the others wait for us */
		world_broken = true;
		MPIX_Comm_revoke(world);
	}
end:
	finish(wait, waits);
	for (int i = 1; good && !world_broken && i < to->count; i++)
		good = copy_sound(&to->copy[i]);
	free(wait);
	return good;
}

bool copies_take(struct copies *c, const struct grid *g, const struct crew *crew, int64_t iteration, bool good)
{
	struct generation *to = &c->spare;
	drop(to);
	*to = (struct generation){.serial = ++c->serial, .iteration = iteration, .ranks = g->ranks, .prows = g->prows, .pcols = g->pcols};
	if (!good) { /* the others wait for our block */
		world_broken = true;
		MPIX_Comm_revoke(world);
	}
	good = good && exchange(to, g, crew);
	if (!all_good(world, good))
		return false;
	struct generation former = c->kept;
	c->kept = c->spare;
	c->spare = former;
	return true;
}
