/* cases_perm.c - permissions of directories, inheritance of groups, and other users. */
#include "script.h"

const struct posix_case cases_perm[] = {
	ROOT("setgid/file-inherits",
	     "mkdir d; chown d 0 x; chmod d 2777; creat d/f; stat d/f gid=x mode=644"),
	ROOT("setgid/dir-inherits",
	     "mkdir d; chown d 0 x; chmod d 2777; mkdir d/e; stat d/e gid=x mode=2755"),
	ROOT("setgid/symlink-inherits",
	     "mkdir d; chown d 0 x; chmod d 2777; symlink t d/l; lstat d/l gid=x"),
	ROOT("setgid/fifo-inherits",
	     "mkdir d; chown d 0 x; chmod d 2777; mkfifo d/p 644; stat d/p gid=x"),
	ROOT("setgid/socket-inherits",
	     "mkdir d; chown d 0 x; chmod d 2777; bind d/s; stat d/s gid=x"),
	ROOT("setgid/tmpfile-inherits",
	     "mkdir d; chown d 0 x; chmod d 2777; a=open d rdwr,tmpfile 644; fstat a gid=x"),
	ROOT("setgid/user-file",
	     "mkdir d; chown d 0 x; chmod d 2777; as u; creat d/f; stat d/f uid=u gid=x"),
	ROOT("setgid/user-dir",
	     "mkdir d; chown d 0 x; chmod d 2777; as u; mkdir d/e; stat d/e uid=u gid=x mode=2755"),
	ROOT("setgid/user-setgid-executable-stripped",
	     "mkdir d; chown d 0 x; chmod d 2777; as u; creat d/f 2755; stat d/f gid=x mode=755"),
	ROOT("setgid/user-setgid-plain-kept",
	     "mkdir d; chown d 0 x; chmod d 2777; as u; creat d/f 2644; stat d/f mode=2644"),
	ROOT("setgid/member-setgid-kept", "mkdir d; chown d 0 x; chmod d 2777; as u x; creat d/f "
					  "2755; stat d/f gid=x mode=2755"),
	ROOT("setgid/tmpfile-stripped", "mkdir d; chown d 0 x; chmod d 2777; as u; a=open d "
					"rdwr,tmpfile 2755; fstat a mode=755"),
	ROOT("setgid/mknod-stripped",
	     "mkdir d; chown d 0 x; chmod d 2777; as u; mknod d/f reg 2755; stat d/f mode=755"),
	ROOT("setgid/link-keeps-group",
	     "creat f; mkdir d; chown d 0 x; chmod d 2777; link f d/g; stat d/g gid=0"),
	ROOT("setgid/rename-keeps-group",
	     "creat f; mkdir d; chown d 0 x; chmod d 2777; rename f d/g; stat d/g gid=0"),
	ROOT("setgid/not-set", "mkdir d 777; chown d 0 x; creat d/f; stat d/f gid=0"),
	ROOT("setgid/deep", "mkdir d; chown d 0 x; chmod d 2777; mkdir d/e; mkdir d/e/g; creat "
			    "d/e/g/f; stat d/e/g/f gid=x"),
	ROOT("perm/search-needed",
	     "mkdir d 700; creat d/f 777; as u; open d/f rdonly = EACCES; stat d/f = EACCES;"
	     "lstat d/f = EACCES; chmod d/f 644 = EACCES; chown d/f u u = EACCES"),
	ROOT("perm/search-needed-2",
	     "mkdir d 700; creat d/f 777; as u; truncate d/f 0 = EACCES; utimens d/f 1 1 = EACCES;"
	     "unlink d/f = EACCES; rename d/f d/g = EACCES; readlink d/f = EACCES"),
	ROOT("perm/search-by-group",
	     "mkdir d 710; chown d 0 u; creat d/f 644; as u; open d/f rdonly; ls d - = EACCES"),
	ROOT("perm/search-by-supplementary",
	     "mkdir d 710; chown d 0 x; creat d/f 644; as u; open d/f rdonly = EACCES;"
	     "as u x; open d/f rdonly"),
	ROOT("perm/write-dir-by-group",
	     "mkdir d 770; chown d 0 x; as u x; creat d/f; mkdir d/e; unlink d/f; rmdir d/e"),
	ROOT("perm/group-denies",
	     "mkdir d 707; chown d 0 u; as u; creat d/f = EACCES; ls d - = EACCES"),
	ROOT("perm/owner-denies", "mkdir d 077; chown d u u; as u; creat d/f = EACCES; ls d - = "
				  "EACCES; chmod d 700; creat d/f"),
	ROOT("perm/symlink-target-counts",
	     "creat f 600; symlink f l; lchown l u u; as u; open l rdonly = EACCES"),
	ROOT("perm/open-keeps-after-chown", "creat f 666; as u; a=open f rdwr; as root; chmod f "
					    "600; as u; write a x = 1; open f rdonly = EACCES"),
	ROOT("perm/truncate-needs-write",
	     "put f abc; as u; truncate f 0 = EACCES; chmod f 666 = EPERM; stat f size=3"),
	ROOT("perm/truncate-writable", "put f abc; chmod f 666; as u; truncate f 1; stat f size=1"),
	ROOT("perm/mkdir-in-others", "mkdir d 755; as u; mkdir d/e = EACCES; symlink x d/l = "
				     "EACCES; mkfifo d/p 644 = EACCES"),
	ROOT("perm/link-into-others",
	     "mkdir d 755; mkdir w 777; as u; creat w/f; link w/f d/f = EACCES"),
	ROOT("perm/chdir-others", "mkdir d 700; as u; chdir d = EACCES; statfs d/x = EACCES"),
	ROOT("perm/new-files-owner",
	     "mkdir w 777; as u; creat w/f; mkdir w/d; symlink x w/l; mkfifo w/p 644; bind w/s;"
	     "stat w/f uid=u gid=u; stat w/d uid=u; lstat w/l uid=u; stat w/p uid=u; stat w/s "
	     "uid=u"),
	ROOT("perm/two-users",
	     "mkdir w 777; as u; creat w/f 600; as v; open w/f rdonly = EACCES; unlink w/f"),
	ROOT("perm/root-reads-all", "mkdir w 777; as u; mkdir w/d 700; put w/d/f abc; chmod w/d/f "
				    "0; as root; content w/d/f abc"),
	ROOT("perm/xattr-needs-write", "creat f 644; as u; setxattr f user.a b = EACCES"),
	ROOT("perm/xattr-needs-read", "creat f 622; setxattr f user.a b; as u; getxattr f user.a = "
				      "EACCES; setxattr f user.a c"),
	ROOT("perm/xattr-owner", "creat f; setxattr f user.a b; chown f u u; as u; getxattr f "
				 "user.a b; removexattr f user.a"),
	ROOT("perm/trusted-xattr-user",
	     "creat f 666; setxattr f trusted.a b; as u; getxattr f trusted.a = ENODATA;"
	     "setxattr f trusted.b c = EPERM"),
	CASES_END,
};

