/* health.c - check and doctor: is the workspace whole, and what can this host do. */
#include "base/text.h"
#include "cli/cli_i.h"

#include <string.h>

/* ---- check ---- */

enum { CHECK_REPAIR };

static const struct option check_options[] = {
	[CHECK_REPAIR] = {"repair", 0, OPTION_FLAG, NULL, "mend what is safe to mend"},
};

struct check_run {
	struct cli *cli;
	json_t *list;
	uint64_t found;
};

static void on_problem(void *arg, const char *text, bool repaired)
{
	struct check_run *run = arg;

	run->found++;
	if (run->list) {
		json_t *one = json_object();

		json_set_text(one, "problem", text);
		json_set_bool(one, "repaired", repaired);
		json_array_append_new(run->list, one);
		return;
	}
	out_colour(run->cli, repaired ? COLOUR_YELLOW : COLOUR_RED);
	printf("%s ", repaired ? "repaired" : "problem ");
	out_colour(run->cli, COLOUR_NONE);
	out_name(run->cli, span_str(text));
	putchar('\n');
}

static int run_check(struct cli *cli)
{
	struct check_run run = {.cli = cli};
	bool repair = cli->opt[CHECK_REPAIR].count;
	struct err err = ERR_INIT;
	uint64_t left = 0;
	int status = cli_open(cli, cli->argv[0], 0), r;

	if (status != EXIT_OK)
		return status;
	run.list = cli->json ? json_array() : NULL;
	r = computer_check(cli->computer, repair, on_problem, &run, &left, &err);
	if (r < 0) {
		json_decref(run.list);
		return cli_fail(cli, r, &err, "%s", "");
	}
	if (run.list) {
		json_t *answer = json_object();

		json_object_set_new(answer, "problems", run.list);
		json_set_int(answer, "left", (int64_t)left);
		out_json_take(answer);
	} else if (run.found == 0) {
		printf("everything is as it should be\n");
	} else if (left && !repair) {
		printf("%llu problems; --repair mends what is safe\n", (unsigned long long)left);
	} else {
		printf("%llu problems, %llu left\n", (unsigned long long)run.found,
		       (unsigned long long)left);
	}
	return left ? EXIT_FAILED : EXIT_OK;
}

const struct command cmd_check = {
	.name = "check",
	.operands = "NAME",
	.summary = "Verify everything in a workspace",
	.help = "Link counts, sizes, reachability, units, counters, the audit's chain. Exit status "
		"1 when\n"
		"problems are left.",
	.min = 1,
	.max = 1,
	.options = check_options,
	.options_count = ARRAY_LEN(check_options),
	.run = run_check,
};

/* ---- doctor ---- */

enum verdict { GOOD, SLOWER, MISSING };

static void say(struct cli *cli, enum verdict verdict, const char *what, const char *advice)
{
	static const struct {
		const char *word;
		enum colour colour;
	} words[] = {{"ok", COLOUR_GREEN}, {"slower", COLOUR_YELLOW}, {"missing", COLOUR_RED}};

	out_colour(cli, words[verdict].colour);
	printf("%-8s", words[verdict].word);
	out_colour(cli, COLOUR_NONE);
	printf(" %s", what);
	if (verdict != GOOD && advice)
		printf("; %s", advice);
	putchar('\n');
}

static void say_home(struct cli *cli, const struct doctor *doctor)
{
	char line[PATH_MAX + 128], size[TEXT_SIZE];

	text_size(doctor->home_free, size);
	if (doctor->home_error) {
		snprintf(line, sizeof(line), "%s: %s", doctor->home, strerror(doctor->home_error));
		say(cli, MISSING, line, "set COMPUTER_HOME to a folder you may write to");
		return;
	}
	snprintf(line, sizeof(line), "workspaces are kept in %s, %s free", doctor->home, size);
	say(cli, GOOD, line, NULL);
}

static void say_fuse(struct cli *cli, const struct doctor *doctor)
{
	if (!doctor->fuse_device) {
		say(cli, MISSING, "/dev/fuse",
		    "load the module (modprobe fuse), or give this container the device: without "
		    "it there are "
		    "no mounts and no containers, files and snapshots work");
		return;
	}
	say(cli, GOOD, "/dev/fuse opens", NULL);
	if (doctor->fuse_uring)
		say(cli, GOOD, "FUSE over io_uring, by mount --transport uring", NULL);
	else if (doctor->fuse_uring_known)
		say(cli, SLOWER, "FUSE without io_uring (for mount --transport uring)",
		    "as root: echo Y > /sys/module/fuse/parameters/enable_uring");
	else
		say(cli, SLOWER, "FUSE without io_uring", "it needs a kernel of 6.14 or newer");
	if (!doctor->root && !doctor->fusermount)
		say(cli, MISSING, "fusermount3",
		    "mounting without root needs it: apt-get install fuse3");
	else
		say(cli, GOOD, doctor->root ? "mounts as root" : "mounts through fusermount3",
		    NULL);
}

static void say_container(struct cli *cli, const struct doctor *doctor)
{
	if (doctor->root || doctor->user_namespaces)
		say(cli, GOOD,
		    doctor->root ? "containers as root" : "containers through a user namespace",
		    NULL);
	else
		say(cli, MISSING, "user namespaces",
		    "containers without root need them: sysctl kernel.unprivileged_userns_clone=1, "
		    "or be root");
	say(cli, doctor->seccomp ? GOOD : MISSING, "seccomp",
	    "containers need it: CONFIG_SECCOMP_FILTER");
	if (doctor->cgroup)
		say(cli, GOOD,
		    doctor->cgroup == 2 ? "limits through cgroup v2" : "limits through cgroup v1",
		    NULL);
	else
		say(cli, SLOWER, "no cgroup that can be used",
		    "memory and processes of a container are bounded by rlimits only");
}

static int run_doctor(struct cli *cli)
{
	struct doctor doctor;
	bool works;

	workspace_doctor(&doctor);
	works = doctor.home_error == 0;
	if (cli->json) {
		json_t *answer = json_object();

		json_set_text(answer, "version", computer_version());
		json_set_text(answer, "kernel", doctor.kernel);
		json_set_text(answer, "sqlite", doctor.sqlite);
		json_set_text(answer, "home", doctor.home);
		json_set_text(answer, "home_error",
			      doctor.home_error ? text_errno(doctor.home_error) : "");
		json_set_int(answer, "home_free", (int64_t)doctor.home_free);
		json_set_bool(answer, "root", doctor.root);
		json_set_bool(answer, "fuse_device", doctor.fuse_device);
		json_set_bool(answer, "fuse_uring", doctor.fuse_uring);
		json_set_bool(answer, "fuse_uring_known", doctor.fuse_uring_known);
		json_set_bool(answer, "fusermount", doctor.fusermount);
		json_set_bool(answer, "user_namespaces", doctor.user_namespaces);
		json_set_bool(answer, "seccomp", doctor.seccomp);
		json_set_int(answer, "cgroup", doctor.cgroup);
		out_json_take(answer);
		return works ? EXIT_OK : EXIT_FAILED;
	}
	printf("computer %s, SQLite %s, Linux %s\n", computer_version(), doctor.sqlite,
	       doctor.kernel);
	say_home(cli, &doctor);
	say_fuse(cli, &doctor);
	say_container(cli, &doctor);
	return works ? EXIT_OK : EXIT_FAILED;
}

const struct command cmd_doctor = {
	.name = "doctor",
	.operands = "",
	.summary = "Say what this host can do, and how to switch on the rest",
	.run = run_doctor,
};
