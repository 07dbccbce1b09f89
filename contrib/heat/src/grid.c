#include "heat.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

MPI_Comm world = MPI_COMM_WORLD;
bool world_broken;

void grid_share(int64_t n, int parts, int i, int64_t *first, int64_t *size)
{
	int64_t each = n / parts, more = n % parts;
	*first = i * each + (i < more ? i : more);
	*size = each + (i < more ? 1 : 0);
}

/* lay_out chooses tiles down and across. 2d with a prime number of ranks
 * means strips of columns; auto prefers strips of rows there, whose borders
 * lie in one piece in memory. */
static void lay_out(struct grid *g, enum decomp d)
{
	int dims[2] = {0, 0};
	MPI_Dims_create(g->ranks, 2, dims); /* dims[0] >= dims[1] */
	if (d == DECOMP_1D || (d == DECOMP_AUTO && dims[1] == 1)) {
		g->prows = g->ranks;
		g->pcols = 1;
	} else {
		g->prows = dims[1];
		g->pcols = dims[0];
	}
}

bool grid_open(struct grid *g, int64_t n, enum decomp d, char err[ERR_LEN])
{
	*g = (struct grid){.n = n, .column = MPI_DATATYPE_NULL};
	MPI_Comm_rank(world, &g->rank);
	MPI_Comm_size(world, &g->ranks);
	lay_out(g, d);
	if (g->prows > n || g->pcols > n) {
		snprintf(err, ERR_LEN, "a grid of %" PRId64 " x %" PRId64 " cells cannot be split into %d x %d tiles", n, n, g->prows, g->pcols);
		return false;
	}
	int prow = g->rank / g->pcols, pcol = g->rank % g->pcols;
	grid_share(n, g->prows, prow, &g->row0, &g->rows);
	grid_share(n, g->pcols, pcol, &g->col0, &g->cols);
	g->stride = g->cols + 2;
	g->up = prow > 0 ? g->rank - g->pcols : MPI_PROC_NULL;
	g->down = prow < g->prows - 1 ? g->rank + g->pcols : MPI_PROC_NULL;
	g->left = pcol > 0 ? g->rank - 1 : MPI_PROC_NULL;
	g->right = pcol < g->pcols - 1 ? g->rank + 1 : MPI_PROC_NULL;
	MPI_Type_vector((int)g->rows, 1, (int)g->stride, MPI_DOUBLE, &g->column);
	MPI_Type_commit(&g->column);

	size_t cells = (size_t)(g->rows + 2) * (size_t)g->stride;
	g->cur = calloc(cells, sizeof *g->cur);
	g->next = calloc(cells, sizeof *g->next);
	int lacking = !g->cur || !g->next;
	MPI_Allreduce(MPI_IN_PLACE, &lacking, 1, MPI_INT, MPI_MAX, world);
	if (lacking) {
		snprintf(err, ERR_LEN, "no memory for a tile of %" PRId64 " x %" PRId64 " cells", g->rows, g->cols);
		grid_close(g);
	}
	return !lacking;
}

void grid_close(struct grid *g)
{
	free(g->cur);
	free(g->next);
	g->cur = g->next = NULL;
	if (g->column != MPI_DATATYPE_NULL)
		MPI_Type_free(&g->column);
}

void grid_seed(struct grid *g, uint64_t seed)
{
	g->seed = seed;
	uint64_t key = mix64(seed);
	for (int64_t i = 0; i < g->rows + 2; i++)
		for (int64_t j = 0; j < g->stride; j++) {
			uint64_t place = (uint64_t)((g->row0 + i) * (g->n + 2) + g->col0 + j);
			double v = (double)(mix64(key ^ mix64(place)) >> 11) * 0x1p-53;
			g->cur[i * g->stride + j] = v;
			g->next[i * g->stride + j] = v;
		}
}

/* exchange fills the ghost cells that a neighbour owns; those on the border
 * of the whole grid keep what grid_seed gave them. */
static void exchange(struct grid *g)
{
	double *u = g->cur;
	int64_t s = g->stride, rows = g->rows, cols = g->cols;
	MPI_Sendrecv(u + s + 1, (int)cols, MPI_DOUBLE, g->up, 0,
		u + (rows + 1) * s + 1, (int)cols, MPI_DOUBLE, g->down, 0, world, MPI_STATUS_IGNORE);
	MPI_Sendrecv(u + rows * s + 1, (int)cols, MPI_DOUBLE, g->down, 1,
		u + 1, (int)cols, MPI_DOUBLE, g->up, 1, world, MPI_STATUS_IGNORE);
	MPI_Sendrecv(u + s + 1, 1, g->column, g->left, 2,
		u + s + cols + 1, 1, g->column, g->right, 2, world, MPI_STATUS_IGNORE);
	MPI_Sendrecv(u + s + cols, 1, g->column, g->right, 3,
		u + s, 1, g->column, g->left, 3, world, MPI_STATUS_IGNORE);
}

/* The explicit step of the heat equation at its largest stable time step,
 * dt = h^2/4, which is Jacobi's iteration for the steady state:
 * u' = (north + south + west + east) / 4. */
void grid_step(struct grid *g)
{
	exchange(g);
	int64_t s = g->stride;
	for (int64_t i = 1; i <= g->rows; i++) {
		const double *restrict u = g->cur + i * s;
		double *restrict v = g->next + i * s;
		for (int64_t j = 1; j <= g->cols; j++)
			v[j] = 0.25 * ((u[j - s] + u[j + s]) + (u[j - 1] + u[j + 1]));
	}
	double *old = g->cur;
	g->cur = g->next;
	g->next = old;
}

/* The sum over all cells of a hash of value and place: a sum of integers has
 * no order, so the ranks do not matter, and one changed cell always changes
 * it, since mix64 is a bijection. */
uint64_t grid_checksum(const struct grid *g)
{
	uint64_t sum = 0;
	for (int64_t i = 0; i < g->rows; i++)
		for (int64_t j = 0; j < g->cols; j++) {
			uint64_t place = (uint64_t)((g->row0 + i) * g->n + g->col0 + j), bits;
			memcpy(&bits, &g->cur[(i + 1) * g->stride + j + 1], sizeof bits);
			sum += mix64(bits ^ mix64(place));
		}
	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_UINT64_T, MPI_SUM, world);
	return sum;
}
