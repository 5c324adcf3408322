/* probe.c - what hostile programs try, run inside a container by the tests.
 *
 * Static, so that it runs anywhere. Every attempt is one that would do no harm if it worked.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#define FORKS_MAX 3000

static long forbidden(const char *name)
{
	char byte;
	struct iovec local = {&byte, 1}, remote = {(void *)&forbidden, 1};

	if (strcmp(name, "mount") == 0)
		return mount("none", "/tmp", "tmpfs", 0, "size=4k");
	if (strcmp(name, "umount") == 0)
		return umount2("/proc/sys", MNT_DETACH);
	if (strcmp(name, "fsopen") == 0)
		return syscall(SYS_fsopen, "tmpfs", 0);
	if (strcmp(name, "open_tree") == 0)
		return syscall(SYS_open_tree, AT_FDCWD, "/usr", OPEN_TREE_CLONE);
	if (strcmp(name, "chroot") == 0)
		return chroot("/tmp");
	if (strcmp(name, "unshare") == 0)
		return unshare(CLONE_NEWUSER);
	if (strcmp(name, "clone") == 0)
		return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
	if (strcmp(name, "clone3") == 0)
		return syscall(SYS_clone3, NULL, 0);
	if (strcmp(name, "setns") == 0)
		return setns(open("/proc/1/ns/net", O_RDONLY | O_CLOEXEC), 0);
	if (strcmp(name, "mknod") == 0)
		return mknod("/tmp/node", S_IFCHR | 0600, makedev(1, 3));
	if (strcmp(name, "open_by_handle_at") == 0)
		return syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, O_RDONLY);
	if (strcmp(name, "bpf") == 0)
		return syscall(SYS_bpf, 0, NULL, 0);
	if (strcmp(name, "perf") == 0)
		return syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0);
	if (strcmp(name, "keyctl") == 0)
		return syscall(SYS_keyctl, 0, -3, 0);
	if (strcmp(name, "io_uring") == 0)
		return syscall(SYS_io_uring_setup, 1, NULL);
	if (strcmp(name, "userfaultfd") == 0)
		return syscall(SYS_userfaultfd, 0);
	if (strcmp(name, "sethostname") == 0)
		return sethostname("x", 1);
	if (strcmp(name, "settimeofday") == 0)
		return syscall(SYS_settimeofday, NULL, NULL);
	if (strcmp(name, "ptrace") == 0)
		return ptrace(PTRACE_ATTACH, 1, NULL, NULL);
	if (strcmp(name, "read-init") == 0)
		return process_vm_readv(1, &local, 1, &remote, 1, 0);
	if (strcmp(name, "vsock") == 0)
		return socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (strcmp(name, "alg") == 0)
		return socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (strcmp(name, "tiocsti") == 0)
		return ioctl(0, TIOCSTI, "x");
	if (strcmp(name, "chmod-null") == 0)
		return chmod("/dev/null", 0666);
	if (strcmp(name, "write-init") == 0)
		return open("/proc/1/mem", O_RDWR | O_CLOEXEC);
	errno = 0;
	return -1;
}

static int report(int count, char **names)
{
	for (int i = 0; i < count; i++) {
		long r = forbidden(names[i]);

		printf("%s %s\n", names[i], r < 0 ? strerrorname_np(errno) : "WORKED");
	}
	return 0;
}

/* Connect to 127.0.0.1 at `port`: the container's own loopback, so nobody listens. */
static int reach(const char *address, const char *port)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unsigned int number = 0;

	for (; *port; port++)
		number = number * 10 + (unsigned int)(*port - '0');
	to.sin_port = htons((uint16_t)number);
	inet_pton(AF_INET, address, &to.sin_addr);
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		puts(strerrorname_np(errno));
	else
		puts("WORKED");
	return 0;
}

static int fork_bomb(void)
{
	int count = 0;

	while (count < FORKS_MAX) {
		pid_t pid = fork();

		if (pid < 0)
			break;
		if (pid == 0)
			for (;;)
				pause();
		count++;
	}
	printf("%d\n", count);
	return 0;
}

static int eat_memory(void)
{
	const size_t step = 1 << 20;

	for (int i = 0; i < 256; i++) {
		char *page = malloc(step);

		if (!page)
			return 7;
		memset(page, 1, step);
		/* Kept on purpose: the next turn asks for more. */
		__asm__ volatile("" : : "r"(page) : "memory");
	}
	puts("WORKED");
	return 0;
}

static int wrong_arch(void)
{
#ifdef __x86_64__
	long r = 20; /* getpid, for i386 */

	__asm__ volatile("int $0x80" : "+a"(r) : : "memory");
	return 0;
#else
	return kill(getpid(), SIGSYS);
#endif
}

/* Leave a process behind that no group, session or parent leads to. */
static int hide(void)
{
	if (fork() > 0)
		return 0;
	setsid();
	if (fork() > 0)
		_exit(0);
	signal(SIGTERM, SIG_IGN);
	for (;;)
		pause();
}

/* Everything a process may do to pid 1 of its namespace; the run must end as if nothing was. */
static int attack_init(void)
{
	kill(1, SIGKILL);
	kill(1, SIGSTOP);
	kill(1, SIGTERM);
	kill(-1, SIGCONT);
	return 5;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "forbidden") == 0)
		return report(argc - 2, argv + 2);
	if (strcmp(what, "reach") == 0 && argc == 4)
		return reach(argv[2], argv[3]);
	if (strcmp(what, "fork-bomb") == 0)
		return fork_bomb();
	if (strcmp(what, "eat-memory") == 0)
		return eat_memory();
	if (strcmp(what, "wrong-arch") == 0)
		return wrong_arch();
	if (strcmp(what, "hide") == 0)
		return hide();
	if (strcmp(what, "attack-init") == 0)
		return attack_init();
	return 2;
}
