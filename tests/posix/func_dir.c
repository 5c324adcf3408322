/* func_dir.c - reading directories while they change, telldir and seekdir, many entries. */
#include "script.h"

#include "base/mem.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 2000

static void make(const char *dir, int i)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/file-%05d", dir, i);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	CHECK(fd >= 0);
	close(fd);
}

static void make_many(const char *dir)
{
	CHECK(mkdir(dir, 0755) == 0);
	for (int i = 0; i < MANY; i++)
		make(dir, i);
}

static int number_of(const char *name)
{
	int n = 0;

	if (strncmp(name, "file-", 5) != 0)
		return -1;
	for (name += 5; *name; name++)
		n = n * 10 + (*name - '0');
	return n;
}

/* Every file exactly once, and both dots. */
static void many_seen_once(void)
{
	unsigned char seen[MANY] = {0};
	const struct dirent *e;
	int dots = 0, n = 0;
	DIR *dir;

	make_many("d");
	dir = opendir("d");
	CHECK(dir);
	while ((e = readdir(dir))) {
		int i = number_of(e->d_name);

		if (i < 0) {
			dots++;
			continue;
		}
		CHECK(i < MANY && !seen[i]);
		CHECK(e->d_type == DT_REG || e->d_type == DT_UNKNOWN);
		seen[i] = 1;
		n++;
	}
	CHECK(n == MANY && dots == 2);
	closedir(dir);
}

/* The classic rm loop: unlink what was just read; nothing is missed. */
static void unlink_while_reading(void)
{
	const struct dirent *e;
	int n = 0;
	DIR *dir;

	make_many("d");
	dir = opendir("d");
	CHECK(dir);
	while ((e = readdir(dir)))
		if (number_of(e->d_name) >= 0) {
			CHECK(unlinkat(dirfd(dir), e->d_name, 0) == 0);
			n++;
		}
	closedir(dir);
	CHECK(n == MANY);
	CHECK(rmdir("d") == 0);
}

/* Files that are there from before until after are seen once, whatever else comes and goes. */
static void change_while_reading(void)
{
	unsigned char seen[MANY] = {0};
	char path[64];
	const struct dirent *e;
	int step = 0;
	DIR *dir;

	make_many("d");
	dir = opendir("d");
	CHECK(dir);
	while ((e = readdir(dir))) {
		int i = number_of(e->d_name);

		if (i >= 0 && i < MANY) {
			CHECK(!seen[i]);
			seen[i] = 1;
		}
		if (step < MANY) { /* one new, and an odd one gone */
			make("d", MANY + step);
			snprintf(path, sizeof(path), "d/file-%05d", step | 1);
			unlink(path);
		}
		step++;
	}
	closedir(dir);
	for (int i = 0; i < MANY; i += 2)
		CHECK(seen[i]);
}

static void seek_to_every_place(void)
{
	static long places[300];
	static char names[300][32];
	const struct dirent *e;
	int n = 0;
	DIR *dir;

	CHECK(mkdir("d", 0755) == 0);
	for (int i = 0; i < 290; i++)
		make("d", i);
	dir = opendir("d");
	CHECK(dir);
	for (;;) {
		places[n] = telldir(dir);
		e = readdir(dir);
		if (!e)
			break;
		snprintf(names[n++], sizeof(names[0]), "%.31s", e->d_name);
	}
	CHECK(n == 292);
	for (int i = n - 1; i >= 0; i -= 7) {
		seekdir(dir, places[i]);
		e = readdir(dir);
		CHECK(e && strcmp(e->d_name, names[i]) == 0);
	}
	seekdir(dir, places[n]);
	CHECK(!readdir(dir));
	closedir(dir);
}

/* A place stays good when entries before and after it go. */
static void seek_after_unlinks(void)
{
	const struct dirent *e;
	unsigned char before[400] = {0};
	char path[64];
	long place = 0;
	int n = 0;
	DIR *dir;

	CHECK(mkdir("d", 0755) == 0);
	for (int i = 0; i < 400; i++)
		make("d", i);
	dir = opendir("d");
	CHECK(dir);
	while (n < 200 && (e = readdir(dir))) {
		if (number_of(e->d_name) >= 0) {
			before[number_of(e->d_name)] = 1;
			n++;
		}
		place = telldir(dir);
	}
	for (int i = 0; i < 400; i++)
		if (before[i]) {
			snprintf(path, sizeof(path), "d/file-%05d", i);
			CHECK(unlink(path) == 0);
		}
	seekdir(dir, place);
	n = 0;
	while ((e = readdir(dir)))
		if (number_of(e->d_name) >= 0) {
			CHECK(!before[number_of(e->d_name)]);
			n++;
		}
	CHECK(n == 200);
	closedir(dir);
}

