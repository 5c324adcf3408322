/* cgroup.c - limits for all processes of a container together. */
#include "container/container_i.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUP_FILE_MAX 65536
#define CPU_PERIOD_US 100000
#define PREFIX "computer-"

static const char *const controllers[CGROUPS_MAX] = {"memory", "pids", "cpu"};

/* A name too long for PATH_MAX is cut, and then names nothing. */
static PRINTF_LIKE(2, 3) void make_path(char ret_path[PATH_MAX], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(ret_path, PATH_MAX, fmt, args);
	va_end(args);
}

static int write_setting(const char *dir, const char *name, const char *value)
{
	CLEANUP(fd_close) int fd = -1;
	char path[PATH_MAX];

	make_path(path, "%s/%s", dir, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	return fd_write_all(fd, value, strlen(value));
}

static int write_number(const char *dir, const char *name, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return write_setting(dir, name, text);
}

/* True if the space- or comma-separated `list` has `word`. */
static bool has_word(const char *list, size_t len, const char *word)
{
	size_t word_len = strlen(word);

	for (size_t i = 0; i < len;) {
		size_t n = 0;

		while (i + n < len && !strchr(" ,\n", list[i + n]))
			n++;
		if (n == word_len && memcmp(list + i, word, n) == 0)
			return true;
		i += n + 1;
	}
	return false;
}

/*
 * Our own place in a hierarchy, from /proc/self/cgroup: lines of "id:controllers:path", where v2's
 * has no controllers. `ret_path` is "" for the top, or when the mount does not show our place.
 */
static void own_place(const char *controller, const char *mount, char ret_path[PATH_MAX])
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(CGROUP_FILE_MAX);
	char path[PATH_MAX];

	ret_path[0] = '\0';
	if (file_read("/proc/self/cgroup", &text, NULL) < 0)
		return;
	for (char *line = text.data, *next; *line; line = next) {
		char *end = strchrnul(line, '\n');
		char *list = memchr(line, ':', (size_t)(end - line));
		char *place = list ? memchr(list + 1, ':', (size_t)(end - list - 1)) : NULL;

		next = *end ? end + 1 : end;
		if (!place)
			continue;
		list++;
		if (controller ? !has_word(list, (size_t)(place - list), controller)
			       : place != list)
			continue;
		place++;
		make_path(path, "%s%.*s", mount, (int)(end - place), place);
		if (end - place > 1 && access(path, F_OK) == 0)
			make_path(ret_path, "%.*s", (int)(end - place), place);
		return;
	}
}

static bool is_hierarchy(const char *dir)
{
	char path[PATH_MAX];

	make_path(path, "%s/cgroup.procs", dir);
	return access(path, W_OK) == 0;
}

int cgroup_version(void)
{
	if (access(CGROUP_ROOT "/cgroup.controllers", F_OK) == 0)
		return is_hierarchy(CGROUP_ROOT) ? 2 : 0;
	return is_hierarchy(CGROUP_ROOT "/memory") || is_hierarchy(CGROUP_ROOT "/pids") ? 1 : 0;
}

/* An owner that was killed could not take its folders away. */
static void sweep(const char *parent)
{
	struct dirent *entry;
	DIR *dir = opendir(parent);

	if (!dir)
		return;
	while ((entry = readdir(dir))) {
		char pid_text[16];
		uint64_t pid;

		if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
			continue;
		snprintf(pid_text, sizeof(pid_text), "%.*s",
			 (int)strcspn(entry->d_name + strlen(PREFIX), "-"),
			 entry->d_name + strlen(PREFIX));
		if (parse_u64(pid_text, &pid) < 0 || pid == 0 || pid > INT_MAX)
			continue;
		if (kill((pid_t)pid, 0) < 0 && errno == ESRCH)
			(void)unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR);
	}
	closedir(dir);
}

/* A new folder in `parent`, entered into `cgroup`; NULL if it cannot be made. */
static const char *add_dir(struct cgroup *cgroup, const char *parent)
{
	static unsigned int counter;
	unsigned int number = __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);
	char path[PATH_MAX];

	sweep(parent);
	make_path(path, "%s/" PREFIX "%d-%u", parent, (int)getpid(), number);
	if (mkdir(path, 0755) < 0)
		return NULL;
	cgroup->dirs[cgroup->count] = mem_strdup(path);
	return cgroup->dirs[cgroup->count++];
}

