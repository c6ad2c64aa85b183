package org.apache.spark.sql.mullion.operator.partial

/** The groups of a partial aggregate in memory: their records, and the buffers that are objects next to the records. */
package object group
