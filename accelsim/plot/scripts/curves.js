// Curves over time, the axis, the overview, and what lies over all of it: cursor, selection, the chosen event.

function drawUtilisation(view, track, y) {
  const { run, cores } = track, from = view.from / run.scale, to = view.to / run.scale;
  const busy = bins(view), macs = bins(view), factor = busy.length / (to - from);
  for (const core of cores) {
    const series = run.series[core];
    series.spread(series.busy(), from, to, busy);
    series.spread(series.sum('macs', (event) => run.a_macs[run.activity[event]]), from, to, macs);
  }
  frame(view, y);
  view.context.fillStyle = view.kindColours[0];
  view.context.globalAlpha = 0.3;
  fillBins(view, busy, factor / cores.length / 1.15, y, CURVE);
  view.context.globalAlpha = 1;
  track.read = [['busy', busy, (value) => `${(100 * value * factor / cores.length).toFixed(1)} %`]];
  if (run.macsPerCycle) {
    fillBins(view, macs, factor / run.macsPerCycle / 1.15, y, CURVE);
    track.read.push(['MACs', macs, (value) => `${(100 * value * factor / run.macsPerCycle).toFixed(1)} % of peak`]);
  }
  limit(view, y, 1 / 1.15, run.macsPerCycle ? `${cores.length > 1 ? 'cores' : 'core'} busy (light), MACs of peak rate (dark)` : 'share of the cores that are busy');
}

function drawBandwidth(view, track, y) {
  const { run, resource } = track, { rate } = run.resources[resource];
  const from = view.from / run.scale, to = view.to / run.scale;
  frame(view, y);
  const values = stack(view, [...run.byKind[resource]].map(([kind, series]) => {
    const found = bins(view);
    series.spread(series.sum('bytes', (event) => run.bytes[event]), from, to, found);
    return [view.kindColours[kind], found];
  }), 1 / (to - from) / (rate * 1.15), y);
  const factor = values.length / (to - from);
  track.read = [['', values, (value) => `${number(value * factor)} B/cycle, ${(100 * value * factor / rate).toFixed(0)} %`]];
  const perSecond = run.clock ? `, ${number(rate * run.clock / 1e9)} GB/s` : '';
  limit(view, y, 1 / 1.15, `full rate ${number(rate)} B/cycle${perSecond}`);
}

function drawHeld(view, track, y) {
  const { run, buffer } = track, { capacity } = run.buffers[buffer], held = run.held[buffer], found = bins(view);
  held.most(view.from / run.scale, view.to / run.scale, run.latency, found);
  const top = Math.max(capacity, 1) * 1.15;
  frame(view, y);
  view.context.fillStyle = view.theme.soft;
  view.context.globalAlpha = 0.65;
  fillBins(view, found, 1 / top, y, CURVE);
  view.context.globalAlpha = 1;
  track.read = [['', found, (value) => `${bytesText(value)}, ${(100 * value / Math.max(capacity, 1)).toFixed(0)} %`]];
  limit(view, y, 1 / 1.15, `capacity ${bytesText(capacity)}`);
}

function drawPower(view, track, y) {
  const { run } = track, from = view.from / run.scale, to = view.to / run.scale, cycles = (to - from) / bins(view).length;
  const layers = [], statics = bins(view);
  for (let pixel = 0; pixel < statics.length; pixel++) {
    const begin = from + pixel * cycles;
    statics[pixel] = run.staticEnergy * Math.max(0, Math.min(begin + cycles, run.latency) - Math.max(begin, 0));
  }
  if (run.staticEnergy) layers.push([view.theme.soft, statics]);
  for (let kind = 0; kind < run.kinds.length; kind++) {
    const found = bins(view);
    let any = false;
    for (const parts of run.byKind) {
      const series = parts.get(kind);
      if (!series) continue;
      any = true;
      series.spread(series.sum('energy', (event) => run.energy[event]), from, to, found);
    }
    if (any) layers.push([view.kindColours[kind], found]);
  }
  const totals = bins(view);
  for (const [, found] of layers) for (let pixel = 0; pixel < totals.length; pixel++) totals[pixel] += found[pixel];
  const most = totals.reduce((largest, value) => Math.max(largest, value), 0);
  const shown = (energy) => (run.clock ? wattText(energy / cycles * run.clock * 1e-12) : `${number(energy / cycles)} pJ/cycle`);
  frame(view, y);
  stack(view, layers, 1 / totals.length / ((most || 1) * 1.15), y);
  track.read = [['', totals, shown]];
  limit(view, y, 1 / 1.15, `most ${shown(most)}${run.staticEnergy ? '; static at the bottom' : ''}`);
}

