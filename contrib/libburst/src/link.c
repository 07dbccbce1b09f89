/* One packet each way: the program asks, burst-srun answers. Nothing that comes is
 * trusted: an answer that is none of ours ends the link, and the program goes on. */
#define _GNU_SOURCE

#include "link.h"
#include "burst.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* PATIENCE is how long an answer is waited for, in milliseconds: burst-srun asks nobody
 * else for one but the file system, which may hang. */
#ifndef PATIENCE
#define PATIENCE 30000
#endif

#ifndef F_GET_SEALS
#define F_GET_SEALS (1024 + 10)
#define F_SEAL_SHRINK 0x0002
#endif

typedef char shared_is_as_agreed[offsetof(struct shared, order) == 64 && offsetof(struct shared, iteration) == 128 &&
	offsetof(struct shared, total) == 136 && sizeof(struct shared) == 192 ? 1 : -1];

static int64_t now_ms(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* await waits until fd has something for us; 0: it has not, in time. */
static int await(int fd, short what, int64_t until)
{
	for (;;) {
		int64_t left = until - now_ms();
		struct pollfd p = {fd, what, 0};
		int n = poll(&p, 1, left > 0 ? (int)left : 0);
		if (n >= 0 || errno != EINTR)
			return n > 0;
		if (left <= 0)
			return 0;
	}
}

static int send_words(int fd, const char *words)
{
	ssize_t n;
	do /* no signal for a burst-srun that has gone */
		n = send(fd, words, strlen(words), MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)strlen(words) ? BURST_OK : BURST_ELOST;
}

/* receive takes one packet as text, and the file that came with it, if wanted. */
static int receive(int fd, char *answer, size_t size, int *file)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec io = {answer, size - 1};
	struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
	int64_t until = now_ms() + PATIENCE;
	if (file)
		*file = -1;
	ssize_t n;
	do {
		m.msg_control = file ? control.room : NULL;
		m.msg_controllen = file ? sizeof control.room : 0;
		if (!await(fd, POLLIN, until))
			return BURST_ESILENT;
		n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	for (struct cmsghdr *c = n >= 0 && file ? CMSG_FIRSTHDR(&m) : NULL; c; c = CMSG_NXTHDR(&m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(file, CMSG_DATA(c), sizeof(int));
	if (n <= 0 || m.msg_flags & MSG_TRUNC || memchr(answer, '\0', (size_t)n))
		return BURST_ELOST;
	answer[n] = '\0';
	return BURST_OK;
}

/* refusal is the code of an answer "no ...". */
static int refusal(const char *answer)
{
	static const struct {
		const char *word;
		int code;
	} all[] = {{"no unasked", BURST_ENOTASKED}, {"no busy", BURST_EBUSY}, {"no late", BURST_ELATE}, {"no unbegun", BURST_ENOTBEGUN},
		{"no empty", BURST_EEMPTY}, {"no room", BURST_ETOOLONG}, {"no version", BURST_EREFUSED}};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (strcmp(answer, all[i].word) == 0)
			return all[i].code;
	return strncmp(answer, "no ", 3) == 0 ? BURST_ELOST : BURST_OK;
}

int link_ask(int fd, const char *words, char *answer, size_t size)
{
	int code = send_words(fd, words);
	if (code == BURST_OK)
		code = receive(fd, answer, size, NULL);
	return code == BURST_OK ? refusal(answer) : code;
}

int link_has(int fd) { return await(fd, POLLIN, 0); }

int link_hear(int fd, char *answer, size_t size)
{
	int code = link_has(fd) ? receive(fd, answer, size, NULL) : BURST_ESILENT;
	return code == BURST_OK ? refusal(answer) : code;
}

void link_begin(char *words, size_t size, size_t room)
{
	snprintf(words, size, "begin %zu", room < BURST_PATH_MAX ? room : (size_t)BURST_PATH_MAX);
}

/* dial connects; -1 with errno. It waits where too many others do so at once. */
static int dial(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof a.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(a.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	for (int64_t until = now_ms() + PATIENCE; connect(fd, (struct sockaddr *)&a, sizeof a) != 0;) {
		if ((errno == EAGAIN || errno == EINTR) && now_ms() < until) {
			poll(NULL, 0, 10);
			continue;
		}
		int why = errno;
		close(fd);
		errno = why;
		return -1;
	}
	if (fd <= STDERR_FILENO) { /* the program has closed one, and may open it again */
		int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
		int why = errno;
		close(fd);
		errno = why;
		fd = high;
	}
	return fd;
}

static int is_ours(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

/* map_page maps the file, which must be sealed: one that shrinks would end a program
 * that reads it by SIGBUS. */
static int map_page(int file, struct shared **page)
{
	struct stat st;
	int seals = fcntl(file, F_GET_SEALS);
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(file, &st) != 0 || st.st_size < (off_t)sizeof(struct shared))
		return BURST_EREFUSED;
	struct shared *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (p == MAP_FAILED)
		return BURST_ESYSTEM;
	if (p->magic != PAGE_MAGIC || p->version != LINK_VERSION) {
		link_unmap(p);
		return BURST_EREFUSED;
	}
	*page = p;
	return BURST_OK;
}

void link_unmap(struct shared *page) { munmap(page, sizeof *page); }

static int greet(int fd, struct shared **page)
{
	char words[32], answer[ANSWER_MAX];
	int file = -1;
	if (!is_ours(fd))
		return BURST_EREFUSED;
	snprintf(words, sizeof words, "hello %d", LINK_VERSION);
	int code = send_words(fd, words);
	if (code == BURST_OK)
		code = receive(fd, answer, sizeof answer, &file);
	if (code == BURST_OK)
		code = refusal(answer);
	if (code == BURST_OK)
		code = strcmp(answer, "welcome") == 0 && file >= 0 ? map_page(file, page) : BURST_EREFUSED;
	if (file >= 0) {
		int why = errno;
		close(file);
		errno = why;
	}
	return code;
}

int link_open(const char *path, int *fd, struct shared **page)
{
	int s = dial(path);
	if (s < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ECONNREFUSED ? BURST_OK : BURST_ESYSTEM;
	int code = greet(s, page);
	if (code != BURST_OK) {
		int why = errno;
		close(s);
		errno = why;
		return code;
	}
	*fd = s;
	return BURST_OK;
}
