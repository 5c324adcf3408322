/* sys_test.c - the table of calls, the wire, batches and the wrappers, over a fake. */
#include "base/mem.h"
#include "sys/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* ---- a fake: keeps the last request, answers what the test says ---- */

struct fake {
	struct sys sys;
	struct sys_req last;
	char in[3][64]; /* the strings of `last`, cut */
	int calls;
	int64_t answer;
	struct span bytes;
	/* for batches */
	int fail_at;      /* the request with this first number fails with -ENOENT; -1: none */
	size_t reply_max; /* replies in one answer */
	bool freed;
};

static int64_t fake_batch(struct fake *fake, const struct sys_req *req, struct buf *out)
{
	struct span rest = req->in[0];
	int64_t done = 0;

	while (rest.len && (size_t)done < fake->reply_max) {
		struct sys_req one;
		int64_t r;

		assert_int_equal(sys_req_decode(&rest, &one), 0);
		r = one.a[0] == fake->fail_at ? -ENOENT : one.a[0];
		assert_int_equal(sys_rep_encode(r, SPAN("x"), out), 0);
		done++;
		if (r < 0 && (req->a[0] & SYS_BATCH_STOP))
			break;
	}
	return done;
}

static int64_t fake_call(struct sys *sys, const struct sys_req *req, struct buf *out)
{
	struct fake *fake = (struct fake *)(void *)sys;

	fake->calls++;
	fake->last = *req;
	for (int i = 0; i < 3; i++)
		if (req->in[i].len < sizeof(fake->in[i]))
			memcpy(fake->in[i], req->in[i].data ? req->in[i].data : "", req->in[i].len);
	if (req->call == SYS_batch)
		return fake_batch(fake, req, out);
	if (fake->answer >= 0 && fake->bytes.len)
		assert_int_equal(buf_add(out, fake->bytes.data, fake->bytes.len), 0);
	return fake->answer;
}

static void fake_free(struct sys *sys)
{
	((struct fake *)(void *)sys)->freed = true;
}

static const struct sys_ops fake_ops = {.call = fake_call, .free = fake_free};
#define FAKE_INIT ((struct fake){.sys = {&fake_ops}, .fail_at = -1, .reply_max = SIZE_MAX})

/* ---- the table ---- */

static void rows_are_sorted_and_no_number_is_there_twice(void **state)
{
	static const int numbers[] = {
#define CALL(name, number, right, args, in, max_out) number,
#include "sys/calls.def"
#undef CALL
	};

	(void)state;
	for (size_t i = 1; i < ARRAY_LEN(numbers); i++)
		assert_true(numbers[i] > numbers[i - 1]);
	assert_true(numbers[0] > 0);
}

static void rows_fit_into_a_request(void **state)
{
	struct sys_req req;
	size_t seen = 0;

	(void)state;
	for (uint32_t call = 0; call < 200; call++) {
		const struct sys_call_info *info = sys_call_info(call);

		if (!info)
			continue;
		seen++;
		assert_in_range(info->args, 0, ARRAY_LEN(req.a));
		assert_in_range(info->in, 0, ARRAY_LEN(req.in));
		assert_in_range(info->max_out, 0, SYS_IO_MAX);
	}
	assert_int_equal(seen, 33);
	assert_null(sys_call_info(0));
	assert_null(sys_call_info(UINT32_MAX));
	assert_string_equal(sys_call_info(SYS_rename)->name, "rename");
	assert_int_equal(sys_call_info(SYS_rename)->right, SYS_RIGHT_WRITE);
}

/* ---- the check ---- */

