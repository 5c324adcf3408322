/* replay.c - runs a fuzz target over files, for compilers and builds without libFuzzer. */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint8_t *data;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0) {
		perror(path);
		return 1;
	}
	data = malloc((size_t)st.st_size + 1);
	n = data ? read(fd, data, (size_t)st.st_size) : -1;
	close(fd);
	/* A copy of exactly the right size, so that a read beyond its end is seen. */
	if (n == st.st_size) {
		uint8_t *exact = malloc(n ? (size_t)n : 1);

		for (ssize_t i = 0; exact && i < n; i++)
			exact[i] = data[i];
		LLVMFuzzerTestOneInput(exact, (size_t)n);
		free(exact);
	}
	free(data);
	return n != st.st_size;
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
