/* Steps as records of one file, which is open until the last one is written. */
#ifndef RECORDS_H
#define RECORDS_H
#include "block.h"

/* Adds a record with PnetCDF, or with parallel netCDF-4, filtered or not. The first one creates the file. */
void add_record(const char *path, const char *way, size_t record);
/* Closes the file, if there is one. */
void close_records(void);

#endif
