/*
 * windows.h - windows over values, from the arguments of a call
 *
 * Values are [rows, axes..., channels], of one to three axes: the builtin's
 * name ends with their number (conv1d, max_pool2d).  A window begins at every
 * stride-th place.  Padding "valid" keeps windows inside of x; "same" gives one
 * for every stride-th element, with the padding on both sides and an odd
 * element at the end; numbers say how many places there are before and after x,
 * for all axes, for each, or (before, after) for each.
 */
#ifndef TFD_FRONTEND_BUILTINS_WINDOWS_H
#define TFD_FRONTEND_BUILTINS_WINDOWS_H

#include "frontend/builtins/builtins.h"
#include "ir/rules/windows.h"

typedef struct FePadding {
    bool same; /* else as many places: */
    int64_t before[IR_MAX_WINDOW_AXES], after[IR_MAX_WINDOW_AXES];
} FePadding;

typedef struct FeWindows {
    IrWindows in; /* num_axes first; low when they are placed */
    FePadding padding;
    int64_t size[IR_MAX_WINDOW_AXES];  /* the places of a window */
    int64_t image[IR_MAX_WINDOW_AXES]; /* elements there are, */
    int64_t count[IR_MAX_WINDOW_AXES]; /* and windows */
    bool padded; /* some windows have places outside of x */
} FeWindows;

/* Windows of as many axes as the function is for, with stride and dilation 1 in
 * one group, and no padding. */
FeWindows fe_windows(const FeArgs *in);

/* One number, from `least` on, for all axes, or one for each.  True if it was
 * left out: *out stays as it is. */
bool fe_windows_read(Lower *cx, const FeArgs *in, int i, const char *what,
                     int num_axes, int64_t least, int64_t *out);

/* "same", "valid" or numbers; as above. */
bool fe_windows_read_padding(Lower *cx, const FeArgs *in, int i, int num_axes,
                             FePadding *out);

/* Whether x, argument 0, has these axes; their sizes in w->image. */
bool fe_windows_read_image(Lower *cx, const FeArgs *in, const IrValue *x,
                           FeWindows *w);

/* The elements from the first place of a window to its last. */
int64_t fe_window_reach(const FeWindows *w, int axis);

/* The places before x and the windows, at least one along each axis, when all
 * else is known. */
bool fe_windows_place(Lower *cx, const FeArgs *in, const IrValue *x,
                      FeWindows *w);

/* "height, width": the axes, in words. */
const char *fe_windows_axes(int num_axes);

#endif
