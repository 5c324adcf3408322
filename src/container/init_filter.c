/* init_filter.c - the seccomp filter of a container's commands, from syscalls.def. */
#include "container/init_i.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define FILTER_ARCH AUDIT_ARCH_AARCH64
#else
/* cppcheck-suppress preprocessorErrorDirective */
#error "syscalls.def was only thought through for x86_64 and aarch64"
#endif

/* A call that this architecture does not have; no rule is made for it. */
#define NO_CALL (-1)
#ifndef __NR__sysctl
#define __NR__sysctl NO_CALL
#endif
#ifndef __NR_afs_syscall
#define __NR_afs_syscall NO_CALL
#endif
#ifndef __NR_create_module
#define __NR_create_module NO_CALL
#endif
#ifndef __NR_get_kernel_syms
#define __NR_get_kernel_syms NO_CALL
#endif
#ifndef __NR_ioperm
#define __NR_ioperm NO_CALL
#endif
#ifndef __NR_iopl
#define __NR_iopl NO_CALL
#endif
#ifndef __NR_modify_ldt
#define __NR_modify_ldt NO_CALL
#endif
#ifndef __NR_query_module
#define __NR_query_module NO_CALL
#endif
#ifndef __NR_sysfs
#define __NR_sysfs NO_CALL
#endif
#ifndef __NR_uselib
#define __NR_uselib NO_CALL
#endif
#ifndef __NR_ustat
#define __NR_ustat NO_CALL
#endif
/* Newer than the headers of the oldest host we build on; the same number everywhere. */
#ifndef __NR_quotactl_fd
#define __NR_quotactl_fd 443
#endif
#ifndef __NR_open_tree_attr
#define __NR_open_tree_attr 467
#endif

#define X32_BIT 0x40000000u
#define NAMESPACE_FLAGS                                                                \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
	 CLONE_NEWPID | CLONE_NEWNET)
#define PERSONALITY_QUERY 0xffffffffu
#define PERSONALITY_KNOWN 0x00060008u /* linux32, uname26, no randomisation */

struct program {
	struct sock_filter code[256];
	unsigned short len;
};

static void emit(struct program *program, struct sock_filter instruction)
{
	if (program->len < ARRAY_LEN(program->code))
		program->code[program->len] = instruction;
	program->len++; /* too long: refused at the end */
}

static void emit_load(struct program *program, size_t offset)
{
	emit(program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned int)offset));
}

static void emit_return(struct program *program, uint32_t action)
{
	emit(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Skip `count` instructions unless the comparison with the loaded word holds. */
static void emit_unless(struct program *program, uint16_t compare, uint32_t value, uint8_t count)
{
	emit(program,
	     (struct sock_filter)BPF_JUMP((uint16_t)(BPF_JMP | compare | BPF_K), value, 0, count));
}

static void emit_deny(struct program *program, int number, int error)
{
	if (number == NO_CALL)
		return;
	emit_unless(program, BPF_JEQ, (uint32_t)number, 1);
	emit_return(program, SECCOMP_RET_ERRNO | (uint32_t)error);
}

/* The low half of an argument: both architectures are little-endian, and the kernel looks at 32
 * bits of all that are asked about here. */
static size_t argument(size_t index)
{
	return offsetof(struct seccomp_data, args) + index * sizeof(uint64_t);
}

static void emit_deny_flags(struct program *program, int number, uint32_t flags)
{
	emit_unless(program, BPF_JEQ, (uint32_t)number, 4);
	emit_load(program, argument(0));
	emit_unless(program, BPF_JSET, flags, 1);
	emit_return(program, SECCOMP_RET_ERRNO | EPERM);
	emit_return(program, SECCOMP_RET_ALLOW);
}

/* Only families that a network namespace confines: AF_VSOCK reaches the hypervisor, AF_ALG and the
 * rest are code without use here. */
static void emit_socket(struct program *program)
{
	static const uint32_t families[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK};

	emit_unless(program, BPF_JEQ, __NR_socket, 2 + 2 * ARRAY_LEN(families));
	emit_load(program, argument(0));
	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		emit_unless(program, BPF_JEQ, families[i], 1);
		emit_return(program, SECCOMP_RET_ALLOW);
	}
	emit_return(program, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
}

/* Typing into a terminal that the owner lent: the reader would be a shell of the host. */
static void emit_ioctl(struct program *program)
{
	emit_unless(program, BPF_JEQ, __NR_ioctl, 6);
	emit_load(program, argument(1));
	emit_unless(program, BPF_JEQ, TIOCSTI, 1);
	emit_return(program, SECCOMP_RET_ERRNO | EPERM);
	emit_unless(program, BPF_JEQ, TIOCLINUX, 1);
	emit_return(program, SECCOMP_RET_ERRNO | EPERM);
	emit_return(program, SECCOMP_RET_ALLOW);
}

static void emit_personality(struct program *program)
{
	emit_unless(program, BPF_JEQ, __NR_personality, 6);
	emit_load(program, argument(0));
	emit_unless(program, BPF_JEQ, PERSONALITY_QUERY, 1);
	emit_return(program, SECCOMP_RET_ALLOW);
	emit_unless(program, BPF_JSET, ~PERSONALITY_KNOWN, 1);
	emit_return(program, SECCOMP_RET_ERRNO | EPERM);
	emit_return(program, SECCOMP_RET_ALLOW);
}

int filter_install(void)
{
	struct program program = {.len = 0};
	struct sock_fprog prog;

	emit_load(&program, offsetof(struct seccomp_data, arch));
	emit(&program, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, FILTER_ARCH, 1, 0));
	emit_return(&program, SECCOMP_RET_KILL_PROCESS);
	emit_load(&program, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
	emit_unless(&program, BPF_JGE, X32_BIT, 1);
	emit_return(&program, SECCOMP_RET_KILL_PROCESS);
#endif
	emit_deny_flags(&program, __NR_clone, NAMESPACE_FLAGS);
	emit_deny_flags(&program, __NR_unshare, NAMESPACE_FLAGS | CLONE_NEWTIME);
	emit_socket(&program);
	emit_ioctl(&program);
	emit_personality(&program);
#define DENY(name, error, why) emit_deny(&program, __NR_##name, error);
#include "container/syscalls.def"
#undef DENY
	emit_return(&program, SECCOMP_RET_ALLOW);

	if (program.len > ARRAY_LEN(program.code)) {
		errno = E2BIG;
		return -1;
	}
	prog = (struct sock_fprog){.len = program.len, .filter = program.code};
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog);
}
