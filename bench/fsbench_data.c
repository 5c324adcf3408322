/* fsbench_data.c - content: large files, small writes, fsync. */
#include "fsbench.h"

#include "base/clock.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1 << 20)

static char block[MIB];

static int write_file(int64_t mib, size_t step, bool sync)
{
	int fd = open("big", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : 0;

	memset(block, 0x5a, sizeof(block));
	for (int64_t left = mib * MIB; left > 0 && r == 0; left -= (int64_t)step)
		r = fd_write_all(fd, block, step);
	if (r == 0 && sync && fsync(fd) < 0)
		r = -errno;
	fd_close(&fd);
	return r;
}

static int read_file(int64_t mib)
{
	int fd = open("big", O_RDONLY | O_CLOEXEC);
	int64_t sum = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	while ((n = read(fd, block, sizeof(block))) > 0)
		sum += n;
	close(fd);
	return sum == mib * MIB ? 0 : -EIO;
}

static int write_64(struct bench *bench)
{
	(void)bench;
	return write_file(64, MIB, true);
}

static int read_64(struct bench *bench)
{
	(void)bench;
	return read_file(64);
}

static int write_and_read_64(struct bench *bench)
{
	int r = write_64(bench);

	return r ? r : read_64(bench);
}

static int write_1024(struct bench *bench)
{
	(void)bench;
	return write_file(1024, MIB, true);
}

static int read_1024(struct bench *bench)
{
	(void)bench;
	return read_file(1024);
}

static int write_and_read_1024(struct bench *bench)
{
	int r = write_1024(bench);

	return r ? r : read_1024(bench);
}

static int write_4k(struct bench *bench)
{
	(void)bench;
	return write_file(64, 4096, false);
}

static int random_4k(struct bench *bench)
{
	int fd = open("big", O_WRONLY | O_CLOEXEC);
	uint32_t x = 1;
	int r = fd < 0 ? -errno : 0;

	(void)bench;
	for (int i = 0; i < 16384 && r == 0; i++) {
		x = x * 1664525 + 1013904223;
		r = fd_pwrite_all(fd, block, 4096, (int64_t)(x >> 8) % 16384 * 4096);
	}
	fd_close(&fd);
	return r;
}

static int fdatasync_200(struct bench *bench)
{
	int fd = open("log", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : 0;

	(void)bench;
	for (int i = 0; i < 200 && r == 0; i++) {
		r = fd_write_all(fd, block, 4096);
		if (r == 0 && fdatasync(fd) < 0)
			r = -errno;
	}
	fd_close(&fd);
	return r;
}

const struct scenario data_scenarios[] = {
	{.name = "write 64 MiB + fsync", .limit = 150, .run = write_64},
	{.name = "read 64 MiB cold",
	 .limit = 150,
	 .setup = write_64,
	 .run = read_64,
	 .flags = SCENARIO_COLD},
	{.name = "read 64 MiB warm", .limit = 130, .setup = write_and_read_64, .run = read_64},
	{.name = "write 64 MiB in 4K", .limit = 150, .run = write_4k},
	{.name = "16384 random 4K writes",
	 .limit = 150,
	 .setup = write_and_read_64,
	 .run = random_4k},
	{.name = "200 x 4K write+fdatasync", .limit = 250, .run = fdatasync_200},
	{.name = "write 1 GiB + fsync",
	 .limit = 150,
	 .run = write_1024,
	 .flags = SCENARIO_LONG | SCENARIO_HUGE},
	{.name = "read 1 GiB cold",
	 .limit = 150,
	 .setup = write_1024,
	 .run = read_1024,
	 .flags = SCENARIO_COLD | SCENARIO_LONG | SCENARIO_HUGE},
	{.name = "read 1 GiB warm",
	 .limit = 130,
	 .setup = write_and_read_1024,
	 .run = read_1024,
	 .flags = SCENARIO_LONG | SCENARIO_HUGE},
	{.name = NULL},
};
