/* calls.c - the calls that scripts make, one row each. */
#include "script.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/falloc.h>
#include <linux/fs.h>

static long sys(long r)
{
	return r < 0 ? -errno : r;
}

struct name_value {
	const char *name;
	int value;
};

/* "a,b,c" as the sum of the values of its names. */
static int word_flags(const char *word, const struct name_value *names)
{
	int flags = 0;

	for (;;) {
		size_t len = strcspn(word, ",");
		const struct name_value *n = names;

		while (n->name && (strlen(n->name) != len || strncmp(n->name, word, len) != 0))
			n++;
		if (!n->name)
			fail("%s: no such flag '%s'", world.step, word);
		flags |= n->value;
		if (!word[len])
			return flags;
		word += len + 1;
	}
}

static const struct name_value open_flags[] = {
	{"rdonly", O_RDONLY},     {"wronly", O_WRONLY},       {"rdwr", O_RDWR},
	{"acc3", O_ACCMODE},      {"append", O_APPEND},       {"creat", O_CREAT},
	{"direct", O_DIRECT},     {"directory", O_DIRECTORY}, {"dsync", O_DSYNC},
	{"excl", O_EXCL},         {"noatime", O_NOATIME},     {"nofollow", O_NOFOLLOW},
	{"nonblock", O_NONBLOCK}, {"path", O_PATH},           {"sync", O_SYNC},
	{"tmpfile", O_TMPFILE},   {"trunc", O_TRUNC},         {NULL, 0},
};

/* ---- names ---- */

static long c_open(char *const *v)
{
	mode_t mode = v[2] && v[3] ? word_octal(v[3]) : 0;

	return sys(open(v[1], word_flags(v[2], open_flags) | O_CLOEXEC, mode));
}

static long c_openat(char *const *v)
{
	mode_t mode = v[3] && v[4] ? word_octal(v[4]) : 0;

	return sys(openat(word_fd(v[1]), v[2], word_flags(v[3], open_flags) | O_CLOEXEC, mode));
}

