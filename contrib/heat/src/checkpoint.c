#include "heat.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A checkpoint is this header and then the interior, row by row, as the
 * machine's doubles. All of it is in the machine's byte order; on a machine
 * with another one the header's sum does not match. */
struct header {
	char magic[8];
	uint64_t version, n, iteration, seed;
	uint64_t data_sum;   /* grid_checksum */
	uint64_t header_sum; /* FNV-1a of all before it */
};

static const char magic[8] = {'h', 'e', 'a', 't', 'c', 'k', 'p', 't'};
enum { VERSION = 1 };

static uint64_t sum_header(const struct header *h)
{
	const unsigned char *p = (const unsigned char *)h;
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < offsetof(struct header, header_sum); i++)
		sum = (sum ^ p[i]) * UINT64_C(0x100000001b3);
	return sum;
}

/* agree gives all ranks rank 0's value. */
static int agree(int value)
{
	MPI_Bcast(&value, 1, MPI_INT, 0, world);
	return value;
}

/* temp_name is path with the host and the process added, so that an old
 * attempt on a node that was cut off never writes into ours. */
static char *temp_name(const char *path)
{
	char host[65] = "";
	gethostname(host, sizeof host - 1);
	size_t size = strlen(path) + sizeof host + 32;
	char *name = malloc(size);
	if (name)
		snprintf(name, size, "%s.tmp-%s-%ld", path, host, (long)getpid());
	return name;
}

/* sync_folder makes a rename in path's folder durable. */
static int sync_folder(const char *path)
{
	char *folder = strdup(path);
	if (!folder)
		return errno;
	char *slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder ? 1 : 0] = '\0';
	int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	free(folder);
	if (fd < 0)
		return errno;
	int error = fsync(fd) ? errno : 0;
	close(fd);
	return error == EINVAL ? 0 : error; /* a file system that cannot */
}

/* finish makes the temporary file durable and puts it in path's place. */
static int finish(int fd, int error, const char *temp, const char *path)
{
	if (!error && fsync(fd))
		error = errno;
	if (close(fd) && !error)
		error = errno;
	if (!error && rename(temp, path))
		error = errno;
	if (error)
		unlink(temp);
	return error ? error : sync_folder(path);
}

bool checkpoint_write(const struct grid *g, const char *path, int64_t iteration, char err[ERR_LEN])
{
	struct header h = {.version = VERSION, .n = (uint64_t)g->n, .iteration = (uint64_t)iteration, .seed = g->seed};
	memcpy(h.magic, magic, sizeof magic);
	h.data_sum = grid_checksum(g);
	h.header_sum = sum_header(&h);

	char *temp = NULL;
	int fd = -1, error = 0;
	if (g->rank == 0) {
		temp = temp_name(path);
		fd = temp ? open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
		if (fd < 0)
			error = errno;
	}
	if (!agree(error)) {
		if (g->rank == 0)
			error = write_all(fd, &h, sizeof h);
		int moved = field_move(g, TO_FILE, fd);
		error = error ? error : moved;
		if (g->rank == 0)
			error = finish(fd, error, temp, path);
	}
	free(temp);
	if (g->rank == 0 && error)
		snprintf(err, ERR_LEN, "writing checkpoint %s at iteration %" PRId64 ": %s", path, iteration, strerror(error));
	return !agree(error);
}

/* inspect reads and checks the header of the open file. */
static enum load inspect(int fd, const char *path, struct checkpoint_info *info, char err[ERR_LEN])
{
	struct stat st;
	struct header h;
	if (fstat(fd, &st)) {
		snprintf(err, ERR_LEN, "reading checkpoint %s: %s", path, strerror(errno));
		return LOAD_REFUSED;
	}
	if (!S_ISREG(st.st_mode)) {
		snprintf(err, ERR_LEN, "checkpoint %s is not a file", path);
		return LOAD_REFUSED;
	}
	if (st.st_size < (off_t)sizeof h) {
		snprintf(err, ERR_LEN, "checkpoint %s is damaged: it is cut off in its header", path);
		return LOAD_DAMAGED;
	}
	int error = read_all(fd, &h, sizeof h);
	if (error) {
		snprintf(err, ERR_LEN, "reading checkpoint %s: %s", path, strerror(error));
		return LOAD_REFUSED;
	}
	if (memcmp(h.magic, magic, sizeof magic) != 0 || h.header_sum != sum_header(&h)) {
		snprintf(err, ERR_LEN, "checkpoint %s is damaged: its header is not one of heat's", path);
		return LOAD_DAMAGED;
	}
	if (h.version != VERSION) {
		snprintf(err, ERR_LEN, "checkpoint %s has version %" PRIu64 ", this heat reads %d", path, h.version, VERSION);
		return LOAD_REFUSED;
	}
	uint64_t whole = sizeof h + h.n * h.n * sizeof(double);
	if ((uint64_t)st.st_size != whole) {
		snprintf(err, ERR_LEN, "checkpoint %s is damaged: it has %" PRIu64 " bytes of %" PRIu64, path, (uint64_t)st.st_size, whole);
		return LOAD_DAMAGED;
	}
	*info = (struct checkpoint_info){.n = (int64_t)h.n, .iteration = (int64_t)h.iteration, .seed = h.seed, .data_sum = h.data_sum};
	return LOAD_OK;
}

enum load checkpoint_info(const char *path, struct checkpoint_info *info, char err[ERR_LEN])
{
	int rank;
	MPI_Comm_rank(world, &rank);
	enum load got = LOAD_OK;
	*info = (struct checkpoint_info){0};
	if (rank == 0) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0) {
			got = inspect(fd, path, info, err);
			close(fd);
		} else {
			got = errno == ENOENT ? LOAD_MISSING : LOAD_REFUSED;
			snprintf(err, ERR_LEN, "opening checkpoint %s: %s", path, strerror(errno));
		}
	}
	MPI_Bcast(info, sizeof *info, MPI_BYTE, 0, world);
	return (enum load)agree((int)got);
}

enum load checkpoint_read(struct grid *g, const char *path, const struct checkpoint_info *info, char err[ERR_LEN])
{
	int fd = -1, error = 0;
	if (g->rank == 0) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || lseek(fd, sizeof(struct header), SEEK_SET) < 0)
			error = errno;
	}
	if (!agree(error))
		error = field_move(g, FROM_FILE, fd);
	if (fd >= 0)
		close(fd);
	if (agree(error)) {
		snprintf(err, ERR_LEN, "reading checkpoint %s: %s", path, strerror(error));
		return LOAD_REFUSED;
	}
	if (grid_checksum(g) != info->data_sum) {
		snprintf(err, ERR_LEN, "checkpoint %s is damaged: the checksum of its data does not match", path);
		return LOAD_DAMAGED;
	}
	return LOAD_OK;
}
