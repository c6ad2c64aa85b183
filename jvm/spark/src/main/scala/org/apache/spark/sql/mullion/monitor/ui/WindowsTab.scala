package org.apache.spark.sql.mullion.monitor.ui

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Collections, WeakHashMap}

import scala.util.Using
import scala.xml.Node

import org.apache.spark.SparkContext
import org.apache.spark.sql.mullion.monitor.QueryMonitor
import org.apache.spark.ui.{JettyUtils, SparkUI, SparkUITab, UIUtils}

/** The tab Windows of an application's web UI, next to Structured Streaming.
  *
  * {{{
  *   windows/             the page: Spark's frame, and an empty element
  *   windows/script/      the script that fills it
  *   windows/json/?run=   the reports of a query, see [[QueryJson]]
  *   windows/panes/?run=&operator=        open panes of an operator, see [[PanesJson]]
  *   windows/panes/?run=&operator=&key=   those of a key
  * }}}
  *
  * The types of requests and handlers belong to the web server, whose packages differ between builds of Spark. This
  * class passes them on by reflection, so none of them is in its byte code.
  */
private[mullion] final class WindowsTab private (ui: SparkUI, content: TabContent)
    extends TabAfterStreaming(ui, "windows") {
  import WindowsTab._

  private def attach(): Unit = {
    serve("", "text/html")(page)
    serve("/script", "text/javascript")(_ => script)
    serve("/json", "application/json") { request =>
      content.queries(parameter(request, "run"), parameter(request, "key"))
    }
    serve("/panes", "application/json") { request =>
      content.panes(parameter(request, "run"), parameter(request, "operator"), parameter(request, "key"))
    }
    ui.attachTab(this)
  }

  private def page(request: AnyRef): String = {
    val body: Seq[Node] =
      <div id="mullion-windows"><noscript>This page needs JavaScript.</noscript></div> ++ <script src="script/"></script>
    "<!DOCTYPE html>" + frame(request, body).mkString
  }

  /** Spark's header around the content. Spark versions add parameters at the end, all of them optional. */
  private def frame(request: AnyRef, content: Seq[Node]): Seq[Node] = {
    val method = UIUtils.getClass.getMethods.find(_.getName == "headerSparkPage").get
    val arguments = method.getParameterTypes.toSeq.map {
      case kind if kind == classOf[String]        => "Windows"
      case kind if kind == classOf[() => _]       => () => content
      case kind if kind == classOf[SparkUITab]    => this
      case kind if kind == classOf[Option[_]]     => None
      case kind if kind == java.lang.Boolean.TYPE => Boolean.box(false)
      case _                                      => request
    }
    method.invoke(UIUtils, arguments: _*).asInstanceOf[Seq[Node]]
  }

  /** Serves a path below the tab's. */
  private def serve(path: String, contentType: String)(answer: AnyRef => String): Unit = {
    val responder: Any => String = request => answer(request.asInstanceOf[AnyRef])
    val params = new JettyUtils.ServletParams[String](responder, contentType, identity)
    val create = method(JettyUtils, "createServletHandler", 4)
    val handler = create.invoke(JettyUtils, s"/$prefix$path", params, ui.conf, ui.basePath)
    method(ui, "attachHandler", 1).invoke(ui, handler)
    ()
  }
}

private[mullion] object WindowsTab {

  // Entries are removed with their context.
  private val attached = Collections.newSetFromMap(new WeakHashMap[SparkContext, java.lang.Boolean])

  /** Adds the tab to the application's web UI and event log, if it has them; later calls do nothing. */
  def attach(context: SparkContext): Unit =
    if (attached.synchronized(attached.add(context))) {
      context.ui.foreach(attach(_, new LiveContent(QueryMonitor.of(context))))
      EventLog.begin(context)
    }

  /** Adds the tab to a web UI. */
  private[ui] def attach(ui: SparkUI, content: TabContent): Unit = new WindowsTab(ui, content).attach()

  private lazy val script: String =
    Using.resource(getClass.getResourceAsStream("/dev/mullion/ui/windows.js"))(in =>
      new String(in.readAllBytes(), UTF_8)
    )

  private def method(of: AnyRef, name: String, parameters: Int) =
    of.getClass.getMethods.find(found => found.getName == name && found.getParameterCount == parameters).get

  /** A parameter of a request. The class of the request may not be public, but one of its interfaces is. */
  private def parameter(request: AnyRef, name: String): Option[String] = {
    def interfaces(of: Class[_]): Seq[Class[_]] =
      of.getInterfaces.toSeq.flatMap(one => one +: interfaces(one)) ++ Option(of.getSuperclass).toSeq
        .flatMap(interfaces)
    val declared = interfaces(request.getClass).find(_.getName.endsWith(".ServletRequest")).get
    Option(declared.getMethod("getParameter", classOf[String]).invoke(request, name)).map(_.toString)
  }
}
