"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
// Okabe and Ito's palette; runs differ in colour and in shape.
const COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
const WIDTH = 640, HEIGHT = 470, LEFT = 66, RIGHT = 50, TOP = 14, BOTTOM = 50;
const LABELLED = 6;
const NAMES = { dram: "DRAM", "buffer.global": "global buffer" };
const MAPS = {
  performance: { value: "ops_per_cycle", roof: "roof_ops_per_cycle", label: "performance (op/cycle)" },
  energy: { value: "ops_per_pj", roof: "roof_ops_per_pj", label: "energy efficiency (op/pJ = TOPS/W)" },
};
for (const run of data.runs) run.points = run.rows.map((row) => Object.fromEntries(run.fields.map((field, at) => [field, row[at]])));
const levels = [...new Set(data.runs.flatMap((run) => run.points.map((point) => point.level)))];
if (!levels.length) levels.push("dram");
const latency = data.runs.map((run) => (run.points.length ? run.points[0].cycles : 1) || 1);
const SHOWN = 200;
let level = levels[0], lit = null, pinned = null, order = "share", wanted = "", rowsShown = SHOWN, known = { level: null };
const placed = {};

function element(tag, attributes, parent, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

function shown(value, digits = 4) {
  if (value === null || !isFinite(value)) return "∞";
  const size = Math.abs(value);
  if (size >= 1e15 || (size && size < 1e-4)) return value.toExponential(2);
  return value.toLocaleString("en-US", { maximumSignificantDigits: Math.max(digits, Math.ceil(Math.log10(size + 1))) });
}

// All points at the level shown, made once for each level.
function points() {
  if (known.level !== level) known = { level, points: allPoints() };
  return known.points;
}

function allPoints() {
  return data.runs.flatMap((run, number) => run.points.filter((point) => point.level === level)
    .map((point) => ({ ...point, run: number, key: number + "\n" + point.name, share: point.cycles_attributed / latency[number] })));
}

function roofs(unit, at, source) {
  return data.roofs.filter((roof) => roof.unit === unit && roof.level === at && roof.source === source);
}

// The limits of one source on the level shown: peaks of array and vector unit, and the level's slope.
function limits(source) {
  const best = (found, pick) => (found.length ? pick(...found.map((roof) => roof.value)) : null);
  return {
    array: best(roofs("op/cycle", "array", source), Math.max), vector: best(roofs("op/cycle", "vector_unit", source), Math.max),
    bandwidth: best(roofs("B/cycle", level, source), Math.max),
    array_energy: best(roofs("op/pJ", "array", source), Math.max), vector_energy: best(roofs("op/pJ", "vector_unit", source), Math.max),
    byte: best(roofs("pJ/B", level, source), Math.min),
  };
}

function curve(map, found, unit) {
  if (map === "performance") {
    const peak = found[unit];
    return peak && ((x) => Math.min(peak, found.bandwidth ? found.bandwidth * x : peak));
  }
  const peak = found[unit + "_energy"];
  return peak && ((x) => 1 / (1 / peak + (found.byte || 0) / x));
}

function range(values, extra) {
  const logs = values.filter((value) => value > 0 && isFinite(value)).map(Math.log10);
  const low = Math.floor(Math.min(...logs) - extra[0]), high = Math.ceil(Math.max(...logs) + extra[1]);
  return [low, Math.max(high, low + 1)];
}

function draw(map) {
  const svg = document.getElementById(map), all = points(), sheet = limits("datasheet"), key = MAPS[map];
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  const ridge = sheet.bandwidth ? sheet.array / sheet.bandwidth : null;
  const balance = sheet.byte && sheet.array_energy ? sheet.byte * sheet.array_energy : null;
  const xs = range([...all.map((point) => point.intensity), ridge, balance, 1], [0.1, 0.3]);
  const tops = [curve(map, sheet, "array"), curve(map, sheet, "vector")].filter(Boolean).flatMap((roof) => (all.length ? [roof(10 ** xs[1])] : [roof(10 ** xs[1]), roof(1)]));
  const ys = range([...all.map((point) => point[key.value]), ...tops], [0, 0.1]);
  const x = (log) => LEFT + (log - xs[0]) / (xs[1] - xs[0]) * (WIDTH - LEFT - RIGHT);
  const y = (log) => HEIGHT - BOTTOM - (log - ys[0]) / (ys[1] - ys[0]) * (HEIGHT - TOP - BOTTOM);
  axes(svg, xs, ys, x, y, key.label);
  const inside = element("clipPath", { id: "inside-" + map }, svg);
  element("rect", { x: LEFT, y: TOP, width: WIDTH - LEFT, height: HEIGHT - TOP - BOTTOM }, inside);
  const taken = [];
  const lines = element("g", { "clip-path": `url(#inside-${map})` }, svg);
  for (const [where, name] of [[ridge, "ridge"], [map === "energy" ? balance : null, "energy balance"]]) {
    if (!where) continue;
    element("line", { class: "mark", x1: x(Math.log10(where)), x2: x(Math.log10(where)), y1: TOP, y2: HEIGHT - BOTTOM }, lines);
    label(svg, `${name} ${shown(where)} op/B`, x(Math.log10(where)), HEIGHT - BOTTOM - 8 - (name === "ridge" ? 0 : 18), taken, "soft", "middle");
  }
  ribbon(map, lines, xs, x, y);
  for (const source of ["datasheet", "measured"]) {
    const found = limits(source);
    for (const unit of ["array", "vector"]) {
      const roof = curve(map, found, unit);
      if (!roof) continue;
      const steps = Array.from({ length: 241 }, (_, i) => xs[0] + i / 240 * (xs[1] - xs[0]));
      const path = steps.map((log) => `${x(log).toFixed(2)},${y(Math.log10(roof(10 ** log))).toFixed(2)}`).join(" ");
      element("polyline", { class: `roof ${source} ${unit === "vector" ? "thin" : ""}`, points: path }, lines);
      if (source === "datasheet") roofLabels(svg, map, found, unit, roof, xs, x, y, taken);
    }
  }
  if (map === "performance" && level === "dram") {
    for (const point of data.knee) {
      const at = [x(Math.log10(point.intensity)), y(Math.log10(point.ops_per_cycle))];
      element("path", { class: "knee", d: `M${at[0] - 4} ${at[1] - 4}l8 8m0 -8l-8 8` }, lines);
      element("title", {}, lines.lastChild, `K3: ${shown(point.intensity)} op/B, ${shown(point.ops_per_cycle)} op/cycle`);
    }
  }
  if (map === "performance" && level === "dram" && shows.ceilings) drawCeilings(lines, svg, xs, x, y, taken);
  placed[map] = all.filter((point) => point[key.value] > 0).map((point) => ({
    point, radius: 3.5 + 11 * Math.sqrt(Math.min(point.share, 1)) * (point.name === "run" ? 0.45 : 1),
    at: [point.intensity === null ? WIDTH - RIGHT + 24 : x(Math.log10(point.intensity)), y(Math.log10(point[key.value]))],
  })).sort((a, b) => (a.point.name === "run") - (b.point.name === "run") || b.radius - a.radius);
  drawPoints(map);
  const over = svg.parentElement.querySelector(".over");
  over.replaceChildren();
  over.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  if (level === "dram" && shows.path) drawPath(map, over, x, y);
  const named = [];
  for (const one of placed[map].filter(({ point }) => point.name !== "run").sort((a, b) => b.point.share - a.point.share)) {
    const same = named.find(({ at }) => Math.hypot(at[0] - one.at[0], at[1] - one.at[1]) < 9);  // one name for all at a place
    if (same) same.more++; else if (named.length < LABELLED) named.push({ ...one, more: 0 });
  }
  for (const { point, radius, at, more } of [...placed[map].filter((one) => one.point.name === "run"), ...named]) {
    const name = point.name === "run" ? (data.runs.length > 1 ? data.runs[point.run].name : "run") : point.name;
    const text = (name.length > 28 ? name.slice(0, 27) + "…" : name) + (more ? ` and ${more} more` : "");
    label(over, text, at[0] + radius + 4, at[1] + 4, taken, "", "start", at, radius);
  }
}

// The points as pixels: ten thousand elements of a page would be slow. What the search does not find is faint.
function drawPoints(map) {
  const canvas = document.getElementById(map).parentElement.querySelector("canvas"), box = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1, context = canvas.getContext("2d"), many = placed[map].length > 2000;
  canvas.width = Math.round(box.width * ratio);
  canvas.height = Math.round(box.height * ratio);
  context.scale(canvas.width / WIDTH, canvas.height / HEIGHT);
  const ink = getComputedStyle(document.body).getPropertyValue("--ink");
  for (const { point, radius, at } of placed[map]) {
    const all = point.name === "run", color = COLORS[point.run % COLORS.length], faint = wanted !== "" && !all && !finds(point);
    context.globalAlpha = faint ? 0.06 : all ? 1 : many ? 0.35 : 0.5;
    context.fillStyle = color;
    outline(context, point.run, radius, at);
    context.fill();
    if (many && !all) continue;
    context.globalAlpha = faint ? 0.08 : 1;
    context.strokeStyle = all ? ink : color;
    context.lineWidth = all ? 2 : 1.3;
    context.stroke();
  }
}

function outline(context, run, radius, [x, y]) {
  const side = radius * 0.9;
  context.beginPath();
  if (run % 4 === 0) context.arc(x, y, radius, 0, 2 * Math.PI);
  else if (run % 4 === 1) context.rect(x - side, y - side, 2 * side, 2 * side);
  else {
    const corners = run % 4 === 2 ? [[0, -1.25], [1.15, 0.75], [-1.15, 0.75]] : [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]];
    corners.forEach(([dx, dy], corner) => context[corner ? "lineTo" : "moveTo"](x + dx * radius, y + dy * radius));
    context.closePath();
  }
}

