// Curves over time, the axis, the overview, and what lies over all of it: cursor, selection, the chosen event.
const ROOM = 1.15;

// A curve: `layers` of colour and values above one another, a value * factor being its share of the limit.
function paintCurve(view, track, y, layers, factor) {
  const levels = bins(view);
  paintGround(view, y, CURVE);
  view.raster.box(LABEL, y + CURVE - 1, view.pixels, 1, packed32(view.theme.line));
  for (const [colour, values, share = 1] of layers) view.raster.bars(values, factor / ROOM, LABEL, y, CURVE, packed32(colour, share, view.theme.card), levels);
}

function summed(view, layers) {
  const sums = bins(view);
  for (const [, values] of layers) for (let bin = 0; bin < sums.length; bin++) sums[bin] += values[bin];
  return sums;
}

function paintUtilisation(view, track, y) {
  const { run, cores } = track, from = view.from / run.scale, to = view.to / run.scale;
  const busy = bins(view), macs = bins(view), factor = busy.length / (to - from);
  for (const core of cores) {
    const series = run.series[core];
    series.spread(run.working(series), from, to, busy);
    series.spread(series.sum('macs', (event) => run.a_macs[run.activity[event]]), from, to, macs);
  }
  const blue = view.kindColours[0];
  paintGround(view, y, CURVE);
  view.raster.bars(busy, factor / cores.length / ROOM, LABEL, y, CURVE, packed32(blue, 0.3, view.theme.card));
  track.read = [['busy', busy, (value) => `${(100 * value * factor / cores.length).toFixed(1)} %`]];
  track.limit = 'share of the cores that are busy';
  if (!run.macsPerCycle) return;
  view.raster.bars(macs, factor / run.macsPerCycle / ROOM, LABEL, y, CURVE, packed32(blue));
  track.read.push(['MACs', macs, (value) => `${(100 * value * factor / run.macsPerCycle).toFixed(1)} % of peak`]);
  track.limit = `${cores.length > 1 ? 'cores' : 'core'} busy (light), MACs of peak rate (dark)`;
}

function paintBandwidth(view, track, y) {
  const { run, resource } = track, { rate } = run.resources[resource];
  const from = view.from / run.scale, to = view.to / run.scale;
  const layers = [...run.byKind[resource]].map(([kind, series]) => {
    const found = bins(view);
    series.spread(series.sum('bytes', (event) => run.bytes[event]), from, to, found);
    return [view.kindColours[kind], found];
  });
  const factor = bins(view).length / (to - from);
  paintCurve(view, track, y, layers, factor / rate);
  track.read = [['', summed(view, layers), (value) => `${number(value * factor)} B/cycle, ${(100 * value * factor / rate).toFixed(0)} %`]];
  track.limit = `full rate ${number(rate)} B/cycle${run.clock ? `, ${number(rate * run.clock / 1e9)} GB/s` : ''}`;
}

function paintHeld(view, track, y) {
  const { run, buffer } = track, { capacity } = run.buffers[buffer], held = run.held[buffer], found = bins(view);
  held.most(view.from / run.scale, view.to / run.scale, run.latency, found);
  paintCurve(view, track, y, [[view.theme.soft, found, 0.6]], 1 / Math.max(capacity, 1));
  track.read = [['', found, (value) => `${bytesText(value)}, ${(100 * value / Math.max(capacity, 1)).toFixed(0)} %`]];
  track.limit = `capacity ${bytesText(capacity)}`;
}

function paintPower(view, track, y) {
  const { run } = track, from = view.from / run.scale, to = view.to / run.scale, statics = bins(view), cycles = (to - from) / statics.length;
  for (let bin = 0; bin < statics.length; bin++) {
    const begin = from + bin * cycles;
    statics[bin] = run.staticEnergy * Math.max(0, Math.min(begin + cycles, run.latency) - Math.max(begin, 0));
  }
  const layers = run.staticEnergy ? [[view.theme.soft, statics, 0.8]] : [];
  for (let kind = 0; kind < run.kinds.length; kind++) {
    const found = bins(view), having = run.byKind.filter((parts) => parts.has(kind));
    for (const series of having.map((parts) => parts.get(kind))) series.spread(series.sum('energy', (event) => run.energy[event]), from, to, found);
    if (having.length) layers.push([view.kindColours[kind], found]);
  }
  const totals = summed(view, layers), most = totals.reduce((largest, value) => Math.max(largest, value), 0);
  const shown = (energy) => (run.clock ? wattText(energy / cycles * run.clock * 1e-12) : `${number(energy / cycles)} pJ/cycle`);
  paintCurve(view, track, y, layers, 1 / (most || 1));
  track.read = [['', totals, shown]];
  track.limit = `most ${shown(most)}${run.staticEnergy ? ', what flows all the time at the bottom' : ''}`;
}

