/* The way to burst-srun: a socket for questions, a page of memory for what costs
 * nothing. The other side is ft/ckpt/methods/libburst_*.go. */
#ifndef BURST_LINK_H
#define BURST_LINK_H

#include <stddef.h>
#include <stdint.h>

#define LINK_VERSION 1
#define PAGE_MAGIC 0x54535242u /* "BRST", as a little-endian machine has it */

/* shared is the page. What burst-srun writes and what the program does are in lines
 * of the cache of their own. */
struct shared {
	uint32_t magic, version;
	char space0[56];
	int32_t order; /* burst-srun's: 0, BURST_CHECKPOINT or BURST_STOP */
	char space1[60];
	int64_t iteration, total; /* the program's; -1: not told yet */
	char space2[48];
};

enum { ANSWER_MAX = 4096 + 64 };

#pragma GCC visibility push(hidden)

/* link_open connects to the socket, with all checks of who is there. A socket that is
 * not on this node, or whose burst-srun has gone, gives BURST_OK and no fd. */
int link_open(const char *path, int *fd, struct shared **page);
void link_unmap(struct shared *page);

/* link_ask sends words and waits for the answer, for PATIENCE at most. What burst-srun
 * does not grant is a code below 0; after BURST_ELOST fd is of no more use. After
 * BURST_ESILENT the answer still comes, before any other. */
int link_ask(int fd, const char *words, char *answer, size_t size);

/* link_hear is link_ask for an answer that is still to come, without waiting for it;
 * link_has says whether something has. */
int link_hear(int fd, char *answer, size_t size);
int link_has(int fd);

/* link_begin makes the words that begin a checkpoint, for a buffer of so many bytes. */
void link_begin(char *words, size_t size, size_t room);

#pragma GCC visibility pop

#endif