const finds = (point) => point.name.toLowerCase().includes(wanted);

function axes(svg, xs, ys, x, y, name) {
  const axis = element("g", {}, svg);
  for (const [from, to, across] of [[xs[0], xs[1], true], [ys[0], ys[1], false]]) {
    for (let decade = from; decade <= to; decade++) {
      for (let step = 1; step < (decade < to ? 10 : 2); step++) {
        const at = across ? x(decade + Math.log10(step)) : y(decade + Math.log10(step));
        const ends = across ? { x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM } : { x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at };
        if (step === 1 || to - from <= 6) element("line", { class: step === 1 ? "grid" : "grid minor", ...ends }, axis);
      }
      const text = decade >= -3 && decade <= 6 ? shown(10 ** decade, 7) : "1e" + decade;
      if (across) element("text", { x: x(decade), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, axis, text);
      else element("text", { x: LEFT - 8, y: y(decade) + 4, "text-anchor": "end" }, axis, text);
    }
  }
  element("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 10, "text-anchor": "middle" }, axis,
    `operational intensity (op per byte of ${NAMES[level] || level})`);
  element("text", { transform: `translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, axis, name);
  if (points().some((point) => point.intensity === null)) {
    element("text", { class: "soft", x: WIDTH - RIGHT + 24, y: HEIGHT - BOTTOM + 34, "text-anchor": "middle" }, axis, "no bytes");
  }
}

// Puts a text where it overlaps no other one: as asked, else above, below, or on the other side of its point.
function label(svg, text, left, base, taken, kind, anchor, at, radius) {
  const made = element("text", { class: "halo " + kind, "text-anchor": anchor }, svg, text);
  made.setAttribute("pointer-events", "none");
  const width = made.getComputedTextLength();
  const tries = [[left, base]];
  if (at) {
    for (const up of [-14, 14, -26, 26]) tries.push([left, base + up]);
    for (const up of [0, -14, 14, -26, 26]) tries.push([at[0] - radius - 4 - width, base + up]);
  }
  for (const [tx, ty] of tries) {
    const begin = anchor === "middle" ? tx - width / 2 : anchor === "end" ? tx - width : tx;
    const box = [begin - 2, ty - 12, begin + width + 2, ty + 3];
    const free = taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
    if (!free || box[0] < LEFT || box[2] > WIDTH || box[1] < TOP - 10 || box[3] > HEIGHT - BOTTOM + 2) continue;
    made.setAttribute("x", tx);
    made.setAttribute("y", ty);
    taken.push(box);
    return;
  }
  made.remove();
}

function roofLabels(svg, map, found, unit, roof, xs, x, y, taken) {
  const right = x(xs[1]) - 4, top = roof(10 ** xs[1]), name = unit === "array" ? "array" : "vector unit";
  const rate = map === "performance" ? `${shown(found[unit], 6)} op/cycle` : `${shown(found[unit + "_energy"])} op/pJ`;
  label(svg, `${name} ${rate}`, right, y(Math.log10(top)) - 7, taken, "", "end");
  if (unit !== "array") return;
  const slope = map === "performance" ? found.bandwidth && `${shown(found.bandwidth)} B/cycle` : found.byte && `${shown(found.byte)} pJ/B`;
  if (!slope) return;
  // Along the sloping part, above it; both axes are logarithmic, so its angle is that of a decade by a decade.
  const log = xs[0] + 0.3 * (xs[1] - xs[0]), at = [x(log), y(Math.log10(roof(10 ** log)))];
  const angle = -Math.atan2(y(0) - y(1), x(1) - x(0)), turn = angle * 180 / Math.PI;
  const made = element("text", { class: "halo", "text-anchor": "middle", transform: `translate(${at[0]} ${at[1]}) rotate(${turn}) translate(0 -9)`,
    "pointer-events": "none" }, svg, `${NAMES[level] || level} ${slope}`);
  const half = made.getComputedTextLength() / 2;
  for (let along = -half; along <= half; along += 8) {
    const middle = [at[0] + along * Math.cos(angle) + 13 * Math.sin(angle), at[1] + along * Math.sin(angle) - 13 * Math.cos(angle)];
    taken.push([middle[0] - 5, middle[1] - 5, middle[0] + 5, middle[1] + 5]);
  }
}

// The point under the pointer, the uppermost one of several.
function pointAt(map, event) {
  const box = document.getElementById(map).getBoundingClientRect();
  const x = (event.clientX - box.left) / box.width * WIDTH, y = (event.clientY - box.top) / box.height * HEIGHT;
  let found = null, nearest = Infinity;
  for (const one of placed[map]) {
    const away = Math.hypot(one.at[0] - x, one.at[1] - y) - one.radius;
    if (away > 3 || (wanted && one.point.name !== "run" && !finds(one.point))) continue;
    if (away < nearest || away < 0) { found = one.point; nearest = away; }
  }
  return found;
}

function rows(point) {
  const percent = (value, of) => (of ? `${(100 * value / of).toFixed(1)} %` : "");
  return [
    ["intensity", point.intensity === null ? "no bytes" : shown(point.intensity) + " op/B"],
    ["performance", `${shown(point.ops_per_cycle)} op/cycle`], ["of its roof", percent(point.ops_per_cycle, point.roof_ops_per_cycle)],
    ["energy efficiency", `${shown(point.ops_per_pj)} op/pJ`], ["of its roof", percent(point.ops_per_pj, point.roof_ops_per_pj)],
    ["peak rate used", percent(point.utilization, 1)], [(NAMES[level] || level) + " bandwidth used", percent(point.memory_utilization, 1)],
    ["operations", shown(point.operations, 12)], ["bytes", shown(point.bytes, 12)],
    ["cycles", shown(point.cycles, 12)], ["of them attributed", shown(point.cycles_attributed, 12)],
  ];
}

function tip(point, event) {
  const box = document.getElementById("tip"), name = document.createElement("b"), table = document.createElement("table");
  name.textContent = point.name + (data.runs.length > 1 ? `, ${data.runs[point.run].name}` : "");
  for (const cells of rows(point)) {
    const row = table.insertRow();
    for (const cell of cells) row.insertCell().textContent = cell;
  }
  box.replaceChildren(name, table);
  box.style.display = "block";
  box.style.left = Math.min(event.clientX + 16, innerWidth - box.offsetWidth - 8) + "px";
  box.style.top = Math.min(event.clientY + 16, innerHeight - box.offsetHeight - 8) + "px";
}

// Lights a point up on both maps and in the table.
function light(key) {
  if (lit === key) return;
  lit = key;
  for (const map of Object.keys(MAPS)) {
    const over = document.getElementById(map).parentElement.querySelector(".over");
    over.querySelector(".lit")?.remove();
    const one = key !== null && placed[map].find(({ point }) => point.key === key);
    if (one) element("circle", { class: "lit", cx: one.at[0], cy: one.at[1], r: one.radius + 1.5 }, over);
  }
  for (const made of document.querySelectorAll("#table tr.lit")) made.classList.remove("lit");
  rowOf(key)?.classList.add("lit");
}

const rowOf = (key) => [...document.querySelectorAll("#table tr[data-key]")].find((row) => row.dataset.key === key);

function pin(key) {
  pinned = pinned === key ? null : key;
  light(pinned);
  rowOf(pinned)?.scrollIntoView({ block: "nearest" });
}

const COLUMNS = [
  ["name", "operator", (p) => p.name], ["share", "share of cycles", (p) => (100 * p.share).toFixed(2) + " %"],
  ["intensity", "op/B", (p) => (p.intensity === null ? "no bytes" : shown(p.intensity))],
  ["ops_per_cycle", "op/cycle", (p) => shown(p.ops_per_cycle)],
  ["of_roof", "of roof", (p) => (p.roof_ops_per_cycle ? (100 * p.ops_per_cycle / p.roof_ops_per_cycle).toFixed(1) + " %" : "")],
  ["ops_per_pj", "op/pJ", (p) => shown(p.ops_per_pj)],
  ["of_energy_roof", "of roof", (p) => (p.roof_ops_per_pj ? (100 * p.ops_per_pj / p.roof_ops_per_pj).toFixed(1) + " %" : "")],
  ["utilization", "peak rate used", (p) => (100 * p.utilization).toFixed(1) + " %"],
  ["memory_utilization", "bandwidth used", (p) => (100 * p.memory_utilization).toFixed(1) + " %"],
  ["cycles", "cycles", (p) => shown(p.cycles, 12)],
];

function table() {
  const made = document.getElementById("table"), head = document.createElement("thead"), body = document.createElement("tbody");
  const line = head.insertRow();
  const value = (p) => ({ of_roof: p.ops_per_cycle / p.roof_ops_per_cycle, of_energy_roof: p.ops_per_pj / p.roof_ops_per_pj })[order] ?? p[order] ?? Infinity;
  for (const [key, title] of COLUMNS) {
    const cell = document.createElement("th");
    cell.textContent = title + (key === order ? " ▾" : "");
    cell.addEventListener("click", () => { order = key; table(); });
    line.appendChild(cell);
  }
  const found = points().filter(finds);
  found.sort((a, b) => (order === "name" ? a.name.localeCompare(b.name) : value(b) - value(a)));
  const more = document.getElementById("more"), hidden = found.length - rowsShown;
  more.replaceChildren();
  if (hidden > 0) {
    const button = document.createElement("button");
    button.textContent = "show more";
    button.addEventListener("click", () => { rowsShown += 1000; table(); });
    more.append(`${hidden.toLocaleString("en-US")} more points; search, sort, or `, button);
  }
  for (const point of found.slice(0, rowsShown)) {
    const row = body.insertRow();
    row.dataset.key = point.key;
    COLUMNS.forEach(([, , text], number) => {
      const cell = document.createElement(number ? "td" : "th");
      if (!number) cell.scope = "row";
      cell.textContent = text(point) + (!number && data.runs.length > 1 ? ` (${data.runs[point.run].name})` : "");
      row.appendChild(cell);
    });
    row.addEventListener("mouseenter", () => light(point.key));
    row.addEventListener("mouseleave", () => light(pinned));
    row.addEventListener("click", () => pin(point.key));
  }
  made.replaceChildren(head, body);
  lit = undefined;
  light(pinned);
}

function redraw() {
  draw("performance");
  draw("energy");
  plane();
  table();
}

for (const name of levels) {
  const box = document.createElement("label"), input = document.createElement("input");
  Object.assign(input, { type: "radio", name: "level", checked: name === level });
  input.addEventListener("change", () => { level = name; redraw(); });
  box.append(input, ` ${NAMES[name] || name}`);
  document.getElementById("levels").appendChild(box);
}
data.runs.forEach((run, number) => {
  const item = document.createElement("span"), mark = document.createElement("i");
  mark.style.background = COLORS[number % COLORS.length];
  item.append(mark, run.name);
  document.getElementById("runs").appendChild(item);
});
let waiting = 0;
document.getElementById("search").addEventListener("input", (event) => {
  wanted = event.target.value.trim().toLowerCase();
  rowsShown = SHOWN;
  clearTimeout(waiting);
  waiting = setTimeout(() => { Object.keys(MAPS).forEach(drawPoints); table(); }, 60);
});
for (const map of Object.keys(MAPS)) {
  const plot = document.getElementById(map).parentElement, box = document.getElementById("tip");
  plot.addEventListener("mousemove", (event) => {
    const point = pointAt(map, event);
    plot.style.cursor = point ? "pointer" : "";
    light(point ? point.key : pinned);
    if (point) tip(point, event); else box.style.display = "none";
  });
  plot.addEventListener("mouseleave", () => { light(pinned); box.style.display = "none"; });
  plot.addEventListener("click", (event) => { const point = pointAt(map, event); if (point) pin(point.key); });
}
addEventListener("resize", () => Object.keys(MAPS).forEach(drawPoints));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => Object.keys(MAPS).forEach(drawPoints));