static void rewind_sees_new(void)
{
	const struct dirent *e;
	bool seen = false;
	DIR *dir;

	CHECK(mkdir("d", 0755) == 0);
	dir = opendir("d");
	CHECK(dir);
	while (readdir(dir))
		;
	make("d", 7);
	rewinddir(dir);
	while ((e = readdir(dir)))
		seen |= number_of(e->d_name) == 7;
	CHECK(seen);
	closedir(dir);
}

static void types_and_inodes(void)
{
	static const struct {
		const char *name;
		unsigned char type;
	} want[] = {{"reg", DT_REG}, {"dir", DT_DIR}, {"lnk", DT_LNK}, {"fifo", DT_FIFO}};
	const struct dirent *e;
	struct stat st;
	size_t n = 0;
	DIR *dir;

	make(".", 1);
	CHECK(mkdir("d", 0755) == 0 && mkdir("d/dir", 0755) == 0);
	CHECK(rename("file-00001", "d/reg") == 0 && symlink("x", "d/lnk") == 0);
	CHECK(mkfifo("d/fifo", 0644) == 0);
	dir = opendir("d");
	CHECK(dir);
	while ((e = readdir(dir))) {
		CHECK(fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0);
		if (strcmp(e->d_name, "..") != 0)
			CHECK(st.st_ino == e->d_ino);
		for (size_t i = 0; i < ARRAY_LEN(want); i++)
			if (strcmp(e->d_name, want[i].name) == 0) {
				CHECK(e->d_type == want[i].type);
				n++;
			}
	}
	CHECK(n == 4);
	closedir(dir);
}

/* A directory that was removed while open has no entries, not even the dots. */
static void removed_is_empty(void)
{
	DIR *dir;

	CHECK(mkdir("d", 0755) == 0);
	dir = opendir("d");
	CHECK(dir && rmdir("d") == 0);
	errno = 0;
	CHECK(!readdir(dir));
	CHECK(errno == 0 || errno == ENOENT);
	closedir(dir);
}

static void many_links(void)
{
	char path[32];
	struct stat st;

	make(".", 0);
	for (int i = 1; i <= 1000; i++) {
		snprintf(path, sizeof(path), "link-%d", i);
		CHECK(link("file-00000", path) == 0);
	}
	CHECK(stat("file-00000", &st) == 0 && st.st_nlink == 1001);
	for (int i = 1; i <= 1000; i++) {
		snprintf(path, sizeof(path), "link-%d", i);
		CHECK(unlink(path) == 0);
	}
	CHECK(stat("file-00000", &st) == 0 && st.st_nlink == 1);
}

static void deep_tree(void)
{
	int depth = 0;
	int root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	CHECK(root >= 0);
	for (; depth < 200; depth++)
		CHECK(mkdir("deeper-and-deeper-and-deeper", 0755) == 0 &&
		      chdir("deeper-and-deeper-and-deeper") == 0);
	make(".", 1);
	CHECK(unlink("file-00001") == 0);
	for (; depth > 0; depth--)
		CHECK(chdir("..") == 0 && rmdir("deeper-and-deeper-and-deeper") == 0);
	CHECK(fchdir(root) == 0);
}

static int make_range(void *arg)
{
	int first = *(const int *)arg;

	for (int i = first; i < first + 300; i++)
		make("d", i);
	return 0;
}

/* Four processes fill one directory. */
static void many_writers(void)
{
	const struct dirent *e;
	int first[4] = {0, 300, 600, 900};
	pid_t pid[4];
	int n = 0;
	DIR *dir;

	CHECK(mkdir("d", 0755) == 0);
	for (int i = 0; i < 4; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (pid[i] == 0)
			_exit(make_range(&first[i]));
	}
	for (int i = 0; i < 4; i++)
		CHECK(in_child(make_range, &first[i]) == 0); /* the same names once more */
	for (int i = 0; i < 4; i++) {
		siginfo_t info;

		CHECK(waitid(P_PID, (id_t)pid[i], &info, WEXITED) == 0 && info.si_status == 0);
	}
	dir = opendir("d");
	CHECK(dir);
	while ((e = readdir(dir)))
		n += number_of(e->d_name) >= 0;
	CHECK(n == 1200);
	closedir(dir);
}

const struct posix_case func_dir[] = {
	FUNC("readdir/many-seen-once", many_seen_once),
	FUNC("readdir/unlink-while-reading", unlink_while_reading),
	FUNC("readdir/change-while-reading", change_while_reading),
	FUNC("readdir/seek-to-every-place", seek_to_every_place),
	FUNC("readdir/seek-after-unlinks", seek_after_unlinks),
	FUNC("readdir/rewind-sees-new", rewind_sees_new),
	FUNC("readdir/types-and-inodes", types_and_inodes),
	FUNC("readdir/removed-is-empty", removed_is_empty),
	FUNC("readdir/many-writers", many_writers),
	FUNC("link/many", many_links),
	FUNC("mkdir/deep-tree", deep_tree),
	CASES_END,
};
