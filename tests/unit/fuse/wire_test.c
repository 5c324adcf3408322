/* wire_test.c - the protocol: what is agreed on, what is answered, and hostile bytes. */
#include "fuse/refs.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME(text) span_of(text, sizeof(text))

/* ---- INIT ---- */

static void init_takes_what_is_fast_and_right(void **state)
{
	const uint64_t must =
		FUSE_BIG_WRITES | FUSE_MAX_PAGES | FUSE_ASYNC_READ | FUSE_PARALLEL_DIROPS |
		FUSE_DO_READDIRPLUS | FUSE_READDIRPLUS_AUTO | FUSE_CACHE_SYMLINKS |
		FUSE_HANDLE_KILLPRIV_V2 | FUSE_EXPLICIT_INVAL_DATA | FUSE_NO_OPEN_SUPPORT |
		FUSE_NO_OPENDIR_SUPPORT | FUSE_WRITEBACK_CACHE | FUSE_SETXATTR_EXT | FUSE_INIT_EXT;
	/* The first loses truncations when nothing is opened; locks the kernel keeps itself. */
	const uint64_t must_not = FUSE_ATOMIC_O_TRUNC | FUSE_POSIX_ACL | FUSE_DONT_MASK |
				  FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS | FUSE_AUTO_INVAL_DATA |
				  FUSE_PASSTHROUGH | FUSE_OVER_IO_URING;
	struct wire wire;
	struct fuse_init_out out;
	uint64_t flags;

	(void)state;
	wire_open(&wire);
	assert_int_equal(wire.reply_len, sizeof(out));
	memcpy(&out, wire.reply, sizeof(out));
	flags = out.flags | (uint64_t)out.flags2 << 32;
	assert_int_equal(out.major, 7);
	assert_int_equal(out.minor, 45);
	assert_int_equal(out.max_write, 1 << 20);
	assert_int_equal(out.max_pages, 256);
	assert_int_equal(out.max_readahead, 131072);
	assert_int_equal(flags & must, must);
	assert_int_equal(flags & must_not, 0);
	wire_close(&wire);
}

static uint64_t agreed(const struct fuse_options *options)
{
	const struct fuse_init_in in = {.major = 7, .minor = 45, .flags = ~0U};
	struct fuse_init_out out;
	struct wire wire;

	wire_open_raw(&wire, options);
	assert_int_equal(wire_ask(&wire, FUSE_INIT, 0, ARG(in), SPAN_EMPTY), 0);
	memcpy(&out, wire.reply, sizeof(out));
	wire_close(&wire);
	return out.flags | (uint64_t)out.flags2 << 32;
}

static void a_mount_that_cannot_write_does_not_write_back(void **state)
{
	const struct fuse_options readonly = {.readonly = true, .threads = 1};
	const struct fuse_options through = {.write_through = true, .threads = 1};

	(void)state;
	assert_int_equal(agreed(&readonly) & FUSE_WRITEBACK_CACHE, 0);
	assert_int_equal(agreed(&through) & FUSE_WRITEBACK_CACHE, 0);
}

