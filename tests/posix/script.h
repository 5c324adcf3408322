/* script.h - a case is a line of calls, each with what it must answer.
 *
 *   mkdir d 755; mkdir d 755 = EEXIST; a=open d/f rdwr,creat 644; write a hello = 5
 *
 * A step is a call of calls.c or checks.c and its words; without "= X" any success will do, else
 * X is the number or the name of the errno. "a=" keeps the descriptor under that letter. In words:
 * '' is empty, $xN is N letters, $dN is N bytes of "./". Ids: u and v are two users, me whoever
 * runs. Each case runs in a process and a directory of its own.
 */
#ifndef POSIX_SCRIPT_H
#define POSIX_SCRIPT_H

#include "base/base.h"

#include <sys/stat.h>

#define UID_U 65534
#define UID_V 65533
#define GID_EXTRA 65500 /* a supplementary group */

/* Who runs a case: by default once root and once user u, who then owns the directory. */
enum case_flag { CASE_ROOT = 1, CASE_USER = 2 };

struct posix_case {
	const char *name;
	const char *script;
	void (*run)(void);
	unsigned flags;
};

#define BOTH(name_, script_)                                                         \
	{                                                                            \
		.name = (name_), .script = (script_), .flags = CASE_ROOT | CASE_USER \
	}
#define ROOT(name_, script_)                                             \
	{                                                                \
		.name = (name_), .script = (script_), .flags = CASE_ROOT \
	}
#define USER(name_, script_)                                             \
	{                                                                \
		.name = (name_), .script = (script_), .flags = CASE_USER \
	}
#define FUNC(name_, run_)                                                      \
	{                                                                      \
		.name = (name_), .run = (run_), .flags = CASE_ROOT | CASE_USER \
	}
#define CASES_END            \
	{                    \
		.name = NULL \
	}

/* Tables end with a NULL name. */
extern const struct posix_case cases_open[], cases_dir[], cases_link[], cases_rename[],
	cases_attr[], cases_perm[], cases_sticky[], cases_time[], cases_data[], cases_xattr[],
	cases_node[], cases_lock[], func_lock[], func_mmap[], func_dir[], func_misc[];

/* Every path call against every bad path: ends with a NULL name; lives as long as the program. */
const struct posix_case *matrix_cases(void);

/* A call: `v` is its words, v[0] its name, ends with NULL. >= 0 or a negative errno. */
struct call {
	const char *name;
	int min, max; /* words after the name */
	long (*run)(char *const *v);
};

/* Both tables end with a NULL name. */
extern const struct call calls[], checks[];

/* The case that this process runs. */
struct world {
	int fd[26];
	int result; /* where the reason of a failure goes */
	uid_t uid;  /* who runs now */
	const char *step;
};
extern struct world world;

/* Runs the script; returns when all of it was as expected, else fail()s. */
void script_run(const char *script);

/* The case fails for this reason. Does not return. */
_Noreturn void fail(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* For cases in C. */
#define CHECK(condition)                                                             \
	do {                                                                         \
		if (!(condition))                                                    \
			fail("%s:%d: %s (errno %s)", __func__, __LINE__, #condition, \
			     text_errno(errno));                                     \
	} while (0)

/* Words of a script. */
uint64_t word_number(const char *word);
uint32_t word_octal(const char *word);
uid_t word_id(const char *word);
int word_fd(const char *word);

/* Back to being root, or user `uid` with `gid` and at most one group more (0: none). */
void become(uid_t uid, gid_t group);

/* 0 or the errno of a child that runs `fn`. */
int in_child(int (*fn)(void *arg), void *arg);

/* Longer than the clock that stamps files needs to tick. */
void wait_tick(void);

#endif
