/* The page of a served volume: it asks the server for what is new once a second. Every text of it is set as text, never as HTML. */
"use strict";
(() => {
  const { make, number, bytes, shown, clock, kinds } = window.peryton;
  const page = document.documentElement;
  const own = JSON.parse(document.getElementById("page").textContent);
  const at = (id) => document.getElementById(id);

  const EVERY_MS = 1000;
  /* After an answer that did not come, the page waits longer and longer. */
  const LONGEST_WAIT_MS = 5000;
  const TIMEOUT_MS = 8000;
  /* As many as the server keeps. */
  const MOST_ROWS = 3600;
  const MOST_EVENTS = 200;

  /* What has been received. */
  let rows, events, lastEvent, maps, started, now, charts;
  const forget = () => {
    [rows, events, lastEvent, maps, started, now, charts] = [[], [], 0, [], null, null, charts];
  };
  forget();

  const duration = (ms) => {
    if (ms === undefined || ms === null) return "–";
    const s = ms / 1000;
    if (s < 1) return `${Math.round(ms)} ms`;
    const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
    const first = units.findIndex(([size]) => s >= size);
    const [[big, name], next] = [units[first], units[first + 1]];
    const rest = next ? Math.floor((s % big) / next[0]) : 0;
    return `${Math.floor(s / big)} ${name}${rest ? ` ${rest} ${next[1]}` : ""}`;
  };
  const milliseconds = (ns) => (ns === undefined ? "–" : ns < 1e6 ? `${number(ns / 1e3)} µs` : ns < 1e9 ? `${number(ns / 1e6)} ms` : `${number(ns / 1e9)} s`);
  const rate = (value) => `${bytes(value)}/s`;
  const sum = (all, of) => all.reduce((total, one) => total + of(one), 0);
  /* Texts change only when they are others, so that nothing is read aloud twice. */
  const say = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };

  /* The charts: a title, a note, its scales, and its views: the name of each, and its lines as functions of a row. */
  const per = (of) => (row) => (of(row) === undefined ? null : (of(row) * 1000) / Math.max(row.span_ms, 1));
  const ms = (kind, which) => (row) => (row[kind] ? row[kind][which] / 1e6 : null);
  const quantiles = (kind) => [["median", ms(kind, "p50")], ["99 %", ms(kind, "p99")], ["99.9 %", ms(kind, "p999")], ["longest", ms(kind, "max")]];
  const cache = (of) => (row) => (row.cache && of(row.cache) !== undefined ? of(row.cache) : null);
  const cachePer = (of) => per((row) => row.cache && of(row.cache));
  const logPer = (of) => per((row) => row.log && of(row.log));
  const TIME = { name: "", unit: "clock", log: false };
  const y = (unit, more = {}) => ({ name: "", unit, log: false, max: null, ...more });
  const overTime = () => {
    const [has, devices] = [rows[rows.length - 1] || {}, now.devices];
    const all = [
      { title: "Requests", note: "answered in a second", y: y(""), views: [["requests", [["reads", per((row) => row.reads)], ["writes", per((row) => row.writes)], ["flushes", per((row) => row.flushes)], ["discards", per((row) => row.discards)]]]] },
      { title: "Traffic", note: "bytes in a second", y: y("bytes"), views: [["traffic", [["read", per((row) => row.read_bytes)], ["written", per((row) => row.written_bytes)]]]] },
      { title: "Response time", note: "ms", y: y("ms", { log: true }), views: [["reads", quantiles("read_ns")], ["writes", quantiles("write_ns")], ["flushes", quantiles("flush_ns")]] },
    ];
    if (has.cache) {
      const accesses = (one) => one.fast_hits + one.fast_misses;
      all.push({ title: "Hits", note: "% of accesses that the fast device or memory served", y: y("%", { max: 100 }), views: [["hits", [["hits", cache((one) => (accesses(one) ? (100 * one.fast_hits) / accesses(one) : undefined))]]]] });
      all.push({
        title: "Moves",
        note: "in a second",
        y: y(""),
        views: [["extents", [["to the fast device", cachePer((one) => one.promotions)], ["off it", cachePer((one) => one.demotions)], ["written back", cachePer((one) => one.writebacks)]]], ["past the cache", [["accesses past the cache", cachePer((one) => one.bypassed)]]]],
      });
      all.push({ title: "Moved", note: "bytes that moves wrote in a second", y: y("bytes"), views: [["moved", [["moved", cachePer((one) => one.moved_bytes)]]]] });
    }
    if (now.cleaning) {
      const [limit, age] = [now.cleaning.limit_bytes, now.cleaning.max_age_ms];
      all.push({ title: "Dirty data", note: "that only the fast device has", y: y("bytes"), views: [["dirty", [["dirty", cache((one) => one.dirty_bytes)], ...(limit ? [["most that may be", () => limit]] : [])]]] });
      all.push({ title: "Age of dirty data", note: "s, of the oldest", y: y("s"), views: [["age", [["oldest", cache((one) => (one.dirty_bytes ? (one.oldest_ms || 0) / 1000 : 0))], ...(age ? [["highest age", () => age / 1000]] : [])]]] });
    }
    if (has.log) {
      all.push({ title: "Log", note: "bytes in a second", y: y("bytes"), views: [["log", [["appended", logPer((one) => one.appended_bytes)], ["past the log", logPer((one) => one.direct_bytes)], ["migrated", logPer((one) => one.migrated_bytes)]]]] });
      all.push({ title: "Age of the log", note: "s, of the oldest write that the primary does not have", y: y("s"), views: [["age", [["oldest", (row) => (row.log ? (row.log.oldest_ms || 0) / 1000 : null)]]]] });
    }
    const device = (key) => devices.map((one, index) => [one.name, per((row) => (row.devices[index] || {})[key])]);
    const budget = devices.filter((one) => one.wear_budget_bytes_per_s).map((one) => [`budget of ${one.name}`, () => one.wear_budget_bytes_per_s]);
    all.push({ title: "Wear", note: "bytes written to devices in a second, of all causes", y: y("bytes"), views: [["written", [...device("written_bytes"), ...budget]], ["read from devices", device("read_bytes")]] });
    all.push({ title: "Commands of devices", note: "in a second", y: y(""), views: [["writes", device("writes")], ["reads", device("reads")]] });
    return all;
  };

  /* The part of the hour that is shown. */
  const span = at("span");
  const shownRows = () => {
    const end = rows.length ? rows[rows.length - 1].end_unix_ms : 0;
    return rows.filter((row) => row.end_unix_ms > end - Number(span.value) * 1000);
  };
  const seriesOf = (chart, some) => {
    const x = some.map((row) => row.end_unix_ms / 1000);
    return chart.views.map(([name, lines]) => ({
      name,
      series: lines.map(([line, of], colour) => ({ name: line, colour, x, y: some.map((row) => of(row) ?? null) })),
    }));
  };

  /* Shares of the requests that took at most, or longer than, a time. */
  const distributed = (tail) => {
    const names = ["last minute", "since it was opened"];
    return now.distributions.map((one, index) => ({
      name: names[index],
      series: ["read", "write", "flush"].map((kind, colour) => {
        const pairs = one[kind];
        const all = sum(pairs, (pair) => pair[1]);
        let below = 0;
        const points = pairs.map(([bound, count]) => {
          below += count;
          return [bound / 1e6, tail ? (100 * (all - below)) / all : (100 * below) / all];
        });
        return { name: { read: "reads", write: "writes", flush: "flushes" }[kind], colour, x: points.map((point) => point[0]), y: points.map((point) => point[1]) };
      }),
    }));
  };
  const DISTRIBUTIONS = [
    { title: "Answered within", note: "share of requests", tail: false, y: y("%", { max: 100 }) },
    { title: "Slower than", note: "share of requests that took longer", tail: true, y: y("%", { log: true }) },
  ];

  /* Maps as the charts have them: cells from the first column that is kept, row by row. */
  const MAP_NAMES = ["last five minutes", "last hour"];
  const drawnMaps = () => {
    return maps.map((map, index) => {
      const all = [...map.columns.values()].sort((a, b) => a.number - b.number);
      const [first, last] = [all.length ? all[0].number : 1, all.length ? all[all.length - 1].number : 1];
      const columns = last - first + 1;
      const unpacked = (packed) => packed.flatMap((count) => (count < 0 ? new Array(-count).fill(0) : [count]));
      const layer = (name, verb, of) => {
        const cells = new Array(columns * map.cells).fill(0);
        for (const column of all) {
          const counts = of(column);
          for (let row = 0; row < map.cells; row += 1) cells[row * columns + column.number - first] = counts[row];
        }
        return { name, verb, unit: "requests", cells };
      };
      const [reads, writes] = [(column) => unpacked(column.reads), (column) => unpacked(column.writes)];
      const both = (column) => {
        const more = writes(column);
        return reads(column).map((count, cell) => count + more[cell]);
      };
      const end = all.length ? all[all.length - 1].begin_unix_ms / 1000 : 1;
      return {
        name: MAP_NAMES[index],
        from: 0,
        row: map.cell_bytes,
        rows: map.cells,
        column_s: map.rows_per_column,
        columns,
        begin_s: end - (columns - 1) * map.rows_per_column,
        layers: [layer("all", "requests that began there", both), layer("reads", "reads that began there", reads), layer("writes", "writes that began there", writes)],
      };
    });
  };

  const figure = (place, id, title, note, wide) => {
    const element = make("figure", { class: wide ? "card wide" : "card", id }, make("figcaption", {}, `${title} `, make("span", { text: note })));
    at(place).append(element);
    return element;
  };
  /* Makes all charts: what there is does not change while a volume is served. */
  const draw = () => {
    for (const place of ["over-time", "distributions", "where"]) at(place).replaceChildren();
    const some = shownRows();
    charts = { lines: [], distributions: [], map: null };
    overTime().forEach((chart, index) => {
      const spec = { ...chart, x: TIME, views: seriesOf(chart, some), live: true };
      charts.lines.push(kinds.lines(spec, figure("over-time", `live-${index}`, chart.title, chart.note)));
    });
    DISTRIBUTIONS.forEach((chart, index) => {
      const spec = { ...chart, x: { name: "time", unit: "ms", log: true }, views: distributed(chart.tail) };
      charts.distributions.push(kinds.lines(spec, figure("distributions", `distribution-${index}`, chart.title, chart.note)));
    });
    const spec = { id: "map", title: "Where requests begin", choose: "Time", maps: drawnMaps() };
    charts.map = kinds.heat(spec, figure("where", "map", "Where requests begin", "address × time", true));
    page.dataset.ready = String(document.querySelectorAll("figure").length);
  };
  const update = () => {
    if (!charts) draw();
    const some = shownRows();
    overTime().forEach((chart, index) => charts.lines[index].update(seriesOf(chart, some)));
    DISTRIBUTIONS.forEach((chart, index) => charts.distributions[index].update(distributed(chart.tail)));
    charts.map.update(drawnMaps());
  };

  const warnings = () => {
    const { volume, cleaning, devices, settings } = now;
    const all = [];
    for (const device of devices) {
      if (device.state === "gone") all.push(`Degraded: the volume goes on without ${device.name}.`);
      if (device.outage && device.outage.only_reads) all.push(`Outage: ${device.name} takes no writes, and stays, because no other device has its data: writes and flushes that need it fail.`);
      else if (device.outage) all.push(`Outage: ${device.name} fails. Commands wait for it for ${number(Math.ceil(device.outage.patience_left_ms / 10_000) * 10)} s more at most; then it is given up.`);
      for (const drive of device.drives) {
        for (const warning of drive.warnings) all.push(`The drive ${drive.drive} beneath ${device.name} ${warning}.`);
      }
      if (device.state === "moved") all.push(`The file of ${device.name} is not at its path any more: the next server does not find it.`);
      if (device.state === "deleted") all.push(`The file of ${device.name} was deleted, and its data end with the server: replace the device.`);
      if (device.state === "errors") all.push(`Commands to ${device.name} have failed for good: plan to replace it.`);
    }
    if (volume.state === "stopped") all.push("Stopped: a flush failed, and every request fails until the device can be flushed.");
    if (volume.state === "read_only") all.push("Read-only: a device cannot be written, so nothing can be changed; peryton status says what to do.");
    else if (volume.in_doubt) all.push("In doubt: a flush failed, and what was written before may be lost; the next flush of a client says so.");
    if (volume.lost_extents) all.push(`Lost: ${number(volume.lost_extents)} extents cannot be read until they are overwritten.`);
    if (volume.is_loss_unknown) all.push("Lost: the data that only the log had. Their amount is not known, and reads return the data of the primary.");
    if (cleaning && cleaning.throttles_writes) all.push("Writes wait, because dirty data are at their limit.");
    if (cleaning && cleaning.state === "overdue") all.push("Data has been dirty for longer than it may be.");
    if (volume.drills) all.push(`A drill: ${number(volume.drills)} faults are in force ("heal" on the control socket ends them).`);
    if (volume.silent_ms > 5000) all.push("The thread of the volume gives no figures: it is busy, or hangs. What is shown is old.");
    if (volume.block_device_is_live === false) all.push("The block device cannot be used now.");
    return [all, settings];
  };

  const tile = (name, value) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }));
  const state = () => {
    const { volume, cleaning } = now;
    const last = rows[rows.length - 1];
    const seconds = last ? Math.max(last.span_ms, 1) / 1000 : 1;
    const requests = last ? (last.reads + last.writes + last.flushes + last.discards) / seconds : 0;
    say(at("verdict-state"), `${volume.name} is ${volume.state}.`);
    const dirty = cleaning ? (cleaning.dirty_bytes ? `${bytes(cleaning.dirty_bytes)} are dirty` : "nothing is dirty") : null;
    const words = [`${number(requests)} requests/s of ${number(volume.clients)} ${volume.clients === 1 ? "client" : "clients"}`, dirty, `served for ${duration(volume.uptime_ms)}`];
    say(at("verdict-more"), `${words.filter(Boolean).join(", ")}.`);
    document.title = `${volume.state === "healthy" ? "" : `${volume.state}: `}${volume.name} – Peryton`;
    const minute = rows.slice(-60);
    const accesses = sum(minute, (row) => (row.cache ? row.cache.fast_hits + row.cache.fast_misses : 0));
    const tiles = [
      ["Read", last ? rate(last.read_bytes / seconds) : "–"],
      ["Written", last ? rate(last.written_bytes / seconds) : "–"],
      ["99 % of reads within", milliseconds(last && last.read_ns ? last.read_ns.p99 : undefined)],
      ["99 % of writes within", milliseconds(last && last.write_ns ? last.write_ns.p99 : undefined)],
      ["In flight", number(volume.requests_in_flight)],
    ];
    if (accesses) tiles.push(["Hits of a minute", `${number((100 * sum(minute, (row) => (row.cache ? row.cache.fast_hits : 0))) / accesses)} %`]);
    if (cleaning) {
      tiles.push(["Dirty", bytes(cleaning.dirty_bytes)]);
      tiles.push(["Clean in", cleaning.dirty_bytes ? duration(cleaning.clean_in_ms) : "it is clean"]);
    }
    at("tiles").replaceChildren(...tiles.map(([name, value]) => tile(name, value)));
    const [all] = warnings();
    const list = at("warnings-list");
    if (JSON.stringify(all) !== list.dataset.all) {
      list.dataset.all = JSON.stringify(all);
      list.replaceChildren(...all.map((text) => make("li", { class: "note", text })));
      at("warnings").hidden = !all.length;
    }
  };

  const YEAR_S = 365.25 * 86400;
  const health = () => {
    const spanned = sum(rows, (row) => row.span_ms) / 1000;
    const body = now.devices.map((device, index) => {
      const written = spanned ? sum(rows, (row) => (row.devices[index] || { written_bytes: 0 }).written_bytes) / spanned : 0;
      const life = device.endurance || { since_mark: {} };
      const eu = (value, digits) => (value === undefined ? "–" : value.toLocaleString("en", { maximumFractionDigits: digits }));
      const years = life.limit_bytes_written && written ? life.limit_bytes_written / written / YEAR_S : null;
      const lasts = life.limit_bytes_written ? (years === null ? "nothing is written" : years > 100 ? "more than 100 years" : `${number(years)} years`) : "–";
      const outage = device.outage ? `, for ${duration(device.outage.lasts_ms)}; ${number(device.outage.commands_waiting)} commands wait` : "";
      const used = device.wear_budget_bytes_per_s ? `${rate(device.wear_budget_bytes_per_s)} (${number((100 * written) / device.wear_budget_bytes_per_s)} % used)` : "–";
      const cells = [`${device.state}${outage}`, device.size_bytes === undefined ? "–" : bytes(device.size_bytes), bytes(device.used_bytes), number(device.errors), number(device.retries), number(device.failed_flushes), number(device.outages), device.power_state || "–", bytes(device.written_bytes), rate(written), used, lasts, eu(life.left_eu, 1), eu(life.since_mark.used_eu, 3)];
      return make("tr", { class: device.state === "ok" ? null : "bad" }, make("th", { scope: "row", text: device.name }), ...cells.map((text, column) => make("td", { class: column === 0 ? "text" : null, text })));
    });
    at("devices").replaceChildren(...body);
    const drives = now.devices.flatMap((device) => device.drives.map((drive) => {
      const said = drive.health || { estimates: {} };
      const or = (value, text) => (value === undefined || value === null ? "–" : text(value));
      const says = drive.error || (drive.warnings.length ? drive.warnings.join("; ") : said.passed === true ? "it is well" : said.passed === false ? "it fails" : drive.health ? "it does not judge itself" : "not read yet");
      const percent = (value) => `${number(value)} %`;
      const cells = [says, device.name, or(drive.read_ms_ago, (ms) => `${duration(ms)} ago`), or(said.temperature_c, (celsius) => `${celsius} °C`), or(said.percentage_used, percent), or(said.spare_percent, percent), or(said.media_errors, number), or(said.bytes_written, bytes), or(said.estimates.write_amplification, number), or(said.estimates.years_left, (years) => `${number(years)} years`)];
      const bad = drive.error || drive.warnings.length || said.passed === false;
      return make("tr", { class: bad ? "bad" : null }, make("th", { scope: "row", text: drive.drive }), ...cells.map((text, column) => make("td", { class: column === 0 ? "text" : null, text })));
    }));
    at("drives").replaceChildren(...drives);
    at("of-drives").hidden = !drives.length;
    at("no-drives").hidden = drives.length > 0;
    const { volume, cleaning } = now;
    const lines = [`${volume.placement}, ${bytes(volume.size_bytes)}, opened ${volume.openings === 1 ? "once" : `${number(volume.openings)} times`}, identity ${volume.id}.`];
    lines.push(`Memory for requests: ${bytes(volume.pool_free_bytes)} of ${bytes(volume.pool_bytes)} free${volume.clients_waiting ? `; ${number(volume.clients_waiting)} clients wait for it` : ""}.`);
    if (cleaning) {
      const goes = cleaning.bytes_per_s ? `, at ${rate(cleaning.bytes_per_s)} as last measured` : "";
      const limit = cleaning.limit_bytes ? ` of at most ${bytes(cleaning.limit_bytes)}` : "";
      const old = cleaning.oldest_ms === undefined ? "" : `, the oldest for ${duration(cleaning.oldest_ms)}${cleaning.max_age_ms ? ` of at most ${duration(cleaning.max_age_ms)}` : ""}`;
      lines.push(`Dirty: ${bytes(cleaning.dirty_bytes)}${limit}${old}. Cleaning: ${cleaning.state}${goes}${cleaning.clean_in_ms === undefined || !cleaning.dirty_bytes ? "" : `; clean in ${duration(cleaning.clean_in_ms)} if nothing else is written`}.`);
    }
    if (now.admission) lines.push(`Admission: ${now.admission}.`);
    say(at("about"), lines.join(" "));
  };

  const detail = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : String(value));
  const log = () => {
    const list = at("events");
    const newest = events.length ? String(events[events.length - 1].number) : "";
    if (list.dataset.newest === `${started} ${newest}`) return;
    list.dataset.newest = `${started} ${newest}`;
    const line = (event) => {
      const about = Object.entries(event.about).map(([key, value]) => `${key} ${detail(value)}`);
      return make("tr", {}, make("td", { class: "text", text: new Date(event.unix_ms).toLocaleString("sv-SE") }), make("td", { class: "text", text: event.event.replaceAll("_", " ") }), make("td", { class: "text about", text: about.join(", ") }));
    };
    list.replaceChildren(...[...events].reverse().map(line));
  };

  /* Settings: what is in force. */
  const settings = () => {
    const list = at("in-force");
    const key = JSON.stringify(now.settings);
    if (list.dataset.all === key) return;
    list.dataset.all = key;
    const lines = now.settings.map((setting) => make("li", {}, make("code", { text: setting })));
    list.replaceChildren(...(lines.length ? lines : [make("li", { text: "All settings are those of the design." })]));
  };

  /* What an answer adds. */
  const take = (answer) => {
    if (started !== null && answer.started_unix_ms !== started) {
      forget();
      charts = null;
      return false;
    }
    started = answer.started_unix_ms;
    rows = rows.concat(answer.rows).slice(-MOST_ROWS);
    events = events.concat(answer.events).slice(-MOST_EVENTS);
    lastEvent = Math.max(lastEvent, answer.last_event);
    answer.maps.forEach((map, index) => {
      const kept = maps[index] || { columns: new Map() };
      maps[index] = { ...map, columns: kept.columns };
      for (const column of map.columns) kept.columns.set(column.number, column);
      const newest = Math.max(0, ...kept.columns.keys());
      for (const old of kept.columns.keys()) if (old <= newest - map.most_columns) kept.columns.delete(old);
    });
    now = answer;
    return true;
  };
  const show = () => {
    state();
    health();
    log();
    settings();
    if (rows.length) update();
    page.dataset.rows = rows.length ? String(rows[rows.length - 1].number) : "0";
  };

  const connection = at("connection");
  let lost = null;
  let paused = false;
  const disconnected = (why) => {
    lost ??= Date.now() / 1000;
    page.classList.add("lost");
    say(connection, `The server has not answered since ${clock(lost)} (${why}). What is shown is as it was then; this page tries again by itself.`);
    connection.hidden = false;
  };
  const connected = () => {
    lost = null;
    page.classList.remove("lost");
    connection.hidden = true;
  };
  /* Asks once; returns whether there is more to ask at once. */
  const ask = async () => {
    const since = rows.length ? rows[rows.length - 1].number : 0;
    const answer = await fetch(`live.json?since=${since}&events=${lastEvent}`, { credentials: "omit", cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (!answer.ok) throw new Error(`it answers ${answer.status}: ${(await answer.text()).trim()}`);
    const report = await answer.json();
    if (report.version !== own.version) {
      /* Another version of the server has another page. */
      location.reload();
      return false;
    }
    if (!take(report)) return true;
    connected();
    const more = rows.length > 0 && rows[rows.length - 1].number < report.last_row;
    if (!more) show();
    return more;
  };
  let wait = EVERY_MS;
  const go = async () => {
    if (!paused && !document.hidden) {
      try {
        while (await ask());
        wait = EVERY_MS;
      } catch (error) {
        disconnected(error.name === "TimeoutError" ? "no answer in time" : error.message);
        wait = Math.min(LONGEST_WAIT_MS, wait * 1.5);
      }
    }
    setTimeout(go, wait);
  };
  document.addEventListener("visibilitychange", () => (wait = EVERY_MS));
  span.addEventListener("change", () => rows.length && update());
  at("pause").addEventListener("click", (event) => {
    paused = !paused;
    event.target.setAttribute("aria-pressed", String(paused));
    event.target.textContent = paused ? "go on" : "pause";
  });
  go();
})();