static void the_check_names_what_is_wrong(void **state)
{
	static char big[SYS_IO_MAX + 1];
	static const struct {
		struct sys_req req;
		int want;
	} rows[] = {
		{{SYS_open, {0}, {{"a", 1}}}, 0},
		{{SYS_open, {0}, {{NULL, 0}}}, 0},
		{{0, {0}, {{"a", 1}}}, -ENOSYS},
		{{4711, {0}, {{"a", 1}}}, -ENOSYS},
		{{SYS_open, {0}, {{"a\0b", 3}}}, -EINVAL},
		{{SYS_rename, {0}, {{"a", 1}, {"b\0", 2}}}, -EINVAL},
		{{SYS_write, {0}, {{"a\0b", 3}}}, 0},
		{{SYS_writefile, {0}, {{"a", 1}, {"a\0b", 3}}}, 0},
		{{SYS_writefile, {0}, {{"a\0", 2}, {"b", 1}}}, -EINVAL},
		{{SYS_setxattr, {0}, {{"a", 1}, {"user.x", 6}, {"\0", 1}}}, 0},
		{{SYS_setxattr, {0}, {{"a", 1}, {"user\0x", 6}, {"v", 1}}}, -EINVAL},
		{{SYS_getxattr, {0}, {{"a", 1}, {"user\0x", 6}}}, -EINVAL},
		{{SYS_symlink, {0}, {{"a", 1}, {"b\0", 2}}}, -EINVAL},
	};

	(void)state;
	memset(big, 'x', sizeof(big));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(sys_req_check(&rows[i].req), rows[i].want);

	struct sys_req req = {SYS_stat, {0}, {span_of(big, SYS_PATH_MAX)}};

	assert_int_equal(sys_req_check(&req), 0);
	req.in[0].len++;
	assert_int_equal(sys_req_check(&req), -ENAMETOOLONG);
	req = (struct sys_req){SYS_write, {0}, {span_of(big, SYS_IO_MAX)}};
	assert_int_equal(sys_req_check(&req), 0);
	req.in[0].len++;
	assert_int_equal(sys_req_check(&req), -E2BIG);
	req = (struct sys_req){SYS_setxattr, {0}, {SPAN("a"), SPAN("b"), span_of(big, 65537)}};
	assert_int_equal(sys_req_check(&req), -E2BIG);
}

static void a_request_that_fails_the_check_is_not_called(void **state)
{
	struct fake fake = FAKE_INIT;

	(void)state;
	assert_int_equal(sys_call(&fake.sys, &(struct sys_req){.call = 999}, NULL), -ENOSYS);
	assert_int_equal(sys_open(&fake.sys, SYS_CWD, span_of("a\0b", 3), 0, 0), -EINVAL);
	assert_int_equal(fake.calls, 0);
}

/* ---- the wire ---- */

static void requests_survive_the_wire(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(4096);
	struct sys_req req = {SYS_setxattr,
			      {-100, INT64_MIN, INT64_MAX},
			      {SPAN("path"), SPAN_EMPTY, SPAN("a\0b")}};
	struct sys_req got;
	struct span wire;

	(void)state;
	assert_int_equal(sys_req_encode(&req, &buf), 0);
	assert_int_equal(sys_req_encode(&(struct sys_req){.call = SYS_statfs}, &buf), 0);
	assert_int_equal(buf.len, (8 + 24 + 12 + 7) + 8);
	wire = span_of(buf.data, buf.len);
	assert_int_equal(sys_req_decode(&wire, &got), 0);
	assert_int_equal(got.call, SYS_setxattr);
	assert_int_equal(got.a[0], -100);
	assert_true(got.a[1] == INT64_MIN && got.a[2] == INT64_MAX && got.a[3] == 0);
	for (int i = 0; i < 3; i++)
		assert_true(span_eq(got.in[i], req.in[i]));
	assert_int_equal(sys_req_decode(&wire, &got), 0);
	assert_int_equal(got.call, SYS_statfs);
	assert_int_equal(wire.len, 0);
}

static void the_layout_of_a_request_never_changes(void **state)
{
	static const unsigned char golden[] = {
		0x27, 0,    0,    0,    1,    0,    3,    1,    /* size, call, args, in */
		0x9c, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, /* -100 */
		0x41, 0,    0,    0,    0,    0,    0,    0,    /* O_CREAT | O_WRONLY */
		0xa4, 0x01, 0,    0,    0,    0,    0,    0,    /* 0644 */
		3,    0,    0,    0,    'a',  '/',  'b',
	};
	static const unsigned char golden_reply[] = {
		0x12, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 'h', 'i',
	};
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(4096);
	struct sys_req req = {SYS_open, {SYS_CWD, O_CREAT | O_WRONLY, 0644}, {SPAN("a/b")}};

	(void)state;
	assert_int_equal(sys_req_encode(&req, &buf), 0);
	assert_int_equal(buf.len, sizeof(golden));
	assert_memory_equal(buf.data, golden, sizeof(golden));
	buf_clear(&buf);
	assert_int_equal(sys_rep_encode(-2, SPAN("hi"), &buf), 0);
	assert_int_equal(buf.len, sizeof(golden_reply));
	assert_memory_equal(buf.data, golden_reply, sizeof(golden_reply));
}

