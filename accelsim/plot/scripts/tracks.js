// Lays out the tracks of all runs and draws the part of them that is looked at.
const MARGIN = 10, HEAD = 30, STRIP = 18, LANE = 24, QUEUE = 14, CURVE = 50, GAP = 4;
const NARROWEST = 104, WIDEST = 210, MANY = 8, THIN = 4, PACKED = 112;
let LABEL = NARROWEST;
const OVERVIEW = 24, AXIS = 36, TOP = OVERVIEW + AXIS, WAIT = 0.36, FAINT = 0.16, FEW = 64;
const OPERATIONS_PER_MAC = 2;

const number = (value, digits = 4) => value.toLocaleString('en', { maximumSignificantDigits: Math.max(digits, Math.floor(Math.log10(Math.abs(value) + 1)) + 1) });
const whole = (value) => Math.round(value).toLocaleString('en');
const counted = (value, noun) => `${whole(value)} ${noun}${Math.round(value) === 1 ? '' : 's'}`;

function scaled(value, units) {
  const [size, unit] = units.find(([least]) => Math.abs(value) >= least) ?? units.at(-1);
  return `${Number((value / size).toPrecision(4))} ${unit}`;
}
const TIMES = [[1, 's'], [1e-3, 'ms'], [1e-6, 'µs'], [1e-9, 'ns']];
const timeText = (seconds) => scaled(seconds, TIMES);
const bytesText = (bytes) => scaled(bytes, [[2 ** 30, 'GiB'], [2 ** 20, 'MiB'], [2 ** 10, 'KiB'], [1, 'B']]);
const wattText = (watt) => scaled(watt, [[1, 'W'], [1e-3, 'mW'], [1e-6, 'µW']]);
const jouleText = (pj) => scaled(pj, [[1e12, 'J'], [1e9, 'mJ'], [1e6, 'µJ'], [1e3, 'nJ'], [1, 'pJ']]);

// White or black, whichever can be read on a colour.
function inkOn(colour) {
  if (!colour.startsWith('#')) return '#ffffff';
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue > 150 ? '#14171b' : '#ffffff';
}

// Many traces tell no energy.
const hasEnergy = (run) => run.staticEnergy > 0 || run.energy.some((energy) => energy > 0);

// Idle time that nothing explains is no work of an operator.
const shadeOf = (run, operator) => (operator === run.unrecorded ? '#c4c4c4' : operatorColour(operator));

function colourOf(view, run, event) {
  if (!run.isRecorded(event)) return shadeOf(run, run.unrecorded);
  if (view.mode === 'cause') return view.causeColours[run.causes[run.cause[event]]];
  if (view.mode === 'operator') return shadeOf(run, run.a_operator[run.activity[event]]);
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
  // Many rows of one sort are packed into one block, or where they are curves folded away, until its label is clicked.
  const rows = (run, sort, members, lane) => {
    if (members.length > MANY) {
      const key = `${view.runs.indexOf(run)} ${sort}`, open = view.opened.has(key), lanes = !open && members[0].series ? members : [];
      const height = lanes.length ? Math.max(lanes.length, Math.min(THIN * lanes.length, PACKED)) : QUEUE;
      add(run, height, GAP, { paint: lanes.length ? paintPacked : undefined, name: `${open ? '▾' : '▸'} ${members.length} ${sort}`, packed: lanes, opens: key });
      if (!open) return;
    }
    members.forEach(lane);
  };
  for (const run of view.runs) {
    const resources = run.resources.map((resource, index) => ({ ...resource, run, resource: index, series: run.series[index], waits: run.idle[index] }));
    const cores = resources.filter(({ core }) => core), links = resources.filter(({ core }) => !core);
    const lane = ({ name, resource, series, waits }) => {
      add(run, LANE, GAP, { paint: paintLane, write: writeLane, name, series, waits, resource });
      rows(run, `queues of ${name}`, run.queues[resource], (queue) => add(run, QUEUE, GAP, { ...queue, paint: paintQueue, small: true }));
    };
    if (view.runs.length > 1) add(run, HEAD, 0, { write: drawHead });
    if (run.strip.length) add(run, STRIP, GAP, { paint: paintStrip, write: writeStrip, name: 'operator' });
    rows(run, 'cores', cores, lane);
    rows(run, 'links', links, lane);
    y += GAP;
    const curve = (track) => add(run, CURVE, GAP + 4, { ...track, write: writeCurve, curve: true });
    if (cores.length) curve({ paint: paintUtilisation, name: 'utilisation', cores: cores.map(({ resource }) => resource) });
    rows(run, 'links, B/cycle', links.map(({ name, resource }) => ({ name, resource })), (link) => curve({ ...link, paint: paintBandwidth, unit: 'B/cycle' }));
    rows(run, 'buffers', run.buffers.map(({ name }, buffer) => ({ name, buffer })), (buffer) => curve({ ...buffer, paint: paintHeld, unit: 'bytes held' }));
    if (hasEnergy(run)) curve({ paint: paintPower, name: 'power', unit: run.clock ? 'W' : 'pJ/cycle' });
    y += 6;
  }
  view.tracks = tracks;
  view.total = y;
}

