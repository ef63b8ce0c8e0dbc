/* The charts of a report. The page has their data as JSON (#data); every text of it is set as text, never as HTML. */
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  /* A colour that the canvas understands, also where the style has light-dark(). */
  const probe = document.createElement("i");
  probe.hidden = true;
  document.body.append(probe);
  const colour = (name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const COLOURS = 8;
  const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];
  const FONT = "12px system-ui, sans-serif";
  const seriesColour = (index) => colour(`--c${index % COLOURS}`);
  const seriesDash = (index) => DASHES[(index + Math.floor(index / COLOURS)) % DASHES.length];

  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") element.textContent = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  };

  /* Three significant digits, with a thin space between thousands. */
  const number = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return "∞";
    const size = Math.abs(value);
    if (size === 0) return "0";
    if (size >= 999.5) return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
    if (size < 1e-4) return value.toExponential(1);
    return String(Number(value.toPrecision(3)));
  };
  const bytes = (value) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (Math.abs(value) >= 1024 && unit < units.length - 1) {
      value /= 1024;
      unit += 1;
    }
    return `${number(value)} ${units[unit]}`;
  };
  /* The time of day of seconds since 1970. */
  const clock = (value) => new Date(value * 1000).toLocaleTimeString("en-GB");
  const shown = (value, unit) => {
    if (value === null || value === undefined) return "–";
    if (unit === "bytes") return bytes(value);
    if (unit === "clock") return clock(value);
    return unit ? `${number(value)} ${unit}` : number(value);
  };
  const tick = (value, unit) => (unit === "bytes" ? bytes(value) : unit === "clock" ? clock(value) : number(value));
  const MOST_STEPS = 200;
  const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

  /* Round steps between two values, about `count` of them. */
  const linearSteps = (min, max, count, unit) => {
    if (!(max > min)) return [min];
    const base = unit === "bytes" ? 2 : 10;
    const rough = (max - min) / Math.max(count, 1);
    const power = base ** Math.floor(Math.log(rough) / Math.log(base));
    const round = unit === "clock" ? CLOCK_STEPS : (base === 2 ? [1, 2] : [1, 2, 5, 10]).map((digit) => digit * power);
    const step = round.find((one) => one >= rough * 0.999) || round[round.length - 1];
    /* A span that no clock is for. */
    if ((max - min) / step > MOST_STEPS) return [];
    const steps = [];
    for (let at = Math.ceil(min / step - 1e-9) * step; at <= max + step * 1e-9; at += step) steps.push(Math.abs(at) < step * 1e-9 ? 0 : at);
    return steps;
  };
  const logSteps = (min, max, count, unit) => {
    if (!(min > 0 && max < Infinity)) return [];
    const base = unit === "bytes" ? 2 : 10;
    const log = (value) => Math.log(value) / Math.log(base);
    const [first, last] = [Math.ceil(log(min) - 1e-9), Math.floor(log(max) + 1e-9)];
    const decades = last - first + 1;
    if (base === 10 && decades < 3) {
      /* As many digits of each power as have room between them. */
      const room = count / log(max / min);
      for (const digits of [[1, 2, 3, 5, 7], [1, 2, 5], [1, 3], [1]]) {
        const nearest = Math.min(...digits.map((digit, at) => log((digits[at + 1] || 10) / digit)));
        if (nearest * room < 0.8) continue;
        const all = [];
        for (let power = first - 1; power <= last; power += 1) for (const digit of digits) all.push(digit * 10 ** power);
        const within = all.filter((value) => value >= min * 0.999 && value <= max * 1.001);
        if (within.length > 1) return within;
      }
      return linearSteps(min, max, Math.min(count, 4), unit);
    }
    const every = Math.max(1, Math.ceil(decades / Math.max(count, 2)));
    const steps = [];
    for (let power = first; power <= last; power += every) steps.push(base ** power);
    return steps;
  };
  const steps = (scale, count) => (u, axis, min, max) => {
    const pixels = axis === 0 ? u.bbox.width : u.bbox.height;
    const room = Math.max(2, Math.floor(pixels / devicePixelRatio / count));
    return scale.log ? logSteps(min, max, room, scale.unit) : linearSteps(min, max, room, scale.unit);
  };

  const axes = (x, y) => {
    const style = () => ({ stroke: () => colour("--faint"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, font: FONT });
    const label = (scale) => (scale.unit && scale.unit !== "bytes" && scale.unit !== "clock" ? `${scale.name}, ${scale.unit}` : scale.name);
    return [
      { ...style(), label: label(x), labelFont: FONT, labelSize: 20, size: 30, splits: steps(x, x.unit === "bytes" ? 80 : 64), values: (u, all) => all.map((one) => tick(one, x.unit)), filter: (u, all) => all },
      {
        ...style(),
        splits: steps(y, 34),
        filter: (u, all) => all,
        values: (u, all) => all.map((one) => tick(one, y.unit)),
        size: (u, values) => 16 + 7 * Math.max(3, ...(values || []).map((text) => text.length)),
      },
    ];
  };

  const HEIGHT = 260;
  const charts = [];
  /* Keeps a chart as wide as its place. */
  const sized = (plot, place, height = HEIGHT) => {
    const fit = () => {
      const width = Math.floor(place.clientWidth);
      if (width > 0 && width !== plot.width) plot.setSize({ width, height });
    };
    new ResizeObserver(fit).observe(place);
    charts.push(plot);
    return plot;
  };
  const width = (place) => Math.max(200, Math.floor(place.clientWidth) || 320);

  const choice = (name, options, chosen) => {
    const select = make("select", {}, ...options.map((text, index) => make("option", { value: index, text })));
    select.addEventListener("change", () => chosen(Number(select.value)));
    return [make("label", { class: "choice" }, `${name} `, select), select];
  };

  /* Moves the cursor by keys. `places`: the values of x in order. */
  const keys = (plot, over, places, at, say) => {
    over.tabIndex = 0;
    over.addEventListener("keydown", (event) => {
      const last = places().length - 1;
      const jump = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[event.key];
      if (event.key === "Escape") {
        plot().setData(plot().data);
        event.preventDefault();
      } else if (jump !== undefined && last >= 0) {
        at.index = Math.min(last, Math.max(0, (at.index ?? (jump > 0 ? -1 : last + 1)) + jump));
        say(at.index);
        event.preventDefault();
      }
    });
  };

  const lines = (spec, figure) => {
    const controls = make("div", { class: "controls" });
    const place = make("div", { class: "plot", role: "group", "aria-label": `${spec.title}: arrow keys read the values, drag to zoom, Escape shows all` });
    const legend = make("ul", { class: "legend" });
    const live = make("output", { class: "spoken", "aria-live": "polite" });
    figure.append(controls, place, legend, live);
    const hidden = new Set();
    let plot = null;
    const at = { index: null };
    let zoomed = false;
    let view = spec.views[0];
    const value = (column, index) => {
      if (spec.live) return column[index] ?? null;
      /* Series have x values of their own: the last one before the cursor counts. */
      for (let before = index; before >= 0; before -= 1) if (column[before] !== null && column[before] !== undefined) return column[before];
      return null;
    };
    const read = (cursor) => {
      const items = legend.querySelectorAll("b");
      /* What is live shows its newest values while nothing is pointed at. */
      const index = spec.live && plot.data[0].length ? (cursor ?? plot.data[0].length - 1) : cursor;
      const inside = index !== null && index !== undefined;
      items.forEach((item, number) => {
        const column = plot.data[number + 1];
        const found = inside ? value(column, index) : null;
        const after = inside && (spec.live || column.slice(index).some((one) => one !== null && one !== undefined));
        item.textContent = !inside ? "" : after || found === null ? shown(found, spec.y.unit) : `ended`;
      });
      const where = legend.querySelector(".where");
      if (where) where.textContent = inside ? `${spec.x.name} ${shown(plot.data[0][index], spec.x.unit)}` : "";
    };
    const columns = () => {
      const tables = view.series.map((one) => [one.x, one.y.map((number) => (spec.y.log && !(number > 0) ? null : number))]);
      return tables.length ? uPlot.join(tables) : [[], []];
    };
    /* Values without neighbours, which no line shows. */
    const alone = (u, series) => {
      const column = u.data[series];
      const known = (index) => column[index] !== null && column[index] !== undefined;
      return [...column.keys()].filter((index) => known(index) && !known(index - 1) && !known(index + 1));
    };
    const draw = () => {
      if (plot) {
        charts.splice(charts.indexOf(plot), 1);
        plot.destroy();
      }
      at.index = null;
      const joined = columns();
      const points = (one) => ({ show: Boolean(one.points) || Boolean(spec.live) || one.x.length < 2, ...(spec.live ? { filter: alone } : {}), size: one.points === "only" ? 10 : 7, fill: () => seriesColour(one.colour), stroke: () => colour("--card") });
      const options = {
        width: width(place),
        height: HEIGHT,
        legend: { show: false },
        cursor: { drag: { x: true, y: false }, points: { size: 8 } },
        focus: { alpha: 0.35 },
        scales: {
          x: { time: false, distr: spec.x.log ? 3 : 1, range: (u, min, max) => (spec.live && u.data[0].length === 1 ? [u.data[0][0] - 1, u.data[0][0] + 1] : min === null ? [1, 10] : min === max ? [min * 0.9, max * 1.1 || 1] : [min, max]) },
          y: {
            distr: spec.y.log ? 3 : 1,
            range: (u, min, max) => {
              if (min === null || max === null) return spec.y.log ? [1, 10] : [0, 1];
              if (spec.y.log) return [min / 1.15, max * 1.15];
              return spec.y.max ? [0, spec.y.max] : [0, max * 1.06 || 1];
            },
          },
        },
        axes: axes(spec.x, spec.y),
        series: [
          {},
          ...view.series.map((one) => ({
            label: one.name,
            show: !hidden.has(one.name),
            stroke: () => seriesColour(one.colour),
            width: one.points === "only" ? 0 : 2,
            dash: seriesDash(one.colour),
            spanGaps: !spec.live,
            paths: one.points === "only" ? () => null : undefined,
            points: points(one),
          })),
        ],
        hooks: {
          setCursor: [(u) => read(u.cursor.idx)],
          setScale: [
            (u, key) => {
              const [x, all] = [u.scales.x, u.data[0]];
              if (key === "x") zoomed = all.length > 1 && (x.min > all[0] || x.max < all[all.length - 1]);
            },
          ],
          /* The intervals of lines, behind them. */
          drawClear: [
            (u) => {
              const context = u.ctx;
              const { left, top, width, height } = u.bbox;
              context.save();
              context.beginPath();
              context.rect(left, top, width, height);
              context.clip();
              context.globalAlpha = 0.2;
              for (const one of view.series) {
                if (!one.band || hidden.has(one.name)) continue;
                const to = (x, y) => context.lineTo(u.valToPos(x, "x", true), u.valToPos(y, "y", true));
                context.fillStyle = seriesColour(one.colour);
                context.beginPath();
                for (const [x, low] of one.band) to(x, low);
                for (const [x, , high] of [...one.band].reverse()) to(x, high);
                context.fill();
              }
              context.restore();
            },
          ],
          draw: [
            (u) => {
              const context = u.ctx;
              context.save();
              context.font = `${12 * devicePixelRatio}px system-ui, sans-serif`;
              for (const mark of spec.marks || []) {
                const x = u.valToPos(mark.x, "x", true);
                if (!(x >= u.bbox.left && x <= u.bbox.left + u.bbox.width)) continue;
                context.strokeStyle = colour("--faint");
                context.fillStyle = colour("--ink");
                context.setLineDash([5, 4]);
                context.beginPath();
                context.moveTo(x, u.bbox.top);
                context.lineTo(x, u.bbox.top + u.bbox.height);
                context.stroke();
                const right = x > u.bbox.left + u.bbox.width * 0.6;
                context.textAlign = right ? "right" : "left";
                context.fillText(mark.name, x + (right ? -6 : 6) * devicePixelRatio, u.bbox.top + 14 * devicePixelRatio);
              }
              context.restore();
            },
          ],
        },
      };
      plot = sized(new uPlot(options, joined, place), place);
      legend.replaceChildren(
        ...view.series.map((one, index) => {
          const swatch = document.createElementNS("http://www.w3.org/2000/svg", "svg");
          swatch.setAttribute("viewBox", "0 0 26 10");
          swatch.setAttribute("aria-hidden", "true");
          const shape = document.createElementNS("http://www.w3.org/2000/svg", one.points === "only" ? "circle" : "line");
          const place = one.points === "only" ? { cx: 13, cy: 5, r: 4 } : { x1: 0, x2: 26, y1: 5, y2: 5 };
          for (const [name, number] of Object.entries(place)) shape.setAttribute(name, number);
          shape.setAttribute("class", `s${one.colour % COLOURS}`);
          shape.setAttribute("stroke-dasharray", seriesDash(one.colour).join(" "));
          swatch.append(shape);
          const button = make("button", { type: "button", "aria-pressed": String(!hidden.has(one.name)), title: "show or hide" }, swatch, make("span", { text: one.name }), make("b"));
          button.addEventListener("click", () => {
            const shows = hidden.has(one.name);
            if (shows) hidden.delete(one.name);
            else hidden.add(one.name);
            button.setAttribute("aria-pressed", String(shows));
            plot.setSeries(index + 1, { show: shows });
          });
          return make("li", {}, button);
        }),
        make("li", { class: "where" }),
      );
      if (spec.live) read(null);
    };
    if (spec.views.length > 1) {
      controls.append(
        choice(spec.choose || "Show", spec.views.map((one) => one.name), (index) => {
          view = spec.views[index];
          draw();
        })[0],
      );
    }
    draw();
    /* Other values of the same views. What was zoomed in stays so. */
    const update = (views) => {
      const names = (one) => one.series.map((line) => line.name).join("\n");
      const [before, index] = [names(view), spec.views.indexOf(view)];
      spec.views = views;
      view = views[index];
      if (names(view) !== before) {
        draw();
        return;
      }
      plot.setData(columns(), !zoomed);
      if (zoomed) plot.redraw(true);
      read(plot.cursor.idx);
    };
    keys(() => plot, place, () => plot.data[0], at, (index) => {
      const u = plot;
      const left = u.valToPos(u.data[0][index], "x");
      u.setCursor({ left, top: u.over.clientHeight / 2 });
      read(index);
      const values = view.series.filter((one) => !hidden.has(one.name)).map((one) => `${one.name} ${shown(value(u.data[view.series.indexOf(one) + 1], index), spec.y.unit)}`);
      live.textContent = `${spec.x.name} ${shown(u.data[0][index], spec.x.unit)}: ${values.join(", ")}`;
    });
    return { update };
  };

  /* Viridis (by Stéfan van der Walt and Nathaniel Smith, CC0): even steps of lightness, also for those who see fewer colours. */
  const VIRIDIS = ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
  const rgb = VIRIDIS.map((hex) => [1, 3, 5].map((from) => parseInt(hex.slice(from, from + 2), 16)));
  const viridis = (share) => {
    const at = Math.min(1, Math.max(0, share)) * (rgb.length - 1);
    const [low, part] = [Math.min(Math.floor(at), rgb.length - 2), at - Math.min(Math.floor(at), rgb.length - 2)];
    return rgb[low].map((from, index) => Math.round(from + (rgb[low + 1][index] - from) * part));
  };
  /* Cells are numbers; a negative one stands for so many zeros. */
  const cells = (packed) => packed.flatMap((number) => (number < 0 ? new Array(-number).fill(0) : [number]));

  const heat = (spec, figure) => {
    const controls = make("div", { class: "controls" });
    const place = make("div", { class: "plot", role: "group", "aria-label": `${spec.title}: arrow keys move from cell to cell` });
    const key = make("div", { class: "heatkey" });
    const live = make("output", { class: "readout", "aria-live": "polite" });
    figure.append(controls, place, key, live);
    let [map, layer] = [spec.maps[0], spec.maps[0].layers[0]];
    let plot = null;
    const at = { index: null, row: 0 };
    let values = [];
    let most = 0;
    const height = 300;
    const share = (value) => (layer.linear ? value / most : most > 1 ? Math.log(1 + value) / Math.log(1 + most) : value);
    const picture = () => {
      const canvas = make("canvas", { width: map.columns, height: map.rows });
      const context = canvas.getContext("2d");
      const image = context.createImageData(map.columns, map.rows);
      for (let row = 0; row < map.rows; row += 1)
        for (let column = 0; column < map.columns; column += 1) {
          const value = values[row * map.columns + column];
          const pixel = 4 * ((map.rows - 1 - row) * map.columns + column);
          if (value > 0) image.data.set([...viridis(share(value)), 255], pixel);
        }
      context.putImageData(image, 0, 0);
      return canvas;
    };
    const cellShown = (value) => (layer.unit === "requests" ? number(value) : layer.unit === "%" ? `${number(value)} %` : bytes(value * 1024));
    const say = (column, row) => {
      if (column < 0 || row < 0 || column >= map.columns || row >= map.rows) return;
      const from = map.from + row * map.row;
      const begin = (map.begin_s || 0) + column * map.column_s;
      const seconds = map.begin_s ? `${clock(begin)} to ${clock(begin + map.column_s)}` : `${number(begin)} to ${number(begin + map.column_s)} s`;
      live.textContent = `${seconds}, ${bytes(from)} to ${bytes(from + map.row)}: ${cellShown(values[row * map.columns + column])} ${layer.verb}`;
    };
    let canvas = null;
    const count = () => {
      values = cells(layer.cells);
      most = layer.linear ? 100 : values.reduce((a, b) => Math.max(a, b), 0);
      canvas = picture();
    };
    const ends = () => [map.begin_s || 0, (map.begin_s || 0) + map.columns * map.column_s];
    const top = () => map.from + map.rows * map.row;
    const corners = () => [[ends()[0], map.end_s || ends()[1]], [map.from, top()]];
    const legend = () => {
      const bar = make("canvas", { width: 120, height: 1, class: "scale", "aria-hidden": "true" });
      const context = bar.getContext("2d");
      for (let pixel = 0; pixel < 120; pixel += 1) {
        context.fillStyle = `rgb(${viridis(pixel / 119).join(",")})`;
        context.fillRect(pixel, 0, 1, 1);
      }
      const text = most > 0 ? `up to ${cellShown(most)} ${layer.verb}${layer.linear ? "" : ", in one cell (logarithmic)"}` : `nothing ${layer.verb}`;
      key.replaceChildren(make("span", { class: "none" }), "none ", bar, ` ${text}`);
    };
    const draw = () => {
      if (plot) {
        charts.splice(charts.indexOf(plot), 1);
        plot.destroy();
      }
      count();
      const [x, y] = [{ name: "time", unit: map.begin_s ? "clock" : "s" }, { name: "address", unit: "bytes" }];
      plot = sized(
        new uPlot(
          {
            width: width(place),
            height,
            legend: { show: false },
            cursor: { drag: { x: false, y: false }, points: { show: false } },
            scales: { x: { time: false, range: () => corners()[0] }, y: { range: () => corners()[1] } },
            axes: axes(x, y).map((axis) => ({ ...axis, grid: { show: false }, ticks: { show: true, size: 4, stroke: () => colour("--line") } })),
            series: [{}, { paths: () => null, points: { show: false } }],
            hooks: {
              draw: [
                (u) => {
                  const context = u.ctx;
                  context.save();
                  context.imageSmoothingEnabled = false;
                  context.beginPath();
                  context.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
                  context.fillStyle = colour("--nothing");
                  context.fill();
                  context.clip();
                  const right = u.valToPos(ends()[1], "x", true);
                  context.drawImage(canvas, u.bbox.left, u.bbox.top, right - u.bbox.left, u.bbox.height);
                  context.restore();
                },
              ],
              setCursor: [
                (u) => {
                  if (!(u.cursor.left >= 0)) return;
                  say(Math.floor((u.posToVal(u.cursor.left, "x") - ends()[0]) / map.column_s), Math.floor((u.posToVal(u.cursor.top, "y") - map.from) / map.row));
                },
              ],
            },
          },
          corners(),
          place,
        ),
        place,
        height,
      );
      legend();
    };
    const layers = make("div", { class: "segments", role: "radiogroup", "aria-label": "What to show" });
    const listed = () => {
      const name = `${spec.id}-layer`;
      layers.replaceChildren(
        ...map.layers.map((one, index) => {
          const input = make("input", { type: "radio", name });
          input.checked = one === layer;
          input.addEventListener("change", () => {
            layer = map.layers[index];
            draw();
          });
          return make("label", {}, input, make("span", { text: one.name }));
        }),
      );
    };
    if (spec.maps.length > 1) {
      controls.append(
        choice(spec.choose || "Design", spec.maps.map((one) => one.name), (index) => {
          const name = layer.name;
          map = spec.maps[index];
          layer = map.layers.find((one) => one.name === name) || map.layers[0];
          listed();
          draw();
        })[0],
      );
    }
    controls.append(layers);
    listed();
    draw();
    place.tabIndex = 0;
    place.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!move) return;
      event.preventDefault();
      at.index = Math.min(map.columns - 1, Math.max(0, at.index === null ? 0 : at.index + move[0]));
      at.row = Math.min(map.rows - 1, Math.max(0, at.row + move[1]));
      const left = plot.valToPos(ends()[0] + (at.index + 0.5) * map.column_s, "x");
      plot.setCursor({ left, top: plot.valToPos(map.from + (at.row + 0.5) * map.row, "y") });
      say(at.index, at.row);
    });
    /* Other cells of the same maps and layers. */
    const update = (maps) => {
      const [chosen, shows] = [spec.maps.indexOf(map), map.layers.indexOf(layer)];
      spec.maps = maps;
      map = maps[chosen];
      layer = map.layers[shows];
      count();
      plot.setData(corners());
      legend();
    };
    return { update };
  };

  /* Which of several things is best, by weights that the reader moves. */
  const weigh = (spec, figure) => {
    const weights = spec.axes.map((axis) => axis.weight);
    const sliders = make("div", { class: "sliders" });
    const controls = make("div", { class: "controls" });
    const place = make("div", { class: "plot", role: "group", "aria-label": `${spec.title}: the list below has the same points` });
    const key = make("p", { class: "key", text: "filled, joined by the line: nothing is better in both figures; hollow: something is; ring: best by the weights" });
    const list = make("ol", { class: "ranking" });
    const said = make("output", { class: "readout", "aria-live": "polite" });
    figure.append(sliders, said, list, controls, place, key);
    /* How many times worse than the best. What does not wear is as good as the best. */
    const known = (axis, point) => point.values[axis] !== null && point.values[axis] > 0;
    const best = spec.axes.map((axis, index) => {
      const all = spec.points.filter((point) => known(index, point)).map((point) => point.values[index]);
      return all.length ? (axis.more ? Math.max(...all) : Math.min(...all)) : null;
    });
    const times = (index, point) => {
      const [axis, value] = [spec.axes[index], point.values[index]];
      if (value === null) return axis.absent === "best" ? 1 : null;
      if (!(value > 0) || best[index] === null) return 1;
      return axis.more ? best[index] / value : value / best[index];
    };
    const score = (point) => {
      let [sum, all] = [0, 0];
      for (const [index, weight] of weights.entries()) {
        if (weight === 0) continue;
        const factor = times(index, point);
        if (factor === null) return null;
        sum += weight * Math.log(factor);
        all += weight;
      }
      return all > 0 ? Math.exp(sum / all) : null;
    };
    let [across, up] = spec.start;
    let plot = null;
    let winner = null;
    const better = (axis, a, b) => (spec.axes[axis].more ? a > b : a < b);
    const draw = () => {
      if (plot) {
        charts.splice(charts.indexOf(plot), 1);
        plot.destroy();
      }
      const points = spec.points.filter((point) => known(across, point) && known(up, point)).sort((a, b) => a.values[across] - b.values[across] || a.values[up] - b.values[up]);
      const beaten = (point) =>
        points.some((other) => other !== point && !better(across, point.values[across], other.values[across]) && !better(up, point.values[up], other.values[up]) && (better(across, other.values[across], point.values[across]) || better(up, other.values[up], point.values[up])));
      const xs = points.map((point) => point.values[across]);
      const front = points.map((point) => (beaten(point) ? null : point.values[up]));
      const rest = points.map((point) => (beaten(point) ? point.values[up] : null));
      const [x, y] = [across, up].map((index) => {
        const all = points.map((point) => point.values[index]);
        return { ...spec.axes[index], log: all.length > 1 && Math.max(...all) > 20 * Math.min(...all) };
      });
      const range = (scale) => (u, min, max) => {
        if (min === null || max === null) return [1, 10];
        if (scale.log) return [min / 1.6, max * 1.6];
        const room = (max - min) * 0.12 || max * 0.5 || 1;
        return [Math.max(0, min - room), max + room];
      };
      const dot = (fill) => ({ show: true, size: 9, width: 2, stroke: () => seriesColour(0), fill: () => (fill ? seriesColour(0) : colour("--card")) });
      plot = sized(
        new uPlot(
          {
            width: width(place),
            height: HEIGHT + 40,
            legend: { show: false },
            cursor: { drag: { x: false, y: false }, points: { size: 10 } },
            scales: { x: { time: false, distr: x.log ? 3 : 1, range: range(x) }, y: { distr: y.log ? 3 : 1, range: range(y) } },
            axes: axes(x, y).map((axis, index) => (index === 1 ? { ...axis, label: `${y.name}, ${y.unit}`, labelFont: FONT, labelSize: 20 } : axis)),
            series: [{}, { stroke: () => seriesColour(0), width: 1.5, spanGaps: true, paths: uPlot.paths.stepped({ align: 1 }), points: dot(true) }, { paths: () => null, points: dot(false), stroke: () => seriesColour(0) }],
            hooks: {
              draw: [
                (u) => {
                  const context = u.ctx;
                  const pixel = devicePixelRatio;
                  context.save();
                  context.font = `${12 * pixel}px system-ui, sans-serif`;
                  context.textAlign = "left";
                  const taken = [];
                  const wanted = [...points].sort((a, b) => (b === winner) - (a === winner) || beaten(a) - beaten(b));
                  for (const point of wanted) {
                    const [left, top] = [u.valToPos(point.values[across], "x", true), u.valToPos(point.values[up], "y", true)];
                    if (point === winner) {
                      context.strokeStyle = colour("--c1");
                      context.lineWidth = 3 * pixel;
                      context.beginPath();
                      context.arc(left, top, 10 * pixel, 0, 2 * Math.PI);
                      context.stroke();
                    }
                    const text = point.name.length > 34 ? `${point.name.slice(0, 33)}…` : point.name;
                    const wide = context.measureText(text).width;
                    const right = left + 14 * pixel + wide > u.bbox.left + u.bbox.width;
                    const from = right ? left - 14 * pixel - wide : left + 14 * pixel;
                    /* Above the line that joins the front. */
                    const middle = top - 10 * pixel;
                    const box = [from, middle - 8 * pixel, from + wide, middle + 8 * pixel];
                    const clashes = from < u.bbox.left || taken.some((other) => box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]);
                    if (clashes) continue;
                    taken.push(box);
                    context.fillStyle = colour(point === winner ? "--ink" : "--faint");
                    context.textBaseline = "middle";
                    context.fillText(text, from, middle);
                  }
                  context.restore();
                },
              ],
              setCursor: [
                (u) => {
                  const index = u.cursor.idx;
                  if (index === null || index === undefined || !points[index]) return;
                  const point = points[index];
                  place.title = `${point.name}: ${spec.axes.map((axis, number) => `${axis.name} ${shown(point.values[number], axis.unit)}`).join(", ")}`;
                },
              ],
            },
          },
          [xs, front, rest],
          place,
        ),
        place,
        HEIGHT + 40,
      );
    };
    const rank = () => {
      const ranked = spec.points.map((point) => [score(point), point]).filter(([value]) => value !== null).sort((a, b) => a[0] - b[0]);
      const unknown = spec.points.length - ranked.length;
      winner = ranked.length ? ranked[0][1] : null;
      const missing = unknown && ranked.length ? ` ${unknown} left out: a figure with a weight is unknown.` : "";
      said.textContent = winner ? `Best by these weights: ${winner.name}.${missing}` : "Give a figure a weight above 0.";
      list.replaceChildren(
        ...ranked.slice(0, 8).map(([value, point]) =>
          make("li", { class: point.meets === false ? "misses" : null }, make("b", { text: point.name }), make("span", { text: ` score ${value.toFixed(2)}` }), make("small", { text: ` ${spec.axes.map((axis, index) => (point.values[index] === null && axis.absent === "best" ? "nothing wears" : shown(point.values[index], axis.unit))).join(" · ")}${point.meets === false ? " · misses a budget" : ""}` })),
        ),
      );
    };
    spec.axes.forEach((axis, index) => {
      const output = make("output", { text: String(axis.weight) });
      const input = make("input", { type: "range", min: 0, max: 10, step: 1, value: axis.weight, "aria-label": `weight of ${axis.name}` });
      input.addEventListener("input", () => {
        weights[index] = Number(input.value);
        output.textContent = input.value;
        rank();
        if (plot) plot.redraw(false);
      });
      sliders.append(make("label", {}, make("span", { text: axis.name }), input, output));
    });
    const names = spec.axes.map((axis) => `${axis.name}, ${axis.unit}`);
    const [first, firstSelect] = choice("Across", names, (index) => {
      across = index;
      draw();
    });
    const [second, secondSelect] = choice("Up", names, (index) => {
      up = index;
      draw();
    });
    firstSelect.value = across;
    secondSelect.value = up;
    controls.append(first, second);
    rank();
    draw();
  };

  /* Tables that a click on a header sorts; figures have their value in data-value. */
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    table.tHead.querySelectorAll("th").forEach((header, column) => {
      const button = make("button", { type: "button", text: header.textContent });
      header.replaceChildren(button);
      button.addEventListener("click", () => {
        const turns = header.getAttribute("aria-sort") === "ascending";
        table.tHead.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", turns ? "descending" : "ascending");
        const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
        const compare = (a, b) => {
          const [x, y] = [value(a), value(b)];
          const [p, q] = [Number(x), Number(y)];
          const absent = (text) => text === "" || text === "–";
          if (absent(x) || absent(y)) return absent(x) - absent(y);
          const order = Number.isNaN(p) || Number.isNaN(q) ? x.localeCompare(y, "en", { numeric: true }) : p - q;
          return turns ? -order : order;
        };
        body.append(...[...body.rows].sort(compare));
      });
    });
  }

  const kinds = { lines, heat, weigh };
  for (const spec of data.charts) {
    const figure = document.getElementById(spec.id);
    if (figure) kinds[spec.kind](spec, figure);
  }
  /* For pages whose values change. */
  window.peryton = { make, number, bytes, shown, clock, kinds };
  const redraw = () => charts.forEach((plot) => plot.redraw(true, true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.documentElement.dataset.ready = String(data.charts.length);
})();
