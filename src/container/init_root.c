/* init_root.c - what a container's commands see as "/".
 *
 * While it is built, the new root is the working directory and names in it are relative; absolute
 * names are the host's.
 */
#include "container/init_i.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HOST_FILE_MAX (4 << 20)
#define ROOT_SIZE "16m"
#define PTS_OPTIONS "newinstance,ptmxmode=0666,mode=620"
#define ROOT_INODES "8192"
#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

static int make_dir(const char *path, mode_t mode)
{
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		return -1;
	return 0;
}

static int make_parents(const char *path)
{
	char part[PATH_MAX];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (make_dir(part, 0755) < 0)
			return -1;
	}
	return 0;
}

static int make_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	size_t len = strlen(text);
	bool written;

	if (fd < 0)
		return -1;
	written = write(fd, text, len) == (ssize_t)len;
	close(fd);
	return written ? 0 : -1;
}

static int set_attributes(int tree, uint64_t attributes)
{
	struct mount_attr attr = {.attr_set = attributes};

	return mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr));
}

/* Show `from` at `target`, which exists. */
static int bind(const char *from, const char *target, uint64_t attributes)
{
	int tree = open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	int r;

	if (tree < 0)
		return -1;
	r = set_attributes(tree, attributes);
	if (r == 0)
		r = move_mount(tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH);
	close(tree);
	return r;
}

static int copy_file(const char *from, const char *target, const struct stat *st)
{
	off_t left = st->st_size;
	ssize_t n = 1;
	int in, out;

	if (left > HOST_FILE_MAX) {
		errno = EFBIG;
		return -1;
	}
	in = open(from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0)
		return -1;
	out = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	while (out >= 0 && left > 0 && n > 0) {
		n = sendfile(out, in, NULL, (size_t)left);
		left -= n > 0 ? n : 0;
	}
	close(in);
	if (out >= 0)
		close(out);
	return out < 0 || n < 0 ? -1 : 0;
}

/* Show one file, link or folder of the host. */
static int show(const char *path)
{
	const char *target = path + 1;
	char text[PATH_MAX];
	struct stat st;
	ssize_t n;

	if (lstat(path, &st) < 0 || make_parents(target) < 0)
		return -1;
	if (S_ISLNK(st.st_mode)) {
		n = readlink(path, text, sizeof(text) - 1);
		if (n < 0)
			return -1;
		text[n] = '\0';
		return symlink(text, target);
	}
	if (S_ISDIR(st.st_mode))
		return make_dir(target, 0755) < 0 ? -1 : bind(path, target, READ_ONLY);
	if (S_ISREG(st.st_mode))
		return copy_file(path, target, &st);
	errno = EINVAL;
	return -1;
}

/* Show what matches the last part of `pattern`. */
static void show_matching(const char *pattern)
{
	const char *name = strrchr(pattern, '/') + 1;
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%.*s", (int)(name - pattern), pattern);
	dir = opendir(path);
	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.' || fnmatch(name, entry->d_name, 0) != 0)
			continue;
		snprintf(path, sizeof(path), "%.*s%s", (int)(name - pattern), pattern,
			 entry->d_name);
		(void)show(path);
	}
	closedir(dir);
}

/* What cannot be read or is not there stays away; only /usr has to be. */
static void show_host(void)
{
	static const char *const paths[] = {
#define HOST(path, why) path,
#include "container/root.def"
#undef HOST
	};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (strchr(paths[i], '*'))
			show_matching(paths[i]);
		else if (show(paths[i]) < 0 && strcmp(paths[i], "/usr") == 0)
			init_fail(STEP_OTHER, "cannot show the host's /usr");
	}
	if (access("usr/local/etc", F_OK) == 0 &&
	    bind("./var/empty", "usr/local/etc", READ_ONLY) < 0)
		init_fail(STEP_OTHER, "cannot cover /usr/local/etc");
}

