/* What taking copies and restoring from them share. */
#ifndef COPIES_H
#define COPIES_H

#include "ulfm.h"

/* A rect is a part of the whole interior. */
struct rect {
	int64_t row, col, rows, cols;
};

/* rect_of is a block's part of the interior of n x n cells. */
struct rect rect_of(int64_t n, int prows, int pcols, int block);
/* rect_move copies the part between a field whose first cell is first, with rows
 * so long, and the packed cells of the part. */
void rect_move(struct rect part, double *first, int64_t stride, double *packed, bool pack);

/* copy_sound says whether a copy is what was copied. */
bool copy_sound(const struct copy *c);

/* requests are so many that wait for nothing; NULL if there is no memory. */
MPI_Request *requests(size_t count);
/* finish waits for all. After a failure the world is revoked, which ends the
 * others too: none may write later into memory that is free by then. */
void finish(MPI_Request *all, int count);

#endif
