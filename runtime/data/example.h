/*
 * example.h - tf.train.Example, in TFRecord files
 */
#ifndef TFD_RUNTIME_DATA_EXAMPLE_H
#define TFD_RUNTIME_DATA_EXAMPLE_H

#include "runtime/data/files.h"

/* Reads the features that the stage of f names from the len bytes of an Example
 * into e. seen has one word for each component. */
Status rt_example_read(const RtFile *f, const char *bytes, size_t len,
                       bool *seen, RtElement *e) MUST_USE;

#endif
