/* container_bench.c - the first and the next command in a container, next to crun.
 *
 * Both run /bin/true over the host's /usr, read-only, in pid, mount, net, ipc, uts and cgroup
 * namespaces; ours has the user namespace, seccomp and limits as well. The rounds alternate, so
 * that both see the same load. As root. `container_bench [ROUNDS]`.
 */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "container/container.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 40
#define PATH_LEN 256

enum kind { FIRST_OURS, FIRST_CRUN, NEXT_OURS, NEXT_CRUN, KINDS };

static const char *const names[KINDS] = {
	"first command: ours",
	"first command: crun run",
	"next command: ours",
	"next command: crun exec",
};

struct bench {
	char dir[64];
	char state[PATH_LEN], bundle[PATH_LEN], sleeper[PATH_LEN];
	int mount_fd;
	struct container *container;
	int64_t *times[KINDS];
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "container_bench: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void check(int r, const struct err *err)
{
	if (r < 0) {
		fprintf(stderr, "container_bench: %s\n", err->text);
		exit(1);
	}
}

static int spawn(const char *const *argv)
{
	char *copy[16];
	char *envp[] = {NULL};
	int status = -1;
	pid_t pid;

	memcpy(copy, argv, sizeof(copy));
	if (posix_spawn(&pid, "/usr/bin/crun", NULL, NULL, copy, envp) != 0)
		die("crun");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	return status;
}

#define CRUN(bench, ...)                                                \
	spawn((const char *const[16]){"crun", "--root", (bench)->state, \
				      "--cgroup-manager=disabled", __VA_ARGS__})

/* The smallest bundle with which crun runs programs of the host's /usr. */
static void write_bundle(const char *dir, const char *const *command)
{
	static const char *const links[] = {"bin", "lib", "lib64", "sbin"};
	static const char *const dirs[] = {"", "/usr", "/proc", "/dev", "/tmp", "/workspace"};
	CLEANUP(buf_clear) struct buf text = BUF_INIT(8192);
	CLEANUP(fd_close) int fd = -1;
	char path[2 * PATH_LEN], target[64];

	if (mkdir(dir, 0755) < 0)
		die(dir);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		snprintf(path, sizeof(path), "%s/rootfs%s", dir, dirs[i]);
		if (mkdir(path, 0755) < 0)
			die(path);
	}
	for (size_t i = 0; i < ARRAY_LEN(links); i++) {
		snprintf(path, sizeof(path), "%s/rootfs/%s", dir, links[i]);
		snprintf(target, sizeof(target), "usr/%s", links[i]);
		if (symlink(target, path) < 0)
			die(path);
	}
	text_add(&text,
		 "{\"ociVersion\":\"1.0.0\",\"root\":{\"path\":\"rootfs\",\"readonly\":true},"
		 "\"process\":{\"terminal\":false,\"user\":{\"uid\":0,\"gid\":0},"
		 "\"env\":[\"PATH=/usr/bin:/bin\"],\"cwd\":\"/\",\"noNewPrivileges\":true,"
		 "\"args\":[\"%s\"%s%s%s]},\"hostname\":\"bench\",\"mounts\":["
		 "{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
		 "{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\"},"
		 "{\"destination\":\"/tmp\",\"type\":\"tmpfs\",\"source\":\"tmpfs\"},"
		 "{\"destination\":\"/usr\",\"type\":\"bind\",\"source\":\"/usr\","
		 "\"options\":[\"rbind\",\"ro\",\"nosuid\",\"nodev\"]}],"
		 "\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"mount\"},"
		 "{\"type\":\"network\"},{\"type\":\"ipc\"},{\"type\":\"uts\"},"
		 "{\"type\":\"cgroup\"}],"
		 "\"maskedPaths\":[\"/proc/kcore\",\"/proc/keys\",\"/proc/timer_list\"],"
		 "\"readonlyPaths\":[\"/proc/sys\"]}}",
		 command[0], command[1] ? ",\"" : "", command[1] ? command[1] : "",
		 command[1] ? "\"" : "");
	snprintf(path, sizeof(path), "%s/config.json", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || fd_write_all(fd, text.data, text.len) < 0)
		die(path);
}

static void run_true(struct container *container)
{
	static const char *const argv[] = {"/bin/true", NULL};
	const struct container_exec exec = {.argv = argv, .fds = {-1, -1, -1}, .cancel_fd = -1};
	struct container_result result;
	struct err err = ERR_INIT;

	check(container_run(container, &exec, &result, &err), &err);
	if (result.status != 0) {
		fprintf(stderr, "container_bench: /bin/true ended with %d\n", result.status);
		exit(1);
	}
}

