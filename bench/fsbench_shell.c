/* fsbench_shell.c - programs that people run: git, tar, npm, cc, grep, find, rm, cp. */
#include "fsbench.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int bench_shell(const struct bench *bench, const char *command)
{
	char *argv[] = {(char[]){"sh"}, (char[]){"-ec"}, NULL, NULL};
	posix_spawn_file_actions_t actions;
	int status, r;
	pid_t pid;

	argv[2] = strdup(command);
	setenv("DATA", bench->data, 1);
	setenv("GIT_CONFIG_GLOBAL", "/dev/null", 1);
	setenv("GIT_CONFIG_SYSTEM", "/dev/null", 1);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	r = posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	free(argv[2]);
	if (r)
		return -r;
	if (waitpid(pid, &status, 0) != pid)
		return -ECHILD;
	return status == 0 ? 0 : -EIO;
}

#define GIT "git -c user.name=b -c user.email=b@b -c gc.auto=0 -c maintenance.auto=false "
#define COMMIT_ALL GIT "init -q . && " GIT "add -A && " GIT "commit -qm all"

const struct scenario shell_scenarios[] = {
	{.name = "git init+add+commit 100",
	 .limit = 100,
	 .setup_sh = "tar xf $DATA/100.tar",
	 .run_sh = COMMIT_ALL},
	{.name = "git init+add+commit 5000",
	 .limit = 100,
	 .setup_sh = "tar xf $DATA/5000.tar",
	 .run_sh = COMMIT_ALL,
	 .flags = SCENARIO_LONG},
	{.name = "git status 5000",
	 .limit = 100,
	 .setup_sh = "tar xf $DATA/5000.tar && " COMMIT_ALL " && git status --short",
	 .run_sh = "git status --short",
	 .flags = SCENARIO_LONG},
	{.name = "git clone 5000",
	 .limit = 100,
	 .run_sh = "git clone -q $DATA/5000.git clone",
	 .flags = SCENARIO_LONG},
	{.name = "npm install 25 local packages",
	 .limit = 100,
	 .setup_sh = "cp $DATA/npm/package.json . && rm -rf $DATA/npm/cache",
	 .run_sh = "npm install --silent --offline --no-audit --no-fund --no-package-lock "
		   "--install-links --cache $DATA/npm/cache",
	 .flags = SCENARIO_LONG},
	{.name = "compile a C project of 50 files",
	 .limit = 100,
	 .setup_sh = "tar xf $DATA/c.tar",
	 .run_sh = "make -s -j2",
	 .flags = SCENARIO_LONG},
	{.name = "untar 30000",
	 .limit = 200,
	 .run_sh = "tar xf $DATA/30000.tar",
	 .flags = SCENARIO_LONG},
	{.name = "find 30000 cold",
	 .limit = 100,
	 .run_sh = "find . -type f -size +0 | wc -l",
	 .flags = SCENARIO_LONG | SCENARIO_COLD | SCENARIO_KEEP},
	{.name = "grep -r 30000 cold",
	 .limit = 100,
	 .run_sh = "grep -r nothing-like-this . || true",
	 .flags = SCENARIO_LONG | SCENARIO_COLD | SCENARIO_KEEP},
	{.name = "grep -r 30000 warm",
	 .limit = 120,
	 .run_sh = "grep -r nothing-like-this . || true",
	 .flags = SCENARIO_LONG | SCENARIO_KEEP},
	{.name = "cp -a 30000", .run_sh = "cp -a t copy", .flags = SCENARIO_LONG | SCENARIO_KEEP},
	{.name = "rm -rf 30000",
	 .limit = 100,
	 .run_sh = "rm -rf t",
	 .flags = SCENARIO_LONG | SCENARIO_KEEP},
	{.name = NULL},
};

/* ---- material ---- */

/* Sizes as in real trees: most files of a few KB, some of tens. */
#define MAKE_TREE                                                                                  \
	"tree() { python3 - $1 $2 <<'END'\n"                                                       \
	"import os, random, sys\n"                                                                 \
	"random.seed(7)\n"                                                                         \
	"count, root = int(sys.argv[1]), sys.argv[2]\n"                                            \
	"words = [bytes(random.choices(b'abcdefghijklmnopqrstuvwxyz', k=7)) for i in "             \
	"range(999)]\n"                                                                            \
	"for i in range(count):\n"                                                                 \
	"    d = '%s/t/d%d/d%d' % (root, i % 17, i // 17 % 23)\n"                                  \
	"    os.makedirs(d, exist_ok=True)\n"                                                      \
	"    size = int(random.lognormvariate(7.2, 1.2)) if i % 50 else random.randrange(60000)\n" \
	"    text = b' '.join(random.choices(words, k=size // 8 + 1))\n"                           \
	"    open('%s/f%d.txt' % (d, i), 'wb').write(text)\n"                                      \
	"END\n"                                                                                    \
	"}\n"

static const char *const recipes[] = {
	MAKE_TREE
	"for n in 100 5000; do tree $n $DATA/$n; tar cf $DATA/$n.tar -C $DATA/$n t; done\n"
	"tree $BIG $DATA/big; tar cf $DATA/30000.tar -C $DATA/big t; rm -rf $DATA/big\n"
	"cd $DATA/5000; " COMMIT_ALL "; git clone -q --bare . $DATA/5000.git\n"
	"rm -rf $DATA/100 $DATA/5000",
	"mkdir -p $DATA/npm; cd $DATA/npm; deps=\n"
	"for i in $(seq 25); do mkdir -p p$i/lib; for j in $(seq 240); do\n"
	"echo \"module.exports = $i * $j; // some text to read in the file of a package\" "
	">p$i/lib/m$j.js; done\n"
	"echo \"{\\\"name\\\": \\\"p$i\\\", \\\"version\\\": \\\"1.0.0\\\"}\" >p$i/package.json\n"
	"tar czf p$i.tgz --transform 's,^p[0-9]*,package,' p$i; rm -rf p$i\n"
	"deps=\"$deps${deps:+, }\\\"p$i\\\": \\\"file:$DATA/npm/p$i.tgz\\\"\"; done\n"
	"echo \"{\\\"name\\\": \\\"top\\\", \\\"version\\\": \\\"1.0.0\\\", \\\"dependencies\\\": "
	"{$deps}}\" "
	">package.json",
	"mkdir -p $DATA/c; cd $DATA/c; for i in $(seq 50); do\n"
	"{ echo '#include <stdio.h>'; echo '#include <stdlib.h>'; echo '#include <string.h>'\n"
	"for j in $(seq 30); do echo \"int f${i}_$j(int x) { char b[64]; snprintf(b, sizeof(b), "
	"\\\"%d\\\", x * $j); return (int)strlen(b) + $i; }\"; done; } >f$i.c; done\n"
	"{ for i in $(seq 50); do echo \"int f${i}_1(int x);\"; done; echo 'int main(void) { "
	"return 0"
	"'; for i in $(seq 50); do echo \"+ f${i}_1($i)\"; done; echo '; }'; } >main.c\n"
	"printf 'CFLAGS = -O1\\nprog: $(patsubst %%.c,%%.o,$(wildcard *.c))\\n\\tcc -o $@ $^\\n' "
	">Makefile\n"
	"tar cf $DATA/c.tar -C $DATA/c .",
};

int bench_prepare(const char *data, bool quick)
{
	struct bench bench = {.data = data};
	int r = 0;

	setenv("BIG", quick ? "6000" : "30000", 1);
	for (size_t i = 0; i < ARRAY_LEN(recipes) && r == 0; i++)
		r = bench_shell(&bench, recipes[i]);
	return r;
}