static void init_refuses_what_it_does_not_speak(void **state)
{
	struct fuse_init_in in = {.major = 7, .minor = 30};
	struct fuse_init_out out;
	struct wire wire;

	(void)state;
	wire_open_raw(&wire, NULL);
	assert_int_equal(wire_ask(&wire, FUSE_STATFS, 1, SPAN_EMPTY, SPAN_EMPTY), -EIO);
	assert_int_equal(wire_ask(&wire, FUSE_INIT, 0, ARG(in), SPAN_EMPTY), -EPROTO);
	in.major = 6;
	assert_int_equal(wire_ask(&wire, FUSE_INIT, 0, ARG(in), SPAN_EMPTY), -EPROTO);
	/* A newer major is told ours, and asks again. */
	in.major = 8;
	assert_int_equal(wire_ask(&wire, FUSE_INIT, 0, ARG(in), SPAN_EMPTY), 0);
	memcpy(&out, wire.reply, sizeof(out));
	assert_int_equal(out.major, 7);
	assert_int_equal(wire_ask(&wire, FUSE_STATFS, 1, SPAN_EMPTY, SPAN_EMPTY), -EIO);
	/* The short form of kernels before 5.17. */
	in = (struct fuse_init_in){.major = 7, .minor = 31};
	assert_int_equal(wire_ask(&wire, FUSE_INIT, 0, span_of(&in, FUSE_INIT_IN_MIN), SPAN_EMPTY),
			 0);
	assert_int_equal(wire_ask(&wire, FUSE_STATFS, 1, SPAN_EMPTY, SPAN_EMPTY), 0);
	/* Once. */
	assert_int_equal(wire_ask(&wire, FUSE_INIT, 0, ARG(in), SPAN_EMPTY), -EIO);
	/* Longer messages promised, shorter ones sent. */
	wire_close(&wire);
	wire_open_raw(&wire, NULL);
	in.flags = (uint32_t)FUSE_INIT_EXT;
	assert_int_equal(wire_ask(&wire, FUSE_INIT, 0, span_of(&in, FUSE_INIT_IN_MIN), SPAN_EMPTY),
			 -EPROTO);
	wire_close(&wire);
}

/* ---- answers ---- */

static void what_is_not_there_is_cached_as_such(void **state)
{
	struct fuse_entry_out entry;
	struct wire wire;

	(void)state;
	wire_open(&wire);
	assert_int_equal(wire_lookup(&wire, 1, "nothing"), 0);
	memcpy(&entry, wire.reply, sizeof(entry));
	assert_int_equal(entry.entry_valid, 3600);
	assert_int_equal(fake_vfs_refs(wire.vfs), 0);
	wire_close(&wire);
}

static void bytes_come_back(void **state)
{
	const struct fuse_write_in write_in = {.offset = 3, .size = 5};
	const struct fuse_read_in read_in = {.offset = 0, .size = 100};
	const struct fuse_getattr_in getattr_in = {0};
	struct fuse_write_out written;
	struct fuse_attr_out attr;
	struct wire wire;
	uint64_t ino;

	(void)state;
	wire_open(&wire);
	ino = (uint64_t)wire_create(&wire, 1, "file");
	assert_int_equal(wire.reply_len,
			 sizeof(struct fuse_entry_out) + sizeof(struct fuse_open_out));
	assert_int_equal(wire_ask(&wire, FUSE_WRITE, ino, ARG(write_in), span_of("hello", 5)), 0);
	memcpy(&written, wire.reply, sizeof(written));
	assert_int_equal(written.size, 5);
	assert_int_equal(wire_ask(&wire, FUSE_READ, ino, ARG(read_in), SPAN_EMPTY), 0);
	assert_int_equal(wire.reply_len, 8);
	assert_memory_equal(wire.reply, "\0\0\0hello", 8);
	assert_int_equal(wire_ask(&wire, FUSE_GETATTR, ino, ARG(getattr_in), SPAN_EMPTY), 0);
	memcpy(&attr, wire.reply, sizeof(attr));
	assert_int_equal(attr.attr.size, 8);
	assert_int_equal(attr.attr.mode, S_IFREG | 0644);
	assert_int_equal(attr.attr_valid, 3600);
	wire_close(&wire);
}

static void a_listing_packs_entries_and_counts_references(void **state)
{
	struct fuse_read_in in = {.size = 700};
	size_t entry_size = sizeof(struct fuse_entry_out) + sizeof(struct fuse_dirent) + 8;
	char name[8];
	struct wire wire;
	int seen = 0;

	(void)state;
	wire_open(&wire);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "n%02d", i);
		wire_forget(&wire, (uint64_t)wire_create(&wire, 1, name), 1);
	}
	wire_settle(&wire);
	assert_int_equal(fake_vfs_refs(wire.vfs), 0);
	for (;;) {
		assert_int_equal(wire_ask(&wire, FUSE_READDIRPLUS, 1, ARG(in), SPAN_EMPTY), 0);
		if (wire.reply_len == 0)
			break;
		assert_true(wire.reply_len <= in.size);
		assert_int_equal(wire.reply_len % entry_size, 0);
		for (size_t at = 0; at < wire.reply_len; at += entry_size) {
			struct fuse_entry_out entry;
			struct fuse_dirent dirent;

			memcpy(&entry, wire.reply + at, sizeof(entry));
			memcpy(&dirent, wire.reply + at + sizeof(entry), sizeof(dirent));
			in.offset = dirent.off;
			/* "." and ".." are listed, and counted nowhere. */
			assert_int_equal(entry.nodeid != 0, dirent.namelen == 3);
			seen += dirent.namelen == 3;
		}
	}
	assert_int_equal(seen, 20);
	assert_int_equal(fake_vfs_refs(wire.vfs), 20);
	in = (struct fuse_read_in){.size = 4096};
	assert_int_equal(wire_ask(&wire, FUSE_READDIR, 1, ARG(in), SPAN_EMPTY), 0);
	assert_int_equal(fake_vfs_refs(wire.vfs), 20);
	wire_close(&wire);
}

