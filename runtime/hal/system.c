/*
 * system.c - calls of the system that fail
 */
#include "runtime/hal/system.h"

#include <errno.h>
#include "ir/base/io/file.h"

Status
rt_system_error(const char *call)
{
    return file_error(errno,
                      "a job of several processes needs %s, which fails",
                      call);
}
