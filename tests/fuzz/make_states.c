/*
 * make_states.c - writes checkpoints for the fuzzer to damage
 *
 *   make_states FOLDER STEPS...
 */
#include <stdlib.h>
#include "tests/fuzz/checkpoints.h"

int
main(int argc, char **argv)
{
    for (int i = 2; i < argc; i++) {
        Status st = checkpoint_make(argv[1], atoi(argv[i]));
        if (st)
            return status_report(st, "make_states", stderr);
    }
    return 0;
}