static void make_own_files(const struct setup_message *setup)
{
	char text[256];
	int r = 0;

	r |= make_file("etc/passwd",
		       "root:x:0:0:root:/root:/bin/bash\n"
		       "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
		       "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
		       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n");
	r |= make_file("etc/group", "root:x:0:\ndaemon:x:1:\nbin:x:2:\ntty:x:5:\n"
				    "nogroup:x:65534:\n");
	r |= make_file("etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\n"
					    "hosts: files\nnetworks: files\nprotocols: files\n"
					    "services: files\nrpc: files\n");
	r |= make_file("etc/resolv.conf", "");
	snprintf(text, sizeof(text), "%s\n", setup->hostname);
	r |= make_file("etc/hostname", text);
	snprintf(text, sizeof(text), "127.0.0.1 localhost %s\n::1 localhost %s\n", setup->hostname,
		 setup->hostname);
	r |= make_file("etc/hosts", text);
	r |= symlink("/proc/self/mounts", "etc/mtab");
	if (r < 0)
		init_fail(STEP_OTHER, "cannot write /etc");
}

/* One filesystem with one limit for everything that can be written but the workspace. */
static void make_scratch(const struct setup_message *setup)
{
	static const struct {
		const char *name, *target;
		mode_t mode;
	} rows[] = {
		{"mnt/tmp", "tmp", 01777},     {"mnt/var", "var/tmp", 01777},
		{"mnt/shm", "dev/shm", 01777}, {"mnt/run", "run", 0755},
		{"mnt/root", "root", 0700},
	};
	char options[128];

	snprintf(options, sizeof(options), "size=%llu,nr_inodes=%llu,mode=755",
		 (unsigned long long)setup->scratch_max,
		 (unsigned long long)(setup->scratch_max >> 12) + 1);
	if (mount("scratch", "mnt", "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
		init_fail(STEP_OTHER, "cannot mount a tmpfs for /tmp");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (mkdir(rows[i].name, 0700) < 0 || chmod(rows[i].name, rows[i].mode) < 0 ||
		    bind(rows[i].name, rows[i].target, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV) < 0)
			init_fail(STEP_OTHER, "cannot make /%s", rows[i].target);
	}
	if (umount2("mnt", MNT_DETACH) < 0)
		init_fail(STEP_OTHER, "cannot let go of the tmpfs");
}

static void make_devices(void)
{
	static const char *const devices[] = {"/dev/full", "/dev/null",    "/dev/random",
					      "/dev/tty",  "/dev/urandom", "/dev/zero"};
	static const struct {
		const char *text, *name;
	} links[] = {
		{"/proc/self/fd", "dev/fd"},       {"pts/ptmx", "dev/ptmx"},
		{"/proc/self/fd/0", "dev/stdin"},  {"/proc/self/fd/1", "dev/stdout"},
		{"/proc/self/fd/2", "dev/stderr"},
	};
	unsigned long flags = MS_NOSUID | MS_NOEXEC;
	/* Read-only, as these are the host's nodes and our root may change their mode: it still
	 * lets bytes through. */
	const uint64_t guard = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;

	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		if (make_file(devices[i] + 1, "") < 0 ||
		    bind(devices[i], devices[i] + 1, guard) < 0)
			init_fail(STEP_OTHER, "cannot show %s", devices[i]);
	}
	for (size_t i = 0; i < ARRAY_LEN(links); i++) {
		if (symlink(links[i].text, links[i].name) < 0)
			init_fail(STEP_OTHER, "cannot make /%s", links[i].name);
	}
	/* Where no group 5 (tty) is mapped, without. */
	if (mount("devpts", "dev/pts", "devpts", flags, PTS_OPTIONS ",gid=5") < 0 &&
	    mount("devpts", "dev/pts", "devpts", flags, PTS_OPTIONS) < 0)
		init_fail(STEP_OTHER, "cannot mount /dev/pts");
	if (mount("mqueue", "dev/mqueue", "mqueue", flags | MS_NODEV, NULL) < 0 && errno != ENODEV)
		init_fail(STEP_OTHER, "cannot mount /dev/mqueue");
}

/*
 * `workspace` is a mount of nobody's, which is moved here; or a folder (a mount made by
 * fusermount3, where the owner may not take mounts apart), found by its name in our copy of the
 * host's mounts.
 */
static int open_workspace(int workspace)
{
	char link[32], folder[PATH_MAX];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", workspace);
	n = readlink(link, folder, sizeof(folder) - 1);
	if (n < 0)
		return -1;
	folder[n] = '\0';
	if (folder[0] != '/' || strcmp(folder, "/") == 0) {
		errno = EINVAL;
		return -1;
	}
	return open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
}

static void attach_workspace(int workspace)
{
	struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
	int tree;

	if (move_mount(workspace, "", AT_FDCWD, "workspace", MOVE_MOUNT_F_EMPTY_PATH) < 0) {
		if (errno != EINVAL && errno != EPERM)
			init_fail(STEP_WORKSPACE, "cannot attach the workspace");
		tree = open_workspace(workspace);
		if (tree < 0 ||
		    move_mount(tree, "", AT_FDCWD, "workspace", MOVE_MOUNT_F_EMPTY_PATH) < 0)
			init_fail(STEP_WORKSPACE, "cannot attach the workspace");
		close(tree);
	}
	if (mount_setattr(AT_FDCWD, "workspace", AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		init_fail(STEP_WORKSPACE, "cannot guard the workspace's mount");
}

/* An empty filesystem on top of "/", and we in it; absolute names still start below it. */
static void start_root(void)
{
	int context, tree;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		init_fail(STEP_NAMESPACES, "cannot make the mounts private");
	context = (int)syscall(SYS_fsopen, "tmpfs", FSOPEN_CLOEXEC);
	if (context < 0 ||
	    syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "size", ROOT_SIZE, 0) < 0 ||
	    syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "nr_inodes", ROOT_INODES, 0) < 0 ||
	    syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
	    syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		init_fail(STEP_OTHER, "cannot make a tmpfs (Linux 5.12 is the oldest that works)");
	tree = (int)syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC,
			    MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
	if (tree < 0 || move_mount(tree, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) < 0 ||
	    fchdir(tree) < 0)
		init_fail(STEP_OTHER, "cannot mount the new root");
	close(context);
	close(tree);
}

void root_enter(const struct setup_message *setup, int workspace)
{
	static const char *const dirs[] = {
		"dev", "dev/mqueue", "dev/pts", "dev/shm", "etc", "home",      "media",
		"mnt", "opt",        "proc",    "root",    "run", "srv",       "tmp",
		"var", "var/empty",  "var/tmp", "usr",     "sys", "workspace",
	};
	struct mount_attr attr = {.attr_set = READ_ONLY};

	start_root();
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		if (make_dir(dirs[i], 0755) < 0)
			init_fail(STEP_OTHER, "cannot make /%s", dirs[i]);
	}
	show_host();
	make_own_files(setup);
	make_scratch(setup);
	make_devices();
	attach_workspace(workspace);
	/* While the host's is there: the kernel gives a new one only to who sees one already. */
	if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		init_fail(STEP_PROC, "cannot mount /proc");

	if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		init_fail(STEP_OTHER, "cannot enter the new root");
	if (mount_setattr(AT_FDCWD, "/", 0, &attr, sizeof(attr)) < 0)
		init_fail(STEP_OTHER, "cannot make the new root read-only");
}

static int cover(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : -1;
	return mount(S_ISDIR(st.st_mode) ? "/var/empty" : "/dev/null", path, NULL, MS_BIND, NULL);
}

int root_mount_proc(void)
{
	static const char *const covered[] = {
#define COVER(path, why) path,
#define READONLY(path, why)
#include "container/proc.def"
#undef COVER
#undef READONLY
	};
	static const char *const readonly[] = {
#define COVER(path, why)
#define READONLY(path, why) path,
#include "container/proc.def"
#undef COVER
#undef READONLY
	};

	if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(readonly); i++) {
		if (bind(readonly[i], readonly[i], READ_ONLY | MOUNT_ATTR_NOEXEC) < 0 &&
		    errno != ENOENT)
			return -1;
	}
	for (size_t i = 0; i < ARRAY_LEN(covered); i++) {
		if (cover(covered[i]) < 0)
			return -1;
	}
	return 0;
}
