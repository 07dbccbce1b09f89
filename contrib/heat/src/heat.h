/* heat: 2-D heat diffusion by Jacobi iteration, Burst's reference MPI program.
 *
 * The result does not depend on the number of ranks or on the decomposition,
 * to the bit: each cell is computed from the same five values in the same
 * order, and every reduction is over integers. */
#ifndef HEAT_H
#define HEAT_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Exit codes, as --help lists them. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_STOPPED = 75 /* EX_TEMPFAIL */ };

enum { ERR_LEN = 512 };

/* world is all ranks: MPI_COMM_WORLD, but where ranks are lost and replaced
 * (../ulfm). world_broken says there that an operation on it has failed: what
 * has been computed since is worth nothing. */
extern MPI_Comm world;
extern bool world_broken;

enum decomp { DECOMP_AUTO, DECOMP_1D, DECOMP_2D };

struct options {
	int64_t n;          /* interior cells per side; 0: not given */
	int64_t iterations; /* in all, those before a restart included */
	uint64_t seed;
	bool seed_given;
	int64_t every;          /* iterations between two checkpoints; 0: none */
	const char *checkpoint; /* NULL: none is written */
	const char *restart;    /* NULL: from the start */
	bool restart_auto;
	enum decomp decomp;
	bool exit_on_signal;
	double progress; /* seconds between two lines; 0: none */
	double pace;     /* least seconds per iteration */
	bool help;
};

/* options_parse reads argv into o. It returns false with one line in err. */
bool options_parse(int argc, char **argv, struct options *o, char err[ERR_LEN]);
extern const char usage[];

/* A grid is this rank's tile of the n x n interior, with one ghost cell on
 * each side, and its place among its neighbours. */
struct grid {
	int64_t n;
	uint64_t seed;
	int rank, ranks;
	int prows, pcols;              /* tiles down and across */
	int64_t row0, col0;            /* the tile's first cell in the interior */
	int64_t rows, cols;            /* its size */
	int64_t stride;                /* cols + 2 */
	double *cur, *next;            /* (rows + 2) x stride each */
	int up, down, left, right;     /* neighbours, or MPI_PROC_NULL */
	MPI_Datatype column;           /* rows cells, one stride apart */
};

/* grid_open lays the tiles out and takes the memory, on all ranks or on none;
 * then it returns false with one line in err. */
bool grid_open(struct grid *g, int64_t n, enum decomp d, char err[ERR_LEN]);
void grid_close(struct grid *g);
/* grid_seed sets border and interior as iteration 0 has them. */
void grid_seed(struct grid *g, uint64_t seed);
/* grid_step does one iteration. */
void grid_step(struct grid *g);
/* grid_checksum is the checksum of the whole interior, on every rank. */
uint64_t grid_checksum(const struct grid *g);
/* grid_share gives tile number i of parts tiles over n cells: first and size. */
void grid_share(int64_t n, int parts, int i, int64_t *first, int64_t *size);

/* write_all and read_all move size bytes; they return 0 or an errno, EIO for
 * a file that ends too early. */
int write_all(int fd, const void *data, size_t size);
int read_all(int fd, void *data, size_t size);

enum way { TO_FILE, FROM_FILE };

/* field_move moves the whole interior, row by row, between the ranks and
 * rank 0's fd, a few MB at a time. It is collective; all ranks get 0 or the
 * errno of rank 0. */
int field_move(const struct grid *g, enum way way, int fd);

/* checkpoint_write replaces the file at path by the grid at the iteration. It
 * is collective. If it fails, rank 0 has one line in err, and all ranks get
 * false. Whatever happens, path never holds a part of a checkpoint. */
bool checkpoint_write(const struct grid *g, const char *path, int64_t iteration, char err[ERR_LEN]);

enum load { LOAD_OK, LOAD_MISSING, LOAD_DAMAGED, LOAD_REFUSED };

struct checkpoint_info {
	int64_t n, iteration;
	uint64_t seed, data_sum;
};

/* checkpoint_info reads and checks the header, checkpoint_read the field into
 * a seeded grid. Both are collective; all ranks get the same answer, rank 0
 * the line in err. */
enum load checkpoint_info(const char *path, struct checkpoint_info *info, char err[ERR_LEN]);
enum load checkpoint_read(struct grid *g, const char *path, const struct checkpoint_info *info, char err[ERR_LEN]);

/* The store is where checkpoints are: store.c, store_libburst.c. All of it is
 * collective. store_due is told how far the run is, and says whether the store asks
 * for a checkpoint now; store_leaves says whether the run is to leave after the one
 * that was written for that. store_find gives the file that --restart auto reads, on
 * rank 0 at least, and says whether there is one to be looked for; then store_found is
 * told whether it was good, and why not. */
enum { STORE_PATH = 1024 };
void store_open(void);
void store_close(void);
extern const char store_name[];
bool store_due(const struct options *o, int64_t iteration);
bool store_leaves(void);
bool store_write(const struct grid *g, const char *path, int64_t iteration, char err[ERR_LEN]);
bool store_find(const struct options *o, char file[STORE_PATH]);
void store_found(bool good, const char *err);

/* mix64 is a bijection of 64-bit words that looks random: splitmix64's
 * finalizer (Steele, Lea, Flood, OOPSLA 2014). */
static inline uint64_t mix64(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

#endif
