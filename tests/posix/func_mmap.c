/* func_mmap.c - mapped files. */
#include "script.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

static int make(const char *name, size_t size)
{
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	return fd;
}

static char *map(int fd, size_t len, int prot, int flags)
{
	char *p = mmap(NULL, len, prot, flags, fd, 0);

	CHECK(p != MAP_FAILED);
	return p;
}

static void shared_write_seen_by_read(void)
{
	char got[6] = "";
	int fd = make("f", PAGE);
	char *p = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);

	memset(p + 10, 'h', 5);
	CHECK(pread(fd, got, 5, 10) == 5 && memcmp(got, "hhhhh", 5) == 0);
}

static void write_seen_by_mapping(void)
{
	int fd = make("f", PAGE);
	const char *p = map(fd, PAGE, PROT_READ, MAP_SHARED);

	CHECK(p[0] == 0);
	CHECK(pwrite(fd, "hello", 5, 0) == 5);
	CHECK(memcmp(p, "hello", 5) == 0);
}

static void shared_survives_close_and_unlink(void)
{
	int fd = make("f", PAGE);
	char *p = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);

	p[0] = 'a';
	close(fd);
	CHECK(unlink("f") == 0);
	p[1] = 'b';
	CHECK(p[0] == 'a' && p[1] == 'b' && p[2] == 0);
}

static void msync_then_reopen(void)
{
	char got[3] = "";
	int fd = make("f", 3 * PAGE);
	char *p = map(fd, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);

	p[0] = 'a';
	p[2 * PAGE] = 'c';
	CHECK(msync(p, 3 * PAGE, MS_SYNC) == 0);
	CHECK(munmap(p, 3 * PAGE) == 0);
	close(fd);
	fd = open("f", O_RDONLY | O_CLOEXEC);
	CHECK(pread(fd, got, 1, 0) == 1 && pread(fd, got + 1, 1, (off_t)(2 * PAGE)) == 1);
	CHECK(got[0] == 'a' && got[1] == 'c');
}

static void munmap_without_msync(void)
{
	char got = 0;
	int fd = make("f", PAGE);
	char *p = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);

	p[77] = 'x';
	CHECK(munmap(p, PAGE) == 0);
	close(fd);
	fd = open("f", O_RDONLY | O_CLOEXEC);
	CHECK(pread(fd, &got, 1, 77) == 1 && got == 'x');
}

static void private_write_stays_private(void)
{
	char got = 1;
	int fd = make("f", PAGE);
	char *p = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE);

	p[0] = 'x';
	CHECK(pread(fd, &got, 1, 0) == 1 && got == 0);
}

static void tail_of_last_page_is_zero(void)
{
	int fd = make("f", 100);
	const char *p = map(fd, PAGE, PROT_READ, MAP_SHARED);

	CHECK(pwrite(fd, "x", 1, 99) == 1);
	CHECK(p[99] == 'x');
	for (size_t i = 100; i < PAGE; i++)
		CHECK(p[i] == 0);
}

/* What a mapping leaves beyond the end must not come back when the file grows. */
static void tail_written_not_seen_after_growth(void)
{
	char got = 1;
	int fd = make("f", 100);
	char *p = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);

	p[200] = 'x';
	CHECK(ftruncate(fd, 300) == 0);
	CHECK(pread(fd, &got, 1, 200) == 1 && got == 0);
}

static void truncate_cuts_mapping(void)
{
	int fd = make("f", 2 * PAGE);
	char *p = map(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);

	memset(p, 'z', 2 * PAGE);
	CHECK(ftruncate(fd, 10) == 0);
	CHECK(p[9] == 'z' && p[10] == 0);
	CHECK(ftruncate(fd, (off_t)(2 * PAGE)) == 0);
	CHECK(p[10] == 0 && p[PAGE] == 0);
}

static char *trap_page;

static int touch_trap(void *arg)
{
	(void)arg;
	signal(SIGBUS, SIG_DFL);
	trap_page[0] = 'x';
	return 0;
}

