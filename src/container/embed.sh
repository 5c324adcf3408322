#!/bin/sh
# embed.sh - assembly that carries the file $1 as container_init_image, its length as container_init_image_size.
# The checksum is there for ninja: the text must change when the file does.
set -eu
sum=$(cksum <"$1")
cat <<END
/* ${sum} */
	.section .rodata
	.globl container_init_image, container_init_image_size
	.hidden container_init_image, container_init_image_size
	.balign 16
container_init_image:
	.incbin "$1"
1:
	.balign 8
container_init_image_size:
	.quad 1b - container_init_image
	.section .note.GNU-stack,"",%progbits
END
