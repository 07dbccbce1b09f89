/* A field from copies, whatever ranks hold them, to whatever ranks there are. */
#include "copies.h"

#include <stdlib.h>

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static bool overlap(struct rect a, struct rect b, struct rect *both)
{
	both->row = larger(a.row, b.row);
	both->col = larger(a.col, b.col);
	both->rows = smaller(a.row + a.rows, b.row + b.rows) - both->row;
	both->cols = smaller(a.col + a.cols, b.col + b.cols) - both->col;
	return both->rows > 0 && both->cols > 0;
}

/* An entry says that a copy is there. */
struct entry {
	int64_t serial, iteration;
	int ranks, prows, pcols, block, holder;
};

static int list(const struct generation *g, int holder, struct entry *to)
{
	int count = 0;
	for (int i = 0; i < g->count; i++)
		if (g->copy[i].data && copy_sound(&g->copy[i]))
			to[count++] = (struct entry){g->serial, g->iteration, g->ranks, g->prows, g->pcols, g->copy[i].block, holder};
	return count;
}

/* inventory is all copies that are left, on all ranks alike; NULL if it failed. */
static struct entry *inventory(const struct copies *c, MPI_Comm all, int *entries)
{
	int me, size, total = 0;
	MPI_Comm_rank(all, &me);
	MPI_Comm_size(all, &size);
	struct entry *own = calloc((size_t)(c->kept.count + c->spare.count) + 1, sizeof *own), *got = NULL;
	int *bytes = calloc((size_t)size * 2, sizeof *bytes), *from = bytes + size;
	int mine = list(&c->kept, me, own);
	mine = (mine + list(&c->spare, me, own + mine)) * (int)sizeof *own;
	MPI_Allgather(&mine, 1, MPI_INT, bytes, 1, MPI_INT, all);
	for (int i = 0; i < size && !world_broken; i++) {
		from[i] = total;
		total += bytes[i];
	}
	if (!world_broken) {
		got = calloc(1, (size_t)total + sizeof *got);
		MPI_Allgatherv(own, mine, MPI_BYTE, got, bytes, from, MPI_BYTE, all);
	}
	*entries = total / (int)sizeof *own;
	free(own);
	free(bytes);
	return got;
}

/* whole is, by block, an entry of that generation, or NULL if one is lost. */
static const struct entry **whole(const struct entry *e, int entries, int64_t serial)
{
	const struct entry **by = NULL;
	int have = 0, ranks = 0;
	for (int i = 0; i < entries; i++) {
		if (e[i].serial != serial)
			continue;
		ranks = e[i].ranks;
		by = by ? by : calloc((size_t)ranks, sizeof(*by));
		have += by[e[i].block] == NULL;
		by[e[i].block] = &e[i];
	}
	if (have == ranks)
		return by;
	free(by);
	return NULL;
}

/* newest is what is whole of the newest generation that is, or NULL. */
static const struct entry **newest(const struct entry *e, int entries)
{
	for (int64_t below = INT64_MAX;;) {
		int64_t serial = 0;
		for (int i = 0; i < entries; i++)
			if (e[i].serial < below)
				serial = larger(serial, e[i].serial);
		if (serial == 0)
			return NULL;
		const struct entry **by = whole(e, entries, serial);
		if (by)
			return by;
		below = serial;
	}
}

/* A parcel is what one rank gets of one block. */
struct parcel {
	struct rect part;
	double *data;
	bool ours; /* to be put into our grid */
};

static struct copy *held(struct copies *c, const struct entry *e)
{
	struct generation *g = c->kept.serial == e->serial ? &c->kept : &c->spare;
	for (int i = 0; i < g->count; i++)
		if (g->copy[i].block == e->block)
			return &g->copy[i];
	return NULL;
}

/* A post is what the parcels of a restore are sent with. */
struct post {
	MPI_Comm all;
	int me, count;
	MPI_Request *wait;
	struct parcel *parcel;
};

static double *parcel(struct post *p, struct rect part, bool ours)
{
	double *data = calloc((size_t)(part.rows * part.cols), sizeof *data);
	p->parcel[p->count] = (struct parcel){part, data, ours};
	return data;
}

/* ship sends and takes the parcels of one block. */
static void ship(struct post *p, struct copies *c, const struct entry *e, const struct grid *shape, const struct roster *r)
{
	struct rect from = rect_of(shape->n, e->prows, e->pcols, e->block), part;
	for (int rank = 0; rank < r->size; rank++) {
		struct rect to = rect_of(shape->n, shape->prows, shape->pcols, rank);
		if (!overlap(from, to, &part))
			continue;
		int cells = (int)(part.rows * part.cols), peer = r->source[rank];
		if (peer == p->me) {
			double *data = parcel(p, part, true);
			MPI_Irecv(data, cells, MPI_DOUBLE, e->holder, e->block, p->all, &p->wait[p->count++]);
		}
		struct copy *have = e->holder == p->me ? held(c, e) : NULL;
		if (have) {
			double *data = parcel(p, part, false);
			rect_move(part, have->data + (part.row - from.row) * from.cols + part.col - from.col, from.cols, data, true);
			MPI_Isend(data, cells, MPI_DOUBLE, peer, e->block, p->all, &p->wait[p->count++]);
		}
	}
}

int64_t copies_restore(struct copies *c, MPI_Comm all, struct grid *g, const struct roster *r)
{
	/* Who leaves has no grid, and must know how the others' is laid out. */
	struct grid shape = g ? *g : (struct grid){0};
	int64_t dims[3] = {shape.n, shape.prows, shape.pcols}, iteration = -1;
	MPI_Bcast(dims, 3, MPI_INT64_T, r->source[0], all);
	shape.n = dims[0], shape.prows = (int)dims[1], shape.pcols = (int)dims[2];

	int entries = 0;
	struct entry *e = inventory(c, all, &entries);
	const struct entry **by = e && !world_broken ? newest(e, entries) : NULL;
	if (by) {
		int blocks = by[0]->ranks;
		struct post p = {.all = all};
		MPI_Comm_rank(all, &p.me);
		size_t most = (size_t)(r->size + 1) * (size_t)blocks * 2;
		p.wait = requests(most);
		p.parcel = calloc(most, sizeof *p.parcel);
		for (int b = 0; b < blocks; b++)
			ship(&p, c, by[b], &shape, r);
		finish(p.wait, p.count);
		for (int i = 0; i < p.count; i++) {
			struct parcel *x = &p.parcel[i];
			if (g && x->ours && !world_broken)
				rect_move(x->part, g->cur + (x->part.row - g->row0 + 1) * g->stride + x->part.col - g->col0 + 1, g->stride, x->data, false);
			free(x->data);
		}
		free(p.wait);
		free(p.parcel);
		iteration = by[0]->iteration;
		if (c->spare.serial == by[0]->serial) { /* the next copy takes the spare's place */
			struct generation former = c->kept;
			c->kept = c->spare;
			c->spare = former;
		}
	}
	free(by);
	free(e);
	return iteration;
}
