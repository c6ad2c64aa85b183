package org.apache.spark.sql.mullion.checkpoint.compare

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.Row
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.mullion.checkpoint.inspect.PanesReader
import org.apache.spark.sql.mullion.checkpoint.layout.StateOperators
import org.apache.spark.sql.mullion.pyfunction.branch.BranchState
import org.apache.spark.sql.mullion.pyfunction.keyed.{KeyedFunction, KeyedFunctionHeader}
import org.apache.spark.sql.mullion.state.header.OperatorHeader

/** The effect of a changed query on the state of functions, and on the windows between their stages, before it starts.
  * Functions may change; only they can interpret their state.
  */
private[checkpoint] object FunctionComparison {
  import Comparison.{GoesOn, Refused}

  /** Rows in the form of [[Comparison]]. */
  def apply(spark: SparkSession, functions: Seq[KeyedFunction], home: Path): Seq[Row] = {
    val hadoopConf = spark.sessionState.newHadoopConf()
    val root = new Path(home, "state")
    val existing = for {
      id <- StateOperators.find(home, hadoopConf).getOrElse(Nil)
      header <- KeyedFunctionHeader.read(new Path(root, id.toString), hadoopConf)
    } yield id -> header
    if (existing.length != functions.length)
      Seq(
        Row(
          0L,
          "functions",
          Refused,
          s"the checkpoint has ${existing.length} functions with state, and the query has ${functions.length}"
        )
      )
    else
      existing.zip(functions).flatMap { case ((operator, was), now) =>
        val differ = was.differences(now.program.header)
        val ofFunction =
          if (differ.isEmpty) Seq(("functions", GoesOn, "their state is found again"))
          else differ.map(("functions", Refused, _))
        (ofFunction ++ ofWindows(now, new Path(root, operator.toString), hadoopConf)).map {
          case (part, verdict, what) => Row(operator, part, verdict, what)
        }
      }
  }

  private def ofWindows(
      function: KeyedFunction,
      operator: Path,
      hadoopConf: Configuration
  ): Seq[(String, String, String)] = {
    val branches = BranchState.all(operator, hadoopConf).map(of => of.name -> of).toMap
    val now = function.program.windows.zip(function.windows).map { case (name, plan) =>
      name -> PanesReader.programsIn(plan).headOption.map(_.header)
    }
    val there = now.flatMap {
      case (name, Some(header)) =>
        branches.get(name).flatMap(of => headerOf(operator, of, hadoopConf)) match {
          case None      => Seq((name, GoesOn, "the window is new: it holds the rows from now on"))
          case Some(was) =>
            val differ = was.differences(header)
            if (differ.isEmpty) Seq((name, GoesOn, "the state means what it meant")) else differ.map((name, Refused, _))
        }
      case _ => Nil
    }
    there ++ (branches.keySet -- now.map(_._1)).toSeq.sorted
      .map((_, GoesOn, "the window is gone, and its panes are kept"))
  }

  private def headerOf(operator: Path, branch: BranchState, hadoopConf: Configuration): Option[OperatorHeader] =
    OperatorHeader.read(new Path(BranchState.folderOf(operator, branch.name), branch.number.toString), hadoopConf)
}
