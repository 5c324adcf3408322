/* isolation_test.c - what a hostile command in a container must not get (docs/threats.md). */
#include "fixture.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define SMALL_MEMORY (UINT64_C(64) << 20)
#define FEW_PIDS 64

static struct box box;
static struct outcome outcome;

static int open_box(void **state)
{
	(void)state;
	box_open(&box, 0, 0);
	return 0;
}

static int close_box(void **state)
{
	(void)state;
	box_close(&box);
	return 0;
}

static void forbidden_calls_are_refused(void **state)
{
	static const char *const rows[][2] = {
		{"mount", "EPERM"},
		{"umount", "EPERM"},
		{"fsopen", "EPERM"},
		{"open_tree", "EPERM"},
		{"chroot", "EPERM"},
		{"unshare", "EPERM"},
		{"clone", "EPERM"},
		{"clone3", "ENOSYS"},
		{"setns", "EPERM"},
		{"mknod", "EPERM"},
		{"open_by_handle_at", "EPERM"},
		{"bpf", "EPERM"},
		{"perf", "EPERM"},
		{"keyctl", "EPERM"},
		{"io_uring", "ENOSYS"},
		{"userfaultfd", "EPERM"},
		{"sethostname", "EPERM"},
		{"settimeofday", "EPERM"},
		{"ptrace", "EPERM"},
		{"read-init", "EPERM"},
		{"vsock", "EAFNOSUPPORT"},
		{"alg", "EAFNOSUPPORT"},
		{"tiocsti", "EPERM"},
		{"chmod-null", "EROFS"},
		{"write-init", "EACCES"},
	};
	CLEANUP(buf_clear) struct buf want = BUF_INIT(4096);
	const char *argv[ARRAY_LEN(rows) + 3] = {"/workspace/probe", "forbidden"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		argv[i + 2] = rows[i][0];
		assert_int_equal(text_add(&want, "%s %s\n", rows[i][0], rows[i][1]), 0);
	}
	box_run(&box, argv, &outcome);
	assert_string_equal(outcome.out, want.data);
}

static void another_architecture_is_killed(void **state)
{
	static const char *const argv[] = {"/workspace/probe", "wrong-arch", NULL};

	(void)state;
	box_run(&box, argv, &outcome);
	/* A kernel without 32-bit calls raises the fault itself. */
	assert_true(outcome.result.signal == SIGSYS || outcome.result.signal == SIGSEGV);
}

static void rights_are_as_promised(void **state)
{
	(void)state;
	box_sh(&box, "grep -E '^(Cap|NoNewPrivs:|Seccomp:)' /proc/self/status", &outcome);
	/* chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service */
	assert_string_equal(outcome.out, "CapInh:\t0000000000000000\nCapPrm:\t00000000000004fb\n"
					 "CapEff:\t00000000000004fb\nCapBnd:\t00000000000004fb\n"
					 "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\n"
					 "Seccomp:\t2\n");
	box_sh(&box,
	       "ulimit -Hc; ulimit -Sn; echo $(( $(ulimit -Hn) <= 65536 )); "
	       "cat /proc/self/oom_score_adj",
	       &outcome);
	assert_string_equal(outcome.out, "0\n1024\n1\n500\n");
}

static void host_files_are_not_there(void **state)
{
	(void)state;
	box_sh(&box,
	       "ls -A /home /opt /srv /mnt /media /sys /root; ls -d /etc/shadow* /etc/gshadow* "
	       "/etc/ssh /etc/ssl/private /etc/machine-id /etc/npmrc /etc/gitconfig /etc/sudoers "
	       "/var/log /var/lib/dpkg /boot /host /old_root /run/* 2>/dev/null; true",
	       &outcome);
	assert_string_equal(outcome.out,
			    "/home:\n\n/media:\n\n/mnt:\n\n/opt:\n\n/root:\n\n/srv:\n\n/sys:\n");
}

