/* matrix.c - every call that takes a path, against every path that must fail. */
#include "script.h"

#include "base/mem.h"

#include <stdio.h>

/* % is the path. */
static const struct {
	const char *name, *step;
} calls_of_paths[] = {
	{"access", "access % r"},
	{"chdir", "chdir %"},
	{"chmod", "chmod % 644"},
	{"chown", "chown % me me"},
	{"getxattr", "getxattr % user.a"},
	{"lchown", "lchown % me me"},
	{"link-from", "link % t"},
	{"link-to", "link f %"},
	{"listxattr", "listxattr %"},
	{"lstat", "lstat %"},
	{"lutimens", "lutimens % now now"},
	{"mkdir", "mkdir % 755"},
	{"mkfifo", "mkfifo % 644"},
	{"open-creat", "open % wronly,creat 644"},
	{"open-excl", "open % wronly,creat,excl 644"},
	{"open-read", "open % rdonly"},
	{"open-path", "open % path"},
	{"open-tmpfile", "open % rdwr,tmpfile 644"},
	{"open-trunc", "open % wronly,trunc"},
	{"readlink", "readlink %"},
	{"removexattr", "removexattr % user.a"},
	{"rename-from", "rename % t"},
	{"rename-to", "rename f %"},
	{"rmdir", "rmdir %"},
	{"setxattr", "setxattr % user.a b"},
	{"stat", "stat %"},
	{"statfs", "statfs %"},
	{"symlink", "symlink x %"},
	{"truncate", "truncate % 0"},
	{"unlink", "unlink %"},
	{"utimens", "utimens % now now"},
};

static const struct {
	const char *name, *path, *errno_name;
	unsigned flags;
} bad_paths[] = {
	{"through-file", "f/x", "ENOTDIR", CASE_ROOT | CASE_USER},
	{"through-nothing", "none/x", "ENOENT", CASE_ROOT | CASE_USER},
	{"through-dangling", "dangling/x", "ENOENT", CASE_ROOT | CASE_USER},
	{"through-loop", "loop/x", "ELOOP", CASE_ROOT | CASE_USER},
	{"long-name", "$x256", "ENAMETOOLONG", CASE_ROOT | CASE_USER},
	{"long-component", "$x256/x", "ENAMETOOLONG", CASE_ROOT | CASE_USER},
	{"long-path", "$d4096f", "ENAMETOOLONG", CASE_ROOT | CASE_USER},
	{"empty", "''", "ENOENT", CASE_ROOT | CASE_USER},
	{"no-search", "locked/f", "EACCES", CASE_USER},
	{"no-search-none", "locked/none", "EACCES", CASE_USER},
};

#define SETUP                                                                       \
	"creat f 644; symlink loop loop; symlink none dangling; mkdir locked 755; " \
	"creat locked/f 644; chmod locked 600; "
#define ROWS (ARRAY_LEN(calls_of_paths) * ARRAY_LEN(bad_paths))
#define SCRIPT_SIZE 256

/* SETUP, the step with the path in it, what must come. */
static char *make_script(const char *step, const char *path, const char *want)
{
	char *script = mem_alloc(SCRIPT_SIZE);
	const char *rest = step;

	while (*rest != '%')
		rest++;
	snprintf(script, SCRIPT_SIZE, "%s%.*s%s%s = %s; chmod locked 755", SETUP,
		 (int)(rest - step), step, path, rest + 1, want);
	return script;
}

const struct posix_case *matrix_cases(void)
{
	static struct posix_case rows[ROWS + 1];
	struct posix_case *row = rows;

	for (size_t i = 0; i < ARRAY_LEN(calls_of_paths); i++)
		for (size_t j = 0; j < ARRAY_LEN(bad_paths); j++, row++) {
			char *name = mem_alloc(96);

			snprintf(name, 96, "path/%s/%s", calls_of_paths[i].name, bad_paths[j].name);
			row->name = name;
			row->script = make_script(calls_of_paths[i].step, bad_paths[j].path,
						  bad_paths[j].errno_name);
			row->flags = bad_paths[j].flags;
		}
	return rows;
}
