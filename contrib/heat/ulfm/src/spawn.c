/* New processes, and one communicator of them and those that live. */
#include "ulfm.h"

#include <stdlib.h>

/* launch starts the new processes, each on its node. */
static MPI_Comm launch(struct run *r, MPI_Comm base, const struct roster *to)
{
	int count = to->spawned, me, ranks, k = 0;
	MPI_Comm_rank(base, &me);
	MPI_Comm_size(base, &ranks);
	char **program = calloc((size_t)count, sizeof *program), ***args = calloc((size_t)count, sizeof *args);
	int *one = calloc((size_t)count, sizeof *one);
	MPI_Info *info = calloc((size_t)count, sizeof *info), start;
	MPI_Info_create(&start);
	/* One that a parent leaves alone must not end the others. */
	MPI_Info_set(start, "mpi_initial_errhandler", "mpi_errors_return");
	for (int rank = 0; rank < to->size; rank++) {
		if (to->source[rank] < ranks)
			continue;
		char **a = args[k] = calloc((size_t)r->argc + 5, sizeof *a);
		program[k] = r->argv[0];
		if (r->x.launcher) {
			program[k] = (char *)(uintptr_t)r->x.launcher;
			*a++ = "rank";
			*a++ = "--on";
			*a++ = to->at[rank];
			*a++ = "--";
			*a++ = r->argv[0];
		}
		for (int i = 1; i < r->argc; i++)
			*a++ = r->argv[i];
		one[k] = 1;
		info[k++] = start;
	}
	MPI_Comm parents = MPI_COMM_NULL;
	int code = MPI_Comm_spawn_multiple(count, program, args, one, info, 0, base, &parents, MPI_ERRCODES_IGNORE);
	MPI_Info_free(&start);
	for (int i = 0; i < count; i++)
		free(args[i]);
	free(program);
	free(args);
	free(one);
	free(info);
	if (code != MPI_SUCCESS)
		world_broken = true;
	else
		world_watch(parents);
	return parents;
}

MPI_Comm gather(struct run *r, MPI_Comm base, const struct roster *to)
{
	MPI_Comm all = base, ring;
	if (to->spawned == 0)
		return base;
	alive(r, "spawn");
	/* Nothing ends a spawn in which a rank is lost: not into it with one that is. */
	if (!all_good(base, true))
		return MPI_COMM_NULL;
	ring = launch(r, base, to);
	if (!all_good(base, true))
		return MPI_COMM_NULL;
	alive(r, "merge");
	if (MPI_Intercomm_merge(ring, 0, &all) != MPI_SUCCESS)
		world_broken = true;
	else
		world_watch(all);
	if (!all_good(base, true)) {
		MPIX_Comm_revoke(ring); /* new ones may wait in it for us */
		return MPI_COMM_NULL;
	}
	MPI_Comm_disconnect(&ring);
	return all;
}
