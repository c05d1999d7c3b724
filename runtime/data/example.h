/*
 * example.h - tf.train.Example, as TFRecord files have it
 */
#ifndef TFD_RUNTIME_DATA_EXAMPLE_H
#define TFD_RUNTIME_DATA_EXAMPLE_H

#include "runtime/data/files.h"

/* Reads the features that the stage of f names from the len bytes of an Example
 * into e.  seen has room for one word a component. */
Status rt_example_read(const RtFile *f, const char *bytes, size_t len,
                       bool *seen, RtElement *e) MUST_USE;

#endif
