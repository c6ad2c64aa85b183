package org.apache.spark.sql.mullion.request

/** A Spark on which Mullion cannot run: [[Unfit]] finds the reason, [[RefuseCalls]] rejects every call with it. */
package object reject
