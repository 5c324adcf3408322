/* owner_test.c - the owner's socket against garbage, and owners that come and go. */
#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "computer/computer_i.h"
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- a peer that follows no rules ---- */

static int connect_raw(const struct home *home)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	CLEANUP(buf_clear) struct buf lock = BUF_INIT(1000);
	char *line, *end;
	int fd;

	assert_int_equal(file_read(home_file(home, "w.lock"), &lock, NULL), 0);
	line = strchr(lock.data, '\n') + 1;
	end = strchr(line, '\n');
	*end = '\0';
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", line);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

static void say(int fd, enum frame_type type, const char *text)
{
	assert_int_equal(frame_send(fd, type, span_str(text), SPAN_EMPTY, NULL, 0), 0);
}

static void greet(int fd)
{
	CLEANUP(frame_clear) struct frame frame = FRAME_INIT(FRAME_REPLY_MAX);

	say(fd, FRAME_HELLO, "{\"protocol\":1,\"actor\":\"test\"}");
	assert_int_equal(frame_recv(fd, &frame), 1);
	assert_int_equal(frame.type, FRAME_HELLO);
	assert_null(strstr(frame.payload.data, "error"));
}

/* The next frame holds this text. */
static void expect_text(int fd, const char *text)
{
	CLEANUP(frame_clear) struct frame frame = FRAME_INIT(FRAME_REPLY_MAX);

	assert_int_equal(frame_recv(fd, &frame), 1);
	if (!strstr(frame.payload.data, text))
		fail_msg("no '%s' in '%s'", text, frame.payload.data);
}

static void expect_end(int fd)
{
	char byte;

	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

/* Whatever happened: others are served as before. */
static void expect_service(const struct home *home)
{
	struct computer *computer = home_open(home, "w", 0);
	struct computer_stat st;

	assert_int_equal(computer_stat(computer, "/", true, &st), 0);
	home_close(computer);
}

static void wrong_greetings_are_refused(void **state)
{
	static const char *const rows[][2] = {
		{"{\"protocol\":2,\"actor\":\"test\"}", "another version"},
		{"{\"protocol\":1}", "an actor is a name"},
		{"{\"protocol\":1,\"actor\":\"a b\"}", "an actor is a name"},
		{"{\"protocol\":1,\"actor\":\"123456789012345678901234567890123\"}",
		 "an actor is a name"},
		{"{\"protocol\":1,\"actor\":7}", "an actor is a name"},
		{"{\"protocol\":1,\"actor\":\"test\",\"snapshot\":\"../x\"}", "letters"},
		{"{\"protocol\":1,\"actor\":\"test\",\"snapshot\":\"none\"}", "none"},
		{"[]", "another version"},
		{"", "another version"},
		{"{", "another version"},
	};
	struct home home;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int fd = connect_raw(&home);

		say(fd, FRAME_HELLO, rows[i][0]);
		expect_text(fd, rows[i][1]);
		expect_end(fd);
	}
	expect_service(&home);
	home_clear(&home);
}

