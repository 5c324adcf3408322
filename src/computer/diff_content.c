/* diff_content.c - what two states of one file have in common, and their difference by lines. */
#include "base/mem.h"
#include "base/text.h"
#include "computer/diff_i.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define BINARY_LOOK 8000 /* bytes in which a NUL makes a file binary, as git has it */

/* One unit of a large file's content, or all of a small one's. */
static int read_piece(const struct side_file *file, int64_t idx, struct buf *piece)
{
	CLEANUP(mem_free) char *bytes = NULL;
	struct store_unit unit;
	int64_t left = file->node.size - idx * STORE_UNIT;
	size_t len = left < STORE_UNIT ? (size_t)left : STORE_UNIT;
	int r;

	if (!(file->node.flags & STORE_NODE_EXTENTS))
		return idx == 0 ? store_get_inline(file->store, file->node.ino, piece) : -EUCLEAN;
	r = store_get_units(file->store, file->node.ino, idx, 1, &unit);
	if (r < 0)
		return r;
	bytes = mem_alloc0(len);
	if (unit.pos != STORE_HOLE)
		r = store_data_read(file->store, unit, 0, bytes, len);
	return r < 0 ? r : buf_add(piece, bytes, len);
}

static int64_t pieces(const struct side_file *file)
{
	if (!(file->node.flags & STORE_NODE_EXTENTS))
		return 1;
	return (file->node.size + STORE_UNIT - 1) / STORE_UNIT;
}

/* Compare an inline content with one in units: sizes are equal. */
static int read_whole(const struct side_file *file, size_t max, struct buf *content)
{
	int r = 0;

	if (file->node.size > (int64_t)max)
		return -EFBIG;
	for (int64_t idx = 0; idx < pieces(file) && r == 0; idx++)
		r = read_piece(file, idx, content);
	return r;
}

static int same_bytes(const struct side_file *from, const struct side_file *to)
{
	bool whole = pieces(from) != pieces(to);
	int64_t count = whole ? 1 : pieces(from);

	for (int64_t idx = 0; idx < count; idx++) {
		CLEANUP(buf_clear) struct buf a = BUF_INIT(1 << 20);
		CLEANUP(buf_clear) struct buf b = BUF_INIT(1 << 20);
		int r = whole ? read_whole(from, 1 << 20, &a) : read_piece(from, idx, &a);

		if (r == 0)
			r = whole ? read_whole(to, 1 << 20, &b) : read_piece(to, idx, &b);
		if (r < 0)
			return r;
		if (!span_eq(span_of(a.data, a.len), span_of(b.data, b.len)))
			return 0;
	}
	return 1;
}

int diff_same_content(const struct side_file *from, const struct side_file *to)
{
	uint32_t type = to->node.mode & S_IFMT;

	if ((from->node.mode & S_IFMT) != type)
		return 0;
	if (type == S_IFREG || type == S_IFLNK)
		return from->node.size == to->node.size ? same_bytes(from, to) : 0;
	return type == S_IFDIR || from->node.rdev == to->node.rdev;
}

static int add_xattr(void *arg, struct span name, struct span value)
{
	int r = buf_add(arg, name.data, name.len);

	if (r == 0)
		r = buf_add(arg, "\0", 1);
	if (r == 0)
		r = buf_add(arg, &value.len, sizeof(value.len));
	return r == 0 ? buf_add(arg, value.data, value.len) : r;
}

int diff_same_xattrs(const struct side_file *from, const struct side_file *to)
{
	CLEANUP(buf_clear) struct buf a = BUF_INIT(16 << 20);
	CLEANUP(buf_clear) struct buf b = BUF_INIT(16 << 20);
	int r = store_each_xattr(from->store, from->node.ino, add_xattr, &a);

	if (r == 0)
		r = store_each_xattr(to->store, to->node.ino, add_xattr, &b);
	return r < 0 ? r : span_eq(span_of(a.data, a.len), span_of(b.data, b.len));
}

/* ---- by lines ---- */

/* The text of a regular file. 1: it is none, or too large to be compared. */
static int read_text(const struct side_file *file, struct buf *text)
{
	size_t look;
	int r;

	if (!file->store)
		return 0;
	r = read_whole(file, DIFF_TEXT_MAX, text);
	if (r == -EFBIG)
		return 1;
	if (r < 0)
		return r;
	look = text->len < BINARY_LOOK ? text->len : BINARY_LOOK;
	return look && memchr(text->data, 0, look) != NULL;
}

static int put_name(struct buf *patch, const char *start, const struct side_file *file,
		    const char *prefix, struct span path)
{
	int r = text_add(patch, "%s", start);

	if (r == 0 && !file->store)
		return text_add(patch, "/dev/null\n");
	if (r == 0)
		r = text_add(patch, "%s", prefix);
	if (r == 0)
		r = text_add_escaped(patch, path);
	return r == 0 ? buf_add(patch, "\n", 1) : r;
}

int diff_lines(const struct side_file *from, const struct side_file *to, struct span old_path,
	       struct span path, bool want_patch, struct diff_lines *lines)
{
	CLEANUP(buf_clear) struct buf a = BUF_INIT(DIFF_TEXT_MAX);
	CLEANUP(buf_clear) struct buf b = BUF_INIT(DIFF_TEXT_MAX);
	struct lines_result result = {0};
	int r = read_text(from, &a);

	if (r == 0)
		r = read_text(to, &b);
	if (r == 1) {
		lines->binary = true;
		return 0;
	}
	if (r == 0 && want_patch)
		r = put_name(&lines->patch, "--- ", from, "a", old_path);
	if (r == 0 && want_patch)
		r = put_name(&lines->patch, "+++ ", to, "b", path);
	if (r == 0)
		r = lines_diff(span_of(a.data, a.len), span_of(b.data, b.len),
			       want_patch ? &lines->patch : NULL, &result);
	lines->added = result.added;
	lines->removed = result.removed;
	return r;
}
