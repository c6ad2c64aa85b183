package org.apache.spark.sql.mullion.plan.build

/** A call after Spark's analysis ([[AnalysedCall]]): its keys, its time, its aggregates, and its text. */
package object analysis
