// Lays out the tracks of all runs and draws the part of them that is looked at.
const LABEL = 104, MARGIN = 10, HEAD = 30, STRIP = 18, LANE = 24, QUEUE = 14, CURVE = 50, GAP = 4;
const OVERVIEW = 24, AXIS = 36, TOP = OVERVIEW + AXIS, WAIT = 0.36, FAINT = 0.16;
const WAITING = { none: '#999999', load: '#D55E00', store: '#882255', buffer: '#F0E442', tile: '#332288', queue: '#999999', resource: '#44AA99' };
const OPERATIONS_PER_MAC = 2;

const number = (value, digits = 4) => value.toLocaleString('en', { maximumSignificantDigits: Math.max(digits, Math.floor(Math.log10(Math.abs(value) + 1)) + 1) });
const whole = (value) => Math.round(value).toLocaleString('en');

function scaled(value, units) {
  const [size, unit] = units.find(([least]) => Math.abs(value) >= least) ?? units.at(-1);
  return `${Number((value / size).toPrecision(4))} ${unit}`;
}
const timeText = (seconds) => scaled(seconds, [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']]);
const bytesText = (bytes) => scaled(bytes, [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']]);
const wattText = (watt) => scaled(watt, [[1, 'W'], [1e-3, 'mW'], [1e-6, 'µW']]);
const jouleText = (pj) => scaled(pj, [[1e12, 'J'], [1e9, 'mJ'], [1e6, 'µJ'], [1e3, 'nJ'], [1, 'pJ']]);

const operatorColour = (operator) => (operator < 0 ? '#888888' : `hsl(${(operator * 137.508 + 205) % 360} 52% 43%)`);

// White or black, whichever can be read on a colour.
function inkOn(colour) {
  if (!colour.startsWith('#')) return '#ffffff';
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue > 150 ? '#14171b' : '#ffffff';
}

function colourOf(view, run, event) {
  if (view.mode === 'cause') return WAITING[run.causes[run.cause[event]]];
  if (view.mode === 'operator') return operatorColour(run.a_operator[run.activity[event]]);
  return view.kindColours[run.kind[event]];
}

function nameOf(run, event) {
  const tile = run.a_tile[run.activity[event]], operator = run.operatorOf(event), tensor = run.tensorOf(event);
  const kind = run.kinds[run.kind[event]];
  if (tensor === undefined) return operator ? `${operator}${tile >= 0 ? `, tile ${tile}` : ''}` : `${kind}${tile >= 0 ? ` ${tile}` : ''}`;
  return tile >= 0 ? `${tensor} for ${operator}, tile ${tile}` : tensor;
}

function layout(view) {
  const tracks = [];
  let y = TOP + 2;
  const add = (run, height, gap, track) => { tracks.push({ run, y, height, ...track }); y += height + gap; };
  for (const run of view.runs) {
    if (view.runs.length > 1) add(run, HEAD, 0, { draw: drawHead, wide: true });
    if (run.strip.length) add(run, STRIP, GAP, { draw: drawStrip, name: 'operator' });
    run.resources.forEach((resource, index) => {
      add(run, LANE, GAP, { draw: drawLane, name: resource.name, series: run.series[index], resource: index });
      if (!view.queuesShown) return;
      for (const queue of run.queues[index]) {
        add(run, QUEUE, GAP, { draw: drawQueue, name: queue.name, small: true, series: queue.served, waiting: queue.waiting });
      }
    });
    y += GAP;
    const cores = run.resources.flatMap((resource, index) => (resource.core ? [index] : []));
    if (cores.length) add(run, CURVE, GAP + 4, { draw: drawUtilisation, name: 'utilisation', cores, curve: true });
    run.resources.forEach((resource, index) => {
      if (!resource.core) add(run, CURVE, GAP + 4, { draw: drawBandwidth, name: resource.name, unit: 'B/cycle', resource: index, curve: true });
    });
    run.buffers.forEach((buffer, index) => {
      add(run, CURVE, GAP + 4, { draw: drawHeld, name: buffer.name, unit: 'bytes held', buffer: index, curve: true });
    });
    add(run, CURVE, GAP + 4, { draw: drawPower, name: 'power', unit: run.clock ? 'W' : 'pJ/cycle', curve: true });
    y += 6;
  }
  view.tracks = tracks;
  view.total = y;
}

function fit(view) {
  const ratio = window.devicePixelRatio || 1, { stage, canvas, overlay, spacer } = view;
  const height = Math.min(view.total, Math.max(320, Math.round(window.innerHeight * 0.8)));
  stage.style.height = `${height}px`;
  view.width = stage.clientWidth;
  view.height = height;
  view.pixels = Math.max(1, view.width - LABEL - MARGIN);
  for (const one of [canvas, overlay]) {
    one.width = Math.round(view.width * ratio);
    one.height = Math.round(height * ratio);
    one.style.width = `${view.width}px`;
    one.style.height = `${height}px`;
    one.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  spacer.style.height = `${view.total}px`;
  view.overviewImage = null;
}

const xOf = (view, run, cycle) => LABEL + ((cycle * run.scale - view.from) / (view.to - view.from)) * view.pixels;
const cycleAt = (view, x) => view.from + ((x - LABEL) / view.pixels) * (view.to - view.from);
const bins = (view) => new Float64Array(Math.max(1, Math.floor(view.pixels)));

function draw(view) {
  const { context } = view, style = getComputedStyle(view.root);
  view.theme = Object.fromEntries(['ink', 'soft', 'line', 'ground', 'card'].map((name) => [name, style.getPropertyValue(`--${name}`).trim() || '#888888']));
  view.scroll = view.stage.scrollTop;
  context.globalAlpha = 1;
  context.fillStyle = view.theme.ground;
  context.fillRect(0, 0, view.width, view.height);
  context.textBaseline = 'middle';
  for (const track of view.tracks) {
    const y = track.y - view.scroll;
    if (y + track.height < TOP || y > view.height) continue;
    context.save();
    context.beginPath();
    context.rect(0, Math.max(y, TOP), view.width, y + track.height + 8 - Math.max(y, TOP));
    context.clip();
    context.font = track.small ? '11px system-ui, sans-serif' : '12px system-ui, sans-serif';
    if (track.name) label(view, track, y);
    context.beginPath();
    context.rect(track.wide ? 0 : LABEL, y, track.wide ? view.width : view.pixels, track.height + 1);
    context.clip();
    track.draw(view, track, y);
    context.restore();
  }
  context.font = '12px system-ui, sans-serif';
  drawAxis(view);
  drawOverview(view);
}

function label(view, { name, unit, height, small }, y) {
  const { context, theme } = view;
  context.textAlign = 'right';
  context.fillStyle = small ? theme.soft : theme.ink;
  context.fillText(fitted(context, name, LABEL - 18), LABEL - 10, y + height / 2 - (unit ? 8 : 0));
  if (unit) {
    context.fillStyle = theme.soft;
    context.font = '11px system-ui, sans-serif';
    context.fillText(unit, LABEL - 10, y + height / 2 + 8);
  }
  context.textAlign = 'left';
}

function fitted(context, words, room) {
  let shown = words;
  if (shown.length > 400) shown = shown.slice(0, 400);
  while (shown.length > 1 && context.measureText(shown).width > room) shown = `${shown.slice(0, Math.max(1, shown.length * 0.9 - 2))}…`;
  return shown;
}

function words(view, text, left, right, middle, colour) {
  const { context } = view, begin = Math.max(left, LABEL) + 4, room = Math.min(right, LABEL + view.pixels) - begin - 4;
  if (room < 24) return;
  const letters = Math.floor(room / 6.1);
  context.fillStyle = colour;
  context.fillText(text.length <= letters ? text : letters > 3 ? `${text.slice(0, letters - 1)}…` : '', begin, middle);
}

function drawHead(view, { run }, y) {
  const { context, theme } = view;
  context.font = '600 13px system-ui, sans-serif';
  context.fillStyle = theme.ink;
  const time = run.clock ? ` · ${timeText(run.latency / run.clock)}` : '';
  context.fillText(fitted(context, `${run.title} · ${whole(run.latency)} cycles${time}`, view.width - 8), 2, y + HEAD / 2 + 2);
}

// Which operator each cycle belongs to.
function drawStrip(view, { run }, y) {
  const { context, theme } = view, { strip } = run, end = view.to / run.scale;
  let drawn = -1;
  for (let row = strip.after(view.from / run.scale); row < strip.length && strip.start[row] < end; row++) {
    const left = xOf(view, run, strip.start[row]), right = xOf(view, run, strip.end[row]), operator = strip.event[row];
    if (right < drawn + 0.5) continue;
    drawn = right;
    context.globalAlpha = view.mode === 'operator' ? 0.85 : row % 2 ? 0.34 : 0.16;
    context.fillStyle = view.mode === 'operator' ? operatorColour(operator) : theme.soft;
    context.fillRect(left, y, Math.max(right - left, 0.5), STRIP);
    context.globalAlpha = 1;
    if (right - left > 30) words(view, run.operators[operator] ?? '', left, right, y + STRIP / 2, view.mode === 'operator' ? '#ffffff' : theme.ink);
  }
}

// The parts of a lane that have colours of their own, and of them what is lit.
function partsOf(view, run, series) {
  const key = `${view.mode} ${view.version}`;
  if (series.parts?.key === key) return series.parts;
  const value = { kind: (event) => run.kind[event], cause: (event) => run.cause[event], operator: () => 0 }[view.mode];
  const lit = run.lit ? filtered(series, run.lit) : series;
  series.parts = { key, all: [...split(series, value)], lit: run.lit ? [...split(lit, value)] : null };
  return series.parts;
}

function filtered(series, lit) {
  const rows = [];
  for (let row = 0; row < series.length; row++) if (lit[series.event[row]]) rows.push(row);
  const pick = (name) => Float64Array.from(rows, (row) => series[name][row]);
  return new Series(pick('start'), pick('end'), pick('event'));
}

function drawLane(view, track, y) {
  const { run, resource } = track, waits = run.idle[resource];
  drawGround(view, y, LANE);
  if (waits && !view.pathShown) drawWaits(view, run, waits, y + LANE * (1 - WAIT), LANE * WAIT);
  drawEvents(view, track, y, LANE);
}

function drawQueue(view, track, y) {
  drawGround(view, y, QUEUE);
  if (!view.pathShown) drawWaits(view, track.run, track.waiting, y + QUEUE - 3, 3);
  drawEvents(view, track, y, QUEUE);
}

function drawGround(view, y, height) {
  view.context.fillStyle = view.theme.card;
  view.context.fillRect(LABEL, y, view.pixels, height);
}

// What a core, or the head of a queue, waits for, as a low bar.
function drawWaits(view, run, waits, y, height) {
  const { context } = view, from = view.from / run.scale, to = view.to / run.scale;
  if (!waits.byCause) waits.byCause = split(waits, (event) => (event < 0 ? -1 : run.cause[event]));
  context.globalAlpha = run.lit ? FAINT : 0.9;
  for (const [cause, series] of waits.byCause) {
    context.fillStyle = cause < 0 ? '#bbbbbb' : WAITING[run.causes[cause]];
    const found = bins(view);
    series.spread(series.busy(), from, to, found);
    fillBins(view, found, found.length / (to - from), y, height);
  }
  context.globalAlpha = 1;
}

// Fills a step function of bins as rectangles, equal neighbours at once; returns nothing.
function fillBins(view, values, factor, y, height, bottoms = null) {
  const { context } = view;
  for (let pixel = 0; pixel < values.length;) {
    const value = values[pixel], bottom = bottoms?.[pixel] ?? 0, first = pixel;
    for (pixel++; pixel < values.length && values[pixel] === value && (bottoms?.[pixel] ?? 0) === bottom; pixel++);
    const tall = Math.min(1, value * factor) * height;
    if (tall > 0) context.fillRect(LABEL + first, y + height - bottom * height - tall, pixel - first, tall);
  }
}

function drawEvents(view, track, y, height) {
  const { run, series } = track, from = view.from / run.scale, to = view.to / run.scale;
  const first = series.after(from), last = Math.min(series.length, series.after(to, first) + 1);
  if (last - first > 1.5 * view.pixels) drawDense(view, run, series, y, height, from, to);
  else drawSingly(view, run, series, y, height, first, last, to);
}

// Where events are narrower than pixels, each pixel is filled as high as the share of it that was busy.
function drawDense(view, run, series, y, height, from, to) {
  const { context } = view, { all, lit } = partsOf(view, run, series);
  for (const [parts, alpha] of [[all, lit ? FAINT : 1], ...(lit ? [[lit, 1]] : [])]) {
    const bottoms = bins(view), factor = bottoms.length / (to - from);
    context.globalAlpha = alpha;
    for (const [value, part] of parts) {
      const found = bins(view);
      part.spread(part.busy(), from, to, found);
      if (view.mode === 'operator') fillByOperator(view, run, part, found, factor, y, height, from, to);
      else {
        context.fillStyle = view.mode === 'kind' ? view.kindColours[value] : WAITING[run.causes[value]];
        fillBins(view, found, factor, y, height, bottoms);
        for (let pixel = 0; pixel < found.length; pixel++) bottoms[pixel] += found[pixel] * factor;
      }
    }
  }
  context.globalAlpha = 1;
}

// As high as the share that was busy, in the colour of the operator in the middle of the pixel.
function fillByOperator(view, run, part, found, factor, y, height, from, to) {
  const { context } = view;
  let row = 0;
  for (let pixel = 0; pixel < found.length; pixel++) {
    if (!found[pixel]) continue;
    row = part.after(from + ((pixel + 0.5) / found.length) * (to - from), row);
    context.fillStyle = operatorColour(run.a_operator[run.activity[part.event[Math.min(row, part.length - 1)]]]);
    const tall = Math.min(1, found[pixel] * factor) * height;
    context.fillRect(LABEL + pixel, y + height - tall, 1, tall);
  }
}

function drawSingly(view, run, series, y, height, first, last, to) {
  const { context } = view;
  for (let row = first; row < last && series.start[row] < to; row++) {
    const event = series.event[row], left = xOf(view, run, series.start[row]), right = xOf(view, run, series.end[row]);
    const wide = right - left, faded = run.lit && !run.lit[event], colour = colourOf(view, run, event);
    context.globalAlpha = (faded ? FAINT : 1) * (wide < 0.7 ? 0.7 : 1);
    context.fillStyle = colour;
    context.fillRect(left, y, Math.max(0.7, wide - (wide > 4 ? 1 : wide > 2 ? 0.4 : 0)), height);
    context.globalAlpha = 1;
    if (wide > 34 && !faded && height > 12) words(view, nameOf(run, event), left, right, y + height / 2, inkOn(colour));
  }
}
