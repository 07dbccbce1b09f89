/* The calls of burst.h. What they say to burst-srun is in link.c. */
#define _GNU_SOURCE

#include "burst.h"
#include "link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

/* A child of fork must not speak for its parent. So what says that this process is
 * connected lies in memory that the kernel empties in a child: to ask for the process's
 * number would be a call to the kernel each time. Before Linux 4.14 a child sees the
 * parent's orders, and cannot carry one out. */
struct mine {
	struct shared *page; /* NULL: not connected */
};

static struct mine *mine; /* once made it stays, for threads that look at it */
static int link_fd = -1;  /* of the process owner */
static pid_t owner;
static struct shared *mapped; /* to be unmapped */

/* burst-srun has not answered in time: a file system may have kept it. Its answer comes
 * before any other, and until then nothing more is asked. */
static int owed;

static struct shared *connected(void)
{
	struct mine *m = __atomic_load_n(&mine, __ATOMIC_ACQUIRE);
	return m ? __atomic_load_n(&m->page, __ATOMIC_ACQUIRE) : NULL;
}

static int make_mine(void)
{
	if (mine)
		return BURST_OK;
	struct mine *m = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return BURST_ESYSTEM;
	(void)madvise(m, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK);
	__atomic_store_n(&mine, m, __ATOMIC_RELEASE);
	return BURST_OK;
}

/* is_component says whether a job is one of this heterogeneous job's; none: no. */
static int is_component(const char *job)
{
	const char *size = getenv("SLURM_HET_SIZE");
	char name[48];
	for (long i = 0, n = size ? strtol(size, NULL, 10) : 0; i < n; i++) {
		snprintf(name, sizeof name, "SLURM_JOB_ID_HET_GROUP_%ld", i);
		const char *id = getenv(name);
		if (!id)
			return 0;
		if (strcmp(id, job) == 0)
			return 1;
	}
	return 0;
}

/* meant says whether the environment's burst-srun is that of this process's job: a job
 * that was submitted from within a step has that step's environment. */
static int meant(void)
{
	const char *job = getenv("BURST_LIB_JOB"), *own = getenv("SLURM_JOB_ID");
	return !job || !own || strcmp(job, own) == 0 || (is_component(job) && is_component(own));
}

/* leave forgets burst-srun. The page stays mapped: a thread may be looking at it. */
static void leave(void)
{
	if (mine)
		__atomic_store_n(&mine->page, NULL, __ATOMIC_RELEASE);
	int fd = link_fd;
	__atomic_store_n(&link_fd, -1, __ATOMIC_RELAXED);
	if (fd >= 0)
		close(fd);
	__atomic_store_n(&owed, 0, __ATOMIC_RELAXED);
}

static int is_owner(void) { return link_fd >= 0 && owner == getpid(); }

int burst_init(void)
{
	if (is_owner())
		return BURST_OK;
	const char *path = getenv("BURST_LIB");
	if (!path || !*path || !meant())
		return BURST_OK;
	leave(); /* of a parent, or one that is lost: its page stays, threads may be looking at it */
	int code = make_mine();
	if (code != BURST_OK)
		return code;
	struct shared *page = NULL;
	int fd = -1;
	code = link_open(path, &fd, &page);
	if (code != BURST_OK || fd < 0)
		return code;
	__atomic_store_n(&link_fd, fd, __ATOMIC_RELAXED);
	owner = getpid();
	mapped = page;
	__atomic_store_n(&mine->page, page, __ATOMIC_RELEASE);
	return BURST_OK;
}

int burst_connected(void) { return is_owner() && connected() != NULL; }

void burst_progress(int64_t iteration, int64_t total)
{
	struct shared *page = connected();
	if (!page)
		return;
	__atomic_store_n(&page->total, total, __ATOMIC_RELAXED);
	__atomic_store_n(&page->iteration, iteration, __ATOMIC_RELEASE);
}

int burst_should_checkpoint(void)
{
	struct shared *page = connected();
	if (!page)
		return 0;
	int order = __atomic_load_n(&page->order, __ATOMIC_ACQUIRE);
	if (order != BURST_CHECKPOINT && order != BURST_STOP)
		return 0;
	if (__atomic_load_n(&owed, __ATOMIC_RELAXED) && !link_has(__atomic_load_n(&link_fd, __ATOMIC_RELAXED)))
		return 0; /* it could not be begun */
	return order;
}

/* heard notes what became of a question: burst-srun is left for good if it has gone. */
static int heard(int code)
{
	if (code == BURST_ELOST)
		leave();
	__atomic_store_n(&owed, code == BURST_ESILENT, __ATOMIC_RELAXED);
	return code;
}

