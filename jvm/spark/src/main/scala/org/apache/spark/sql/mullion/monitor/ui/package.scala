package org.apache.spark.sql.mullion.monitor

/** The tab Windows of Spark's web UI: a page, a script, and JSON that the script draws. */
package object ui
