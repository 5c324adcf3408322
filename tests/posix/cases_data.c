/* cases_data.c - sizes, holes, fallocate, seeking, copying. Sizes around 16 KiB and 64 KiB matter.
 */
#include "script.h"

#define OPEN "a=open f rdwr,creat 644; "

const struct posix_case cases_data[] = {
	BOTH("truncate/shrink", "put f abcdef; truncate f 2; content f ab; stat f size=2"),
	BOTH("truncate/zero", "put f abcdef; truncate f 0; content f ''"),
	BOTH("truncate/grow",
	     OPEN "write a abc; truncate f 5000; stat f size=5000; bytes a 3 4997 0"),
	BOTH("truncate/shrink-grow-zeros", OPEN "fill a 0 10000 z; truncate f 100; truncate f "
						"10000; bytes a 0 100 z; bytes a 100 9900 0"),
	BOTH("truncate/shrink-grow-in-page",
	     OPEN "fill a 0 100 z; truncate f 10; truncate f 100; bytes a 0 10 z; bytes a 10 90 0"),
	BOTH("truncate/big-shrink-grow", OPEN "fill a 0 300K z; truncate f 70000; truncate f 300K; "
					      "bytes a 0 70000 z; bytes a 70000 230K 0"),
	BOTH("truncate/big-to-small", OPEN "fill a 0 300K z; truncate f 5; stat f size=5; bytes a "
					   "0 5 z; fill a 0 10 y; bytes a 0 10 y"),
	BOTH("truncate/to-1T", OPEN "truncate f 1T; stat f size=1099511627776; bytes a 1M 4096 0; "
				    "fill a 999G 1000 z; bytes a 999G 1000 z"),
	BOTH("truncate/negative", "creat f; truncate f -1 = EINVAL"),
	BOTH("truncate/dir", "mkdir d; truncate d 0 = EISDIR"),
	BOTH("truncate/missing", "truncate f 0 = ENOENT"),
	BOTH("truncate/fifo", "mkfifo p 644; truncate p 0 = EINVAL"),
	BOTH("truncate/symlink-follows", "put f abc; symlink f l; truncate l 1; content f a"),
	USER("truncate/eacces", "put f abc; chmod f 444; truncate f 0 = EACCES; content f abc"),
	USER("truncate/fd-of-before",
	     "a=open f rdwr,creat 644; write a abc; chmod f 0; ftruncate a 1; fstat a size=1"),
	BOTH("ftruncate/rdonly", "creat f; a=open f rdonly; ftruncate a 0 = EINVAL"),
	BOTH("ftruncate/negative", OPEN "ftruncate a -1 = EINVAL"),
	BOTH("ftruncate/dir", "mkdir d; a=open d rdonly; ftruncate a 0 = EINVAL"),
	BOTH("ftruncate/offset-stays", OPEN "write a abcdef; ftruncate a 2; lseek a 0 cur = 6; "
					    "write a x; stat f size=7; bytes a 2 4 0"),
	BOTH("write/hole",
	     OPEN "pwrite a 100000 x; stat f size=100001; bytes a 0 100000 0; bytes a 100000 1 x"),
	BOTH("write/hole-in-page", OPEN "pwrite a 10 x; bytes a 0 10 0; bytes a 10 1 x"),
	BOTH("write/hole-small-to-big",
	     OPEN "write a abc; pwrite a 20000 x; bytes a 3 19997 0; stat f size=20001"),
	BOTH("write/cross-16k",
	     OPEN "fill a 0 16384 a; fill a 16384 1 b; bytes a 0 16384 a; bytes a 16384 1 b"),
	BOTH("write/cross-64k", OPEN
	     "fill a 65000 1000 a; bytes a 0 65000 0; bytes a 65000 1000 a; stat f size=66000"),
	BOTH("write/overwrite-middle",
	     OPEN "fill a 0 200K a; fill a 60000 10000 b; bytes a 0 60000 a; bytes a 60000 10000 "
		  "b; bytes a 70000 100000 a"),
	BOTH("write/sparse-many",
	     OPEN "fill a 0 10 a; fill a 1M 10 b; fill a 5M 10 c; fill a 3M 10 d; bytes a 10 "
		  "1000000 0; bytes a 1M 10 b; bytes a 3M 10 d; bytes a 5M 10 c"),
	BOTH("write/empty", OPEN "write a '' = 0; stat f size=0"),
	BOTH("write/read-back",
	     OPEN "write a hello = 5; lseek a 0 set; read a 100 hello = 5; read a 100 = 0"),
	BOTH("write/two-descriptors",
	     OPEN "b=open f rdonly; write a abc; read b 9 abc; write a de; read b 9 de"),
	BOTH("write/dir", "mkdir d; a=open d rdonly; write a x = EBADF; read a 10 = EISDIR"),
	BOTH("write/blocks",
	     OPEN "stat f blocks=0; fill a 0 100000 z; fsync a; stat f blocks=some"),
	BOTH("write/sparse-blocks", OPEN "ftruncate a 10M; fsync a; stat f size=10485760 blocks=0"),
	BOTH("write/fsync", OPEN "write a abc; fsync a; fdatasync a; content f abc"),
	BOTH("fsync/dir", "mkdir d; a=open d rdonly; fsync a; creat d/f; fsync a; fdatasync a"),
	BOTH("fsync/rdonly", "put f abc; a=open f rdonly; fsync a"),
	BOTH("lseek/set-cur-end", OPEN "write a abcdef; lseek a 2 set = 2; lseek a 1 cur = 3; "
				       "lseek a -1 end = 5; read a 9 f = 1"),
	BOTH("lseek/negative",
	     OPEN "lseek a -1 set = EINVAL; lseek a -1 cur = EINVAL; lseek a 0 cur = 0"),
	BOTH("lseek/beyond",
	     OPEN "write a abc; lseek a 100 end = 103; read a 9 = 0; fstat a size=3"),
	BOTH("lseek/bad-whence", OPEN "lseek a 0 bad = EINVAL"),
	BOTH("lseek/data-at-data",
	     OPEN "fill a 0 200K z; lseek a 0 data = 0; lseek a 1000 data = 1000"),
	BOTH("lseek/hole-is-end", OPEN "fill a 0 200K z; lseek a 0 hole = 204800"),
	BOTH("lseek/data-at-end", OPEN "write a abc; lseek a 3 data = ENXIO; lseek a 3 hole = "
				       "ENXIO; lseek a 99 data = ENXIO"),
	BOTH("lseek/data-empty", OPEN "lseek a 0 data = ENXIO; lseek a 0 hole = ENXIO"),
	BOTH("lseek/data-after-hole",
	     OPEN "fill a 1M 64K z; lseek a 0 data = 1048576; lseek a 1M hole = 1114112"),
	BOTH("lseek/hole-at-start",
	     OPEN "fill a 1M 64K z; lseek a 0 hole = 0; lseek a 5000 hole = 5000"),
	BOTH("lseek/hole-between", OPEN "fill a 0 64K a; fill a 1M 64K b; lseek a 0 hole = 65536; "
					"lseek a 65536 data = 1048576"),
	BOTH("lseek/all-hole", OPEN "ftruncate a 1M; lseek a 0 data = ENXIO; lseek a 0 hole = 0"),
	BOTH("lseek/hole-after-fsync", OPEN "fill a 1M 64K z; fsync a; lseek a 0 data = 1048576"),
	BOTH("lseek/dir-start", "mkdir d; a=open d rdonly; lseek a 0 set = 0"),
	BOTH("lseek/fifo", "mkfifo p 644; a=open p rdwr; lseek a 0 set = ESPIPE"),
	BOTH("fallocate/grow",
	     OPEN "fallocate a plain 0 10000; stat f size=10000; bytes a 0 10000 0"),
	BOTH("fallocate/inside",
	     OPEN "fill a 0 1000 z; fallocate a plain 0 500; stat f size=1000; bytes a 0 1000 z"),
	BOTH("fallocate/offset", OPEN
	     "write a abc; fallocate a plain 100000 100; stat f size=100100; bytes a 3 100097 0"),
	BOTH("fallocate/keep-size",
	     OPEN "write a abc; fallocate a keep 0 100000; stat f size=3; content f abc"),
	BOTH("fallocate/keep-then-grow",
	     OPEN "write a abc; fallocate a keep 0 100000; truncate f 50000; bytes a 3 49997 0"),
	BOTH("fallocate/zero-length", OPEN "fallocate a plain 0 0 = EINVAL"),
	BOTH("fallocate/rdonly", "creat f; a=open f rdonly; fallocate a plain 0 10 = EBADF"),
	BOTH("fallocate/dir", "mkdir d; a=open d rdonly; fallocate a plain 0 10 = EBADF"),
	BOTH("fallocate/fifo", "mkfifo p 644; a=open p rdwr; fallocate a plain 0 10 = ESPIPE"),
	BOTH("fallocate/too-big", OPEN "fallocate a plain 8000000T 100T = EFBIG"),
	BOTH("fallocate/punch",
	     OPEN "fill a 0 300K z; fallocate a punch,keep 65536 65536; bytes a 0 65536 z; bytes a "
		  "65536 65536 0; bytes a 131072 100000 z; stat f size=307200"),
	BOTH("fallocate/punch-unaligned",
	     OPEN "fill a 0 300K z; fallocate a punch,keep 70001 100003; bytes a 0 70001 z; bytes "
		  "a 70001 100003 0; bytes a 170004 100000 z"),
	BOTH("fallocate/punch-small", OPEN "fill a 0 1000 z; fallocate a punch,keep 10 20; bytes a "
					   "0 10 z; bytes a 10 20 0; bytes a 30 970 z"),
	BOTH("fallocate/punch-beyond", OPEN "fill a 0 1000 z; fallocate a punch,keep 500 100000; "
					    "stat f size=1000; bytes a 500 500 0"),
	BOTH("fallocate/punch-all", OPEN "fill a 0 300K z; fallocate a punch,keep 0 1M; stat f "
					 "size=307200; lseek a 0 data = ENXIO"),
	BOTH("fallocate/punch-hole-seen", OPEN "fill a 0 256K z; fallocate a punch,keep 64K 64K; "
					       "lseek a 0 hole = 65536; lseek a 64K data = 131072"),
	BOTH("fallocate/punch-needs-keep", OPEN "fallocate a punch 0 10 = EOPNOTSUPP"),
	BOTH("fallocate/punch-then-write",
	     OPEN "fill a 0 256K z; fallocate a punch,keep 0 256K; fill a 100000 10 y; bytes a 0 "
		  "100000 0; bytes a 100000 10 y"),
	BOTH("fallocate/zero", OPEN "fill a 0 300K z; fallocate a zero 1000 200000; bytes a 0 1000 "
				    "z; bytes a 1000 200000 0; bytes a 201000 100000 z"),
	BOTH("fallocate/zero-grows", OPEN
	     "fill a 0 1000 z; fallocate a zero 500 10000; stat f size=10500; bytes a 500 10000 0"),
	BOTH("fallocate/zero-keep", OPEN "fill a 0 1000 z; fallocate a zero,keep 500 10000; stat f "
					 "size=1000; bytes a 500 500 0"),
	BOTH("copy/whole", "put f abcdef; a=open f rdonly; b=open g rdwr,creat 644; copy a 0 b 0 "
			   "100 = 6; content g abcdef"),
	BOTH("copy/part", "put f abcdef; a=open f rdonly; b=open g rdwr,creat 644; copy a 2 b 1 3 "
			  "= 3; bytes b 0 1 0; stat g size=4"),
	BOTH("copy/at-end", "put f abc; a=open f rdonly; b=open g rdwr,creat 644; copy a 3 b 0 10 "
			    "= 0; copy a 99 b 0 10 = 0"),
	BOTH("copy/nothing",
	     "put f abc; a=open f rdonly; b=open g rdwr,creat 644; copy a 0 b 0 0 = 0"),
	BOTH("copy/big", OPEN
	     "fill a 0 1M z; b=open g rdwr,creat 644; copy a 0 b 0 1M = 1048576; bytes b 0 1M z"),
	BOTH("copy/same-file", OPEN "fill a 0 1000 z; copy a 0 a 2000 1000 = 1000; bytes a 2000 "
				    "1000 z; bytes a 1000 1000 0"),
	BOTH("copy/overlap", OPEN "fill a 0 1000 z; copy a 0 a 500 1000 = EINVAL"),
	BOTH("copy/wrong-way",
	     "put f abc; creat g; a=open f wronly; b=open g wronly; copy a 0 b 0 1 = EBADF; c=open "
	     "f rdonly; d=open g rdonly; copy c 0 d 0 1 = EBADF"),
	BOTH("copy/append",
	     "put f abc; put g x; a=open f rdonly; b=open g wronly,append; copy a 0 b 0 1 = EBADF"),
	BOTH("copy/dir",
	     "mkdir d; put f x; a=open d rdonly; b=open f wronly; copy a 0 b 0 1 = EISDIR"),
	BOTH("copy/fifo",
	     "mkfifo p 644; put f x; a=open f rdonly; b=open p rdwr; copy a 0 b 0 1 = EINVAL"),
	BOTH("copy/over-content", "put f abc; put g 123456; a=open f rdonly; b=open g wronly; copy "
				  "a 0 b 1 3 = 3; content g 1abc56"),
	CASES_END,
};
