/*
 * strategy.c - the table of strategies as data
 */
#include "ir/device/strategy.h"

#include <stddef.h>

const IrStrategyInfo ir_strategy_info[NUM_STRATEGIES] = {
#define STRATEGY(name, several, central, workers, servers, doc)                \
    [STRATEGY_##name] = {#name, several, central, workers, servers, doc},
#include "ir/device/strategies.def"
#undef STRATEGY
};

const char *const ir_strategy_names[NUM_STRATEGIES + 1] = {
#define STRATEGY(name, several, central, workers, servers, doc)                \
    [STRATEGY_##name] = #name,
#include "ir/device/strategies.def"
#undef STRATEGY
    [NUM_STRATEGIES] = NULL,
};