// Where the events of a resource are drawn: in a lane of its own, or in a block of thin ones.
function placeOf(view, run, resource) {
  for (const track of view.tracks) {
    if (track.run !== run) continue;
    if (track.paint === paintLane && track.resource === resource) return { y: track.y, height: LANE };
    const row = track.packed?.findIndex((one) => one.resource === resource) ?? -1;
    if (row >= 0) return { y: track.y + row * track.height / track.packed.length, height: track.height / track.packed.length };
  }
  return null;
}

function fit(view) {
  const ratio = window.devicePixelRatio || 1, { stage, canvas, overlay, spacer } = view;
  const height = Math.min(view.total, Math.max(320, Math.round(window.innerHeight * 0.8)));
  stage.style.height = `${height}px`;
  view.width = stage.clientWidth;
  view.context.font = '12px system-ui, sans-serif';
  const widest = Math.max(...view.tracks.map(({ name }) => (name ? view.context.measureText(name).width : 0))) + 20;
  LABEL = Math.round(Math.max(NARROWEST, Math.min(widest, WIDEST, view.width / 5)));
  view.height = height;
  view.ratio = ratio;
  view.pixels = Math.max(1, view.width - LABEL - MARGIN);
  for (const one of [canvas, overlay]) {
    one.width = Math.round(view.width * ratio);
    one.height = Math.round(height * ratio);
    one.style.width = `${view.width}px`;
    one.style.height = `${height}px`;
    one.getContext('2d').setTransform(ratio, 0, 0, ratio, 0, 0);
  }
  view.raster.resize(canvas.width, canvas.height, ratio);
  spacer.style.height = `${view.total}px`;
  view.overviewImage = null;
}

const xOf = (view, run, cycle) => LABEL + ((cycle * run.scale - view.from) / (view.to - view.from)) * view.pixels;
const cycleAt = (view, x) => view.from + ((x - LABEL) / view.pixels) * (view.to - view.from);
const bins = (view) => new Float64Array(Math.max(1, Math.round(view.pixels * view.ratio)));

