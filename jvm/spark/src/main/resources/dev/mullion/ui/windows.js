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

  // A length of time: one of the widths of bars.
  function length(ms) {
    const units = [["day", 86400000], ["hour", 3600000], ["minute", 60000], ["second", 1000]];
    const [unit, size] = units.find(([, size]) => ms >= size);
    return ms / size + " " + unit + (ms === size ? "" : "s");
  }

  function table(rows, header) {
    const cells = (row, kind) => element("tr", {}, row.map(cell => element(kind, {}, [cell instanceof Node ? cell : String(cell)])));
    const parts = header ? [element("thead", {}, [cells(header, "th")])] : [];
    parts.push(element("tbody", {}, rows.map(row => cells(row, "td"))));
    return element("table", {class: "table table-bordered table-sm", style: "width: auto"}, parts);
  }

  // One bar for each value; the text of a bar is its tooltip.
  function bars(title, values, text, grays = 0) {
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
      bar.setAttribute("fill", i < grays ? "#999999" : "#0088cc");
      const tip = document.createElementNS(SVG, "title");
      tip.append(text(i, value));
      bar.append(tip);
      chart.append(bar);
    });
    return element("div", {style: "display: inline-block; margin: 0 24px 12px 0; vertical-align: top"}, [
      element("div", {}, [title + " (at most " + most + ")"]), chart]);
  }

  // The lists of panes that the address asks for: those of an operator, and those of a key.
  const address = new URLSearchParams(location.search);
  const answers = {};
  let closedPanes = [];

  async function ask(name, parameters) {
    answers[name] = {error: "Reading the state ..."};
    drawPanes();
    const response = await fetch("panes/?" + new URLSearchParams(parameters));
    answers[name] = response.ok ? await response.json() : {error: "HTTP status " + response.status};
    drawPanes();
  }

  function askForAddress(run) {
    const [operator, key] = [address.get("operator"), address.get("key")];
    if (operator === null) return;
    ask("lists", {run, operator});
    if (key !== null) ask("ofKey", {run, operator, key});
  }

  function drawPanes() {
    const place = document.getElementById("panes-" + address.get("operator"));
    if (place !== null) place.replaceChildren(...shownPanes());
  }

  function shown(answer, parts) {
    if (answer === undefined) return [];
    return answer.error !== undefined ? [element("p", {}, [answer.error])] : parts(answer);
  }

  function shownPanes() {
    return shown(answers.ofKey, timeline).concat(shown(answers.lists, lists));
  }

  function linkTo(parameters, text, attributes) {
    return element("a", {...attributes, href: "?" + new URLSearchParams(parameters)}, [text]);
  }

  function lists(data) {
    const operator = address.get("operator");
    const largest = k => [linkTo({run: data.run, operator, key: k.id}, k.key), k.panes, k.rows === null ? "not counted" : k.rows];
    return [
      table(data.oldest.map(p => [time(p.dueMs), p.pane, p.waitsFor, p.heldBy === null ? "" : p.heldBy]),
        ["due at", "pane that is due first", "waits for", "held by"]),
      table(data.largest.map(largest), ["largest keys (click for their panes)", "open panes", "rows in them"])];
  }

  // The panes of a key: a bar from the start of a window to its end, for open ones a line to its close, and one for the
  // clock. A pane that has closed since the state was read is only in the list of closed ones.
  function timeline(data) {
    const text = data.isOfTime ? time : n => "row " + n;
    const clock = data.panes.length > 0 ? data.panes[0].clockMs : null;
    const closed = closedPanes.map(([start, end, fired]) => ({start, end, fired, dueMs: null}));
    const isOpen = p => !closed.some(c => c.start === p.start && c.end === p.end);
    const panes = closed.concat(data.panes.filter(isOpen));
    if (panes.length === 0) return [element("p", {}, ["The key has no open pane, and none has closed since this page was opened."])];
    panes.sort((a, b) => a.start - b.start || a.end - b.end);
    const all = panes.flatMap(p => [p.start, p.end, p.dueMs]).concat(clock).filter(n => n !== null);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const [width, lane] = [900, 14];
    const x = n => Math.round((n - low) / Math.max(1, high - low) * width);
    const chart = document.createElementNS(SVG, "svg");
    function shape(name, attributes, tip) {
      const made = document.createElementNS(SVG, name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      if (tip !== undefined) {
        const title = document.createElementNS(SVG, "title");
        title.append(tip);
        made.append(title);
      }
      chart.append(made);
    }
    const height = panes.length * lane;
    for (const [key, n] of [["width", width], ["height", height], ["role", "img"], ["aria-label", "panes of a key"]])
      chart.setAttribute(key, n);
    panes.forEach((p, i) => {
      const hasClosed = closed.includes(p);
      const bounds = text(p.start) + " to " + text(p.end);
      const tip = hasClosed ? bounds + ", closed, fired " + p.fired + " times" :
        (p.window === "" ? "" : p.window + ": ") + bounds + ", waits for " + p.waitsFor +
        (p.rows === null ? "" : ", " + p.rows + " rows") + ", fired " + p.fired + " times";
      const middle = i * lane + lane / 2;
      if (p.dueMs !== null && p.dueMs > p.end)
        shape("line", {x1: x(p.end), x2: x(p.dueMs), y1: middle, y2: middle, stroke: "#999999", "stroke-dasharray": "3 2"});
      const size = {x: x(p.start), y: i * lane + 1, width: Math.max(2, x(p.end) - x(p.start)), height: lane - 3};
      shape("rect", {...size, fill: hasClosed ? "#cccccc" : p.fired > 0 ? "#8fc1e3" : "#e4edf3", stroke: hasClosed ? "#999999" : "#0088cc"}, tip);
    });
    if (clock !== null && data.isOfTime)
      shape("line", {x1: x(clock), x2: x(clock), y1: 0, y2: height, stroke: "#c2185b"}, "clock at " + time(clock));
    return [
      element("h5", {}, ["Panes of the key" + (data.key === null ? "" : " " + data.key)]), chart,
      element("div", {class: "small", style: "margin-bottom: 12px"}, [
        text(low) + " to " + text(high) + (clock === null ? "" : "; red: the clock when the state was read, at " + time(clock)) +
        "; gray: closed since this page was opened; dark: open and has fired; dashed: allowed lateness"])];
  }

  function panesOf(run, number) {
    const link = linkTo({run, operator: number}, "List the oldest panes and the largest keys", {class: "btn btn-secondary btn-sm"});
    const place = element("div", {id: "panes-" + number}, String(number) === address.get("operator") ? shownPanes() : []);
    return element("div", {style: "margin-bottom: 12px"}, [link, " Spark jobs read the state for it", place]);
  }

  // The open panes by the end of their windows. The clock is between the ended and the other ones.
  function endsOf(report) {
    const {widthMs, isCut, bars: all} = report.ends;
    const until = i => isCut && i === all.length - 1 ? "later" : time(all[i][0] + widthMs);
    const tip = (i, n) => "windows that end from " + time(all[i][0]) + " to " + until(i) + ": " + n + " open panes";
    const ended = all.filter(bar => report.clockMs !== null && bar[0] + widthMs <= report.clockMs).length;
    return element("div", {}, [
      bars("open panes by the end of their windows, " + length(widthMs) + " for each bar", all.map(bar => bar[1]), tip, ended),
      element("div", {class: "small", style: "margin-top: -10px; margin-bottom: 12px"}, [
        "from " + time(all[0][0]) + " to " + until(all.length - 1) +
        (ended > 0 ? "; gray: the clock has passed the end, and the allowed lateness has not passed" : "")])]);
  }

  function operator(of, run, hasState) {
    if (String(of.number) === address.get("operator")) closedPanes = of.closed;
    const parts = [element("h4", {}, [of.title + ": " + of.windows])];
    const report = of.report;
    if (report === null) return element("div", {}, parts.concat(["No batch has ended yet."]));
    const streams = report.streams.map(s => [s.name, s.delay, time(s.watermarkMs), s.isIdle ? "yes" : "no"]);
    const recent = report.recent;
    const inBatch = (i, n) => "batch " + recent.batch[i] + ": " + n;
    parts.push(element("p", {}, [element("b", {}, ["Why panes are open: "]), report.reason]), table([
      ["clock", of.clock + (report.clockMs === null ? "" : ", at " + time(report.clockMs))],
      ["behind the wall clock", report.lag === null ? "does not apply" : report.lag],
      ["open panes", report.panesOpen],
      ["next pane is due at", time(report.nextDueMs)],
      ["last batch", report.batch + ", at " + time(report.timeMs)]]));
    if (streams.length > 0) parts.push(table(streams, ["stream", "watermark delay", "watermark", "idle"]));
    parts.push(element("h5", {}, ["Last " + recent.batch.length + " batches"]),
      bars("panes closed", recent.closed, inBatch), bars("other firings", recent.fired, inBatch),
      bars("open panes", recent.panesOpen, inBatch), bars("late rows", recent.late, inBatch));
    if (report.ends !== null) parts.push(endsOf(report));
    if (hasState) parts.push(panesOf(run, of.number));
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
      parts.push(...data.query.operators.map(of => operator(of, data.query.run, data.query.hasOpenState)));
    }
    root.replaceChildren(...parts);
  }

  async function refresh(isFirst) {
    try {
      const response = await fetch("json/" + location.search);
      if (!response.ok) throw new Error("HTTP status " + response.status);
      const data = await response.json();
      draw(data);
      if (isFirst && data.query !== null) askForAddress(data.query.run);
    } catch (error) {
      root.replaceChildren("The application does not respond (" + error.message + ").");
    }
  }

  refresh(true);
  setInterval(() => refresh(false), 5000);
})();
