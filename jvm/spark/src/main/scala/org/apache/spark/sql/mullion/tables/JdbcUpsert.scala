package org.apache.spark.sql.mullion.tables

import java.sql.{Connection, Types}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.spark.sql.{Dataset, Row}
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.datasources.jdbc.{JdbcOptionsInWrite, JdbcUtils}
import org.apache.spark.sql.jdbc.{JdbcDialect, JdbcDialects}
import org.apache.spark.sql.types.{StringType, StructType}

import dev.mullion.MullionException

/** Replaces the rows of a database table that have the same keys: tasks write them to temporary tables, and one
  * transaction moves them. A batch is therefore visible completely or not at all, and a repeated batch changes nothing.
  *
  * {{{
  *   tasks         -> visits_mullion_rows, visits_mullion_keys
  *   transaction   DELETE FROM visits WHERE its key is among the keys
  *                 INSERT INTO visits SELECT the rows
  * }}}
  *
  * This needs no dialect's own MERGE. Nulls are ordinary keys.
  */
object JdbcUpsert {

  /** @param rows
    *   the new rows
    * @param keys
    *   the keys of all rows to delete, including those of `rows`
    * @param options
    *   Spark's options for JDBC, with the table as `dbtable`
    */
  def apply(rows: DataFrame, keys: DataFrame, options: java.util.Map[String, String]): Unit = {
    val settings = options.asScala.toMap
    val table = settings("dbtable")
    val (rowsBeside, keysBeside) = (beside(table, "_mullion_rows"), beside(table, "_mullion_keys"))
    val dialect = JdbcDialects.get(settings("url"))
    if (!exists(settings)) {
      val types = settings.get("createTableColumnTypes").orElse(keyTypes(dialect, keys.schema))
      write(rows.limit(0), settings ++ types.map("createTableColumnTypes" -> _), table, "append")
    }
    write(rows, settings - "createTableColumnTypes", rowsBeside, "overwrite")
    write(keys, settings - "createTableColumnTypes", keysBeside, "overwrite")
    Using.resource(dialect.createConnectionFactory(new JdbcOptionsInWrite(settings))(-1)) { connection =>
      val there = columnsOf(connection, table, dialect, rows)
      def quoted(name: String) = dialect.quoteIdentifier(name)
      // Columns of another text type need a cast to insert or compare large text.
      def of(name: String) = there(name).short.fold(quoted(name))(n => s"CAST(${quoted(name)} AS VARCHAR($n))")
      val same = keys.columns.map { key =>
        val (ours, other) = (s"$table.${quoted(there(key).name)}", s"k.${quoted(key)}")
        val compared = there(key).short.fold(other)(n => s"CAST($other AS VARCHAR($n))")
        s"($ours = $compared OR ($ours IS NULL AND $other IS NULL))"
      }
      connection.setAutoCommit(false)
      try {
        run(
          connection,
          s"DELETE FROM $table WHERE EXISTS (SELECT 1 FROM $keysBeside k WHERE ${same.mkString(" AND ")})"
        )
        run(
          connection,
          s"INSERT INTO $table (${rows.columns.map(c => quoted(there(c).name)).mkString(", ")}) " +
            s"SELECT ${rows.columns.map(of).mkString(", ")} FROM $rowsBeside"
        )
        connection.commit()
      } catch {
        case e: Exception =>
          connection.rollback()
          throw e
      }
      connection.setAutoCommit(true)
      Seq(rowsBeside, keysBeside).foreach(name => run(connection, s"DROP TABLE $name"))
    }
  }

  /** The content of a table, if it exists. */
  def read(spark: SparkSession, options: java.util.Map[String, String]): Option[DataFrame] = {
    val settings = options.asScala.toMap
    Option.when(exists(settings))(spark.read.format("jdbc").options(settings - "createTableColumnTypes").load())
  }

  private def exists(options: Map[String, String]): Boolean = {
    val written = new JdbcOptionsInWrite(options)
    Using.resource(JdbcDialects.get(options("url")).createConnectionFactory(written)(-1)) { connection =>
      JdbcUtils.tableExists(connection, written)
    }
  }

  private def write(rows: Dataset[Row], options: Map[String, String], table: String, mode: String): Unit =
    rows.write.format("jdbc").options(options + ("dbtable" -> table)).mode(mode).save()

  /** The column types for text keys, where the database cannot compare its default text type. */
  private def keyTypes(dialect: JdbcDialect, keys: StructType): Option[String] = {
    val texts = keys.filter(_.dataType == StringType).map(field => s"`${field.name}` VARCHAR($mostOfKey)")
    Option.when(isLarge(dialect) && texts.nonEmpty)(texts.mkString(", "))
  }

  private val mostOfKey = 255

  /** True if Spark's default text type is a large object, which the database cannot compare. */
  private def isLarge(dialect: JdbcDialect): Boolean =
    dialect.getJDBCType(StringType).exists(t => t.jdbcNullType == Types.CLOB && t.databaseTypeDefinition == "CLOB")

  /** A column of a table.
    *
    * @param short
    *   the length of its texts, if its type is not Spark's large text type
    */
  private final case class Column(name: String, short: Option[Int])

  private def columnsOf(
      connection: Connection,
      table: String,
      dialect: JdbcDialect,
      rows: DataFrame
  ): Map[String, Column] = {
    val columns = Using.resource(connection.createStatement()) { statement =>
      Using.resource(statement.executeQuery(s"SELECT * FROM $table WHERE 1 = 0")) { none =>
        val about = none.getMetaData
        (1 to about.getColumnCount).map { at =>
          val isShort = isLarge(dialect) && Seq(Types.VARCHAR, Types.CHAR).contains(about.getColumnType(at))
          Column(about.getColumnName(at), Option.when(isShort)(about.getPrecision(at)))
        }
      }
    }
    rows.columns.map { name =>
      name -> columns
        .find(_.name == name)
        .orElse(columns.find(_.name.equalsIgnoreCase(name)))
        .getOrElse(
          throw MullionException.invalid(
            s"The table $table has no column '$name', which the panes have: it has " +
              s"${columns.map(_.name).mkString("'", "', '", "'")}. Add it to the table, or name another one, which is made " +
              "with the columns of the panes."
          )
        )
    }.toMap
  }

  private def run(connection: Connection, sql: String): Unit = Using.resource(connection.createStatement()) {
    statement =>
      statement.executeUpdate(sql)
      ()
  }

  /** The name of a table next to another one, which may be quoted and qualified by a schema. */
  private def beside(table: String, suffix: String): String =
    if (table.endsWith("\"") || table.endsWith("`")) table.dropRight(1) + suffix + table.last else table + suffix
}
