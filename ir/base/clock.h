/*
 * clock.h - how long things take
 */
#ifndef TFD_IR_BASE_CLOCK_H
#define TFD_IR_BASE_CLOCK_H

/* Seconds on the system's clock that only goes forward; signal handlers may
 * call it. */
double clock_seconds(void);

#endif
