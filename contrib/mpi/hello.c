/* Prints, for each rank, its number, the size of the world, its node and the MPI that it
 * runs under. The node is Slurm's where there is one: several may be on one host. The sum of all ranks goes through the network first, so that a world whose
 * ranks do not reach each other does not end well. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	char host[MPI_MAX_PROCESSOR_NAME], version[MPI_MAX_LIBRARY_VERSION_STRING];
	const char *node = getenv("SLURMD_NODENAME");
	int rank, size, sum, n;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Get_processor_name(host, &n);
	MPI_Get_library_version(version, &n);
	version[strcspn(version, "\n,")] = '\0';
	for (char *c = version; *c != '\0'; c++)
		if (*c == '\t')
			*c = ' ';
	printf("rank %d of %d on %s: sum %d, %s\n", rank, size, node != NULL ? node : host, sum, version);
	MPI_Finalize();
	return sum == size * (size - 1) / 2 ? 0 : 1;
}