static void names_and_links(void **state)
{
	const struct fuse_rename2_in rename_in = {.newdir = 1};
	struct wire wire;
	uint64_t dir, link;

	(void)state;
	wire_open(&wire);
	dir = (uint64_t)wire_mkdir(&wire, 1, "dir");
	assert_int_equal(wire_ask(&wire, FUSE_SYMLINK, dir, SPAN_EMPTY, NAME("link\0a/b")), 0);
	link = (uint64_t)wire_lookup(&wire, dir, "link");
	assert_int_equal(wire_ask(&wire, FUSE_READLINK, link, SPAN_EMPTY, SPAN_EMPTY), 0);
	assert_int_equal(wire.reply_len, 3);
	assert_memory_equal(wire.reply, "a/b", 3);
	assert_int_equal(
		wire_ask(&wire, FUSE_RENAME2, dir, ARG(rename_in), NAME("link\0elsewhere")), 0);
	assert_int_equal(wire_lookup(&wire, 1, "elsewhere"), link);
	assert_int_equal(wire_lookup(&wire, dir, "link"), 0);
	assert_int_equal(wire_ask(&wire, FUSE_UNLINK, 1, SPAN_EMPTY, NAME("elsewhere")), 0);
	assert_int_equal(wire_ask(&wire, FUSE_UNLINK, 1, SPAN_EMPTY, NAME("elsewhere")), -ENOENT);
	/* Without a name, and still there until the last reference is gone. */
	assert_int_equal(wire_ask(&wire, FUSE_READLINK, link, SPAN_EMPTY, SPAN_EMPTY), 0);
	wire_forget(&wire, link, 3);
	wire_settle(&wire);
	assert_int_equal(wire_ask(&wire, FUSE_READLINK, link, SPAN_EMPTY, SPAN_EMPTY), -ESTALE);
	wire_close(&wire);
}

static void extended_attributes(void **state)
{
	const struct fuse_setxattr_in set_in = {.size = 3};
	struct fuse_getxattr_in get_in = {.size = 0};
	struct fuse_getxattr_out out;
	struct wire wire;
	uint64_t ino;

	(void)state;
	wire_open(&wire);
	ino = (uint64_t)wire_create(&wire, 1, "file");
	assert_int_equal(wire_ask(&wire, FUSE_SETXATTR, ino, ARG(set_in), NAME("user.a\0xy")), 0);
	assert_int_equal(wire_ask(&wire, FUSE_GETXATTR, ino, ARG(get_in), NAME("user.a")), 0);
	memcpy(&out, wire.reply, sizeof(out));
	assert_int_equal(out.size, 3);
	get_in.size = 2;
	assert_int_equal(wire_ask(&wire, FUSE_GETXATTR, ino, ARG(get_in), NAME("user.a")), -ERANGE);
	get_in.size = 3;
	assert_int_equal(wire_ask(&wire, FUSE_GETXATTR, ino, ARG(get_in), NAME("user.a")), 0);
	assert_memory_equal(wire.reply, "xy", 3);
	assert_int_equal(wire_ask(&wire, FUSE_GETXATTR, ino, ARG(get_in), NAME("user.b")),
			 -ENODATA);
	get_in.size = 100;
	assert_int_equal(wire_ask(&wire, FUSE_LISTXATTR, ino, ARG(get_in), SPAN_EMPTY), 0);
	assert_int_equal(wire.reply_len, 7);
	wire_close(&wire);
}

