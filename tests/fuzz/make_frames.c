/*
 * make_frames.c - writes messages of a parameter-server job for the fuzzer
 *
 *   make_frames FOLDER DONE
 *
 * One of each kind, as this build writes them.  DONE is written at the end.
 */
#include <stdio.h>
#include <sys/stat.h>
#include "tests/fuzz/frames.h"

static int
write_file(const char *folder, const char *name, const RtArchive *frame)
{
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", folder, *name ? "/" : "", name);
    FILE *f = fopen(path, "wb");
    if (!f || (frame && fwrite(frame->data, 1, frame->len, f) != frame->len) ||
        fclose(f)) {
        perror(path);
        return 1;
    }
    return 0;
}

int
main(int argc, char **argv)
{
    const char *kind;
    RtArchive frame;
    int bad = argc != 3;
    if (bad)
        return 2;
    mkdir(argv[1], 0777);
    Arena *a = arena_new(NULL, "frames");
    for (int i = 0; !bad && (kind = frame_make(a, i, &frame)); i++) {
        bad = write_file(argv[1], kind, &frame);
        if (!frame_try(frame.data, frame.len)) {
            fprintf(stderr, "make_frames: %s cannot be read\n", kind);
            bad = 1;
        }
    }
    arena_release(a);
    return bad ? 1 : write_file(argv[2], "", NULL);
}
