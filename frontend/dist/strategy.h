/*
 * strategy.h - the strategy of a program
 */
#ifndef TFD_FRONTEND_DIST_STRATEGY_H
#define TFD_FRONTEND_DIST_STRATEGY_H

#include "frontend/context/lower.h"
#include "ir/device/device.h"

/* What is wrong with a list of devices, or with one of those of several workers
 * that have ";" between them, whatever the program is; NULL: nothing. */
const char *fe_wrong_devices(Arena *a, const char *text);
/* The same of a setting that is one device, which is *out; as the example. */
const char *fe_one_device(Arena *a, const char *setting, const char *example,
                          const char *text, IrDevice *out);
/* The device of central storage's variables. */
const char *fe_parameter_device(Arena *a, const char *text, IrDevice *out);

/* The strategy of the command line or of decl, a STRATEGY (NULL: the file has
 * none), into the module and the names. */
void fe_strategy(Lower *cx, const AstNode *decl);

#endif