// The line of what is possible, and what it is.
function writeCurve(view, { limit }, y) {
  const { context, theme } = view, height = Math.round(y + CURVE * (1 - 1 / ROOM)) + 0.5;
  context.strokeStyle = theme.soft;
  context.setLineDash([4, 3]);
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(LABEL, height);
  context.lineTo(LABEL + view.pixels, height);
  context.stroke();
  context.setLineDash([]);
  context.font = '11px system-ui, sans-serif';
  context.globalAlpha = 0.85;
  context.fillStyle = theme.ground;
  context.fillRect(LABEL + 4, height + 2, context.measureText(limit).width + 6, 13);
  context.globalAlpha = 1;
  context.fillStyle = theme.ink;
  context.fillText(limit, LABEL + 7, height + 9);
}

// Cycles on the axis that are round numbers, about one every 120 pixels.
function ticks(from, to, room, least) {
  const rough = (to - from) / Math.max(2, room / 120), power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(least, [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999));
  const first = Math.ceil(from / step - 1e-9), count = Math.floor((to - first * step) / step + 1e-9);
  return Array.from({ length: Math.max(0, Math.min(count, 1000) + 1) }, (_, index) => (first + index) * step);
}

function drawAxis(view) {
  const { context, theme, runs: [run] } = view, bottom = TOP;
  context.textAlign = 'left';
  context.fillStyle = theme.line;
  context.fillRect(LABEL, bottom - 1, view.pixels, 1);
  const rows = [[OVERVIEW + 11, ticks(view.from, view.to, view.pixels, 1), (cycle) => cycle, whole, theme.ink, 'cycles']];
  if (run?.clock) {
    const { clock } = run, seconds = ticks(view.from / clock, view.to / clock, view.pixels, 1e-15);
    const [size, unit] = TIMES.find(([least]) => view.to / clock >= least) ?? TIMES.at(-1);
    rows.push([OVERVIEW + 26, seconds, (time) => time * clock, (time) => `${Number((time / size).toPrecision(9))} ${unit}`, theme.soft, 'time']);
  }
  for (const [middle, marks, cycleOf, shown, colour, name] of rows) {
    context.font = '11px system-ui, sans-serif';
    context.fillStyle = theme.soft;
    context.textAlign = 'right';
    context.fillText(name, LABEL - 10, middle);
    context.textAlign = 'left';
    for (const mark of marks) {
      const x = LABEL + ((cycleOf(mark) - view.from) / (view.to - view.from)) * view.pixels, text = shown(mark);
      context.fillStyle = theme.line;
      context.fillRect(Math.round(x), middle - 7, 1, bottom - middle + 7);
      if (x + context.measureText(text).width + 4 > LABEL + view.pixels) continue;
      context.fillStyle = colour;
      context.fillText(text, Math.round(x) + 4, middle);
    }
  }
}

// The whole run in small: how busy the cores are, and which part of it is looked at.
function drawOverview(view) {
  const { theme, runs, longest, raster } = view, each = (OVERVIEW - 4) / Math.max(1, runs.length);
  if (!view.overviewImage) {
    view.overviewImage = runs.map((run) => {
      const found = bins(view), cores = run.series.filter((_, index) => run.resources[index].core);
      const shown = cores.length ? cores : run.series;
      for (const series of shown) series.spread(run.working(series), 0, longest / run.scale, found);
      return found.map((value) => value / Math.max(1, shown.length) * found.length / longest * run.scale);
    });
  }
  raster.box(LABEL, 0, view.pixels, OVERVIEW - 4, packed32(theme.card));
  view.overviewImage.forEach((values, index) => raster.bars(values, 1, LABEL, index * each + 1, each - 1, packed32(view.kindColours[0], 0.55, theme.card)));
}

function frameOverview(view) {
  const { context, theme, longest } = view, high = OVERVIEW - 4;
  const left = LABEL + view.from / longest * view.pixels, right = LABEL + view.to / longest * view.pixels;
  context.fillStyle = theme.ground;
  context.globalAlpha = 0.7;
  context.fillRect(LABEL, 0, left - LABEL, high);
  context.fillRect(right, 0, LABEL + view.pixels - right, high);
  context.globalAlpha = 1;
  context.strokeStyle = theme.soft;
  context.lineWidth = 1;
  context.strokeRect(Math.round(left) + 0.5, 0.5, Math.max(2, Math.round(right - left) - 1), high - 1);
}

