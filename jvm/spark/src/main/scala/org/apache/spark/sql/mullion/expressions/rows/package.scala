package org.apache.spark.sql.mullion.expressions

/** Projections of rows, and rows that are collected, updated or kept free of nulls.
  */
package object rows
