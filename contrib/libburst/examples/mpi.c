/* An MPI program that survives evictions: one rank speaks with burst-srun, and tells
 * the others. Every rank writes a file of its own, and may restart on any nodes. The
 * files are of so many ranks: with another number it refuses to go on.
 *
 * Build: mpicc mpi.c $(pkg-config --cflags burst) $(pkg-config --variable=libdir burst)/libburst.a */
#include <burst.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, ranks, speaker;
static double x = 0.5;
static long at;

/* find_speaker is the lowest rank that burst-srun hears. Rank 0 is, as a rule: it is on
 * the job's batch host, unless srun was told other nodes. With none all ranks agree on
 * rank 0, whose calls do nothing. */
static int find_speaker(void)
{
	int mine = burst_connected() ? rank : ranks, least;
	MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	return least < ranks ? least : 0;
}

static FILE *open_state(const char *folder, const char *how)
{
	char path[BURST_PATH_MAX + 32];
	snprintf(path, sizeof path, "%s/rank-%d", folder, rank);
	return fopen(path, how);
}

static int save(const char *folder)
{
	FILE *f = open_state(folder, "wb");
	if (!f)
		return 0;
	int good = fwrite(&ranks, sizeof ranks, 1, f) == 1 && fwrite(&at, sizeof at, 1, f) == 1 && fwrite(&x, sizeof x, 1, f) == 1;
	return fclose(f) == 0 && good;
}

static int load(const char *folder)
{
	FILE *f = open_state(folder, "rb");
	int were = 0;
	if (!f)
		return 0;
	int good = fread(&were, sizeof were, 1, f) == 1 && fread(&at, sizeof at, 1, f) == 1 && fread(&x, sizeof x, 1, f) == 1;
	fclose(f);
	if (good && were != ranks)
		fprintf(stderr, "mpi: rank %d: %s is of %d ranks, not of %d\n", rank, folder, were, ranks);
	return good && were == ranks;
}

/* restart begins from the checkpoint, if there is one. Launchers do not pass every
 * variable to every node: the speaker's word counts. */
static void restart(void)
{
	char folder[BURST_PATH_MAX] = "";
	const char *from = burst_restart_path();
	if (rank == speaker && from)
		snprintf(folder, sizeof folder, "%s", from);
	MPI_Bcast(folder, sizeof folder, MPI_CHAR, speaker, MPI_COMM_WORLD);
	if (folder[0] && !load(folder)) {
		fprintf(stderr, "mpi: rank %d cannot read %s\n", rank, folder);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

/* checkpoint is collective, and says on all ranks whether to end. One that fails is no
 * reason to end: the work is still here. */
static int checkpoint(void)
{
	char folder[BURST_PATH_MAX] = "";
	int code = 0;
	if (rank == speaker)
		code = burst_checkpoint_begin(folder, sizeof folder);
	MPI_Bcast(&code, 1, MPI_INT, speaker, MPI_COMM_WORLD);
	if (code != BURST_OK) {
		if (rank == speaker)
			fprintf(stderr, "mpi: no checkpoint: %s\n", burst_strerror(code));
		return 0;
	}
	MPI_Bcast(folder, sizeof folder, MPI_CHAR, speaker, MPI_COMM_WORLD);
	int good = save(folder), all;
	if (!good)
		fprintf(stderr, "mpi: no checkpoint: rank %d could not write its file in %s\n", rank, folder);
	MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	if (rank == speaker) {
		code = all ? burst_checkpoint_commit() : burst_checkpoint_abort();
		if (code < 0)
			fprintf(stderr, "mpi: no checkpoint: %s\n", burst_strerror(code));
	}
	MPI_Bcast(&code, 1, MPI_INT, speaker, MPI_COMM_WORLD);
	return code == BURST_STOP;
}

int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	long to = argc > 1 ? atol(argv[1]) : 1000;
	int code = burst_init();
	if (code < 0)
		fprintf(stderr, "mpi: rank %d runs on without Burst: %s\n", rank, burst_strerror(code));
	speaker = find_speaker();
	restart();
	while (at < to) {
		double sum;
		at++;
		x = 3.9 * x * (1 - x) + 1e-9 * rank;
		MPI_Allreduce(&x, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
		x = sum / ranks;
		int asked = 0;
		if (rank == speaker) {
			burst_progress(at, to);
			asked = burst_should_checkpoint();
		}
		MPI_Bcast(&asked, 1, MPI_INT, speaker, MPI_COMM_WORLD);
		if (asked && checkpoint()) {
			burst_finalize();
			MPI_Finalize();
			return 75;
		}
	}
	if (rank == 0)
		printf("done %ld %.17g\n", at, x);
	burst_finalize();
	MPI_Finalize();
	return 0;
}
