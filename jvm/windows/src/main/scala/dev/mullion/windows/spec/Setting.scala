package dev.mullion.windows.spec

/** An option, with or without a value, as each language spells it. As text it has the spelling of the language of the
  * request ([[Language.current]]), so a message names options by interpolation: `s"${Setting.Ids} needs ..."`.
  */
final case class Setting(python: String, scala: String, sql: String) {
  def in(language: Language): String = language match {
    case Language.Python => python
    case Language.Scala  => scala
    case Language.Sql    => sql
  }

  override def toString: String = in(Language.current)
}

object Setting {

  // Names without values.
  val AllowedLateness: Setting = named("allowed_lateness")
  val By: Setting = named("by")
  val DedupeBy: Setting = named("dedupe_by")
  val Early: Setting = named("early")
  val Late: Setting = named("late")
  val OnTimeOption: Setting = named("on_time")
  val Panes: Setting = named("panes")
  val SparkQuery: Setting = named("spark_query")

  // Names with any value.
  val PanesGiven: Setting = valued("panes")
  val SparkQueryGiven: Setting = valued("spark_query")

  // Values that stand for themselves.
  val CloseAtEnd: Setting = Setting("at_end='close'", "closeAtEnd = true", "at_end => 'close'")
  val EmitEmpty: Setting = Setting("empty='emit'", "empty = Empty.Emit", "empty => 'emit'")
  val EmptyFor: Setting = Setting("empty=EmitFor(...)", "empty = Empty.EmitFor(...)", "empty_for => ...")
  val ForwardEmpty: Setting = Setting("empty='forward'", "empty = Empty.Forward", "empty => 'forward'")
  val Ids: Setting = Setting("ids=True", "ids = true", "ids => true")
  val NotAccumulating: Setting = Setting("accumulate=False", "accumulate = false", "accumulate => false")
  val NotExact: Setting = Setting("allow_exact=False", "allowExact = false", "allow_exact => false")
  val OnTime: Setting = Setting("on_time=True", "onTime = true", "on_time => true")
  val ProcessingTime: Setting = Setting("time=None", "time = Time.Processing", "time => NULL")
  val OrderByTime: Setting = Setting("order='time'", "byTime = true", "collect_order => 'time'")

  // The clock, early firings and upgrades.
  val IdleAfter: Setting =
    Setting("clock=Watermark(idle_after=...)", "clock = Watermark(idleAfter = ...)", "clock_idle_after => ...")
  val MaxAhead: Setting =
    Setting("clock=Watermark(max_ahead=...)", "clock = Watermark().withMaxAhead(...)", "clock_max_ahead => ...")
  val PerKey: Setting = Setting("clock=PerKey()", "clock = PerKey()", "clock => 'per key'")
  val PerKeyWithWallTime: Setting =
    Setting("clock=PerKey(wall_time=True)", "clock = PerKey(wallTime = true)", "clock_wall_time => true")
  val LateByWatermark: Setting = Setting(
    "clock=PerKey(late_by='watermark')",
    "clock = PerKey(lateBy = LateBy.Watermark)",
    "clock_late_by => 'watermark'"
  )
  val ForgetAfter: Setting = named("forget_after")
  val EachRow: Setting = Setting("early=Early(each_row=True)", "early = Early.eachRow", "early_each_row => true")
  val EarlyCount: Setting = earlyCount("...")
  val EarlyEvery: Setting = Setting("early=Early(every=...)", "early = Early.every(...)", "early => ...")
  val EarlyWall: Setting = Setting("early=Early(wall=...)", "early = Early.everyWall(...)", "early_wall => ...")
  val EarlyEachMinute: Setting =
    Setting("early=Early(every='1 minute')", "early = Early.every(\"1 minute\")", "early => '1 minute'")
  val NewAggregatesFromNow: Setting = Setting(
    "upgrade=Upgrade(new_aggregates='from now')",
    "upgrade = Upgrade(newAggregates = Upgrade.FromNow)",
    "upgrade_new_aggregates => 'from now'"
  )
  val DrainWindow: Setting =
    Setting("upgrade=Upgrade(window='drain')", "upgrade = Upgrade(window = Upgrade.Drain)", "upgrade_window => 'drain'")
  val DropWindow: Setting =
    Setting("upgrade=Upgrade(window='drop')", "upgrade = Upgrade(window = Upgrade.Drop)", "upgrade_window => 'drop'")