static void garbage_ends_only_its_own_connection(void **state)
{
	uint64_t seed = 1;
	struct home home;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	for (int round = 0; round < 200; round++) {
		int fd = connect_raw(&home);
		unsigned char bytes[64];

		if (round % 2)
			greet(fd);
		for (size_t i = 0; i < sizeof(bytes); i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			bytes[i] = (unsigned char)(seed >> 56);
		}
		if (round % 4 >= 2) { /* a frame that is well-formed outside */
			uint32_t header[2] = {56, (uint32_t)(bytes[0] % 8)};

			memcpy(bytes, header, sizeof(header));
		}
		(void)!send(fd, bytes, sizeof(bytes) - (size_t)round % 8, MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		while (recv(fd, bytes, sizeof(bytes), 0) > 0)
			continue;
		close(fd);
	}
	expect_service(&home);
	home_clear(&home);
}

static void limits_have_names(void **state)
{
	uint32_t header[2] = {FRAME_REQUEST_MAX + 1, FRAME_CALL};
	struct home home;
	int fd;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	fd = connect_raw(&home);
	greet(fd);
	assert_int_equal(send(fd, header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
	expect_text(fd, "EMSGSIZE");
	expect_end(fd);
	fd = connect_raw(&home);
	greet(fd);
	say(fd, FRAME_REPLY, "{}");
	expect_text(fd, "that is not the protocol");
	expect_end(fd);
	fd = connect_raw(&home);
	greet(fd);
	say(fd, FRAME_SYS, "short");
	expect_text(fd, "EPROTO");
	expect_end(fd);
	expect_service(&home);
	home_clear(&home);
}

static void operations_check_their_arguments(void **state)
{
	static const char *const rows[][2] = {
		{"{\"op\":\"nothing\",\"args\":{}}", "has no operation 'nothing'"},
		{"{\"op\":7,\"args\":{}}", "has no operation ''"},
		{"{\"op\":\"info\"}", "arguments are missing"},
		{"{\"op\":\"snapshot\",\"args\":{}}", "does not take this"},
		{"{\"op\":\"snapshot\",\"args\":{\"name\":7}}", "does not take this"},
		{"{\"op\":\"snapshot\",\"args\":{\"name\":\"a/b\"}}", "letters"},
		{"{\"op\":\"restore\",\"args\":{\"name\":\"x\",\"keep\":\"..\"}}", "letters"},
		{"{\"op\":\"fork\",\"args\":{\"path\":\"x.txt/y\"}}", "ends in '.db'"},
		{"{\"op\":\"export\",\"args\":{\"path\":\"relative.db\"}}", "absolute path"},
		{"{\"op\":\"export\",\"args\":{\"path\":{\"hex\":\"2f6\"}}}", "absolute path"},
		{"{\"op\":\"export\",\"args\":{\"path\":{\"hex\":\"zz\"}}}", "absolute path"},
		{"{\"op\":\"mount\",\"args\":{\"dir\":\"/tmp\",\"flags\":-1}}", "absolute path"},
		{"{\"op\":\"mount\",\"args\":{\"dir\":\"x\",\"flags\":0}}", "absolute path"},
		{"{\"op\":\"limits_set\",\"args\":{\"bytes\":-1}}", "not negative"},
		{"{\"op\":\"exec\",\"args\":{}}", "does not take"},
		{"{\"op\":\"exec\",\"args\":{\"argv\":[]}}", "does not take"},
		{"{\"op\":\"exec\",\"args\":{\"argv\":[7]}}", "does not take"},
		{"{\"op\":\"exec\",\"args\":{\"argv\":[\"a\\u0000b\"]}}", "does not take"},
		{"{\"op\":\"exec\",\"args\":{\"argv\":[\"a\"],\"fds\":[true]}}", "does not take"},
		{"{\"op\":\"exec\",\"args\":{\"argv\":[\"a\"],\"timeout\":-1}}", "does not take"},
		{"{\"op\":\"diff\",\"args\":{\"from\":\"none\"}}", "none"},
		{"{\"op\":\"umount\",\"args\":{}}", "is not mounted"},
		{"{\"op\":\"mount_wait\",\"args\":{}}", "'dir' is a path"},
	};
	struct home home;
	int fd;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	fd = connect_raw(&home);
	greet(fd);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		say(fd, FRAME_CONTROL, ""); /* late: for something that has ended */
		say(fd, FRAME_CALL, rows[i][0]);
		expect_text(fd, rows[i][1]);
	}
	close(fd);
	expect_service(&home);
	home_clear(&home);
}

static int open_fds(pid_t pid)
{
	char path[64];
	int count = 0;

	for (int fd = 0; fd < 300; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
		count += faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	}
	return count;
}

static void descriptors_nobody_asked_for_are_closed(void **state)
{
	const int fds[3] = {0, 1, 2};
	struct home home;
	int fd, before;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	fd = connect_raw(&home);
	greet(fd);
	before = open_fds(home.owner);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(frame_send(fd, FRAME_CALL, SPAN("{\"op\":\"info\",\"args\":{}}"),
					    SPAN_EMPTY, fds, 3),
				 0);
		expect_text(fd, "inodes");
	}
	say(fd, FRAME_CALL, "{\"op\":\"info\",\"args\":{}}");
	expect_text(fd, "inodes");
	assert_int_equal(open_fds(home.owner), before);
	close(fd);
	home_clear(&home);
}

static void too_many_callers_are_told(void **state)
{
	struct home home;
	int fds[300], count = 0;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	for (; count < 257; count++)
		fds[count] = connect_raw(&home);
	expect_text(fds[256], "256 callers already");
	while (count-- > 0)
		close(fds[count]);
	/* The places are free again, as soon as the owner saw that. */
	for (int attempt = 0; attempt < 200; attempt++) {
		struct computer *computer;

		if (computer_open("w", 0, &computer, NULL) == 0) {
			home_close(computer);
			break;
		}
		assert_true(attempt < 199);
		usleep(10000);
	}
	home_clear(&home);
}

/* ---- owners that come and go ---- */

static void a_caller_goes_on_when_the_owner_has_closed(void **state)
{
	struct computer_err err;
	struct computer *computer;
	struct computer_stat st;
	struct home home;
	void *bytes;
	size_t len;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	computer = home_open(&home, "w", 0);
	assert_int_equal(computer_write_file(computer, "/f", "x", 1, 0644), 0);
	home_release(&home);
	assert_int_equal(computer_read_file(computer, "/f", 10, &bytes, &len), 0);
	assert_int_equal(len, 1);
	free(bytes);
	assert_true(computer_is_owner(computer));
	assert_int_equal(computer_snapshot(computer, "s", &err), 0);
	assert_int_equal(computer_stat(computer, "/f", true, &st), 0);
	home_close(computer);
	home_clear(&home);
}

static void an_operation_goes_on_when_the_owner_has_closed(void **state)
{
	struct computer_err err = {0};
	struct computer *computer;
	struct home home;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	computer = home_open(&home, "w", 0);
	home_release(&home);
	assert_int_equal(computer_snapshot(computer, "s", &err), 0);
	assert_true(computer_is_owner(computer));
	home_close(computer);
	home_clear(&home);
}

static void open_files_do_not_survive_their_owner(void **state)
{
	CLEANUP(buf_clear) struct buf bytes = BUF_INIT(10);
	struct computer *computer;
	struct home home;
	int fd;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	computer = home_open(&home, "w", 0);
	assert_int_equal(computer_write_file(computer, "/f", "x", 1, 0644), 0);
	fd = sys_open(computer_sys(computer), SYS_CWD, SPAN("/f"), O_RDONLY, 0);
	assert_true(fd >= 0);
	home_release(&home);
	assert_int_equal(sys_read(computer_sys(computer), fd, 1, 0, &bytes), -EPIPE);
	assert_false(computer_is_owner(computer));
	home_close(computer);
	home_clear(&home);
}

static void an_owner_that_was_killed_is_followed(void **state)
{
	struct computer *computer;
	struct home home;
	void *bytes;
	size_t len;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	computer = home_open(&home, "w", 0);
	assert_int_equal(computer_write_file(computer, "/f", "x", 1, 0644), 0);
	assert_int_equal(computer_sync(computer), 0);
	kill(home.owner, SIGKILL);
	waitpid(home.owner, NULL, 0);
	home.owner = 0;
	fd_close(&home.stop);
	assert_int_equal(computer_read_file(computer, "/f", 10, &bytes, &len), 0);
	free(bytes);
	assert_true(computer_is_owner(computer));
	home_close(computer);
	home_clear(&home);
}

static void whoever_comes_while_owners_change_is_served(void **state)
{
	struct home home;
	pid_t children[4];

	(void)state;
	home_init(&home);
	home_owned(&home, false);
	for (size_t i = 0; i < ARRAY_LEN(children); i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (children[i])
			continue;
		for (int n = 0; n < 8; n++) {
			struct computer_err err = {0};
			struct computer *computer;
			char path[32];

			snprintf(path, sizeof(path), "/f-%zu-%d", i, n);
			int r = computer_open("w", 0, &computer, &err);

			if (r == 0)
				r = computer_write_file(computer, path, "x", 1, 0644);
			if (r == 0)
				r = computer_close(computer, &err);
			if (r < 0) {
				fprintf(stderr, "# %s: %d, %s\n", path, r, err.text);
				_exit(1);
			}
		}
		_exit(0);
	}
	for (size_t i = 0; i < ARRAY_LEN(children); i++) {
		int status;

		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_int_equal(status, 0);
	}
	struct computer *computer = home_open(&home, "w", 0);
	struct computer_info info;

	assert_int_equal(computer_get_info(computer, &info, NULL), 0);
	assert_int_equal(info.inodes, 1 + 8 * ARRAY_LEN(children));
	home_close(computer);
	home_clear(&home);
}

static void a_workspace_in_use_is_not_removed(void **state)
{
	struct computer_err err = {0};
	struct home home;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	assert_int_equal(computer_remove("w", &err), -EBUSY);
	assert_non_null(strstr(err.text, "is open in process"));
	assert_int_equal(
		workspace_import(home_file(&home, "w.db"), "v", (struct err *)(void *)&err),
		-EBUSY);
	expect_service(&home);
	home_clear(&home);
}

static void the_socket_is_in_a_folder_of_ones_own(void **state)
{
	struct stat st;
	struct home home;

	(void)state;
	home_init(&home);
	home_owned(&home, true);
	assert_int_equal(stat(home_file(&home, "computer"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	expect_service(&home);
	home_release(&home);
	/* Where others could get in, nobody is served; the workspace can be used all the same. */
	assert_int_equal(chmod(home_file(&home, "computer"), 0777), 0);
	expect_service(&home);
	home_clear(&home);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wrong_greetings_are_refused),
		cmocka_unit_test(garbage_ends_only_its_own_connection),
		cmocka_unit_test(limits_have_names),
		cmocka_unit_test(operations_check_their_arguments),
		cmocka_unit_test(descriptors_nobody_asked_for_are_closed),
		cmocka_unit_test(too_many_callers_are_told),
		cmocka_unit_test(a_caller_goes_on_when_the_owner_has_closed),
		cmocka_unit_test(an_operation_goes_on_when_the_owner_has_closed),
		cmocka_unit_test(open_files_do_not_survive_their_owner),
		cmocka_unit_test(an_owner_that_was_killed_is_followed),
		cmocka_unit_test(whoever_comes_while_owners_change_is_served),
		cmocka_unit_test(a_workspace_in_use_is_not_removed),
		cmocka_unit_test(the_socket_is_in_a_folder_of_ones_own),
	};

	return cmocka_run_group_tests_name("computer-owner", tests, NULL, NULL);
}