static void what_the_kernel_does_alone_is_refused(void **state)
{
	static const uint32_t refused[] = {
		FUSE_OPEN,  FUSE_OPENDIR, FUSE_FLUSH, FUSE_ACCESS, FUSE_SETLK,
		FUSE_GETLK, FUSE_SETLKW,  FUSE_POLL,  FUSE_BMAP,   7,
		19,         63,           64,         4096,        UINT32_MAX};
	static const char zeros[64];
	struct wire wire;

	(void)state;
	wire_open(&wire);
	for (size_t i = 0; i < ARRAY_LEN(refused); i++)
		assert_int_equal(wire_ask(&wire, refused[i], 1, ARG(zeros), SPAN_EMPTY), -ENOSYS);
	assert_int_equal(wire_ask(&wire, FUSE_IOCTL, 1, ARG(zeros), SPAN_EMPTY), -ENOTTY);
	wire_close(&wire);
}

static void without_extended_attributes_they_are_refused(void **state)
{
	const struct fuse_options options = {.threads = 1};
	const struct fuse_init_in in = {.major = 7, .minor = 45};
	const struct fuse_getxattr_in get_in = {.size = 10};
	struct wire wire;

	(void)state;
	wire_open_raw(&wire, &options);
	assert_int_equal(wire_ask(&wire, FUSE_INIT, 0, ARG(in), SPAN_EMPTY), 0);
	assert_int_equal(
		wire_ask(&wire, FUSE_GETXATTR, 1, ARG(get_in), NAME("security.capability")),
		-ENOSYS);
	assert_int_equal(wire_ask(&wire, FUSE_LISTXATTR, 1, ARG(get_in), SPAN_EMPTY), -ENOSYS);
	wire_close(&wire);
}

/* ---- hostile ---- */

static void a_wrong_length_is_an_error(void **state)
{
	struct fuse_in_header header = {
		.len = 1000, .opcode = FUSE_STATFS, .unique = 77, .nodeid = 1};
	struct wire wire;
	uint64_t unique;

	(void)state;
	wire_open(&wire);
	wire_send(&wire, &header, sizeof(header));
	assert_int_equal(wire_receive(&wire, &unique), -EIO);
	assert_int_equal(unique, 77);
	header.len = 3;
	wire_send(&wire, &header, sizeof(header));
	assert_int_equal(wire_receive(&wire, &unique), -EIO);
	/* Not even a header: nobody to answer. */
	wire_send(&wire, &header, 8);
	wire_send(&wire, &header, sizeof(header) - 1);
	wire_settle(&wire);
	assert_true(wire_silent(&wire));
	wire_close(&wire);
}

static void a_short_request_is_an_error(void **state)
{
	static const struct {
		uint32_t opcode;
		size_t size;
	} rows[] = {
#define OP(number, name, size, handler) {number, size},
#include "fuse/ops.def"
#undef OP
	};
	static const char zeros[128];
	struct wire wire;

	(void)state;
	wire_open(&wire);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		bool answered = rows[i].opcode != FUSE_FORGET && rows[i].opcode != FUSE_INTERRUPT &&
				rows[i].opcode != FUSE_BATCH_FORGET;

		if (i > 0)
			assert_true(rows[i - 1].opcode < rows[i].opcode);
		if (rows[i].size == 0)
			continue;
		wire_request(&wire, rows[i].opcode, 1, span_of(zeros, rows[i].size - 1),
			     SPAN_EMPTY);
		if (answered)
			assert_int_equal(wire_receive(&wire, NULL), -EINVAL);
	}
	wire_settle(&wire);
	assert_true(wire_silent(&wire));
	wire_close(&wire);
}

