/* checks.c - what scripts can look at: attributes, times, content, entries. */
#include "script.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "reg";
	case S_IFDIR:
		return "dir";
	case S_IFLNK:
		return "lnk";
	case S_IFIFO:
		return "fifo";
	case S_IFSOCK:
		return "sock";
	case S_IFCHR:
		return "chr";
	case S_IFBLK:
		return "blk";
	default:
		return "none";
	}
}

static bool same_inode(const struct stat *st, const char *path)
{
	struct stat other;

	if (lstat(path, &other) < 0)
		fail("%s: lstat %s: %s", world.step, path, text_errno(errno));
	return st->st_ino == other.st_ino && st->st_dev == other.st_dev;
}

/* One attribute in words, to be compared with what the script wants. */
static void show(const struct stat *st, const char *key, char *text, size_t size)
{
	if (strcmp(key, "mode") == 0)
		snprintf(text, size, "%o", (unsigned)st->st_mode & 07777);
	else if (strcmp(key, "type") == 0)
		snprintf(text, size, "%s", type_name(st->st_mode));
	else if (strcmp(key, "nlink") == 0)
		snprintf(text, size, "%lu", (unsigned long)st->st_nlink);
	else if (strcmp(key, "size") == 0)
		snprintf(text, size, "%lld", (long long)st->st_size);
	else if (strcmp(key, "uid") == 0)
		snprintf(text, size, "%u", (unsigned)st->st_uid);
	else if (strcmp(key, "gid") == 0)
		snprintf(text, size, "%u", (unsigned)st->st_gid);
	else if (strcmp(key, "rdev") == 0)
		snprintf(text, size, "%u:%u", major(st->st_rdev), minor(st->st_rdev));
	else if (strcmp(key, "blocks") == 0)
		snprintf(text, size, "%s", st->st_blocks ? "some" : "0");
	else if (strcmp(key, "atime") == 0)
		snprintf(text, size, "%lld.%ld", (long long)st->st_atim.tv_sec,
			 st->st_atim.tv_nsec);
	else if (strcmp(key, "mtime") == 0)
		snprintf(text, size, "%lld.%ld", (long long)st->st_mtim.tv_sec,
			 st->st_mtim.tv_nsec);
	else
		fail("%s: no such attribute '%s'", world.step, key);
}

/* "key=value" of a stat. */
static void check_attr(const struct stat *st, const char *word)
{
	const char *value = strchr(word, '=');
	char key[16], got[64], want[64];

	if (!value)
		fail("%s: '%s' wants nothing", world.step, word);
	snprintf(key, sizeof(key), "%.*s", (int)(value - word), word);
	value++;
	if (strcmp(key, "same") == 0 || strcmp(key, "other") == 0) {
		if (same_inode(st, value) != (key[0] == 's'))
			fail("%s: not so", world.step);
		return;
	}
	show(st, key, got, sizeof(got));
	snprintf(want, sizeof(want), "%s", value);
	if (strcmp(key, "uid") == 0 || strcmp(key, "gid") == 0)
		snprintf(want, sizeof(want), "%u", (unsigned)word_id(value));
	if (strcmp(want, got) != 0)
		fail("%s: %s is %s", world.step, key, got);
}

static long check_attrs(const struct stat *st, char *const *words)
{
	for (; *words; words++)
		check_attr(st, *words);
	return 0;
}

static long c_stat(char *const *v)
{
	struct stat st;

	return stat(v[1], &st) < 0 ? -errno : check_attrs(&st, v + 2);
}

static long c_lstat(char *const *v)
{
	struct stat st;

	return lstat(v[1], &st) < 0 ? -errno : check_attrs(&st, v + 2);
}

static long c_fstat(char *const *v)
{
	struct stat st;

	return fstat(word_fd(v[1]), &st) < 0 ? -errno : check_attrs(&st, v + 2);
}

/* ---- times ---- */

#define KEPT_MAX 8
static struct {
	char path[128];
	struct stat st;
} kept[KEPT_MAX];
static int kept_count;

/* Remember the times of a path (links are not followed) and let the clock go on. */
static long c_keep(char *const *v)
{
	for (; *++v;) {
		int i = 0;

		while (i < kept_count && strcmp(kept[i].path, *v) != 0)
			i++;
		if (i == KEPT_MAX)
			fail("%s: keeps too much", world.step);
		snprintf(kept[i].path, sizeof(kept[i].path), "%s", *v);
		if (lstat(*v, &kept[i].st) < 0)
			return -errno;
		if (i == kept_count)
			kept_count++;
	}
	wait_tick();
	return 0;
}