// Layers above one another; returns their sums. A layer of `value` is value * factor * bins high.
function stack(view, layers, factor, y) {
  const sums = bins(view), bottoms = bins(view), tall = factor * sums.length;
  for (const [colour, values] of layers) {
    view.context.fillStyle = colour;
    fillBins(view, values, tall, y, CURVE, bottoms);
    for (let pixel = 0; pixel < sums.length; pixel++) {
      sums[pixel] += values[pixel];
      bottoms[pixel] += values[pixel] * tall;
    }
  }
  return sums;
}

function frame(view, y) {
  drawGround(view, y, CURVE);
  view.context.fillStyle = view.theme.line;
  view.context.fillRect(LABEL, y + CURVE - 0.5, view.pixels, 1);
}

// The line of what is possible, and what it is.
function limit(view, y, share, text) {
  const { context, theme } = view, height = Math.round(y + CURVE * (1 - share)) + 0.5;
  context.strokeStyle = theme.soft;
  context.setLineDash([4, 3]);
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(LABEL, height);
  context.lineTo(LABEL + view.pixels, height);
  context.stroke();
  context.setLineDash([]);
  context.font = '11px system-ui, sans-serif';
  const width = context.measureText(text).width;
  context.globalAlpha = 0.85;
  context.fillStyle = theme.ground;
  context.fillRect(LABEL + 4, height + 2, width + 6, 13);
  context.globalAlpha = 1;
  context.fillStyle = theme.ink;
  context.fillText(text, LABEL + 7, height + 9);
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
  context.fillStyle = theme.ground;
  context.fillRect(0, 0, view.width, TOP);
  context.textAlign = 'left';
  context.fillStyle = theme.line;
  context.fillRect(LABEL, bottom - 1, view.pixels, 1);
  const rows = [[OVERVIEW + 11, ticks(view.from, view.to, view.pixels, 1), (cycle) => cycle, whole, theme.ink, 'cycles']];
  if (run?.clock) {
    const { clock } = run, seconds = ticks(view.from / clock, view.to / clock, view.pixels, 1e-15);
    rows.push([OVERVIEW + 26, seconds, (time) => time * clock, (time) => (time ? timeText(time) : '0'), theme.soft, 'time']);
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
  const { context, theme, runs, longest } = view, high = OVERVIEW - 4, each = high / Math.max(1, runs.length);
  if (!view.overviewImage) {
    view.overviewImage = runs.map((run) => {
      const found = bins(view), cores = run.series.filter((_, index) => run.resources[index].core);
      const shown = cores.length ? cores : run.series;
      for (const series of shown) series.spread(series.busy(), 0, longest / run.scale, found);
      return found.map((value) => value / Math.max(1, shown.length) * found.length / longest * run.scale);
    });
  }
  context.fillStyle = theme.card;
  context.fillRect(LABEL, 0, view.pixels, high);
  context.fillStyle = view.kindColours[0];
  context.globalAlpha = 0.55;
  view.overviewImage.forEach((values, index) => fillBins(view, values, 1, index * each + 1, each - 1));
  context.globalAlpha = 1;
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
  const track = view.tracks.find((one) => one.run === run && one.draw === drawLane && one.resource === run.resource[event]);
  if (!track) return null;
  const left = xOf(view, run, run.start[event]), right = xOf(view, run, run.end[event]);
  return { left, right: Math.max(right, left + 2), top: track.y - view.scroll, bottom: track.y - view.scroll + LANE };
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
  const bin = Math.min(Math.floor(view.pixels) - 1, Math.floor(pointer.x - LABEL));
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
