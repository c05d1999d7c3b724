/*
 * protobuf.h - the encoding of protocol buffers
 */
#ifndef TFD_IR_BASE_IO_PROTOBUF_H
#define TFD_IR_BASE_IO_PROTOBUF_H

/* How a field is encoded: the last three bits of its key. */
typedef enum WireType {
    WIRE_VARINT,
    WIRE_64,
    WIRE_BYTES,
    WIRE_GROUP, /* groups, which nobody writes any more */
    WIRE_END_GROUP,
    WIRE_32,
    WIRE_NONE_6, /* not used */
    WIRE_NONE_7
} WireType;

#endif
