/* replay.c - runs a fuzz target over files, for compilers and builds without libFuzzer. */
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define REPLAY_MAX (16 << 20) /* bytes of one input */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint8_t *data = NULL;
	bool whole = false;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size <= REPLAY_MAX) {
		size_t size = (size_t)st.st_size;

		/* Of exactly the right size, so that a read beyond its end is seen. */
		data = malloc(size ? size : 1);
		whole = data && read(fd, data, size) == st.st_size;
		if (whole)
			LLVMFuzzerTestOneInput(data, size);
	}
	if (!whole)
		perror(path);
	if (fd >= 0)
		close(fd);
	free(data);
	return !whole;
}

int main(int argc, char **argv)
{
	size_t count = 0;
	int failed = 0;

	for (int i = 1; i < argc; i++) {
		DIR *dir = opendir(argv[i]);
		struct dirent *entry;

		if (!dir) {
			perror(argv[i]);
			return 1;
		}
		while ((entry = readdir(dir))) {
			char path[4096];

			if (entry->d_name[0] == '.')
				continue;
			snprintf(path, sizeof(path), "%s/%s", argv[i], entry->d_name);
			failed |= replay_file(path);
			count++;
		}
		closedir(dir);
	}
	printf("%zu inputs\n", count);
	return failed || count == 0;
}