/* creat(2) and close. */
static long c_creat(char *const *v)
{
	int fd = open(v[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
		      v[2] ? word_octal(v[2]) : 0644);

	return fd < 0 ? -errno : sys(close(fd));
}

/* A whole file with this content. */
static long c_put(char *const *v)
{
	int fd = open(v[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = sys(write(fd, v[2], strlen(v[2])));
	close(fd);
	return n;
}

static long c_close(char *const *v)
{
	return sys(close(word_fd(v[1])));
}

static long c_mkdir(char *const *v)
{
	return sys(mkdir(v[1], v[2] ? word_octal(v[2]) : 0755));
}

static long c_rmdir(char *const *v)
{
	return sys(rmdir(v[1]));
}

static long c_unlink(char *const *v)
{
	return sys(unlink(v[1]));
}

static long c_unlinkat(char *const *v)
{
	return sys(unlinkat(word_fd(v[1]), v[2], 0));
}

static long c_rename(char *const *v)
{
	return sys(rename(v[1], v[2]));
}

static const struct name_value rename_flags[] = {
	{"noreplace", RENAME_NOREPLACE},
	{"exchange", RENAME_EXCHANGE},
	{"whiteout", RENAME_WHITEOUT},
	{NULL, 0},
};

static long c_rename2(char *const *v)
{
	return sys(renameat2(AT_FDCWD, v[1], AT_FDCWD, v[2],
			     (unsigned)word_flags(v[3], rename_flags)));
}

static long c_link(char *const *v)
{
	return sys(link(v[1], v[2]));
}

static long c_linkf(char *const *v)
{
	return sys(linkat(AT_FDCWD, v[1], AT_FDCWD, v[2], AT_SYMLINK_FOLLOW));
}

/* Give the open file a name, as open(2) describes for O_TMPFILE. */
static long c_linkfd(char *const *v)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", word_fd(v[1]));
	return sys(linkat(AT_FDCWD, path, AT_FDCWD, v[2], AT_SYMLINK_FOLLOW));
}

static long c_symlink(char *const *v)
{
	return sys(symlink(v[1], v[2]));
}

static long c_mknod(char *const *v)
{
	static const struct name_value types[] = {
		{"reg", S_IFREG}, {"fifo", S_IFIFO}, {"sock", S_IFSOCK}, {"chr", S_IFCHR},
		{"blk", S_IFBLK}, {"dir", S_IFDIR},  {NULL, 0}};
	dev_t dev = 0;

	if (v[3] && v[4] && v[5])
		dev = makedev((unsigned)word_number(v[4]), (unsigned)word_number(v[5]));
	return sys(mknod(v[1], (mode_t)word_flags(v[2], types) | word_octal(v[3]), dev));
}

static long c_mkfifo(char *const *v)
{
	return sys(mkfifo(v[1], word_octal(v[2])));
}

static long c_bind(char *const *v)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	long r;

	if (fd < 0)
		return -errno;
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", v[1]);
	r = sys(bind(fd, (const struct sockaddr *)&addr, sizeof(addr)));
	close(fd);
	return r;
}

static long c_chdir(char *const *v)
{
	return sys(chdir(v[1]));
}

static long c_fchdir(char *const *v)
{
	return sys(fchdir(word_fd(v[1])));
}

static long c_statfs(char *const *v)
{
	struct statvfs st;

	return sys(statvfs(v[1], &st));
}

/* ---- attributes ---- */

static long c_umask(char *const *v)
{
	umask(word_octal(v[1]));
	return 0;
}

static long c_chmod(char *const *v)
{
	return sys(chmod(v[1], word_octal(v[2])));
}

static long c_fchmod(char *const *v)
{
	return sys(fchmod(word_fd(v[1]), word_octal(v[2])));
}

static long c_chown(char *const *v)
{
	return sys(chown(v[1], word_id(v[2]), word_id(v[3])));
}

static long c_lchown(char *const *v)
{
	return sys(lchown(v[1], word_id(v[2]), word_id(v[3])));
}

static long c_fchown(char *const *v)
{
	return sys(fchown(word_fd(v[1]), word_id(v[2]), word_id(v[3])));
}

/* now, omit, bad (an invalid number of ns) or SECONDS[.NANOSECONDS]. */
static struct timespec word_time(const char *word)
{
	struct timespec t = {0};
	const char *dot;
	char seconds[32];

	if (strcmp(word, "now") == 0)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	if (strcmp(word, "omit") == 0)
		return (struct timespec){.tv_nsec = UTIME_OMIT};
	if (strcmp(word, "bad") == 0)
		return (struct timespec){.tv_nsec = 1000000000};
	dot = strchrnul(word, '.');
	snprintf(seconds, sizeof(seconds), "%.*s", (int)(dot - word), word);
	if (seconds[0] == '-')
		t.tv_sec = -(time_t)word_number(seconds + 1);
	else
		t.tv_sec = (time_t)word_number(seconds);
	if (*dot)
		t.tv_nsec = (long)word_number(dot + 1);
	return t;
}

static long c_utimens(char *const *v)
{
	struct timespec times[2] = {word_time(v[2]), word_time(v[3])};

	return sys(utimensat(AT_FDCWD, v[1], times, 0));
}

static long c_lutimens(char *const *v)
{
	struct timespec times[2] = {word_time(v[2]), word_time(v[3])};

	return sys(utimensat(AT_FDCWD, v[1], times, AT_SYMLINK_NOFOLLOW));
}

static long c_futimens(char *const *v)
{
	struct timespec times[2] = {word_time(v[2]), word_time(v[3])};

	return sys(futimens(word_fd(v[1]), times));
}

static int word_access(const char *word)
{
	int mode = F_OK;

	mode |= strchr(word, 'r') ? R_OK : 0;
	mode |= strchr(word, 'w') ? W_OK : 0;
	mode |= strchr(word, 'x') ? X_OK : 0;
	return mode;
}

static long c_access(char *const *v)
{
	return sys(access(v[1], word_access(v[2])));
}

static long c_eaccess(char *const *v)
{
	return sys(faccessat(AT_FDCWD, v[1], word_access(v[2]), AT_EACCESS));
}

/* Act as another user from here on; root is kept in the saved id. */
static long c_as(char *const *v)
{
	become(strcmp(v[1], "root") == 0 ? 0 : word_id(v[1]), v[2] ? word_id(v[2]) : 0);
	return 0;
}

/* ---- content ---- */

static long c_write(char *const *v)
{
	return sys(write(word_fd(v[1]), v[2], strlen(v[2])));
}

static long c_pwrite(char *const *v)
{
	return sys(pwrite(word_fd(v[1]), v[3], strlen(v[3]), (off_t)word_number(v[2])));
}

/* fd, offset, length, letter: so many of that letter there. */
static long c_fill(char *const *v)
{
	size_t left = word_number(v[3]);
	off_t at = (off_t)word_number(v[2]);
	char bytes[65536];
	ssize_t n;

	memset(bytes, v[4][0], sizeof(bytes));
	while (left > 0) {
		n = pwrite(word_fd(v[1]), bytes, left < sizeof(bytes) ? left : sizeof(bytes), at);
		if (n < 0)
			return -errno;
		at += n;
		left -= (size_t)n;
	}
	return 0;
}

/* The count; the bytes must be those given, if given. */
static long c_read(char *const *v)
{
	char bytes[4096];
	size_t want = word_number(v[2]);
	ssize_t n = read(word_fd(v[1]), bytes, want < sizeof(bytes) ? want : sizeof(bytes));

	if (n >= 0 && v[3] && ((size_t)n != strlen(v[3]) || memcmp(bytes, v[3], (size_t)n) != 0))
		fail("%s: read '%.*s'", world.step, (int)n, bytes);
	return sys(n);
}

static long c_truncate(char *const *v)
{
	off_t size = v[2][0] == '-' ? -1 : (off_t)word_number(v[2]);

	return sys(truncate(v[1], size));
}

static long c_ftruncate(char *const *v)
{
	off_t size = v[2][0] == '-' ? -1 : (off_t)word_number(v[2]);

	return sys(ftruncate(word_fd(v[1]), size));
}

static long c_lseek(char *const *v)
{
	static const struct name_value whences[] = {
		{"set", SEEK_SET},   {"cur", SEEK_CUR}, {"end", SEEK_END}, {"data", SEEK_DATA},
		{"hole", SEEK_HOLE}, {"bad", 99},       {NULL, 0}};
	off_t offset = v[2][0] == '-' ? -(off_t)word_number(v[2] + 1) : (off_t)word_number(v[2]);

	return sys(lseek(word_fd(v[1]), offset, word_flags(v[3], whences)));
}

static long c_fallocate(char *const *v)
{
	static const struct name_value modes[] = {{"plain", 0},
						  {"keep", FALLOC_FL_KEEP_SIZE},
						  {"punch", FALLOC_FL_PUNCH_HOLE},
						  {"zero", FALLOC_FL_ZERO_RANGE},
						  {"collapse", FALLOC_FL_COLLAPSE_RANGE},
						  {NULL, 0}};

	return sys(fallocate(word_fd(v[1]), word_flags(v[2], modes), (off_t)word_number(v[3]),
			     (off_t)word_number(v[4])));
}

/* fd, offset, fd, offset, length */
static long c_copy(char *const *v)
{
	off_t from = (off_t)word_number(v[2]);
	off_t to = (off_t)word_number(v[4]);

	return sys(copy_file_range(word_fd(v[1]), &from, word_fd(v[3]), &to, word_number(v[5]), 0));
}

static long c_fsync(char *const *v)
{
	return sys(fsync(word_fd(v[1])));
}

static long c_fdatasync(char *const *v)
{
	return sys(fdatasync(word_fd(v[1])));
}

static long c_flock(char *const *v)
{
	static const struct name_value operations[] = {
		{"sh", LOCK_SH | LOCK_NB}, {"ex", LOCK_EX | LOCK_NB}, {"un", LOCK_UN}, {NULL, 0}};

	return sys(flock(word_fd(v[1]), word_flags(v[2], operations)));
}

/* fd, r|w|un, start, length: a record lock that belongs to the open file description. */
static long c_ofdlock(char *const *v)
{
	struct flock lock = {.l_whence = SEEK_SET,
			     .l_start = (off_t)word_number(v[3]),
			     .l_len = (off_t)word_number(v[4])};

	lock.l_type = (short)(v[2][0] == 'r' ? F_RDLCK : v[2][0] == 'w' ? F_WRLCK : F_UNLCK);
	return sys(fcntl(word_fd(v[1]), F_OFD_SETLK, &lock));
}

/* ---- extended attributes ---- */

static const struct name_value xattr_flags[] = {
	{"create", XATTR_CREATE},
	{"replace", XATTR_REPLACE},
	{NULL, 0},
};

static long c_setxattr(char *const *v)
{
	int flags = v[4] ? word_flags(v[4], xattr_flags) : 0;

	return sys(setxattr(v[1], v[2], v[3], strlen(v[3]), flags));
}

static long c_lsetxattr(char *const *v)
{
	return sys(lsetxattr(v[1], v[2], v[3], strlen(v[3]), 0));
}

static long c_fsetxattr(char *const *v)
{
	return sys(fsetxattr(word_fd(v[1]), v[2], v[3], strlen(v[3]), 0));
}

static long c_getxattr(char *const *v)
{
	char value[4096];
	ssize_t n = getxattr(v[1], v[2], value, sizeof(value));

	if (n >= 0 && v[3] && ((size_t)n != strlen(v[3]) || memcmp(value, v[3], (size_t)n) != 0))
		fail("%s: value '%.*s'", world.step, (int)n, value);
	return sys(n);
}

/* Only the size; or with a buffer of so many bytes. */
static long c_getxattrn(char *const *v)
{
	char value[4096];
	size_t size = word_number(v[3]);

	if (size > sizeof(value))
		size = sizeof(value);
	return sys(getxattr(v[1], v[2], size ? value : NULL, size));
}

/* The size of the list in bytes. */
static long c_listxattr(char *const *v)
{
	char names[8192];

	return sys(listxattr(v[1], names, sizeof(names)));
}

static long c_removexattr(char *const *v)
{
	return sys(removexattr(v[1], v[2]));
}

const struct call calls[] = {
	{"access", 2, 2, c_access},
	{"as", 1, 2, c_as},
	{"bind", 1, 1, c_bind},
	{"chdir", 1, 1, c_chdir},
	{"chmod", 2, 2, c_chmod},
	{"chown", 3, 3, c_chown},
	{"close", 1, 1, c_close},
	{"copy", 5, 5, c_copy},
	{"creat", 1, 2, c_creat},
	{"eaccess", 2, 2, c_eaccess},
	{"fallocate", 4, 4, c_fallocate},
	{"fchdir", 1, 1, c_fchdir},
	{"fchmod", 2, 2, c_fchmod},
	{"fchown", 3, 3, c_fchown},
	{"fdatasync", 1, 1, c_fdatasync},
	{"fill", 4, 4, c_fill},
	{"flock", 2, 2, c_flock},
	{"fsetxattr", 3, 3, c_fsetxattr},
	{"fsync", 1, 1, c_fsync},
	{"ftruncate", 2, 2, c_ftruncate},
	{"futimens", 3, 3, c_futimens},
	{"getxattr", 2, 3, c_getxattr},
	{"getxattrn", 3, 3, c_getxattrn},
	{"lchown", 3, 3, c_lchown},
	{"link", 2, 2, c_link},
	{"linkf", 2, 2, c_linkf},
	{"linkfd", 2, 2, c_linkfd},
	{"listxattr", 1, 1, c_listxattr},
	{"lseek", 3, 3, c_lseek},
	{"lsetxattr", 3, 3, c_lsetxattr},
	{"lutimens", 3, 3, c_lutimens},
	{"mkdir", 1, 2, c_mkdir},
	{"mkfifo", 2, 2, c_mkfifo},
	{"mknod", 3, 5, c_mknod},
	{"ofdlock", 4, 4, c_ofdlock},
	{"open", 2, 3, c_open},
	{"openat", 3, 4, c_openat},
	{"put", 2, 2, c_put},
	{"pwrite", 3, 3, c_pwrite},
	{"read", 2, 3, c_read},
	{"removexattr", 2, 2, c_removexattr},
	{"rename", 2, 2, c_rename},
	{"rename2", 3, 3, c_rename2},
	{"rmdir", 1, 1, c_rmdir},
	{"setxattr", 3, 4, c_setxattr},
	{"statfs", 1, 1, c_statfs},
	{"symlink", 2, 2, c_symlink},
	{"truncate", 2, 2, c_truncate},
	{"umask", 1, 1, c_umask},
	{"unlink", 1, 1, c_unlink},
	{"unlinkat", 2, 2, c_unlinkat},
	{"utimens", 3, 3, c_utimens},
	{"write", 2, 2, c_write},
	{NULL, 0, 0, NULL},
};
