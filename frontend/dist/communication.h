/*
 * communication.h - the options of collectives
 *
 *   (bytes_per_pack: 1048576, timeout_seconds: 30.0, implementation: "ring")
 *
 * TensorFlow's CommunicationOptions as a tuple of names: of a strategy, and of
 * one call, whose options win over those of the strategy.
 */
#ifndef TFD_FRONTEND_DIST_COMMUNICATION_H
#define TFD_FRONTEND_DIST_COMMUNICATION_H

#include "frontend/context/lower.h"
#include "frontend/dist/cross_device.h"

/* Those that are not given, or leave it to whom they are given to (auto, no
 * time), are as a zeroed struct has them. */
typedef struct FeCommunication {
    bool has_bytes;
    int64_t bytes_per_pack; /* 0: no limit */
    int64_t timeout_ms;
    FeCrossDevice cross;
} FeCommunication;

/* Reads a tuple with some of these names, none being the empty one; false with
 * a message. */
bool fe_communication_read(Lower *cx, FeValue *v, Loc loc,
                           FeCommunication *out);

/* Sets the options on a collective, those of them that it may have. */
void fe_communication_set(IrOp *op, const FeCommunication *options);

/* Whether the strategy has the replicas that the operation asks for, and finds
 * the one on the device that it names; false with a message. */
bool fe_communication_fits(Lower *cx, FeCrossDevice *cross, Loc loc);

/* The first replica on a device; false if it has none. */
bool fe_find_device(Lower *cx, IrDevice device, int *replica);
/* The message for that; what is the option that names the device. */
void fe_refuse_device(Lower *cx, IrDevice device, const char *what, Loc loc);

#endif
