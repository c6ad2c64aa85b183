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

/** Puts rows into a table of a database in place of those of the same keys: tasks write them beside the table, and one
  * transaction moves them in. So a table shows a batch whole or not at all, and a batch that is done again changes
  * nothing.
  *
  * {{{
  *   tasks         -> visits_mullion_rows, visits_mullion_keys
  *   transaction   DELETE FROM visits WHERE its key is among the keys
  *                 INSERT INTO visits SELECT the rows
  * }}}
  *
  * No dialect's own MERGE is needed for it. Nulls are keys like others.
  */
object JdbcUpsert {

  /** @param rows
    *   what the table shows then
    * @param keys
    *   the keys of all rows that are to go, those of `rows` among them
    * @param options
    *   Spark's options for JDBC, with the table as `dbtable`
    */
  def apply(rows: DataFrame, keys: DataFrame, options: java.util.Map[String, String]): Unit = {
    val asked = options.asScala.toMap
    val table = asked("dbtable")
    val (rowsBeside, keysBeside) = (beside(table, "_mullion_rows"), beside(table, "_mullion_keys"))
    val dialect = JdbcDialects.get(asked("url"))
    if (!exists(asked)) {
      val types = asked.get("createTableColumnTypes").orElse(keyTypes(dialect, keys.schema))
      write(rows.limit(0), asked ++ types.map("createTableColumnTypes" -> _), table, "append")
    }
    write(rows, asked - "createTableColumnTypes", rowsBeside, "overwrite")
    write(keys, asked - "createTableColumnTypes", keysBeside, "overwrite")
    Using.resource(dialect.createConnectionFactory(new JdbcOptionsInWrite(asked))(-1)) { connection =>
      val there = columnsOf(connection, table, dialect, rows)
      def quoted(name: String) = dialect.quoteIdentifier(name)
      // A large text is put into another kind of one, and compared with it, only as such.
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

  /** What a table holds, if it is there. */
  def read(spark: SparkSession, options: java.util.Map[String, String]): Option[DataFrame] = {
    val asked = options.asScala.toMap
    Option.when(exists(asked))(spark.read.format("jdbc").options(asked - "createTableColumnTypes").load())
  }

  private def exists(options: Map[String, String]): Boolean = {
    val written = new JdbcOptionsInWrite(options)
    Using.resource(JdbcDialects.get(options("url")).createConnectionFactory(written)(-1)) { connection =>
      JdbcUtils.tableExists(connection, written)
    }
  }

  private def write(rows: Dataset[Row], options: Map[String, String], table: String, mode: String): Unit =
    rows.write.format("jdbc").options(options + ("dbtable" -> table)).mode(mode).save()

  /** Texts that are keys, where the database has types for text that it does not compare. */
  private def keyTypes(dialect: JdbcDialect, keys: StructType): Option[String] = {
    val texts = keys.filter(_.dataType == StringType).map(field => s"`${field.name}` VARCHAR($mostOfKey)")
    Option.when(isLarge(dialect) && texts.nonEmpty)(texts.mkString(", "))
  }

  private val mostOfKey = 255

  /** True if texts are large ones to Spark, which the database does not compare. */
  private def isLarge(dialect: JdbcDialect): Boolean =
    dialect.getJDBCType(StringType).exists(t => t.jdbcNullType == Types.CLOB && t.databaseTypeDefinition == "CLOB")

  /** A column of a table, as it has it.
    *
    * @param short
    *   how long its texts are, where they are none of the large ones that Spark writes
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

  /** The name of a table beside another one, which may be quoted and have a schema's name before it. */
  private def beside(table: String, suffix: String): String =
    if (table.endsWith("\"") || table.endsWith("`")) table.dropRight(1) + suffix + table.last else table + suffix
}
