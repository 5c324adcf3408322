/* store_shim.c - see store_shim.h. */
#include "store_shim.h"

#include "base/mem.h"

#include <sqlite3.h>
#include <unistd.h>

/* What a write or a truncation changed and no sync made safe yet. */
struct undo {
	struct undo *older;
	sqlite3_int64 pos, old_size;
	int len; /* bytes that were there before */
	char bytes[];
};

struct shim_file {
	sqlite3_file base;
	struct shim_file *next; /* of those that are open */
	struct undo *undo;
	sqlite3_file *real;
};

static sqlite3_vfs shim_vfs, *real_vfs;
static struct shim_file *open_files;
static enum shim_mode armed_mode;
static int countdown = -1;
static bool fired;

void shim_arm(enum shim_mode mode, int n)
{
	armed_mode = mode;
	countdown = n;
	fired = false;
}

bool shim_fired(void)
{
	return fired;
}

static struct shim_file *shim(sqlite3_file *file)
{
	return (struct shim_file *)(void *)file;
}

static void undo_forget(struct shim_file *file)
{
	while (file->undo) {
		struct undo *undo = file->undo;

		file->undo = undo->older;
		free(undo);
	}
}

static void undo_note(struct shim_file *file, sqlite3_int64 pos, sqlite3_int64 len)
{
	struct undo *undo;
	sqlite3_int64 size = 0;

	file->real->pMethods->xFileSize(file->real, &size);
	if (pos + len > size)
		len = size > pos ? size - pos : 0;
	undo = mem_alloc(sizeof(*undo) + (size_t)len);
	*undo = (struct undo){file->undo, pos, size, (int)len};
	if (len)
		file->real->pMethods->xRead(file->real, undo->bytes, (int)len, pos);
	file->undo = undo;
}

/* The power goes. */
static void lose_all(void)
{
	for (struct shim_file *file = open_files; file; file = file->next) {
		for (struct undo *undo = file->undo; undo; undo = undo->older) {
			if (undo->len)
				file->real->pMethods->xWrite(file->real, undo->bytes, undo->len,
							     undo->pos);
			file->real->pMethods->xTruncate(file->real, undo->old_size);
		}
	}
	_exit(SHIM_DIED);
}

/* Is it this one's turn? 0, or the error to return. */
static int turn(int io_error)
{
	if (countdown < 0 || countdown-- > 0)
		return SQLITE_OK;
	fired = true;
	if (armed_mode == SHIM_LOSE)
		lose_all();
	if (armed_mode == SHIM_TEAR)
		_exit(SHIM_DIED);
	return armed_mode == SHIM_FULL ? SQLITE_FULL : io_error;
}

static int shim_write(sqlite3_file *base, const void *bytes, int len, sqlite3_int64 pos)
{
	struct shim_file *file = shim(base);
	int rc;

	undo_note(file, pos, len);
	if (countdown == 0 && armed_mode == SHIM_TEAR)
		file->real->pMethods->xWrite(file->real, bytes, len / 2, pos);
	rc = turn(SQLITE_IOERR_WRITE);
	return rc ? rc : file->real->pMethods->xWrite(file->real, bytes, len, pos);
}

static int shim_truncate(sqlite3_file *base, sqlite3_int64 size)
{
	struct shim_file *file = shim(base);
	sqlite3_int64 now = 0;
	int rc = turn(SQLITE_IOERR_TRUNCATE);

	if (rc)
		return rc;
	file->real->pMethods->xFileSize(file->real, &now);
	undo_note(file, size, now > size ? now - size : 0);
	return file->real->pMethods->xTruncate(file->real, size);
}

static int shim_sync(sqlite3_file *base, int flags)
{
	struct shim_file *file = shim(base);
	int rc = turn(SQLITE_IOERR_FSYNC);

	if (rc)
		return rc;
	rc = file->real->pMethods->xSync(file->real, flags);
	undo_forget(file);
	return rc;
}

static int shim_close(sqlite3_file *base)
{
	struct shim_file *file = shim(base);
	struct shim_file **link = &open_files;

	undo_forget(file);
	while (*link != file)
		link = &(*link)->next;
	*link = file->next;
	return file->real->pMethods->xClose(file->real);
}

#define REAL(call, ...) shim(base)->real->pMethods->call(shim(base)->real, ##__VA_ARGS__)

static int shim_read(sqlite3_file *base, void *bytes, int len, sqlite3_int64 pos)
{
	return REAL(xRead, bytes, len, pos);
}

static int shim_size(sqlite3_file *base, sqlite3_int64 *size)
{
	return REAL(xFileSize, size);
}

static int shim_lock(sqlite3_file *base, int kind)
{
	return REAL(xLock, kind);
}

static int shim_unlock(sqlite3_file *base, int kind)
{
	return REAL(xUnlock, kind);
}

static int shim_reserved(sqlite3_file *base, int *out)
{
	return REAL(xCheckReservedLock, out);
}

static int shim_control(sqlite3_file *base, int op, void *arg)
{
	return REAL(xFileControl, op, arg);
}

static int shim_sector(sqlite3_file *base)
{
	return REAL(xSectorSize);
}

static int shim_device(sqlite3_file *base)
{
	return REAL(xDeviceCharacteristics);
}

static int shim_map(sqlite3_file *base, int page, int size, int extend, void volatile **out)
{
	return REAL(xShmMap, page, size, extend, out);
}

static int shim_shm_lock(sqlite3_file *base, int offset, int n, int flags)
{
	return REAL(xShmLock, offset, n, flags);
}

static void shim_barrier(sqlite3_file *base)
{
	REAL(xShmBarrier);
}

static int shim_unmap(sqlite3_file *base, int delete)
{
	return REAL(xShmUnmap, delete);
}

static const sqlite3_io_methods methods = {
	.iVersion = 2,
	.xClose = shim_close,
	.xRead = shim_read,
	.xWrite = shim_write,
	.xTruncate = shim_truncate,
	.xSync = shim_sync,
	.xFileSize = shim_size,
	.xLock = shim_lock,
	.xUnlock = shim_unlock,
	.xCheckReservedLock = shim_reserved,
	.xFileControl = shim_control,
	.xSectorSize = shim_sector,
	.xDeviceCharacteristics = shim_device,
	.xShmMap = shim_map,
	.xShmLock = shim_shm_lock,
	.xShmBarrier = shim_barrier,
	.xShmUnmap = shim_unmap,
};

static int shim_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base, int flags, int *out)
{
	struct shim_file *file = shim(base);
	int rc;

	(void)vfs;
	file->base.pMethods = NULL;
	file->undo = NULL;
	file->real = (sqlite3_file *)(void *)(file + 1);
	rc = real_vfs->xOpen(real_vfs, name, file->real, flags, out);
	if (rc != SQLITE_OK)
		return rc;
	file->base.pMethods = &methods;
	file->next = open_files;
	open_files = file;
	return SQLITE_OK;
}

void shim_register(void)
{
	real_vfs = sqlite3_vfs_find(NULL);
	shim_vfs = *real_vfs;
	shim_vfs.pNext = NULL;
	shim_vfs.zName = "shim";
	shim_vfs.szOsFile = (int)sizeof(struct shim_file) + real_vfs->szOsFile;
	shim_vfs.xOpen = shim_open;
	sqlite3_vfs_register(&shim_vfs, 1);
}
