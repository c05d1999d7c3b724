/*
 * hooks.h - the hooks that compiled code calls (ir/plan/abi.h)
 */
#ifndef TFD_RUNTIME_RUN_HOOKS_H
#define TFD_RUNTIME_RUN_HOOKS_H

#include "ir/plan/abi.h"

extern const TfdHooks rt_hooks;

#endif
