/* Values in foreign memory, as one extension of this package hands them to another: a capsule of this name holds a
 * `Slices`, and keeps the memory for as long as it lives. Another layout needs another name.
 */
#ifndef AIRFLOW_KAFKA_HDFS_SLICES_H
#define AIRFLOW_KAFKA_HDFS_SLICES_H

#include <stddef.h>

#define SLICES_NAME "airflow_kafka_hdfs.slices.1"

typedef struct {
    const void *data; /* NULL for a null value */
    size_t size;
} Slice;

typedef struct {
    size_t count;
    Slice items[];
} Slices;

#endif
