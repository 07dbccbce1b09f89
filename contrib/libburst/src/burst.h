/* libburst: a program that writes its own checkpoints, and burst-srun, which says
 * when, keeps what was written, and starts the program again from it. The manual
 * page is libburst(3).
 *
 * Where burst-srun is not, or does not use ckpt=libburst, every call succeeds at
 * once and does nothing. The library starts no thread, handles no signal, and ends
 * no program, whatever becomes of burst-srun.
 *
 * burst_progress and burst_should_checkpoint may be called by any thread, at any time
 * between burst_init and burst_finalize; they ask nothing of the kernel, but while an
 * answer is late. The others are for one thread at a time. */
#ifndef BURST_H
#define BURST_H

#include <stddef.h>
#include <stdint.h>

#define BURST_VERSION_MAJOR 1
#define BURST_VERSION_MINOR 0
#define BURST_VERSION_PATCH 0

#if defined(__GNUC__)
#define BURST_API __attribute__((visibility("default")))
#else
#define BURST_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum {
	BURST_OK = 0,
	BURST_CHECKPOINT = 1, /* write a checkpoint, and go on */
	BURST_STOP = 2,       /* write a checkpoint, and end; it is handed over: end now */

	BURST_ENOTASKED = -1, /* no checkpoint is asked for, or not any more */
	BURST_EBUSY = -2,     /* one has been begun, and is neither committed nor aborted */
	BURST_ELATE = -3,     /* the time was over: it is not kept, the program goes on */
	BURST_ENOTBEGUN = -4, /* none has been begun by this process */
	BURST_EEMPTY = -5,    /* no file with content is in the folder: it is not kept */
	BURST_ETOOLONG = -6,  /* the buffer is too small for the folder's path */
	BURST_ELOST = -7,     /* burst-srun has gone: nothing more comes of it */
	BURST_EREFUSED = -8,  /* burst-srun is another's, or of another version */
	BURST_ESYSTEM = -9,   /* a call to the system failed; errno has why */
	BURST_ESILENT = -10   /* no answer in 30 s: what was asked may yet be done; go on, and hear later */
};

/* BURST_PATH_MAX bytes hold every folder's path, with its end. */
#define BURST_PATH_MAX 4096

/* burst_init finds burst-srun; where it is connected it does nothing. It returns BURST_OK
 * also where there is no burst-srun on this node, BURST_EREFUSED, BURST_ELOST, BURST_ESILENT
 * or BURST_ESYSTEM where there is one that cannot be used: then all calls do nothing, until
 * it is called again with success. */
BURST_API int burst_init(void);

/* burst_connected says 1 in a process that burst-srun hears, else 0. Of an MPI program
 * that are ranks on the job's batch host. */
BURST_API int burst_connected(void);

/* burst_progress tells how far the program is: the iteration that it has done, of total;
 * 0: it does not know how many. */
BURST_API void burst_progress(int64_t iteration, int64_t total);

/* burst_should_checkpoint says 0, BURST_CHECKPOINT or BURST_STOP. */
BURST_API int burst_should_checkpoint(void);

/* burst_want_checkpoint has Burst ask for a checkpoint now, at a moment that suits the
 * program, and waits until it does: it returns what burst_should_checkpoint says then, and
 * the program begins one as ever. BURST_ENOTASKED: Burst does not ask within 10 s, as while it
 * still keeps the one before; it does later, or not at all. 0: there is no burst-srun. */
BURST_API int burst_want_checkpoint(void);

/* burst_checkpoint_begin writes the path of an empty folder into folder, which has room
 * for size bytes. All ranks of the program may write there, below any names. */
BURST_API int burst_checkpoint_begin(char *folder, size_t size);

/* burst_checkpoint_commit says that all files are written and closed. BURST_OK: it is
 * handed over, go on. BURST_STOP: it is handed over, end now, and not as if the work were
 * done. Else it is not kept (BURST_ESILENT: that is not known), and the program goes on.
 *
 * What is handed over Burst has yet to check and to sync, and may fail to keep: then it
 * restarts the program from the one before. Delete nothing of your own for it. */
BURST_API int burst_checkpoint_commit(void);

/* burst_checkpoint_abort gives up what was begun: it could not be written. */
BURST_API int burst_checkpoint_abort(void);

/* burst_restart_path is the folder of the checkpoint to go on from, NULL if there is
 * none: the program begins at the beginning. It says so on every node, before
 * burst_init too. The files are Burst's: read them, and change nothing. */
BURST_API const char *burst_restart_path(void);

/* burst_finalize leaves burst-srun. After it no thread may be in a call. */
BURST_API void burst_finalize(void);

/* burst_strerror is a line about what a call returned. */
BURST_API const char *burst_strerror(int code);

/* burst_version is the library's, as "1.0.0"; the header's is BURST_VERSION_MAJOR and
 * the like. */
BURST_API const char *burst_version(void);

#ifdef __cplusplus
}
#endif

#endif
