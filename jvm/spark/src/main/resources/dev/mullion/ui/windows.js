// The tab Windows: draws the JSON of Mullion's queries. Texts of queries only become text nodes, never markup.
(function () {
  "use strict";

  const root = document.getElementById("mullion-windows");
  const SVG = "http://www.w3.org/2000/svg";

  function element(name, attributes, children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
    for (const child of children || []) made.append(child);
    return made;
  }

  function time(ms) {
    return ms === null ? "none" : new Date(ms).toISOString().replace(".000Z", "Z");
  }

  function bytes(n) {
    const units = ["B", "kB", "MB", "GB", "TB"];
    let unit = 0;
    while (n >= 1000 && unit < units.length - 1) { n /= 1000; unit++; }
    return (unit === 0 ? n : n.toFixed(1)) + " " + units[unit];
  }

  function table(rows, header) {
    const cells = (row, kind) => element("tr", {}, row.map(cell => element(kind, {}, [String(cell)])));
    const parts = header ? [element("thead", {}, [cells(header, "th")])] : [];
    parts.push(element("tbody", {}, rows.map(row => cells(row, "td"))));
    return element("table", {class: "table table-bordered table-sm", style: "width: auto"}, parts);
  }

  // One bar for each value; the text of a bar is its tooltip.
  function bars(title, values, text) {
    const [width, height, most] = [8, 60, Math.max(1, ...values)];
    const chart = document.createElementNS(SVG, "svg");
    chart.setAttribute("width", Math.max(1, values.length) * width);
    chart.setAttribute("height", height);
    chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", title);
    values.forEach((value, i) => {
      const bar = document.createElementNS(SVG, "rect");
      const size = value === 0 ? 0 : Math.max(1, Math.round(value / most * (height - 2)));
      for (const [key, n] of [["x", i * width], ["y", height - size], ["width", width - 1], ["height", size]])
        bar.setAttribute(key, n);
      bar.setAttribute("fill", "#0088cc");
      const tip = document.createElementNS(SVG, "title");
      tip.append(text(i, value));
      bar.append(tip);
      chart.append(bar);
    });
    return element("div", {style: "display: inline-block; margin: 0 24px 12px 0; vertical-align: top"}, [
      element("div", {}, [title + " (at most " + most + ")"]), chart]);
  }

  // The open panes of operators, by their numbers, as far as they have been asked for.
  const panes = new Map();

  async function count(run, number) {
    panes.set(number, {error: "Reading the state ..."});
    drawPanes(number);
    const response = await fetch("panes/?run=" + encodeURIComponent(run) + "&operator=" + number);
    panes.set(number, response.ok ? await response.json() : {error: "HTTP status " + response.status});
    drawPanes(number);
  }

  function drawPanes(number) {
    const place = document.getElementById("panes-" + number);
    if (place !== null) place.replaceChildren(...shownPanes(panes.get(number)));
  }

  function shownPanes(data) {
    if (data === undefined) return [];
    if (data.error !== undefined) return [element("p", {}, [data.error])];
    const due = (i, n) => "due from " + time(data.bars[i][0]) + ": " + n;
    const parts = [element("p", {}, [data.panes + " open panes"])];
    if (data.bars.length > 0)
      parts.push(bars("by due time, each bar " + data.widthMs / 1000 + " s", data.bars.map(bar => bar[1]), due));
    parts.push(table(data.oldest.map(p => [time(p.dueMs), p.pane, p.waitsFor, p.heldBy === null ? "" : p.heldBy]),
      ["due at", "pane that is due first", "waits for", "held by"]));
    return parts;
  }

  function panesOf(run, number) {
    const button = element("button", {class: "btn btn-secondary btn-sm", type: "button"}, ["Count the open panes by due time"]);
    button.addEventListener("click", () => count(run, number));
    const place = element("div", {id: "panes-" + number}, shownPanes(panes.get(number)));
    return element("div", {style: "margin-bottom: 12px"}, [button, " reads the state once", place]);
  }

  function operator(of, run) {
    const parts = [element("h4", {}, [of.title + ": " + of.windows])];
    const report = of.report;
    if (report === null) return element("div", {}, parts.concat(["No batch has ended yet."]));
    const streams = report.streams.map(s => [s.name, s.delay, time(s.watermarkMs), s.isIdle ? "yes" : "no"]);
    const recent = report.recent;
    const inBatch = (i, n) => "batch " + recent.batch[i] + ": " + n;
    parts.push(table([
      ["clock", of.clock + (report.clockMs === null ? "" : ", at " + time(report.clockMs))],
      ["behind the wall clock", report.lag === null ? "does not apply" : report.lag],
      ["open panes", report.panesOpen],
      ["next pane is due at", time(report.nextDueMs)],
      ["state of the clock", report.waitsFor],
      ["held by", report.heldBy === null ? "nothing" : report.heldBy],
      ["last batch", report.batch + ", at " + time(report.timeMs)]]));
    if (streams.length > 0) parts.push(table(streams, ["stream", "watermark delay", "watermark", "idle"]));
    parts.push(element("h5", {}, ["Last " + recent.batch.length + " batches"]),
      bars("panes closed", recent.closed, inBatch), bars("other firings", recent.fired, inBatch),
      bars("open panes", recent.panesOpen, inBatch), bars("late rows", recent.late, inBatch));
    parts.push(panesOf(run, of.number));
    const late = report.lateness;
    parts.push(element("h5", {}, ["Late rows"]), element("p", {}, [late.advice]),
      table(late.labels.map((label, i) => [label, late.rows[i]]), ["late by", "rows"]));
    const totals = Object.entries(report.totals).filter(([, n]) => n > 0);
    parts.push(element("h5", {}, ["Since the start, in " + of.batches + " batches"]),
      table([["rowsRead", report.rowsRead]].concat(totals), ["metric", "sum"]));
    const state = report.state;
    parts.push(element("h5", {}, ["State"]), element("p", {}, [
      state.records + " records in " + state.numPartitions + " partitions; " + bytes(state.cachedBytes) +
      " cached in memory, " + bytes(state.diskBytes) + " on disk"]),
      table(state.partitions.map(([n, cached, disk]) => [n, bytes(cached), bytes(disk)]),
        ["largest partitions", "cached", "on disk"]));
    return element("div", {}, parts);
  }

  function link(query, chosen) {
    const text = query.title + (query.isRunning ? "" : " (ended)");
    const shown = chosen && chosen.run === query.run ? element("b", {}, [text]) : text;
    return element("li", {}, [element("a", {href: "?run=" + encodeURIComponent(query.run)}, [shown])]);
  }

  function draw(data) {
    const parts = [element("ul", {}, data.queries.map(query => link(query, data.query)))];
    if (data.query === null) parts.push(element("p", {}, ["No query with windows has run yet."]));
    else {
      if (data.query.failure !== null) parts.push(element("pre", {}, [data.query.failure]));
      parts.push(...data.query.operators.map(of => operator(of, data.query.run)));
    }
    root.replaceChildren(...parts);
  }

  async function refresh() {
    try {
      const response = await fetch("json/" + location.search);
      if (!response.ok) throw new Error("HTTP status " + response.status);
      draw(await response.json());
    } catch (error) {
      root.replaceChildren("The application does not respond (" + error.message + ").");
    }
  }

  refresh();
  setInterval(refresh, 5000);
})();