static struct container *start(const struct bench *bench)
{
	const struct container_options options = {.mount_fd = bench->mount_fd, .hostname = "bench"};
	struct container *container = NULL;
	struct err err = ERR_INIT;

	check(container_start(&options, &container, &err), &err);
	return container;
}

static void measure(struct bench *bench, enum kind kind)
{
	struct container *container = NULL;
	int status = 0;

	switch (kind) {
	case FIRST_OURS:
		container = start(bench);
		run_true(container);
		container_stop(container);
		break;
	case FIRST_CRUN:
		status = CRUN(bench, "run", "--bundle", bench->bundle, "first", NULL);
		break;
	case NEXT_OURS:
		run_true(bench->container);
		break;
	case NEXT_CRUN:
		status = CRUN(bench, "exec", "sleeper", "/bin/true", NULL);
		break;
	case KINDS:
		break;
	}
	if (status != 0) {
		fprintf(stderr, "container_bench: crun ended with %d\n", status);
		exit(1);
	}
}

static void prepare(struct bench *bench)
{
	static const char *const quick[] = {"/bin/true", NULL};
	static const char *const slow[] = {"/bin/sleep", "1000", NULL};

	/* crun 1.8 refuses hosts with both versions of cgroups: not here, in mounts of our own. */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		die("unshare");
	(void)umount2("/sys/fs/cgroup/unified", MNT_DETACH);
	snprintf(bench->dir, sizeof(bench->dir), "/tmp/container-bench-XXXXXX");
	if (!mkdtemp(bench->dir))
		die("mkdtemp");
	if (mount("bench", bench->dir, "tmpfs", 0, NULL) < 0)
		die(bench->dir);
	snprintf(bench->state, sizeof(bench->state), "%s/state", bench->dir);
	snprintf(bench->bundle, sizeof(bench->bundle), "%s/true", bench->dir);
	snprintf(bench->sleeper, sizeof(bench->sleeper), "%s/sleep", bench->dir);
	write_bundle(bench->bundle, quick);
	write_bundle(bench->sleeper, slow);
	bench->mount_fd = open_tree(AT_FDCWD, bench->dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (bench->mount_fd < 0)
		die("open_tree");
	bench->container = start(bench);
	if (CRUN(bench, "run", "--detach", "--bundle", bench->sleeper, "sleeper", NULL) != 0) {
		fprintf(stderr, "container_bench: crun does not start here\n");
		exit(77);
	}
}

static void finish(struct bench *bench)
{
	container_stop(bench->container);
	(void)CRUN(bench, "delete", "--force", "sleeper", NULL);
	close(bench->mount_fd);
	(void)umount2(bench->dir, MNT_DETACH);
	(void)rmdir(bench->dir);
	for (size_t i = 0; i < KINDS; i++)
		free(bench->times[i]);
}

static int compare(const void *a, const void *b)
{
	int64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

static void print(struct bench *bench, size_t rounds)
{
	double median[KINDS];

	for (size_t i = 0; i < KINDS; i++) {
		const int64_t *times = bench->times[i];
		const size_t tenth = rounds / 10, half = rounds / 2, most = rounds - tenth - 1;

		qsort(bench->times[i], rounds, sizeof(int64_t), compare);
		median[i] = (double)times[half] / 1e6;
		printf("%-24s p10 %6.2f  p50 %6.2f  p90 %6.2f ms\n", names[i],
		       (double)times[tenth] / 1e6, median[i], (double)times[most] / 1e6);
	}
	printf("first command: %.2fx of crun run (target: at most 1.0x)\n",
	       median[FIRST_OURS] / median[FIRST_CRUN]);
	printf("next command: %.2fx of crun exec (target: at most 1.0x)\n",
	       median[NEXT_OURS] / median[NEXT_CRUN]);
}

int main(int argc, char **argv)
{
	struct bench bench = {.mount_fd = -1};
	uint64_t rounds = ROUNDS;

	if (argc > 1 && (parse_u64(argv[1], &rounds) < 0 || rounds == 0 || rounds > 100000)) {
		fprintf(stderr, "usage: container_bench [ROUNDS]\n");
		return 2;
	}
	for (size_t i = 0; i < KINDS; i++)
		bench.times[i] = mem_alloc0(sizeof(int64_t) * rounds);
	prepare(&bench);
	for (size_t round = 0; round < rounds; round++) {
		for (enum kind kind = 0; kind < KINDS; kind++) {
			int64_t begin = clock_mono();

			measure(&bench, kind);
			bench.times[kind][round] = clock_mono() - begin;
		}
	}
	print(&bench, rounds);
	finish(&bench);
	return 0;
}