// First all that is areas, pixel by pixel, then lines and texts upon it.
function draw(view) {
  const { context, raster, canvas, ratio } = view, style = getComputedStyle(view.root);
  view.theme = Object.fromEntries(['ink', 'soft', 'line', 'ground', 'card'].map((name) => [name, style.getPropertyValue(`--${name}`).trim() || '#888888']));
  view.scroll = view.stage.scrollTop;
  const seen = view.tracks.filter((track) => track.y - view.scroll + track.height >= TOP && track.y - view.scroll <= view.height);
  raster.clip(0, canvas.height);
  raster.fill(0, 0, canvas.width, canvas.height, packed32(view.theme.ground));
  drawOverview(view);
  raster.clip(TOP * ratio, canvas.height);
  for (const track of seen) track.paint?.(view, track, track.y - view.scroll);
  context.putImageData(raster.image, 0, 0);
  context.textBaseline = 'middle';
  for (const track of seen) {
    const y = track.y - view.scroll;
    context.save();
    context.beginPath();
    context.rect(0, Math.max(y, TOP), view.width, y + track.height + 8 - Math.max(y, TOP));
    context.clip();
    context.font = track.small ? '11px system-ui, sans-serif' : '12px system-ui, sans-serif';
    if (track.name) label(view, track, y);
    track.write?.(view, track, y);
    context.restore();
  }
  drawAxis(view);
  frameOverview(view);
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

// As much of a text's end as there is room for.
function fitted(context, text, room) {
  const needed = context.measureText(text.slice(-200)).width;
  return needed <= room ? text : `…${text.slice(-Math.max(1, Math.floor(Math.min(text.length, 200) * room / needed) - 1))}`;
}

// A text between two places, or as much of its end as there is room for: names differ at their ends.
function words(view, text, colour, left, right, middle) {
  const { context } = view, begin = Math.max(left, LABEL) + 4, room = Math.min(right, LABEL + view.pixels) - begin - 4;
  if (room < 24) return;
  const needed = context.measureText(text.slice(0, 200)).width, letters = Math.floor(text.length * room / needed) - 2;
  if (needed > room && letters < 4) return;
  context.fillStyle = colour;
  context.fillText(needed <= room ? text : `…${text.slice(-letters).replace(/^\W+/, '')}`, begin, middle);
}

function drawHead(view, { run }, y) {
  const { context, theme } = view;
  context.font = '600 13px system-ui, sans-serif';
  context.fillStyle = theme.ink;
  const time = run.clock ? ` · ${timeText(run.latency / run.clock)}` : '';
  context.fillText(fitted(context, `${run.title} · ${counted(run.latency, 'cycle')}${time}`, view.width - 8), 2, y + HEAD / 2 + 2);
}

// Which operator each cycle belongs to.
function paintStrip(view, { run }, y) {
  const { strip } = run, end = view.to / run.scale, { theme, raster } = view;
  let drawn = -1;
  for (let row = strip.after(view.from / run.scale); row < strip.length && strip.start[row] < end; row++) {
    const left = Math.max(LABEL, xOf(view, run, strip.start[row])), right = Math.min(LABEL + view.pixels, xOf(view, run, strip.end[row]));
    if (right < drawn + 0.5) continue;
    drawn = right;
    const [colour, share] = view.mode === 'operator' ? [shadeOf(run, strip.event[row]), 1] : [theme.soft, row % 2 ? 0.36 : 0.18];
    raster.box(left, y, Math.max(right - left, 0.5), STRIP, packed32(colour, share, theme.ground));
  }
}

function writeStrip(view, { run }, y) {
  const { strip } = run, end = view.to / run.scale;
  writeNames(view, strip, strip.after(view.from / run.scale), end, run, y + STRIP / 2,
    (row) => [run.operators[strip.event[row]] ?? '', view.mode === 'operator' ? inkOn(shadeOf(run, strip.event[row])) : view.theme.ink]);
}

// Names of the intervals that are wide enough; `of` gives text and colour.
function writeNames(view, series, first, end, run, middle, of) {
  const least = 34 / view.pixels * (view.to - view.from) / run.scale;
  if (series.after(end, first) - first > view.pixels) return;
  for (let row = first; row < series.length && series.start[row] < end; row++) {
    if (series.end[row] - series.start[row] < least) continue;
    words(view, ...of(row), xOf(view, run, series.start[row]), xOf(view, run, series.end[row]), middle);
  }
}

// The parts of a lane that have colours of their own, and of them what is lit.
function partsOf(view, run, series) {
  const key = `${view.mode} ${view.version}`;
  if (series.parts?.key === key) return series.parts;
  const value = { kind: (event) => run.kind[event], cause: (event) => run.cause[event] }[view.mode];
  const parts = (one) => (value ? [...split(one, value)] : [[0, one]]);
  series.parts = { key, all: parts(series), lit: run.lit ? parts(filtered(series, run.lit)) : null };
  return series.parts;
}

function filtered(series, lit) {
  const rows = [];
  for (let row = 0; row < series.length; row++) if (lit[series.event[row]]) rows.push(row);
  return series.pick(rows);
}

function paintLane(view, track, y) {
  const { run, waits } = track;
  paintGround(view, y, LANE);
  if (waits && !view.pathShown) paintWaits(view, run, waits, y + LANE * (1 - WAIT), LANE * WAIT);
  paintEvents(view, track, y, LANE);
}

function writeLane(view, { run, series }, y) {
  const name = (event) => {
    const activity = run.activity[event], operator = run.a_operator[activity], tile = run.a_tile[activity], tensor = run.tensorOf(event);
    if (tensor !== undefined) return tensor.replace(/\.weights$/, '');
    return `${run.operatorOf(event) || run.kinds[run.kind[event]]}${run.tiles[operator] > 0 ? ` · ${tile}` : ''}`;
  };
  writeNames(view, series, series.after(view.from / run.scale), view.to / run.scale, run, y + LANE / 2, (row) => {
    const event = series.event[row];
    return run.lit && !run.lit[event] ? ['', ''] : [name(event), inkOn(colourOf(view, run, event))];
  });
}

function paintPacked(view, { run, packed, height }, y) {
  paintGround(view, y, height);
  packed.forEach(({ series, waits }, row) => {
    const top = Math.round(y + row * height / packed.length), bottom = Math.round(y + (row + 1) * height / packed.length);
    const thin = bottom - top - (bottom - top > 2 ? 1 : 0);
    if (waits && thin > 1 && !view.pathShown) paintWaits(view, run, waits, top, thin, 0.25);
    paintEvents(view, { run, series }, top, thin);
  });
}

function paintQueue(view, track, y) {
  paintGround(view, y, QUEUE);
  if (!view.pathShown) paintWaits(view, track.run, track.waits, y + QUEUE - 3, 3);
  paintEvents(view, track, y, QUEUE);
}

const paintGround = (view, y, height) => view.raster.box(LABEL, y, view.pixels, height, packed32(view.theme.card));

// What a core, or the head of a queue, waits for, as a low bar.
function paintWaits(view, run, waits, y, height, share = 0.85) {
  const from = view.from / run.scale, to = view.to / run.scale, levels = bins(view);
  if (!waits.byCause) waits.byCause = split(waits, (event) => (event < 0 ? -1 : run.cause[event]));
  for (const [cause, series] of waits.byCause) {
    const found = bins(view), colour = view.causeColours[run.causes[cause] ?? 'drain'];
    series.spread(series.busy(), from, to, found);
    view.raster.bars(found, found.length / (to - from), LABEL, y, height, packed32(colour, run.lit ? FAINT : share, view.theme.card), levels);
  }
}

// Where events are narrower than pixels, each pixel is filled as high as the share of it that was busy.
function paintEvents(view, { run, series }, y, height) {
  const from = view.from / run.scale, to = view.to / run.scale;
  const first = series.after(from), last = Math.min(series.length, series.after(to, first) + 1);
  const count = last - first, pixels = view.pixels * view.ratio;
  if (count > 0.25 * pixels || (count > FEW && series.between(series.busy(), from, to) / (to - from) * pixels < count)) return paintDense(view, run, series, y, height, from, to);
  for (let row = first; row < last && series.start[row] < to; row++) {
    const event = series.event[row], left = Math.max(LABEL, xOf(view, run, series.start[row]));
    const wide = Math.min(LABEL + view.pixels, xOf(view, run, series.end[row])) - left;
    const share = run.lit && !run.lit[event] ? FAINT : 1;
    view.raster.box(left, y, Math.max(1 / view.ratio, wide > 4 ? wide - 1 : wide), height, packed32(colourOf(view, run, event), share, view.theme.card));
  }
  return undefined;
}

function paintDense(view, run, series, y, height, from, to) {
  const { all, lit } = partsOf(view, run, series), { card } = view.theme;
  for (const [parts, share] of [[all, lit ? FAINT : 1], ...(lit ? [[lit, 1]] : [])]) {
    const levels = bins(view), factor = levels.length / (to - from);
    for (const [value, part] of parts) {
      const found = bins(view);
      part.spread(part.busy(), from, to, found);
      const colour = { kind: () => view.kindColours[value], cause: () => view.causeColours[run.causes[value]] }[view.mode];
      const shade = colour ? packed32(colour(), share, card) : byOperator(run, part, from, to, found.length, share, card);
      view.raster.bars(found, factor, LABEL, y, height, shade, levels);
    }
  }
}

// The colour of the operator in the middle of a bin; asked from left to right.
function byOperator(run, part, from, to, count, share, ground) {
  let row = 0;
  return (bin) => {
    row = part.after(from + ((bin + 0.5) / count) * (to - from), row);
    return packed32(shadeOf(run, run.a_operator[run.activity[part.event[Math.min(row, part.length - 1)]]]), share, ground);
  };
}