  // Code that a message proposes.
  val Timeout: Setting = valued("timeout")
  val FromFirstRow: Setting =
    Setting("Tumbling(..., starts='first row')", "Tumbling.fromFirstRow(...)", "starts => 'first row'")
  val SumAbove: Setting = Setting("F.sum('v') > 100", "sum(\"v\") > 100", "sum(v) > 100")
  val EndsWith: Setting = Setting("ends_with", "endsWith", "ends_with")
  val PreviousSum: Setting =
    Setting("previous(F.sum('v'))", "functions.previous(sum(\"v\"))", "mullion_previous(sum(v))")
  val Collect: Setting = Setting("collect()", "collect()", "collect => 'rows'")
  val AggCount: Setting =
    Setting("agg(F.count('*').alias('n'))", "agg(count(\"*\").as(\"n\"))", "aggregates => 'count(*) AS n'")
  val Renamed: Setting = Setting(".alias('...')", ".as(\"...\")", "AS")
  val IsDone: Setting =
    Setting("F.col('status') == 'done'", "col(\"status\") === \"done\"", "when => 'status = \"done\"'")
  val Ranges: Setting = Setting(
    "F.array(F.struct(F.col(...).alias('start'), F.col(...).alias('end'))), with mullion.functions.windows(...), or give a " +
      "function, Custom(lambda time: [(start, end)])",
    "array(struct(col(...).as(\"start\"), col(...).as(\"end\")))",
    "array(struct(... AS start, ... AS end))"
  )

  def earlyCount(rows: Any): Setting =
    Setting(s"early=Early(count=$rows)", s"early = Early.count($rows)", s"early_count => $rows")

  def allowedLateness(duration: String): Setting = text("allowed_lateness", duration)

  /** @param policy
    *   the policy's name in Python and SQL, such as `reopen each`
    */
  def late(policy: String): Setting = {
    val constant = policy.split(' ').map(_.capitalize).mkString
    Setting(s"late='$policy'", s"late = Late.$constant", s"late => '$policy'")
  }

  def emptyFor(table: String): Setting =
    Setting(s"empty=EmitFor('$table')", s"""empty = Empty.EmitFor(spark.table("$table"))""", s"empty_for => '$table'")

  def time(column: String): Setting = text("time", column)

  def maxRows(rows: Long): Setting = number("max_rows", rows)

  def dedupeBy(columns: Seq[String]): Setting = Setting(
    s"dedupe_by=${columns.mkString("['", "', '", "']")}",
    s"dedupeBy = Seq(${columns.map(name => s"""col("$name")""").mkString(", ")})",
    s"dedupe_by => '${columns.mkString(", ")}'"
  )

  def by(column: String): Setting = Setting(s"by='$column'", s"""by = Seq(col("$column"))""", s"by => '$column'")

  /** `column` under another name, as a key. */
  def byRenamed(column: String, name: String): Setting = Setting(
    s"by=F.col('$column').alias('$name')",
    s"""by = Seq(col("$column").as("$name"))""",
    s"by => '$column AS $name'"
  )

  /** An option of any name, without a value. */
  def named(name: String): Setting = Setting(s"$name=", s"${camelCase(name)} =", s"$name =>")

  /** An option of any name, with a value that the reader has. */
  private def valued(name: String): Setting = Setting(s"$name=...", s"${camelCase(name)} = ...", s"$name => ...")

  def text(name: String, value: String): Setting =
    Setting(s"$name='$value'", s"""${camelCase(name)} = "$value"""", s"$name => '$value'")

  def number(name: String, value: Long): Setting =
    Setting(s"$name=$value", s"${camelCase(name)} = $value", s"$name => $value")

  /** A session's gap in seconds, from a column. */
  def gapOfSeconds(column: String): Setting = Setting(
    s"Session(F.make_dt_interval(secs='$column'))",
    s"""Session.byRow(expr("make_dt_interval(0, 0, 0, $column)"))""",
    s"gap_column => 'make_dt_interval(0, 0, 0, $column)'"
  )

  def cast(column: String, to: String): Setting =
    Setting(s"F.col('$column').cast('$to')", s"""col("$column").cast("$to")""", s"CAST($column AS $to)")

  /** An expression in SQL, as a column with a name. */
  def expression(sql: String, name: String): Setting =
    Setting(s"F.expr(${escaped(sql)}).alias('$name')", s"""expr(${escaped(sql)}).as("$name")""", s"$sql AS $name")

  def withColumn(name: String, sql: String): Setting = {
    val scala = s"""df.withColumn("$name", expr(${escaped(sql)}))"""
    Setting(s"df.withColumn('$name', F.expr(${escaped(sql)}))", scala, scala)
  }

  def withWatermark(column: String, delay: String = ""): Setting = {
    def call(quote: Char) =
      s"withWatermark($quote$column$quote, ${if (delay.isEmpty) "..." else s"$quote$delay$quote"})"
    Setting(call('\''), call('"'), call('\''))
  }

  /** Words that are the same in each language. */
  def same(text: String): Setting = Setting(text, text, text)

  def quoted(text: String): Setting = Setting(s"'$text'", s"\"$text\"", s"'$text'")

  /** A function of Spark's over a column of the input. */
  def function(name: String, column: String): Setting =
    Setting(s"F.$name('$column')", s"""$name(col("$column"))""", s"$name($column)")

  private def escaped(text: String): String =
    text.flatMap { case '\n' => "\\n"; case c @ ('"' | '\\') => s"\\$c"; case c => c.toString }.mkString("\"", "", "\"")

  private def camelCase(name: String): String = {
    val words = name.split('_')
    (words.head +: words.tail.map(_.capitalize)).mkString
  }
}