static void host_folder_names_do_not_resolve(void **state)
{
	struct stat st;
	char script[1200];

	(void)state;
	assert_int_equal(stat(box.dir, &st), 0);
	snprintf(script, sizeof(script),
		 "test ! -e '%s' && test ! -e /proc/1/root%s && echo hidden; "
		 "cd /workspace/../../.. && pwd; grep -c computer-container /proc/self/mounts",
		 box.dir, box.dir);
	box_sh(&box, script, &outcome);
	assert_string_equal(outcome.out, "hidden\n/\n0\n");
}

static void nothing_of_the_host_can_be_written(void **state)
{
	static const char *const paths[] = {
		"/usr/x", "/bin/x", "/lib/x", "/etc/x",           "/etc/ld.so.cache",
		"/x",     "/dev/x", "/var/x", "/usr/local/etc/x", "/proc/sys/kernel/hostname"};
	char script[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		snprintf(script, sizeof(script), "echo x >>%s", paths[i]);
		box_sh(&box, script, &outcome);
		assert_int_not_equal(outcome.result.status, 0);
		/* Whose /usr is not ours, is stopped by its mode first. */
		assert_true(strstr(outcome.err, "Read-only file system") ||
			    strstr(outcome.err, "Permission denied"));
	}
	/* What it is already, in case it works. */
	box_sh(&box, "v=$(cat /proc/sys/kernel/panic); echo $v >/proc/sys/kernel/panic", &outcome);
	assert_int_not_equal(outcome.result.status, 0);
	box_sh(&box, "chmod 755 /usr || chown 0 /usr/bin/env || touch -a /usr/bin/env", &outcome);
	assert_int_not_equal(outcome.result.status, 0);
}

static void proc_is_masked(void **state)
{
	static const char *const covered[] = {
#define COVER(path, why) path,
#define READONLY(path, why)
#include "container/proc.def"
#undef COVER
#undef READONLY
	};
	CLEANUP(buf_clear) struct buf script = BUF_INIT(16384);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(covered); i++)
		assert_int_equal(text_add(&script,
					  "[ -d %s ] && ls -A %s || { [ ! -e %s ] || cat %s; }\n",
					  covered[i], covered[i], covered[i], covered[i]),
				 0);
	box_sh(&box, script.data, &outcome);
	assert_string_equal(outcome.out, "");
	assert_string_equal(outcome.err, "");
}

static void only_its_own_processes_are_seen(void **state)
{
	(void)state;
	box_sh(&box,
	       "echo $$; ls /proc | grep -c '^[0-9]'; tr '\\0' ' ' </proc/1/cmdline; "
	       "cat /proc/1/environ 2>/dev/null; true",
	       &outcome);
	/* The runner, sh, ls, grep: less when ls is quick. */
	assert_non_null(strstr(outcome.out, "2\n"));
	assert_true(strcmp(outcome.out, "2\n4\ncomputer-init ") == 0 ||
		    strcmp(outcome.out, "2\n3\ncomputer-init ") == 0);
}

static void the_runner_cannot_be_hurt(void **state)
{
	static const char *const argv[] = {"/workspace/probe", "attack-init", NULL};

	(void)state;
	for (int i = 0; i < 3; i++) {
		box_run(&box, argv, &outcome);
		assert_int_equal(outcome.result.status, 5);
		assert_int_equal(outcome.result.signal, 0);
	}
	assert_true(container_alive(box.container));
}

static void there_is_no_network_but_loopback(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char port[16];
	const char *const here[] = {"/workspace/probe", "reach", "127.0.0.1", port, NULL};
	static const char *const away[] = {"/workspace/probe", "reach", "192.0.2.1", "80", NULL};

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	snprintf(port, sizeof(port), "%u", ntohs(address.sin_port));
	box_run(&box, here, &outcome);
	assert_string_equal(outcome.out, "ECONNREFUSED\n");
	box_run(&box, away, &outcome);
	assert_string_equal(outcome.out, "ENETUNREACH\n");
	close(fd);
	box_sh(&box, "tail -n +3 /proc/net/dev | sed 's/:.*//' | tr -d ' '", &outcome);
	assert_string_equal(outcome.out, "lo\n");
}