static void replies_survive_the_wire(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(64);
	struct span wire, bytes;
	int64_t r;

	(void)state;
	assert_int_equal(sys_rep_encode(INT64_MIN, SPAN("a\0b"), &buf), 0);
	assert_int_equal(sys_rep_encode(7, SPAN_EMPTY, &buf), 0);
	wire = span_of(buf.data, buf.len);
	assert_int_equal(sys_rep_decode(&wire, &r, &bytes), 0);
	assert_true(r == INT64_MIN && span_eq(bytes, SPAN("a\0b")));
	assert_int_equal(sys_rep_decode(&wire, &r, &bytes), 0);
	assert_true(r == 7 && bytes.len == 0 && wire.len == 0);
}

static void every_cut_request_and_reply_is_refused(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(256);
	struct sys_req req = {SYS_rename, {1, 2, 3}, {SPAN("from"), SPAN("to")}};
	struct span bytes;
	size_t len;
	int64_t r;

	(void)state;
	assert_int_equal(sys_req_encode(&req, &buf), 0);
	for (len = 0; len < buf.len; len++) {
		/* Exactly so many bytes of memory: a sanitizer sees a read behind them. */
		CLEANUP(mem_free) char *copy = mem_dup(buf.data, len);
		struct span wire = span_of(copy, len);

		assert_int_equal(sys_req_decode(&wire, &req), -EPROTO);
		assert_int_equal(wire.len, len);
	}
	buf_clear(&buf);
	assert_int_equal(sys_rep_encode(1, SPAN("abc"), &buf), 0);
	for (len = 0; len < buf.len; len++) {
		CLEANUP(mem_free) char *copy = mem_dup(buf.data, len);
		struct span wire = span_of(copy, len);

		assert_int_equal(sys_rep_decode(&wire, &r, &bytes), -EPROTO);
	}
}

