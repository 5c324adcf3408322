/* crash_writer.c - write to a directory and note what was promised; or check it.
 *
 *   crash_writer DIR LOG [SECONDS]     until it is killed, or the filesystem goes away
 *   crash_writer --verify DIR LOG      after the crash
 *
 * LOG is a file on another filesystem that survives. For a real power cut, LOG must be on another
 * machine: this one is for killed servers.
 */
#include "crash.h"

#include "base/parse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static struct crash_log *map_log(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	struct crash_log *log;

	if (fd < 0 || ftruncate(fd, sizeof(*log)) < 0)
		return NULL;
	log = mmap(NULL, sizeof(*log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return log == MAP_FAILED ? NULL : log;
}

static int work(struct place *place, struct crash_log *log, uint64_t seconds)
{
	time_t end = time(NULL) + (time_t)seconds;
	uint64_t rng = (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
	struct crash_history *history;
	int r;

	if (!log->seed)
		log->seed = rng;
	r = crash_prepare(place, log);
	history = crash_history_new(log);
	while (r == 0 && time(NULL) < end) {
		r = crash_write_step(place, log, &rng);
		if (r == 0)
			r = crash_dir_step(place, log, history, &rng);
	}
	if (r == -ENOTCONN || r == -ECONNABORTED)
		r = 0;
	if (r < 0)
		fprintf(stderr, "crash_writer: %s\n", strerror(-r));
	return r < 0;
}

int main(int argc, char **argv)
{
	bool verify = argc > 1 && strcmp(argv[1], "--verify") == 0;
	char **words = argv + (verify ? 2 : 1);
	struct crash_log *log;
	struct place *place;
	uint64_t seconds = 1000000;
	int bad;

	if (argc != (verify ? 4 : 3) &&
	    (verify || argc != 4 || parse_u64(words[2], &seconds) < 0)) {
		fprintf(stderr, "usage: crash_writer DIR LOG [SECONDS]\n"
				"       crash_writer --verify DIR LOG\n");
		return 2;
	}
	place = place_dir_new(words[0]);
	log = map_log(words[1]);
	if (!place || !log) {
		fprintf(stderr, "crash_writer: cannot open '%s' or '%s'\n", words[0], words[1]);
		return 2;
	}
	if (!verify)
		return work(place, log, seconds);
	bad = crash_verify(place, log);
	printf("%s crash_verify: %d complaints after %llu writes, %llu of them promised\n",
	       bad ? "not ok" : "ok", bad, (unsigned long long)atomic_load(&log->writes),
	       (unsigned long long)atomic_load(&log->syncs));
	return bad != 0;
}