// What changes with the pointer alone.
function drawOverlay(view) {
  const context = view.overlay.getContext('2d'), { theme, selection, chosen, pointer } = view;
  context.clearRect(0, 0, view.width, view.height);
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'middle';
  if (selection) {
    const [left, right] = selection.map((cycle) => LABEL + ((cycle - view.from) / (view.to - view.from)) * view.pixels);
    const begin = Math.max(LABEL, Math.min(left, right)), end = Math.min(LABEL + view.pixels, Math.max(left, right));
    if (end > begin) {
      context.fillStyle = theme.ink;
      context.globalAlpha = 0.1;
      context.fillRect(begin, OVERVIEW, end - begin, view.height);
      context.globalAlpha = 0.6;
      for (const edge of [left, right]) if (edge >= LABEL && edge <= LABEL + view.pixels) context.fillRect(Math.round(edge), OVERVIEW, 1, view.height);
      context.globalAlpha = 1;
    }
  }
  if (chosen) drawChosen(view, context);
  if (pointer && pointer.x >= LABEL && pointer.x <= LABEL + view.pixels && pointer.y > OVERVIEW) drawCursor(view, context, pointer);
}

function boxOf(view, run, event) {
  const track = placeOf(view, run, run.resource[event]);
  if (!track) return null;
  const left = xOf(view, run, run.start[event]), right = xOf(view, run, run.end[event]);
  return { left, right: Math.max(right, left + 2), top: track.y - view.scroll, bottom: track.y - view.scroll + track.height };
}

// The chosen event, and an arrow from what it had waited for.
function drawChosen(view, context) {
  const { run, event } = view.chosen, box = boxOf(view, run, event), because = run.because[event];
  context.save();
  context.beginPath();
  context.rect(LABEL, TOP, view.pixels, view.height);
  context.clip();
  context.strokeStyle = view.theme.ink;
  context.fillStyle = view.theme.ink;
  context.lineWidth = 2;
  for (const twin of view.chosen.twins ?? []) outline(context, boxOf(view, twin.run, twin.event), [4, 3]);
  outline(context, box, []);
  const source = because >= 0 ? boxOf(view, run, because) : null;
  if (box && source) {
    const [x0, y0] = [Math.min(source.right, box.left), (source.top + source.bottom) / 2], [x1, y1] = [box.left, (box.top + box.bottom) / 2];
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + 18, y0, x1 - 18, y1, x1, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1 + 1, y1);
    context.lineTo(x1 - 6, y1 - 4);
    context.lineTo(x1 - 6, y1 + 4);
    context.fill();
  }
  context.restore();
}

function outline(context, box, dash) {
  if (!box) return;
  context.setLineDash(dash);
  context.strokeRect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  context.setLineDash([]);
}

// A line through all tracks, and what each curve is there.
function drawCursor(view, context, pointer) {
  const { theme } = view, x = Math.round(pointer.x) + 0.5, cycle = Math.max(0, cycleAt(view, pointer.x));
  context.strokeStyle = theme.soft;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x, OVERVIEW);
  context.lineTo(x, view.height);
  context.stroke();
  const clock = view.runs[0]?.clock;
  tag(view, context, `cycle ${whole(Math.floor(cycle))}${clock ? `, ${timeText(cycle / clock)}` : ''}`, x, OVERVIEW + 18);
  const bin = Math.floor((pointer.x - LABEL) * view.ratio);
  for (const track of view.tracks) {
    const y = track.y - view.scroll;
    if (!track.curve || !track.read || y < TOP - CURVE / 2 || y > view.height) continue;
    const text = track.read.map(([name, values, shown]) => `${name} ${shown(values[bin] ?? 0)}`.trim()).join(', ');
    tag(view, context, text, x, y + CURVE - 12);
  }
}

function tag(view, context, text, x, y) {
  const width = context.measureText(text).width + 10, left = x + 6 + width > LABEL + view.pixels ? x - 6 - width : x + 6;
  context.globalAlpha = 0.92;
  context.fillStyle = view.theme.ink;
  context.beginPath();
  context.roundRect(left, y - 9, width, 18, 4);
  context.fill();
  context.globalAlpha = 1;
  context.fillStyle = view.theme.ground;
  context.fillText(text, left + 5, y);
}
