// What lies over the roofs: the band of measured ones, ceilings, the path of a run over time and its plane of utilisation.
const shows = { ceilings: true, path: false };

// A measured roof with its peak and its slope at one end of their bands: 0 the lowest, 1 the highest.
function widened(map, end) {
  const found = limits("measured");
  const band = (unit, at, side) => (side ? Math.max : Math.min)(0, ...roofs(unit, at, "measured").map((roof) => (roof.band ? roof.band[side] : 0)));
  return curve(map, {
    array: found.array && found.array * (1 + band("op/cycle", "array", end)),
    bandwidth: found.bandwidth && found.bandwidth * (1 + band("B/cycle", level, end)),
    array_energy: found.array_energy && found.array_energy * Math.max(1 + band("op/pJ", "array", end), 0.01),
    byte: found.byte && found.byte * (1 + band("pJ/B", level, 1 - end)),
  }, "array");
}

function ribbon(map, parent, xs, x, y) {
  const ends = [widened(map, 0), widened(map, 1)];
  if (!ends[0] || !ends[1]) return;
  const steps = Array.from({ length: 121 }, (_, i) => 10 ** (xs[0] + i / 120 * (xs[1] - xs[0])));
  if (Math.max(...steps.map((at) => ends[1](at) / ends[0](at))) < 1.0001) return;
  const side = (roof, order) => order.map((at) => `${x(Math.log10(at)).toFixed(1)},${y(Math.log10(roof(at))).toFixed(1)}`).join(" ");
  element("polygon", { class: "ribbon", points: `${side(ends[0], steps)} ${side(ends[1], [...steps].reverse())}` }, parent);
}

// What the first run cannot get past on this machine, on the map of performance.
function drawCeilings(parent, svg, xs, x, y, taken) {
  const sheet = limits("datasheet"), run = data.runs[0];
  for (const ceiling of run ? run.ceilings : []) {
    const flat = ceiling.ops_per_cycle !== null, slope = ceiling.bytes_per_cycle;
    const corner = Math.log10(flat ? ceiling.ops_per_cycle / sheet.bandwidth : sheet.array / slope);
    const [from, to] = flat ? [Math.max(corner, xs[0]), xs[1]] : [xs[0], Math.min(corner, xs[1])];
    if (from >= to) continue;
    const height = (log) => y(flat ? Math.log10(ceiling.ops_per_cycle) : Math.log10(slope) + log);
    element("line", { class: "ceiling", x1: x(from), y1: height(from), x2: x(to), y2: height(to) }, parent);
    label(svg, ceiling.name + (flat ? " " + shown(ceiling.ops_per_cycle) : ""), x(to) - 4, height(to) + 14, taken, "green", "end");
  }
}

const STOPS = [[0, 34, 78], [124, 123, 120], [254, 232, 56]];

function colorAt(share) {
  const at = Math.min(Math.floor(share * 2), 1), part = share * 2 - at;
  return `rgb(${STOPS[at].map((one, i) => Math.round(one + part * (STOPS[at + 1][i] - one))).join(" ")})`;
}

// Windows of equal length of the first run, joined in order of time, dark to light.
function drawWindows(parent, places) {
  const path = places.filter(Boolean), last = Math.max(places.length - 1, 1);
  element("polyline", { class: "path", points: path.map((at) => at.map((one) => one.toFixed(1)).join(",")).join(" ") }, parent);
  places.forEach((at, number) => {
    if (!at) return;
    element("circle", { class: "window", cx: at[0], cy: at[1], r: 4, fill: colorAt(number / last) }, parent);
    const begin = data.runs[0].path.cycles * number, end = begin + data.runs[0].path.cycles;
    element("title", {}, parent.lastChild, `cycles ${shown(begin, 9)} to ${shown(end, 9)}`);
  });
}

function drawPath(map, parent, x, y) {
  const path = data.runs[0].path, key = MAPS[map].value;
  drawWindows(parent, path[key].map((value, number) => {
    const intensity = path.intensity[number];
    return value > 0 && [intensity === null ? WIDTH - RIGHT + 24 : x(Math.log10(intensity)), y(Math.log10(value))];
  }));
}

// The roofline as the unit square: share of the peak rate, share of the bandwidth of DRAM.
function plane() {
  const svg = document.getElementById("plane"), figure = svg.closest("figure");
  figure.style.display = shows.path ? "" : "none";
  svg.replaceChildren();
  if (!shows.path) return;
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  const x = (share) => LEFT + share / 1.05 * (WIDTH - LEFT - RIGHT), y = (share) => HEIGHT - BOTTOM - share / 1.05 * (HEIGHT - TOP - BOTTOM);
  for (let step = 0; step <= 5; step++) {
    const share = step / 5;
    element("line", { class: "grid", x1: x(share), x2: x(share), y1: y(0), y2: y(1) }, svg);
    element("line", { class: "grid", x1: x(0), x2: x(1), y1: y(share), y2: y(share) }, svg);
    element("text", { x: x(share), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, svg, `${20 * step} %`);
    element("text", { x: LEFT - 8, y: y(share) + 4, "text-anchor": "end" }, svg, `${20 * step} %`);
  }
  element("line", { class: "mark", x1: x(0), y1: y(0), x2: x(1), y2: y(1) }, svg);
  element("polyline", { class: "roof datasheet", points: `${x(0)},${y(1)} ${x(1)},${y(1)} ${x(1)},${y(0)}` }, svg);
  element("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 10, "text-anchor": "middle" }, svg, "share of the peak rate");
  element("text", { transform: `translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, svg, "share of the bandwidth of DRAM");
  const path = data.runs[0].path;
  drawWindows(svg, path.utilization.map((share, number) => [x(share), y(path.memory_utilization[number])]));
}

for (const name of data.runs.length ? Object.keys(shows) : []) {
  const input = document.getElementById("show-" + name);
  input.checked = shows[name];
  input.parentElement.style.display = "";
  input.addEventListener("change", () => { shows[name] = input.checked; redraw(); });
}
redraw();