/* A sticky directory of `dir`'s owner, a file of `file`'s, and who tries. */
#define IN_STICKY(dir, file)                                                         \
	"mkdir s 777; put s/f x; put s/g y; mkdir s/d 777; chown s/f " file " " file \
	"; chown s/d " file " " file "; chown s " dir " " dir                        \
	"; chmod s 1777; mkdir w 777; as u; put w/f z; "

const struct posix_case cases_sticky[] = {
	ROOT("sticky/unlink-others", IN_STICKY("0", "0") "unlink s/f = EPERM"),
	ROOT("sticky/unlink-own", IN_STICKY("0", "u") "unlink s/f"),
	ROOT("sticky/unlink-own-dir", IN_STICKY("u", "0") "unlink s/f"),
	ROOT("sticky/unlink-third", IN_STICKY("0", "v") "unlink s/f = EPERM"),
	ROOT("sticky/rmdir-others", IN_STICKY("0", "0") "rmdir s/d = EPERM"),
	ROOT("sticky/rmdir-own", IN_STICKY("0", "u") "rmdir s/d"),
	ROOT("sticky/rmdir-own-dir", IN_STICKY("u", "0") "rmdir s/d"),
	ROOT("sticky/rename-others",
	     IN_STICKY("0", "0") "rename s/f s/h = EPERM; rename s/f w/h = EPERM"),
	ROOT("sticky/rename-own", IN_STICKY("0", "u") "rename s/f s/h"),
	ROOT("sticky/rename-out-own", IN_STICKY("0", "u") "rename s/f w/h"),
	ROOT("sticky/rename-own-dir", IN_STICKY("u", "0") "rename s/f s/h"),
	ROOT("sticky/rename-over-others",
	     IN_STICKY("0", "0") "rename w/f s/f = EPERM; content s/f x"),
	ROOT("sticky/rename-over-own", IN_STICKY("0", "u") "rename w/f s/f; content s/f z"),
	ROOT("sticky/rename-in-new", IN_STICKY("0", "0") "rename w/f s/n; content s/n z"),
	ROOT("sticky/rename-dir-others", IN_STICKY("0", "0") "rename s/d s/e = EPERM"),
	ROOT("sticky/rename-dir-own", IN_STICKY("0", "u") "rename s/d s/e"),
	ROOT("sticky/exchange-others", IN_STICKY("0", "0") "rename2 w/f s/f exchange = EPERM"),
	ROOT("sticky/exchange-own", IN_STICKY("0", "u") "rename2 w/f s/f exchange"),
	ROOT("sticky/noreplace-others", IN_STICKY("0", "0") "rename2 s/f s/h noreplace = EPERM"),
	ROOT("sticky/root-may", "mkdir s 1777; chown s v v; as u; creat s/f; as root; unlink s/f"),
	ROOT("sticky/create-and-remove",
	     "mkdir s 1777; as u; creat s/f; mkdir s/d; unlink s/f; rmdir s/d"),
	ROOT("sticky/link-out", IN_STICKY("0", "u") "link s/f w/g; stat s/f nlink=2"),
	CASES_END,
};