/* settle takes the answer that is owed, if there is one; BURST_OK: none is any more. */
static int settle(char *answer, size_t size)
{
	answer[0] = '\0';
	if (!owed)
		return BURST_OK;
	int code = heard(link_hear(link_fd, answer, size));
	return code == BURST_ELOST || code == BURST_ESILENT ? code : BURST_OK;
}

static int ask(const char *words, char *answer, size_t size)
{
	int code = settle(answer, size);
	return code == BURST_OK ? heard(link_ask(link_fd, words, answer, size)) : code;
}

int burst_want_checkpoint(void)
{
	char answer[ANSWER_MAX];
	if (!is_owner())
		return 0;
	if (owed) /* a begin's, maybe, which is to hear it */
		return burst_should_checkpoint();
	int code = ask("want", answer, sizeof answer);
	if (code != BURST_OK)
		return code;
	if (strcmp(answer, "asked") == 0)
		return burst_should_checkpoint();
	leave();
	return BURST_ELOST;
}

/* folder_of is the path in an answer; NULL: it has none of less than size bytes. */
static const char *folder_of(const char *answer, size_t size)
{
	static const char found[] = "folder ";
	const char *path = answer + sizeof found - 1;
	return strncmp(answer, found, sizeof found - 1) == 0 && path[0] == '/' && strlen(path) < size ? path : NULL;
}

int burst_checkpoint_begin(char *folder, size_t size)
{
	char words[48], answer[ANSWER_MAX], late[ANSWER_MAX];
	if (!folder || size == 0)
		return BURST_ETOOLONG;
	folder[0] = '\0';
	if (!is_owner())
		return BURST_ENOTASKED;
	link_begin(words, sizeof words, size);
	int code = settle(late, sizeof late);
	if (code == BURST_OK)
		code = ask(words, answer, sizeof answer);
	const char *path = NULL;
	if (code == BURST_OK)
		path = folder_of(answer, size);
	else if (code == BURST_EBUSY) /* by this process, maybe, which had not heard of it */
		path = folder_of(late, size);
	if (!path && code != BURST_OK)
		return code;
	if (!path) {
		leave(); /* this is none of ours; burst-srun sees that nothing comes */
		return BURST_ELOST;
	}
	memcpy(folder, path, strlen(path) + 1);
	return BURST_OK;
}

int burst_checkpoint_commit(void)
{
	char answer[ANSWER_MAX];
	if (!is_owner())
		return BURST_ENOTBEGUN;
	int code = ask("commit", answer, sizeof answer);
	if (code != BURST_OK)
		return code;
	if (strcmp(answer, "kept stop") == 0)
		return BURST_STOP;
	if (strcmp(answer, "kept") == 0)
		return BURST_OK;
	leave();
	return BURST_ELOST;
}

int burst_checkpoint_abort(void)
{
	char answer[ANSWER_MAX];
	if (!is_owner())
		return BURST_ENOTBEGUN;
	return ask("abort", answer, sizeof answer);
}

const char *burst_restart_path(void)
{
	const char *path = getenv("BURST_LIB_RESTART");
	return path && *path && meant() ? path : NULL;
}

void burst_finalize(void)
{
	leave();
	if (mapped)
		link_unmap(mapped);
	mapped = NULL;
}

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)

const char *burst_version(void)
{
	return TEXT_OF(BURST_VERSION_MAJOR) "." TEXT_OF(BURST_VERSION_MINOR) "." TEXT_OF(BURST_VERSION_PATCH);
}

const char *burst_strerror(int code)
{
	switch (code) {
	case BURST_OK: return "done";
	case BURST_CHECKPOINT: return "a checkpoint is asked for";
	case BURST_STOP: return "a checkpoint is asked for, and then the program's end";
	case BURST_ENOTASKED: return "no checkpoint is asked for, or not any more";
	case BURST_EBUSY: return "a checkpoint has been begun, and is neither committed nor aborted";
	case BURST_ELATE: return "the time was over: the checkpoint is not kept";
	case BURST_ENOTBEGUN: return "no checkpoint has been begun by this process";
	case BURST_EEMPTY: return "no file with content is in the checkpoint's folder: it is not kept";
	case BURST_ETOOLONG: return "the buffer is too small for the folder's path: BURST_PATH_MAX bytes are enough";
	case BURST_ELOST: return "burst-srun has gone: no checkpoints are taken any more";
	case BURST_EREFUSED: return "burst-srun is another user's, or of another version than this library";
	case BURST_ESYSTEM: return "a call to the system failed, see errno";
	case BURST_ESILENT: return "burst-srun has not answered in time: it may yet carry out what it was asked";
	}
	return "not a result of libburst";
}
