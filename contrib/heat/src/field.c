#include "heat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int write_all(int fd, const void *data, size_t size)
{
	for (const char *p = data; size > 0;) {
		ssize_t k = write(fd, p, size);
		if (k < 0 && errno != EINTR)
			return errno;
		if (k > 0) {
			p += k;
			size -= (size_t)k;
		}
	}
	return 0;
}

int read_all(int fd, void *data, size_t size)
{
	for (char *p = data; size > 0;) {
		ssize_t k = read(fd, p, size);
		if (k < 0 && errno != EINTR)
			return errno;
		if (k == 0)
			return EIO;
		if (k > 0) {
			p += k;
			size -= (size_t)k;
		}
	}
	return 0;
}

/* A block is rows x cols cells whose rows lie stride cells apart. */
static MPI_Datatype block(int64_t rows, int64_t cols, int64_t stride)
{
	MPI_Datatype t;
	MPI_Type_vector((int)rows, (int)cols, (int)stride, MPI_DOUBLE, &t);
	MPI_Type_commit(&t);
	return t;
}

enum { TAG = 7 };

/* give_rows is a tile's end: its rows from number i on go to rank 0, or come
 * from there. MPI_Ssend waits for its receiver, so that rank 0 holds one
 * message at a time. */
static void give_rows(const struct grid *g, enum way way, int64_t i, int64_t rows)
{
	double *u = g->cur + (i + 1) * g->stride + 1;
	MPI_Datatype tile = block(rows, g->cols, g->stride);
	if (way == TO_FILE)
		MPI_Ssend(u, 1, tile, 0, TAG, world);
	else
		MPI_Recv(u, 1, tile, 0, TAG, world, MPI_STATUS_IGNORE);
	MPI_Type_free(&tile);
}

/* take_rows is rank 0's end: rows of the tile of peer, at buf, whose rows are
 * the whole grid's. */
static void take_rows(const struct grid *g, enum way way, int peer, int64_t rows, double *buf)
{
	int64_t col0, cols;
	grid_share(g->n, g->pcols, peer % g->pcols, &col0, &cols);
	MPI_Datatype part = block(rows, cols, g->n);
	if (way == TO_FILE)
		MPI_Recv(buf + col0, 1, part, peer, TAG, world, MPI_STATUS_IGNORE);
	else
		MPI_Ssend(buf + col0, 1, part, peer, TAG, world);
	MPI_Type_free(&part);
}

/* own_rows copies between rank 0's own tile and buf. */
static void own_rows(const struct grid *g, enum way way, int64_t i, int64_t rows, double *buf)
{
	for (int64_t k = 0; k < rows; k++) {
		double *u = g->cur + (i + k + 1) * g->stride + 1, *b = buf + k * g->n;
		size_t size = (size_t)g->cols * sizeof *u;
		if (way == TO_FILE)
			memcpy(b, u, size);
		else
			memcpy(u, b, size);
	}
}

/* A field_io is rank 0's side of a move. */
struct field_io {
	enum way way;
	int fd, error; /* the first errno */
	double *buf;   /* whole rows of the grid */
};

/* root_rows does rank 0's part of some rows of the tiles in row prow of the
 * layout. After the first error the ranks are still served, for they wait. */
static void root_rows(const struct grid *g, struct field_io *io, int prow, int64_t first, int64_t rows)
{
	size_t size = (size_t)(rows * g->n) * sizeof *io->buf;
	if (io->way == FROM_FILE && !io->error)
		io->error = read_all(io->fd, io->buf, size);
	for (int peer = prow * g->pcols; peer < (prow + 1) * g->pcols; peer++)
		if (peer == 0)
			own_rows(g, io->way, first, rows, io->buf);
		else
			take_rows(g, io->way, peer, rows, io->buf);
	if (io->way == TO_FILE && !io->error)
		io->error = write_all(io->fd, io->buf, size);
}

/* Rows are moved in pieces of about this many bytes, at least one row. */
enum { PIECE = 4 << 20 };

int field_move(const struct grid *g, enum way way, int fd)
{
	int64_t most = PIECE / (g->n * (int64_t)sizeof(double));
	if (most < 1)
		most = 1;
	struct field_io io = {.way = way, .fd = fd};
	int ready = 1;
	if (g->rank == 0) {
		io.buf = calloc((size_t)(most * g->n), sizeof *io.buf);
		ready = io.buf != NULL;
	}
	MPI_Bcast(&ready, 1, MPI_INT, 0, world);
	if (!ready)
		return ENOMEM;
	for (int prow = 0; prow < g->prows; prow++) {
		int64_t first, rows;
		grid_share(g->n, g->prows, prow, &first, &rows);
		for (int64_t i = 0; i < rows; i += most) {
			int64_t k = rows - i < most ? rows - i : most;
			if (g->rank == 0)
				root_rows(g, &io, prow, i, k);
			else if (g->rank / g->pcols == prow)
				give_rows(g, way, i, k);
		}
	}
	free(io.buf);
	if (world_broken && !io.error)
		io.error = EIO;
	MPI_Bcast(&io.error, 1, MPI_INT, 0, world);
	return io.error;
}
