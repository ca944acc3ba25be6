#!/bin/sh
# Lays a program for a parallel compile to chew on into DIRECTORY: C files and a makefile.
#   seed-001-zcache-make.sh DIRECTORY zstd
#     part of the zstd library, from the crate zstd-sys that building this workspace has put into cargo's registry: six files,
#     of which one compile (GCC 12, -O2 -g) takes 70 to 100 MB. zstd_lazy.c, which takes 280 MB and as long as these together, is left out.
#   seed-001-zcache-make.sh DIRECTORY generated COUNT FUNCTIONS
#     COUNT files made by rule, the same ones every time; with 120 functions cc1 of GCC 14 peaks at 89 MB (-O1 -g).
set -eu
directory=$1 kind=$2
mkdir -p "$directory"
if [ "$kind" = zstd ]; then
  registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
  # The newest there is; its name, with zstd's version in it, is printed.
  crate=$(ls -d "$registry"/*/zstd-sys-* 2>/dev/null | sort | tail -n 1)
  [ -n "$crate" ] || { echo "no zstd-sys in $registry: run cargo fetch here, set CARGO_HOME, or use with.program = \"generated 4 120\"" >&2; exit 1; }
  basename "$crate"
  cp -r "$crate/zstd/lib/." "$directory"
  cat > "$directory/Makefile" <<'END'
CC = cc
CFLAGS = -O2 -g -w -I. -Icommon
FILES = compress/zstd_compress compress/zstd_opt compress/zstd_fast decompress/zstd_decompress_block decompress/huf_decompress legacy/zstd_v07
program.a: $(FILES:=.o)
	ar rc $@ $^
END
  exit
fi
count=$3 functions=$4
awk -v directory="$directory" -v count="$count" -v functions="$functions" '
# A generator of our own: implementations of awk differ in rand().
function draw(below) { state = (state * 16807) % 2147483647; return state % below }
function loop(file, f) {
  printf "  for (long i = 0; i < (a & %d) + %d; i++) {\n", 63 + draw(64), draw(9) + 1 > name
  printf "    if (n && n->key > i * %d) { s += n->weight ^ (i << %d); n = (s & %d) ? n->left : n->right; }\n", draw(50) + 1, draw(7), draw(15) + 1 > name
  printf "    else switch (s %% %d) { case 0: s -= b * i; break; case 1: s ^= %dL; break; case 2: s = s * %d + i; break; default: s += a; }\n", draw(5) + 4, draw(100000), draw(31) + 2 > name
  if (f > 0) printf "    if (s & %d) s += part%d_%d(n, s >> %d, i);\n", 10 + draw(8), file, draw(f), draw(5) + 1 > name
  print "  }" > name
}
BEGIN {
  state = 20120321
  for (file = 0; file < count; file++) {
    name = directory "/part" file ".c"
    print "struct node { struct node *left, *right; long key, weight; double ratio; char name[32]; };" > name
    for (f = 0; f < functions; f++) {
      printf "long part%d_%d(struct node *n, long a, long b) {\n  long s = a * %d + b;\n", file, f, draw(97) + 3 > name
      loops = 2 + draw(4)
      for (l = 0; l < loops; l++) loop(file, f)
      printf "  if (n) { n->ratio = n->ratio * %d.%d + (double)s; n->name[s & 31] = (char)s; }\n  return s;\n}\n", draw(9) + 1, draw(99) > name
    }
    close(name)
    objects = objects " part" file ".o"
  }
  name = directory "/Makefile"
  printf "CC = cc\nCFLAGS = -O1 -g\nprogram.a:%s\n\tar rc $@ $^\n", objects > name
}'