static void a_bad_name_is_an_error(void **state)
{
	char longest[300];
	struct wire wire;

	(void)state;
	wire_open(&wire);
	memset(longest, 'n', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(wire_ask(&wire, FUSE_LOOKUP, 1, SPAN_EMPTY, SPAN_EMPTY), -EINVAL);
	assert_int_equal(wire_ask(&wire, FUSE_LOOKUP, 1, SPAN_EMPTY, span_of("abc", 3)), -EINVAL);
	assert_int_equal(wire_ask(&wire, FUSE_LOOKUP, 1, SPAN_EMPTY, NAME("")), -EINVAL);
	assert_int_equal(wire_ask(&wire, FUSE_LOOKUP, 1, SPAN_EMPTY, NAME("a/b")), -EINVAL);
	assert_int_equal(wire_ask(&wire, FUSE_LOOKUP, 1, SPAN_EMPTY, NAME("..")), -EINVAL);
	assert_int_equal(wire_ask(&wire, FUSE_UNLINK, 1, SPAN_EMPTY, NAME(".")), -EINVAL);
	assert_int_equal(
		wire_ask(&wire, FUSE_LOOKUP, 1, SPAN_EMPTY, span_of(longest, sizeof(longest))),
		-ENAMETOOLONG);
	assert_int_equal(wire_ask(&wire, FUSE_SYMLINK, 1, SPAN_EMPTY, NAME("only")), -EINVAL);
	/* The magic name is ours only while mounting. */
	assert_int_equal(wire_lookup(&wire, 1, ".computer-\x01-9223372036854775807"), 0);
	wire_close(&wire);
}

static void a_node_that_was_never_given_is_stale(void **state)
{
	static const uint64_t nodes[] = {0,         999, 5000, INT64_MAX, (uint64_t)INT64_MAX + 1,
					 UINT64_MAX};
	const struct fuse_getattr_in in = {0};
	const struct fuse_rename2_in rename_in = {.newdir = UINT64_MAX};
	const struct fuse_link_in link_in = {.oldnodeid = UINT64_MAX};
	struct wire wire;

	(void)state;
	wire_open(&wire);
	for (size_t i = 0; i < ARRAY_LEN(nodes); i++)
		assert_int_equal(wire_ask(&wire, FUSE_GETATTR, nodes[i], ARG(in), SPAN_EMPTY),
				 -ESTALE);
	assert_int_equal(wire_ask(&wire, FUSE_RENAME2, 1, ARG(rename_in), NAME("a\0b")), -ESTALE);
	assert_int_equal(wire_ask(&wire, FUSE_LINK, 1, ARG(link_in), NAME("a")), -ESTALE);
	wire_close(&wire);
}

static void forgetting_too_much_is_cut(void **state)
{
	struct {
		struct fuse_batch_forget_in head;
		struct fuse_forget_one ones[3];
	} batch = {{.count = UINT32_MAX}, {{0, 1}, {UINT64_MAX, UINT64_MAX}, {0, 0}}};
	struct wire wire;
	uint64_t ino;

	(void)state;
	wire_open(&wire);
	ino = (uint64_t)wire_create(&wire, 1, "file");
	assert_int_equal(wire_lookup(&wire, 1, "file"), ino);
	wire_settle(&wire);
	assert_int_equal(fake_vfs_refs(wire.vfs), 2);
	/* The fake vfs aborts when it is told more than it gave. */
	wire_forget(&wire, ino, UINT64_MAX);
	wire_forget(&wire, ino, 1);
	wire_forget(&wire, 1, 5);
	wire_forget(&wire, UINT64_MAX, 5);
	batch.ones[2] = (struct fuse_forget_one){ino, 9};
	wire_request(&wire, FUSE_BATCH_FORGET, 0, ARG(batch), SPAN_EMPTY);
	wire_settle(&wire);
	assert_int_equal(fake_vfs_refs(wire.vfs), 0);
	assert_true(wire_silent(&wire));
	wire_close(&wire);
}

static void lengths_inside_requests_are_checked(void **state)
{
	const struct fuse_write_in write_in = {.size = 100};
	const struct fuse_write_in far = {.offset = UINT64_MAX - 1, .size = 4};
	const struct fuse_read_in read_far = {.offset = UINT64_MAX, .size = UINT32_MAX};
	const struct fuse_setxattr_in set_in = {.size = 100};
	const struct fuse_fallocate_in hole = {.offset = INT64_MAX, .length = INT64_MAX};
	const struct fuse_setattr_in grow = {.valid = FUSE_FATTR_SIZE, .size = UINT64_MAX};
	struct fuse_copy_file_range_in copy = {.nodeid_out = UINT64_MAX};
	struct wire wire;
	uint64_t ino;

	(void)state;
	wire_open(&wire);
	ino = (uint64_t)wire_create(&wire, 1, "file");
	assert_int_equal(wire_ask(&wire, FUSE_WRITE, ino, ARG(write_in), span_of("abc", 3)),
			 -EINVAL);
	assert_int_equal(wire_ask(&wire, FUSE_WRITE, ino, ARG(far), span_of("abcd", 4)), -EFBIG);
	assert_int_equal(wire_ask(&wire, FUSE_READ, ino, ARG(read_far), SPAN_EMPTY), -EINVAL);
	assert_int_equal(wire_ask(&wire, FUSE_SETXATTR, ino, ARG(set_in), NAME("user.a\0b")),
			 -EINVAL);
	assert_int_equal(wire_ask(&wire, FUSE_FALLOCATE, ino, ARG(hole), SPAN_EMPTY), -EFBIG);
	assert_int_equal(wire_ask(&wire, FUSE_SETATTR, ino, ARG(grow), SPAN_EMPTY), -EFBIG);
	assert_int_equal(wire_ask(&wire, FUSE_COPY_FILE_RANGE, ino, ARG(copy), SPAN_EMPTY),
			 -ESTALE);
	copy = (struct fuse_copy_file_range_in){.nodeid_out = ino, .off_out = INT64_MAX, .len = 9};
	assert_int_equal(wire_ask(&wire, FUSE_COPY_FILE_RANGE_64, ino, ARG(copy), SPAN_EMPTY),
			 -EFBIG);
	wire_close(&wire);
}

static void holes_are_told_where_nothing_waits_to_be_written(void **state)
{
	const struct fuse_options through = {.write_through = true, .threads = 1};
	const struct fuse_init_in in = {.major = 7, .minor = 45, .flags = ~0U};
	const struct fuse_write_in write_in = {.size = 3};
	const struct fuse_lseek_in hole = {.whence = SEEK_HOLE};
	const struct fuse_lseek_in far = {.offset = UINT64_MAX, .whence = SEEK_DATA};
	const struct fuse_lseek_in set = {.whence = SEEK_SET};
	struct fuse_lseek_out out;
	struct wire wire;
	uint64_t ino;

	(void)state;
	wire_open(&wire);
	ino = (uint64_t)wire_create(&wire, 1, "file");
	assert_int_equal(wire_ask(&wire, FUSE_LSEEK, ino, ARG(hole), SPAN_EMPTY), -ENOSYS);
	wire_close(&wire);

	wire_open_raw(&wire, &through);
	assert_int_equal(wire_ask(&wire, FUSE_INIT, 0, ARG(in), SPAN_EMPTY), 0);
	ino = (uint64_t)wire_create(&wire, 1, "file");
	assert_int_equal(wire_ask(&wire, FUSE_WRITE, ino, ARG(write_in), span_of("abc", 3)), 0);
	assert_int_equal(wire_ask(&wire, FUSE_LSEEK, ino, ARG(hole), SPAN_EMPTY), 0);
	memcpy(&out, wire.reply, sizeof(out));
	assert_int_equal(out.offset, 3);
	assert_int_equal(wire_ask(&wire, FUSE_LSEEK, ino, ARG(far), SPAN_EMPTY), -ENXIO);
	assert_int_equal(wire_ask(&wire, FUSE_LSEEK, ino, ARG(set), SPAN_EMPTY), -EINVAL);
	wire_close(&wire);
}

static void noise_is_survived_and_answered_once(void **state)
{
	unsigned seed = 1;
	char bytes[256];
	struct wire wire;
	int asked = 0, answered = 0;

	(void)state;
	wire_open(&wire);
	for (int round = 0; round < 4000; round++) {
		struct fuse_in_header header = {.unique = (uint64_t)round + 1000000,
						.nodeid = rand_r(&seed) % 8u};
		size_t len =
			sizeof(header) + (size_t)rand_r(&seed) % (sizeof(bytes) - sizeof(header));

		header.opcode = (uint32_t)rand_r(&seed) % 56;
		header.len = (uint32_t)len;
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (char)(rand_r(&seed) % 4 ? 0 : rand_r(&seed));
		memcpy(bytes, &header, sizeof(header));
		wire_send(&wire, bytes, len);
		asked += header.opcode != FUSE_FORGET && header.opcode != FUSE_BATCH_FORGET &&
			 header.opcode != FUSE_INTERRUPT && header.opcode != FUSE_NOTIFY_REPLY;
		while (!wire_silent(&wire)) {
			wire_receive(&wire, NULL);
			answered++;
		}
	}
	while (answered < asked) {
		wire_receive(&wire, NULL);
		answered++;
	}
	wire_settle(&wire);
	assert_true(wire_silent(&wire));
	wire_close(&wire);
}

/* ---- telling the kernel ---- */

static void others_changes_are_told(void **state)
{
	struct fuse_notify_inval_entry_out entry;
	struct fuse_notify_inval_inode_out inode;
	struct vfs_event event = {
		.kind = VFS_EVENT_CREATE, .ino = 9, .parent = 1, .name = SPAN("new")};
	struct wire wire;
	uint64_t unique;

	(void)state;
	wire_open(&wire);
	fake_vfs_event(wire.vfs, &event);
	fuse_notified(wire.fuse);
	assert_int_equal(wire_receive(&wire, &unique), FUSE_NOTIFY_INVAL_ENTRY);
	assert_int_equal(unique, 0);
	memcpy(&entry, wire.reply, sizeof(entry));
	assert_int_equal(entry.parent, 1);
	assert_int_equal(entry.namelen, 3);
	assert_int_equal(wire.reply_len, sizeof(entry) + 4);
	assert_string_equal(wire.reply + sizeof(entry), "new");
	assert_int_equal(wire_receive(&wire, NULL), FUSE_NOTIFY_INVAL_INODE);
	assert_int_equal(wire_receive(&wire, NULL), FUSE_NOTIFY_INVAL_INODE);

	event = (struct vfs_event){.kind = VFS_EVENT_MODIFY, .ino = 9};
	fake_vfs_event(wire.vfs, &event);
	fuse_notified(wire.fuse);
	assert_int_equal(wire_receive(&wire, NULL), FUSE_NOTIFY_INVAL_INODE);
	memcpy(&inode, wire.reply, sizeof(inode));
	assert_int_equal(inode.ino, 9);
	assert_int_equal(inode.off, 0);

	event = (struct vfs_event){
		.kind = VFS_EVENT_DELETE, .ino = 9, .parent = 1, .name = SPAN("x")};
	fake_vfs_event(wire.vfs, &event);
	fuse_notified(wire.fuse);
	assert_int_equal(wire_receive(&wire, NULL), FUSE_NOTIFY_DELETE);
	while (!wire_silent(&wire))
		wire_receive(&wire, NULL);

	event.kind = VFS_EVENT_RESET;
	fake_vfs_event(wire.vfs, &event);
	fuse_notified(wire.fuse);
	assert_int_equal(wire_receive(&wire, NULL), FUSE_NOTIFY_INC_EPOCH);
	while (!wire_silent(&wire))
		wire_receive(&wire, NULL);

	/* What the kernel did itself it knows. */
	event.kind = VFS_EVENT_MODIFY;
	event.source = wire.fuse;
	fake_vfs_event(wire.vfs, &event);
	fuse_notified(wire.fuse);
	assert_true(wire_silent(&wire));
	wire_close(&wire);
}

static void too_many_changes_become_one(void **state)
{
	struct vfs_event event = {.kind = VFS_EVENT_CREATE, .parent = 1, .name = SPAN("new")};
	struct wire wire;
	int told = 0;

	(void)state;
	wire_open(&wire);
	/* The socket takes some hundred; then the notifier waits, and the queue fills. */
	for (int i = 0; i < 20000; i++) {
		event.ino = 100 + i;
		fake_vfs_event(wire.vfs, &event);
	}
	for (int code = 0; code != FUSE_NOTIFY_INC_EPOCH; told++)
		code = wire_receive(&wire, NULL);
	assert_true(told < 20000 * 3);
	/* The notifier may have gone back to single ones: take them, so that it is not stuck. */
	for (struct pollfd ready = {.fd = wire.fd, .events = POLLIN}; poll(&ready, 1, 500) > 0;)
		(void)wire_receive(&wire, NULL);
	fuse_notified(wire.fuse);
	wire_close(&wire);
}

static void dirty_pages_are_asked_for(void **state)
{
	struct wire wire;
	int64_t ino;

	(void)state;
	wire_open(&wire);
	ino = wire_create(&wire, 1, "file");
	fake_vfs_pull(wire.vfs, ino + 1);
	assert_true(wire_silent(&wire));
	fake_vfs_pull(wire.vfs, ino);
	assert_int_equal(wire_receive(&wire, NULL), FUSE_NOTIFY_INVAL_INODE);
	assert_int_equal(fuse_writeback(wire.fuse), 0);
	assert_int_equal(wire_receive(&wire, NULL), FUSE_NOTIFY_INVAL_INODE);
	wire_close(&wire);
}

/* ---- references ---- */

static void references_are_counted(void **state)
{
	enum { N = 5000 };
	struct refs refs;
	size_t count;
	int64_t *list;

	(void)state;
	refs_init(&refs);
	assert_false(refs_has(&refs, 7));
	assert_int_equal(refs_sub(&refs, 7, 1), 0);
	for (int64_t i = 1; i <= N; i++)
		for (int64_t k = 0; k <= i % 3; k++)
			refs_add(&refs, i * 7);
	for (int64_t i = 1; i <= N; i++)
		if (i % 5)
			assert_int_equal(refs_sub(&refs, i * 7, 100), i % 3 + 1);
	for (int64_t i = 1; i <= N; i++)
		assert_int_equal(refs_has(&refs, i * 7), i % 5 == 0);
	list = refs_list(&refs, &count);
	assert_int_equal(count, N / 5);
	free(list);
	/* Ghosts are given back first, and are nobody else's business. */
	assert_false(refs_add_ghost(&refs, 7));
	assert_true(refs_add_ghost(&refs, 35));
	assert_int_equal(refs_sub(&refs, 35, 1), 0);
	for (int64_t i = 5; i <= N; i += 5) {
		assert_int_equal(refs_sub(&refs, i * 7, 1), 1);
		assert_int_equal(refs_has(&refs, i * 7), i % 3 != 0);
	}
	refs_clear(&refs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(init_takes_what_is_fast_and_right),
		cmocka_unit_test(a_mount_that_cannot_write_does_not_write_back),
		cmocka_unit_test(init_refuses_what_it_does_not_speak),
		cmocka_unit_test(what_is_not_there_is_cached_as_such),
		cmocka_unit_test(bytes_come_back),
		cmocka_unit_test(a_listing_packs_entries_and_counts_references),
		cmocka_unit_test(names_and_links),
		cmocka_unit_test(extended_attributes),
		cmocka_unit_test(what_the_kernel_does_alone_is_refused),
		cmocka_unit_test(without_extended_attributes_they_are_refused),
		cmocka_unit_test(a_wrong_length_is_an_error),
		cmocka_unit_test(a_short_request_is_an_error),
		cmocka_unit_test(a_bad_name_is_an_error),
		cmocka_unit_test(a_node_that_was_never_given_is_stale),
		cmocka_unit_test(forgetting_too_much_is_cut),
		cmocka_unit_test(lengths_inside_requests_are_checked),
		cmocka_unit_test(holes_are_told_where_nothing_waits_to_be_written),
		cmocka_unit_test(noise_is_survived_and_answered_once),
		cmocka_unit_test(others_changes_are_told),
		cmocka_unit_test(too_many_changes_become_one),
		cmocka_unit_test(dirty_pages_are_asked_for),
		cmocka_unit_test(references_are_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