/* Past the last page of the file: SIGBUS. */
static void beyond_end_is_sigbus(void)
{
	int fd = make("f", PAGE);
	int status;
	pid_t pid;

	trap_page = map(fd, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	trap_page += PAGE;
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		_exit(touch_trap(NULL));
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static int child_poke(void *arg)
{
	char *p = arg;

	p[5] = 'c';
	return p[0] == 'p' ? 0 : 1;
}

static void shared_between_processes(void)
{
	int fd = make("f", PAGE);
	char *p = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);

	p[0] = 'p';
	CHECK(in_child(child_poke, p) == 0);
	CHECK(p[5] == 'c');
}

static void two_mappings(void)
{
	int fd = make("f", PAGE);
	int fd2 = open("f", O_RDWR | O_CLOEXEC);
	char *p = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	const char *q = map(fd2, PAGE, PROT_READ, MAP_SHARED);

	p[9] = 'x';
	CHECK(q[9] == 'x');
}

static void needs_rights(void)
{
	int fd = make("f", PAGE);
	int ro = open("f", O_RDONLY | O_CLOEXEC);
	int wo = open("f", O_WRONLY | O_CLOEXEC);

	CHECK(fd >= 0 && ro >= 0 && wo >= 0);
	CHECK(mmap(NULL, PAGE, PROT_WRITE, MAP_SHARED, ro, 0) == MAP_FAILED && errno == EACCES);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, wo, 0) == MAP_FAILED && errno == EACCES);
	CHECK(mmap(NULL, PAGE, PROT_WRITE, MAP_PRIVATE, ro, 0) != MAP_FAILED);
	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 1) == MAP_FAILED && errno == EINVAL);
}

static void directory(void)
{
	int fd = open(".", O_RDONLY | O_CLOEXEC);

	CHECK(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENODEV);
}

/* A shared write moves mtime, at the latest with msync. */
static void write_moves_mtime(void)
{
	int fd = make("f", PAGE);
	char *p = map(fd, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED);
	struct stat before, after;

	CHECK(fsync(fd) == 0 && fstat(fd, &before) == 0);
	wait_tick();
	p[0] = 'x';
	CHECK(msync(p, PAGE, MS_SYNC) == 0 && fstat(fd, &after) == 0);
	CHECK(after.st_mtim.tv_sec > before.st_mtim.tv_sec ||
	      after.st_mtim.tv_nsec > before.st_mtim.tv_nsec);
}

static void hole_reads_zero_and_fills(void)
{
	char got = 0;
	int fd = make("f", 1 << 20);
	char *p = map(fd, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED);

	CHECK(p[500000] == 0);
	p[700000] = 'x';
	CHECK(msync(p, 1 << 20, MS_SYNC) == 0);
	CHECK(pread(fd, &got, 1, 700000) == 1 && got == 'x');
	CHECK(pread(fd, &got, 1, 699999) == 1 && got == 0);
}

static void big_random(void)
{
	unsigned char want[256], got[256];
	int fd = make("f", 3 << 20);
	char *p = map(fd, 3 << 20, PROT_READ | PROT_WRITE, MAP_SHARED);
	uint32_t x = 1;

	for (int i = 0; i < 200; i++) {
		size_t at = (x = x * 1664525 + 1013904223) % ((3 << 20) - 256);

		memset(want, i + 1, sizeof(want));
		if (i & 1)
			memcpy(p + at, want, sizeof(want));
		else
			CHECK(pwrite(fd, want, sizeof(want), (off_t)at) == sizeof(want));
		CHECK(memcmp(p + at, want, sizeof(want)) == 0);
		CHECK(pread(fd, got, sizeof(got), (off_t)at) == sizeof(got));
		CHECK(memcmp(got, want, sizeof(want)) == 0);
	}
}

const struct posix_case func_mmap[] = {
	FUNC("mmap/shared-write-seen-by-read", shared_write_seen_by_read),
	FUNC("mmap/write-seen-by-mapping", write_seen_by_mapping),
	FUNC("mmap/shared-survives-close-and-unlink", shared_survives_close_and_unlink),
	FUNC("mmap/msync-then-reopen", msync_then_reopen),
	FUNC("mmap/munmap-without-msync", munmap_without_msync),
	FUNC("mmap/private-write-stays-private", private_write_stays_private),
	FUNC("mmap/tail-of-last-page-is-zero", tail_of_last_page_is_zero),
	FUNC("mmap/tail-written-not-seen-after-growth", tail_written_not_seen_after_growth),
	FUNC("mmap/truncate-cuts-mapping", truncate_cuts_mapping),
	FUNC("mmap/beyond-end-is-sigbus", beyond_end_is_sigbus),
	FUNC("mmap/shared-between-processes", shared_between_processes),
	FUNC("mmap/two-mappings", two_mappings),
	FUNC("mmap/needs-rights", needs_rights),
	FUNC("mmap/directory", directory),
	FUNC("mmap/write-moves-mtime", write_moves_mtime),
	FUNC("mmap/hole-reads-zero-and-fills", hole_reads_zero_and_fills),
	FUNC("mmap/big-random", big_random),
	CASES_END,
};
