package org.apache.spark.sql.mullion.pyfunction

/** Values, numbers and operators with Python's semantics, and their encoding as bytes. Anything else is
  * [[Untranslatable]] and falls back to Python.
  */
package object expression
