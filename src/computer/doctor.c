/* doctor.c - what the host offers. */
#include "computer/computer_i.h"
#include "container/container.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The deepest folder above a home that is not there yet. */
static void look_at_home(struct doctor *doctor)
{
	struct statvfs disk;
	char path[PATH_MAX];

	if (workspace_home(doctor->home, NULL) < 0) {
		doctor->home_error = ENOENT;
		return;
	}
	memcpy(path, doctor->home, sizeof(path));
	while (access(path, F_OK) < 0 && errno == ENOENT && strlen(path) > 1) {
		char *slash = strrchr(path, '/');

		slash[slash == path] = '\0';
	}
	if (access(path, W_OK | X_OK) < 0)
		doctor->home_error = errno;
	if (statvfs(path, &disk) == 0)
		doctor->home_free = (uint64_t)disk.f_bavail * disk.f_frsize;
}

void workspace_doctor(struct doctor *ret_doctor)
{
	struct doctor doctor = {.root = geteuid() == 0};
	struct container_host container;
	struct fuse_host fuse;
	struct utsname name;

	if (uname(&name) == 0)
		snprintf(doctor.kernel, sizeof(doctor.kernel), "%.64s", name.release);
	snprintf(doctor.sqlite, sizeof(doctor.sqlite), "%s", sqlite3_libversion());
	look_at_home(&doctor);
	fuse_get_host(&fuse);
	doctor.fuse_device = fuse.device;
	doctor.fuse_uring = fuse.uring;
	doctor.fuse_uring_known = fuse.uring_known;
	doctor.fusermount = fuse.fusermount;
	container_get_host(&container);
	doctor.user_namespaces = container.user_namespaces;
	doctor.seccomp = container.seccomp;
	doctor.cgroup = container.cgroup;
	*ret_doctor = doctor;
}