static int set_v1(const char *dir, const char *controller, const struct container_options *options)
{
	int r;

	if (strcmp(controller, "memory") == 0) {
		r = write_number(dir, "memory.limit_in_bytes", options->memory_max);
		/* With swap, where the kernel counts it: else the limit only moves the pages. */
		(void)write_number(dir, "memory.memsw.limit_in_bytes", options->memory_max);
		return r;
	}
	if (strcmp(controller, "pids") == 0)
		return write_number(dir, "pids.max", options->pids_max);
	r = write_number(dir, "cpu.cfs_period_us", CPU_PERIOD_US);
	if (r < 0)
		return r;
	return write_number(dir, "cpu.cfs_quota_us", options->cpu_percent * (CPU_PERIOD_US / 100));
}

static void create_v1(const struct container_options *options, struct cgroup *cgroup)
{
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		char mount[PATH_MAX], place[PATH_MAX], parent[PATH_MAX];
		const char *dir;

		if (strcmp(controllers[i], "cpu") == 0 && !options->cpu_percent)
			continue;
		make_path(mount, CGROUP_ROOT "/%s", controllers[i]);
		if (!is_hierarchy(mount))
			continue;
		own_place(controllers[i], mount, place);
		make_path(parent, "%s%s", mount, place);
		dir = add_dir(cgroup, parent);
		if (dir && set_v1(dir, controllers[i], options) == 0 && i == 0)
			cgroup->memory = true;
	}
}

/* True if folders made in `dir` get memory and pids limits. */
static bool passes_controllers(const char *dir)
{
	CLEANUP(buf_clear) struct buf text = BUF_INIT(CGROUP_FILE_MAX);
	char path[PATH_MAX];

	(void)write_setting(dir, "cgroup.subtree_control", "+memory +pids");
	(void)write_setting(dir, "cgroup.subtree_control", "+cpu");
	make_path(path, "%s/cgroup.subtree_control", dir);
	return file_read(path, &text, NULL) == 0 && has_word(text.data, text.len, "memory") &&
	       has_word(text.data, text.len, "pids");
}

/*
 * A folder with processes cannot pass controllers on, and ours has us in it: take the nearest
 * one above that does.
 */
static void create_v2(const struct container_options *options, struct cgroup *cgroup)
{
	char place[PATH_MAX], parent[PATH_MAX], text[64];
	const char *dir = NULL;

	own_place(NULL, CGROUP_ROOT, place);
	for (;;) {
		char *slash = strrchr(place, '/');

		make_path(parent, CGROUP_ROOT "%s", place);
		if (passes_controllers(parent))
			dir = add_dir(cgroup, parent);
		if (dir || !slash)
			break;
		*slash = '\0';
	}
	if (!dir)
		return;
	cgroup->memory = write_number(dir, "memory.max", options->memory_max) == 0;
	(void)write_setting(dir, "memory.swap.max", "0");
	(void)write_number(dir, "pids.max", options->pids_max);
	if (options->cpu_percent) {
		snprintf(text, sizeof(text), "%" PRIu64 " %d",
			 options->cpu_percent * (CPU_PERIOD_US / 100), CPU_PERIOD_US);
		(void)write_setting(dir, "cpu.max", text);
	}
}

void cgroup_create(const struct container_options *options, struct cgroup *ret_cgroup)
{
	*ret_cgroup = CGROUP_INIT;
	switch (cgroup_version()) {
	case 1:
		create_v1(options, ret_cgroup);
		break;
	case 2:
		create_v2(options, ret_cgroup);
		break;
	default:
		break;
	}
}

int cgroup_join(const struct cgroup *cgroup, pid_t pid, struct err *err)
{
	int r;

	for (int i = 0; i < cgroup->count; i++) {
		r = write_number(cgroup->dirs[i], "cgroup.procs", (uint64_t)pid);
		if (r < 0)
			return err_set(err, -r, "cannot move a process into '%s'", cgroup->dirs[i]);
	}
	return 0;
}

void cgroup_clear(struct cgroup *cgroup)
{
	for (int i = 0; i < cgroup->count; i++) {
		/* Reaped processes leave their group a moment later. */
		for (int tries = 0; rmdir(cgroup->dirs[i]) < 0 && errno == EBUSY && tries < 100;
		     tries++)
			usleep(1000);
		free(cgroup->dirs[i]);
	}
	*cgroup = CGROUP_INIT;
}