static bool later(struct timespec a, struct timespec b)
{
	return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

/* Which of `letters` moved since keep, in words. */
static void moved(const char *path, const char *letters, char *text)
{
	struct stat st;
	int i = 0;

	while (i < kept_count && strcmp(kept[i].path, path) != 0)
		i++;
	if (i == kept_count || lstat(path, &st) < 0)
		fail("%s: was not kept", world.step);
	if (strchr(letters, 'a') && later(st.st_atim, kept[i].st.st_atim))
		*text++ = 'a';
	if (strchr(letters, 'm') && later(st.st_mtim, kept[i].st.st_mtim))
		*text++ = 'm';
	if (strchr(letters, 'c') && later(st.st_ctim, kept[i].st.st_ctim))
		*text++ = 'c';
	*text = '\0';
}

/* Exactly these of m and c moved since keep; "-" is none. */
static long c_times(char *const *v)
{
	char text[4];

	moved(v[1], "mc", text);
	if (strcmp(text, strcmp(v[2], "-") == 0 ? "" : v[2]) != 0)
		fail("%s: moved: '%s'", world.step, text);
	return 0;
}

/* The same of atime: "a" or "-". */
static long c_atime(char *const *v)
{
	char text[4];

	moved(v[1], "a", text);
	if (strcmp(text, strcmp(v[2], "-") == 0 ? "" : v[2]) != 0)
		fail("%s: moved: '%s'", world.step, text);
	return 0;
}

static int64_t ns_of(struct timespec t)
{
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* All three times of a path are of the last second. */
static long c_fresh(char *const *v)
{
	int64_t now = clock_now();
	struct stat st;
	int64_t times[3];

	if (lstat(v[1], &st) < 0)
		return -errno;
	times[0] = ns_of(st.st_atim);
	times[1] = ns_of(st.st_mtim);
	times[2] = ns_of(st.st_ctim);
	for (int i = 0; i < 3; i++)
		if (times[i] > now || times[i] < now - 20000000000)
			fail("%s: %c is %lld ns off", world.step, "amc"[i],
			     (long long)now - (long long)times[i]);
	return 0;
}

/* ---- content and entries ---- */

/* A whole small file is this text. */
static long c_content(char *const *v)
{
	char bytes[4096];
	int fd = open(v[1], O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, bytes, sizeof(bytes));
	if (n < 0)
		n = -errno;
	close(fd);
	if (n >= 0 && ((size_t)n != strlen(v[2]) || memcmp(bytes, v[2], (size_t)n) != 0))
		fail("%s: is '%.*s'", world.step, (int)n, bytes);
	return n;
}

/* fd, offset, length, letter (0: NUL): all of these bytes are that. */
static long c_bytes(char *const *v)
{
	off_t at = (off_t)word_number(v[2]);
	size_t left = word_number(v[3]);
	char want = (char)(v[4][0] == '0' ? '\0' : v[4][0]);
	char bytes[65536];

	while (left > 0) {
		ssize_t n = pread(word_fd(v[1]), bytes, left < sizeof(bytes) ? left : sizeof(bytes),
				  at);

		if (n < 0)
			return -errno;
		if (n == 0)
			fail("%s: ends at %lld", world.step, (long long)at);
		for (ssize_t i = 0; i < n; i++)
			if (bytes[i] != want)
				fail("%s: byte %jd is 0x%02x", world.step,
				     (intmax_t)at + (intmax_t)i, (unsigned char)bytes[i]);
		at += n;
		left -= (size_t)n;
	}
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The entries of a directory without "." and "..", sorted: "a,b,c", or "-" for none. */
static long c_ls(char *const *v)
{
	char names[64][256], text[2048] = "";
	char *sorted[64];
	const struct dirent *entry;
	size_t count = 0, len = 0;
	int dots = 0;
	DIR *dir = opendir(v[1]);

	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
			dots++;
			continue;
		}
		if (count == ARRAY_LEN(names))
			fail("%s: too many", world.step);
		snprintf(names[count], sizeof(names[0]), "%s", entry->d_name);
		sorted[count] = names[count];
		count++;
	}
	closedir(dir);
	qsort(sorted, count, sizeof(sorted[0]), by_text);
	for (size_t i = 0; i < count && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i ? "," : "",
					sorted[i]);
	if (strcmp(text, strcmp(v[2], "-") == 0 ? "" : v[2]) != 0)
		fail("%s: '%s'", world.step, text);
	if (dots != 2)
		fail("%s: %d of the two dots", world.step, dots);
	return 0;
}

static long c_readlink(char *const *v)
{
	char target[4097];
	ssize_t n = readlink(v[1], target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	if (v[2] && strcmp(target, v[2]) != 0)
		fail("%s: is '%.60s'", world.step, target);
	return n;
}

static long c_tick(char *const *v)
{
	(void)v;
	wait_tick();
	return 0;
}

const struct call checks[] = {
	{"atime", 2, 2, c_atime}, {"bytes", 4, 4, c_bytes}, {"content", 2, 2, c_content},
	{"fresh", 1, 1, c_fresh}, {"fstat", 1, 9, c_fstat}, {"keep", 1, 8, c_keep},
	{"ls", 2, 2, c_ls},       {"lstat", 1, 9, c_lstat}, {"readlink", 1, 2, c_readlink},
	{"stat", 1, 9, c_stat},   {"tick", 0, 0, c_tick},   {"times", 2, 2, c_times},
	{NULL, 0, 0, NULL},
};