static void headers_that_lie_are_refused(void **state)
{
	static const unsigned char rows[][20] = {
		{7, 0, 0, 0, 1, 0, 0, 0},              /* size below the header */
		{0, 0, 0, 0, 1, 0, 0, 0},              /* size 0 */
		{20, 0, 0, 0, 1, 0, 6, 0},             /* six numbers */
		{20, 0, 0, 0, 1, 0, 0, 4},             /* four strings */
		{20, 0, 0, 0, 1, 0, 2, 0},             /* two do not fit */
		{20, 0, 0, 0, 1, 0, 0, 1, 9, 0, 0, 0}, /* string too long */
		{20, 0, 0, 0, 1, 0, 0, 1, 7, 0, 0, 0}, /* string too short */
		{20, 0, 0, 0, 1, 0, 0, 2, 4, 0, 0, 0, 0xfd, 255, 255, 255}, /* sum wraps */
		{255, 255, 255, 255, 1, 0, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct span wire = span_of(rows[i], sizeof(rows[i]));
		struct sys_req req;

		assert_int_equal(sys_req_decode(&wire, &req), -EPROTO);
	}
}

static void an_encoder_adds_all_or_nothing(void **state)
{
	CLEANUP(buf_clear) struct buf buf = BUF_INIT(60);
	struct sys_req req = {SYS_unlink, {1, 2}, {SPAN("abc")}}; /* 8 + 16 + 4 + 3 = 31 */

	(void)state;
	assert_int_equal(sys_req_encode(&req, &buf), 0);
	assert_int_equal(sys_req_encode(&req, &buf), -EFBIG);
	assert_int_equal(buf.len, 31);
	assert_int_equal(sys_rep_encode(0, SPAN("0123456789abcd"), &buf), -EFBIG);
	assert_int_equal(buf.len, 31);
	assert_int_equal(sys_rep_encode(0, SPAN("0123456789abc"), &buf), 0);
	assert_int_equal(buf.len, 60);
	req.call = 70000;
	buf_clear(&buf);
	assert_int_equal(sys_req_encode(&req, &buf), -EFBIG);
}

/* ---- batches ---- */

struct answers {
	int count;
	int64_t r[16];
	int stop_at, stop_with;
};

static int keep_answer(void *arg, uint32_t index, int64_t r, struct span bytes)
{
	struct answers *answers = arg;

	assert_int_equal(index, answers->count);
	assert_true(span_eq(bytes, SPAN("x")));
	answers->r[answers->count++ % 16] = r;
	return answers->count == answers->stop_at ? answers->stop_with : 0;
}

static int add_number(struct sys_batch *batch, int64_t number)
{
	return sys_batch_add(batch, &(struct sys_req){SYS_close, {number}, {{0}}});
}

static void a_batch_hands_out_every_answer(void **state)
{
	struct fake fake = FAKE_INIT;
	struct answers answers = {0};
	CLEANUP(sys_batch_clear) struct sys_batch batch = SYS_BATCH_INIT(&fake.sys);

	(void)state;
	batch.done = keep_answer;
	batch.arg = &answers;
	fake.fail_at = 1;
	for (int i = 0; i < 4; i++)
		assert_int_equal(add_number(&batch, i), 0);
	assert_int_equal(sys_batch_run(&batch), 0);
	assert_int_equal(answers.count, 4);
	assert_int_equal(answers.r[1], -ENOENT);
	assert_int_equal(answers.r[3], 3);
	assert_int_equal(fake.calls, 1);
	assert_int_equal(sys_batch_run(&batch), 0);
	assert_int_equal(fake.calls, 1);
}

static void a_batch_whose_replies_are_full_goes_on(void **state)
{
	struct fake fake = FAKE_INIT;
	struct answers answers = {0};
	CLEANUP(sys_batch_clear) struct sys_batch batch = SYS_BATCH_INIT(&fake.sys);

	(void)state;
	batch.done = keep_answer;
	batch.arg = &answers;
	fake.reply_max = 3;
	for (int i = 0; i < 10; i++)
		assert_int_equal(add_number(&batch, i), 0);
	assert_int_equal(sys_batch_run(&batch), 0);
	assert_int_equal(answers.count, 10);
	for (int i = 0; i < 10; i++)
		assert_int_equal(answers.r[i], i);
	assert_int_equal(fake.calls, 4);
	fake.reply_max = 0;
	assert_int_equal(add_number(&batch, 1), 0);
	assert_int_equal(sys_batch_run(&batch), -EFBIG);
}

static void a_batch_stops_when_told(void **state)
{
	struct fake fake = FAKE_INIT;
	struct answers answers = {.stop_at = 2, .stop_with = 1};
	CLEANUP(sys_batch_clear) struct sys_batch batch = SYS_BATCH_INIT(&fake.sys);

	(void)state;
	batch.done = keep_answer;
	batch.arg = &answers;
	for (int i = 0; i < 4; i++)
		assert_int_equal(add_number(&batch, i), 0);
	assert_int_equal(sys_batch_run(&batch), 1);
	assert_int_equal(answers.count, 2);
	assert_int_equal(batch.count, 0);

	answers = (struct answers){0};
	batch.first = 0;
	batch.flags = SYS_BATCH_STOP;
	fake.fail_at = 1;
	for (int i = 0; i < 4; i++)
		assert_int_equal(add_number(&batch, i), 0);
	assert_int_equal(sys_batch_run(&batch), 0);
	assert_int_equal(answers.count, 2);
}

static void a_full_batch_is_sent_by_the_next_add(void **state)
{
	static char big[SYS_IO_MAX];
	struct fake fake = FAKE_INIT;
	struct sys_req req = {SYS_writefile, {0}, {SPAN("f"), span_of(big, sizeof(big) / 2)}};
	CLEANUP(sys_batch_clear) struct sys_batch batch = SYS_BATCH_INIT(&fake.sys);

	(void)state;
	assert_int_equal(sys_batch_add(&batch, &req), 0);
	assert_int_equal(fake.calls, 0);
	assert_int_equal(sys_batch_add(&batch, &req), 0);
	assert_int_equal(fake.calls, 1);
	assert_int_equal(batch.count, 1);
	req.in[1].len = sizeof(big);
	assert_int_equal(sys_batch_add(&batch, &req), -EFBIG);
	req.in[0] = SPAN("a\0");
	assert_int_equal(sys_batch_add(&batch, &req), -EINVAL);
}

/* ---- wrappers ---- */

static void wrappers_put_everything_in_its_place(void **state)
{
	struct fake fake = FAKE_INIT;
	struct sys *sys = &fake.sys;

	(void)state;
	fake.answer = 5;
	assert_int_equal(sys_open(sys, 3, SPAN("p"), O_RDWR, 0640), 5);
	assert_int_equal(fake.last.call, SYS_open);
	assert_true(fake.last.a[0] == 3 && fake.last.a[1] == O_RDWR && fake.last.a[2] == 0640);
	assert_string_equal(fake.in[0], "p");
	assert_int_equal(sys_rename(sys, 1, SPAN("from"), 2, SPAN("to"), 4), 5);
	assert_int_equal(fake.last.call, SYS_rename);
	assert_true(fake.last.a[0] == 1 && fake.last.a[1] == 2 && fake.last.a[2] == 4);
	assert_string_equal(fake.in[0], "from");
	assert_string_equal(fake.in[1], "to");
	assert_int_equal(sys_setxattr(sys, 1, SPAN("f"), SPAN("user.a"), SPAN("val"), 2, 3), 5);
	assert_true(fake.last.a[0] == 1 && fake.last.a[1] == 3 && fake.last.a[2] == 2);
	assert_string_equal(fake.in[2], "val");
	assert_int_equal(sys_copy(sys, 1, 2, 3, 4, 5), 5);
	for (int i = 0; i < 5; i++)
		assert_int_equal(fake.last.a[i], i + 1);
	fake.answer = -EROFS;
	assert_int_equal(sys_mkdir(sys, SYS_CWD, SPAN("d"), 0755), -EROFS);
	assert_int_equal(sys_write(sys, 1, SPAN("x"), -1), -EROFS);
	sys_free(sys);
	assert_true(fake.freed);
	sys_free(NULL);
}

static void an_answer_of_the_wrong_size_is_no_stat(void **state)
{
	struct sys_stat want = {.ino = 7, .size = 9}, got = {.ino = 1};
	struct fake fake = FAKE_INIT;

	(void)state;
	fake.bytes = span_of(&want, sizeof(want) - 1);
	assert_int_equal(sys_stat(&fake.sys, SYS_CWD, SPAN("f"), 0, &got), -EPROTO);
	assert_int_equal(got.ino, 1);
	fake.bytes = span_of(&want, sizeof(want));
	assert_int_equal(sys_fstat(&fake.sys, 3, &got), 0);
	assert_true(got.ino == 7 && got.size == 9);
	fake.answer = -EBADF;
	got.ino = 1;
	assert_int_equal(sys_fstat(&fake.sys, 3, &got), -EBADF);
	assert_int_equal(got.ino, 1);
}

static void readfile_parts_attributes_and_content(void **state)
{
	CLEANUP(buf_clear) struct buf bytes = BUF_INIT(4096);
	CLEANUP(buf_clear) struct buf content = BUF_INIT(8);
	struct sys_stat stat = {.ino = 7}, got = {0};
	struct fake fake = FAKE_INIT;

	(void)state;
	assert_int_equal(buf_add(&bytes, &stat, sizeof(stat)), 0);
	assert_int_equal(buf_add(&bytes, "hello", 5), 0);
	fake.bytes = span_of(bytes.data, bytes.len);
	assert_int_equal(sys_readfile(&fake.sys, SYS_CWD, SPAN("f"), 0, SIZE_MAX, &got, &content),
			 5);
	assert_int_equal(got.ino, 7);
	assert_string_equal(content.data, "hello");
	assert_int_equal(fake.last.a[2], SYS_IO_MAX - sizeof(stat));
	assert_int_equal(sys_readfile(&fake.sys, SYS_CWD, SPAN("f"), 0, 1, &got, &content), -EFBIG);
	assert_string_equal(content.data, "hello");
	fake.bytes.len = sizeof(stat) - 1;
	assert_int_equal(sys_readfile(&fake.sys, SYS_CWD, SPAN("f"), 0, 1, &got, &content),
			 -EPROTO);
}

/* ---- directories ---- */

static void add_dirent(struct buf *buf, int64_t cookie, const char *name, uint32_t name_len)
{
	static const char zeros[8];
	struct sys_dirent dirent = {.cookie = cookie, .name_len = name_len, .stat.ino = cookie};

	assert_int_equal(buf_add(buf, &dirent, sizeof(dirent)), 0);
	assert_int_equal(buf_add(buf, name, strlen(name)), 0);
	assert_int_equal(buf_add(buf, zeros, (8 - strlen(name) % 8) % 8), 0);
}

static int collect_name(void *arg, const struct sys_entry *entry)
{
	struct buf *names = arg;

	assert_int_equal(buf_add(names, entry->name.data, entry->name.len), 0);
	assert_int_equal(buf_add(names, " ", 1), 0);
	return span_eq(entry->name, SPAN("stop")) ? 42 : 0;
}

/* Answers the records once, then the end. */
static int64_t once_call(struct sys *sys, const struct sys_req *req, struct buf *out)
{
	struct fake *fake = (struct fake *)(void *)sys;

	if (fake->calls++ && req->a[1] != 0 && fake->reply_max)
		return 0;
	assert_int_equal(buf_add(out, fake->bytes.data, fake->bytes.len), 0);
	return 0;
}

static void every_entry_is_seen_but_the_dots(void **state)
{
	static const struct sys_ops ops = {.call = once_call, .free = fake_free};
	CLEANUP(buf_clear) struct buf records = BUF_INIT(4096);
	CLEANUP(buf_clear) struct buf names = BUF_INIT(4096);
	struct fake fake = FAKE_INIT;

	(void)state;
	fake.sys.ops = &ops;
	add_dirent(&records, 1, ".", 1);
	add_dirent(&records, 2, "..", 2);
	add_dirent(&records, 3, "...", 3);
	add_dirent(&records, 4, "12345678", 8);
	fake.bytes = span_of(records.data, records.len);
	assert_int_equal(sys_each_entry(&fake.sys, 3, collect_name, &names), 0);
	assert_string_equal(names.data, "... 12345678 ");
	assert_int_equal(fake.calls, 2);
	add_dirent(&records, 5, "stop", 4);
	add_dirent(&records, 6, "never", 5);
	fake.bytes = span_of(records.data, records.len);
	fake.calls = 0;
	assert_int_equal(sys_each_entry(&fake.sys, 3, collect_name, &names), 42);
}

static void damaged_directory_records_are_refused(void **state)
{
	static const struct sys_ops ops = {.call = once_call, .free = fake_free};
	static const uint32_t lens[] = {0, 9, 256, UINT32_MAX, 0x80000000};
	CLEANUP(buf_clear) struct buf names = BUF_INIT(1 << 20);
	struct fake fake = FAKE_INIT;

	(void)state;
	fake.sys.ops = &ops;
	for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
		CLEANUP(buf_clear) struct buf records = BUF_INIT(4096);

		add_dirent(&records, 1, "name", lens[i]);
		fake.bytes = span_of(records.data, records.len);
		assert_int_equal(sys_each_entry(&fake.sys, 3, collect_name, &names), -EPROTO);
		fake.bytes.len = 10;
		assert_int_equal(sys_each_entry(&fake.sys, 3, collect_name, &names), -EPROTO);
	}
	/* One that never advances would go on for ever. */
	CLEANUP(buf_clear) struct buf same = BUF_INIT(4096);

	add_dirent(&same, 1, "name", 4);
	fake.bytes = span_of(same.data, same.len);
	fake.reply_max = 0;
	assert_int_equal(sys_each_entry(&fake.sys, 3, collect_name, &names), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_sorted_and_no_number_is_there_twice),
		cmocka_unit_test(rows_fit_into_a_request),
		cmocka_unit_test(the_check_names_what_is_wrong),
		cmocka_unit_test(a_request_that_fails_the_check_is_not_called),
		cmocka_unit_test(requests_survive_the_wire),
		cmocka_unit_test(the_layout_of_a_request_never_changes),
		cmocka_unit_test(replies_survive_the_wire),
		cmocka_unit_test(every_cut_request_and_reply_is_refused),
		cmocka_unit_test(headers_that_lie_are_refused),
		cmocka_unit_test(an_encoder_adds_all_or_nothing),
		cmocka_unit_test(a_batch_hands_out_every_answer),
		cmocka_unit_test(a_batch_whose_replies_are_full_goes_on),
		cmocka_unit_test(a_batch_stops_when_told),
		cmocka_unit_test(a_full_batch_is_sent_by_the_next_add),
		cmocka_unit_test(wrappers_put_everything_in_its_place),
		cmocka_unit_test(an_answer_of_the_wrong_size_is_no_stat),
		cmocka_unit_test(readfile_parts_attributes_and_content),
		cmocka_unit_test(every_entry_is_seen_but_the_dots),
		cmocka_unit_test(damaged_directory_records_are_refused),
	};

	return cmocka_run_group_tests_name("sys", tests, NULL, NULL);
}