static void set_user_id_gives_nothing(void **state)
{
	(void)state;
	box_sh(&box,
	       "cp /usr/bin/env /workspace/suid && chmod 4755 /workspace/suid && "
	       "grep -c ' /workspace .*nosuid.*nodev' /proc/self/mounts; rm /workspace/suid; "
	       "grep -c '/usr .*\\bro,nosuid,nodev' /proc/self/mounts",
	       &outcome);
	assert_string_equal(outcome.out, "1\n1\n");
}

static void a_fork_bomb_ends_at_the_limit(void **state)
{
	static const char *const argv[] = {"/workspace/probe", "fork-bomb", NULL};
	struct container_host host;
	struct box small;
	int count = 0;

	(void)state;
	container_get_host(&host);
	if (host.root && host.cgroup == 0)
		skip(); /* root is not bound by RLIMIT_NPROC */
	box_open(&small, 0, FEW_PIDS);
	for (int i = 0; i < 2; i++) {
		box_run(&small, argv, &outcome);
		assert_int_equal(outcome.result.status, 0);
		for (char *digit = outcome.out; *digit >= '0' && *digit <= '9'; digit++)
			count = count * 10 + (*digit - '0');
		assert_true(count > 0 && count < FEW_PIDS);
		count = 0;
	}
	box_sh(&small, "echo still here", &outcome);
	assert_string_equal(outcome.out, "still here\n");
	box_close(&small);
}

static void memory_ends_at_the_limit(void **state)
{
	static const char *const argv[] = {"/workspace/probe", "eat-memory", NULL};
	struct box small;

	(void)state;
	box_open(&small, SMALL_MEMORY, 0);
	box_run(&small, argv, &outcome);
	assert_string_equal(outcome.out, "");
	/* The cgroup's killer, or malloc failing under RLIMIT_DATA. */
	assert_true(outcome.result.signal == SIGKILL || outcome.result.status == 7);
	assert_true(container_alive(small.container));
	box_sh(&small, "head -c 67108864 /dev/zero >/tmp/big", &outcome);
	assert_int_not_equal(outcome.result.status, 0);
	box_sh(&small, "rm -f /tmp/big /dev/shm/big; echo still here", &outcome);
	assert_string_equal(outcome.out, "still here\n");
	box_close(&small);
}

static void tables_are_sorted(void **state)
{
	static const char *const calls[] = {
#define DENY(name, error, why) #name,
#include "container/syscalls.def"
#undef DENY
	};
	static const char *const paths[] = {
#define HOST(path, why) path,
#include "container/root.def"
#undef HOST
	};

	(void)state;
	for (size_t i = 1; i < ARRAY_LEN(calls); i++)
		assert_true(strcmp(calls[i - 1], calls[i]) < 0);
	for (size_t i = 1; i < ARRAY_LEN(paths); i++)
		assert_true(strcmp(paths[i - 1], paths[i]) < 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forbidden_calls_are_refused),
		cmocka_unit_test(another_architecture_is_killed),
		cmocka_unit_test(rights_are_as_promised),
		cmocka_unit_test(host_files_are_not_there),
		cmocka_unit_test(host_folder_names_do_not_resolve),
		cmocka_unit_test(nothing_of_the_host_can_be_written),
		cmocka_unit_test(proc_is_masked),
		cmocka_unit_test(only_its_own_processes_are_seen),
		cmocka_unit_test(the_runner_cannot_be_hurt),
		cmocka_unit_test(there_is_no_network_but_loopback),
		cmocka_unit_test(set_user_id_gives_nothing),
		cmocka_unit_test(a_fork_bomb_ends_at_the_limit),
		cmocka_unit_test(memory_ends_at_the_limit),
		cmocka_unit_test(tables_are_sorted),
	};
	const char *trouble;

	box_prepare(argc, argv);
	trouble = box_trouble();
	if (trouble) {
		printf("1..0 # SKIP %s\n", trouble);
		return 0;
	}
	return cmocka_run_group_tests_name("isolation", tests, open_box, close_box);
}
