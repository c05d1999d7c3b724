/*
 * strategy.h - how variables and steps are spread over devices
 */
#ifndef TFD_IR_DEVICE_STRATEGY_H
#define TFD_IR_DEVICE_STRATEGY_H

#include <stdbool.h>

typedef enum IrStrategy {
#define STRATEGY(name, several, central, workers, servers, doc) STRATEGY_##name,
#include "ir/device/strategies.def"
#undef STRATEGY
    NUM_STRATEGIES
} IrStrategy;

typedef struct IrStrategyInfo {
    const char *name;
    bool several; /* takes more than one device */
    bool central; /* the first device keeps the variables for all */
    bool workers; /* divides the replicas among input workers */
    bool servers; /* main schedules closures */
    const char *doc;
} IrStrategyInfo;

extern const IrStrategyInfo ir_strategy_info[NUM_STRATEGIES];

/* Their names in the order of the enum, and a NULL. */
extern const char *const ir_strategy_names[NUM_STRATEGIES + 1];

#endif
