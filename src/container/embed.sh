#!/bin/sh
# embed.sh - assembly that carries the file $1 as container_init_image.
# The checksum is there for ninja: the text must change when the file does.
set -eu
sum=$(cksum <"$1")
cat <<END
/* ${sum} */
	.section .rodata
	.globl container_init_image, container_init_image_end
	.hidden container_init_image, container_init_image_end
	.balign 16
container_init_image:
	.incbin "$1"
container_init_image_end:
	.byte 0
	.section .note.GNU-stack,"",%progbits
END
