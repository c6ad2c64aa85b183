package org.apache.spark.sql.mullion.monitor

/** The tab Windows of Spark's web UI: a page, a script, and JSON that the script draws ([[TabContent]]): that of a
  * running application ([[QueryJson]], [[PanesJson]]), or of the history server ([[EventLog]], [[HistoryPlugin]]).
  */
package object ui
