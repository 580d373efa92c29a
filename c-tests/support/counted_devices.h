// Counts the requests to the buffer types of all devices but the CPU, at the buffer types themselves, and refuses those
// that exceed a limit. The devices may be of any backend: the function of their buffer type that allocates is
// exchanged.

#ifndef COUNTED_DEVICES_H
#define COUNTED_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

// Begins to count. Call it once, before anything is allocated. False when there are more devices than it knows.
bool counted_devices_start(void);

// Sets the most bytes that a device has at a time; by default there is no limit. False for an unknown device.
bool counted_devices_limit(const char * device, size_t bytes);

// Prints a line for each device: its alignment and largest buffer; the bytes of its live buffers by their usage; the
// most bytes at a time; how many requests were refused; how many free bytes the driver reports less than at the start.
void counted_devices_print(FILE * file);

#endif
