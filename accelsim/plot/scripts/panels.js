// What is told below the tracks: the chosen event and why it started when it did, and the range that is looked at.
const BECAUSE = {
  none: 'It had waited for nothing.', load: 'A load that it needs finished:', store: 'A store that it depends on finished:',
  buffer: 'It had no room in a buffer, until space was given back by:', tile: 'A tile that it depends on finished:',
  queue: 'The one before it on its queue handed on:', resource: 'Its resource was busy with another queue:', send: 'A message that it depends on arrived:',
  limit: 'A request came back, of as many as its queue may have on their way:',
};
const WAITS = {
  none: 'waited for nothing', load: 'waits for a load', store: 'waits for a store', buffer: 'waits for buffer space', tile: 'waits for a tile',
  queue: 'waits for its queue', resource: 'waits for its resource', send: 'waits for a message',
  limit: 'waits for a request under way', drain: 'after the last tile',
};
const CHAIN = 7, LISTED = 8;

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === 'onclick') made.addEventListener('click', value); else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function facts(rows) {
  const table = make('table');
  for (const [name, ...values] of rows) table.append(make('tr', {}, make('th', { scope: 'row' }, name), ...values.map((value) => make('td', {}, value))));
  return table;
}

function patch(colour) { return make('i', { style: `background:${colour}` }); }

function showEvent(view) {
  const out = view.root.querySelector('.event');
  if (!view.chosen) {
    out.replaceChildren(make('p', { class: 'note' }, 'Click an event: what it is, what it had waited for, and why. Click a buffer’s curve: what it holds then.'));
    return;
  }
  const { run, event, twins } = view.chosen, activity = run.activity[event], cycles = run.end[event] - run.start[event];
  const resource = run.resources[run.resource[event]], waited = run.start[event] - run.ready[event];
  const time = (value) => (run.clock ? ` (${timeText(value / run.clock)})` : '');
  const rows = [
    ['where', `${resource.name}${resource.queues > 1 ? `, queue ${run.queueNames[run.a_queue[activity]]}` : ''}${view.runs.length > 1 ? `, run ${run.label}` : ''}`],
    ['cycles', `${whole(run.start[event])} to ${whole(run.end[event])}`], ['takes', `${counted(cycles, 'cycle')}${time(cycles)}`],
    ['asked at', `${whole(run.ready[event])}, then waited ${counted(waited, 'cycle')}`],
  ];
  if (run.bytes[event]) rows.push(['moves', `${counted(run.bytes[event], 'byte')} (${bytesText(run.bytes[event])})`]);
  const macs = run.a_macs[activity], vector = run.a_vector[activity];
  if (macs) rows.push(['work', `${counted(macs, 'MAC')}${run.macsPerCycle && cycles ? `, ${(100 * macs / run.macsPerCycle / cycles).toFixed(1)} % of peak` : ''}`]);
  if (vector) rows.push(['vector work', counted(vector, 'operation')]);
  if (hasEnergy(run)) rows.push(['energy', jouleText(run.energy[event])]);
  out.replaceChildren(make('h3', {}, patch(view.kindColours[run.kind[event]]), nameOf(run, event)),
    make('p', { class: 'note' }, run.kinds[run.kind[event]], run.path[event] ? ', on the critical path' : ''), facts(rows), why(view, run, event));
  for (const twin of twins ?? []) {
    const shift = twin.run.start[twin.event] * twin.run.scale - run.start[event] * run.scale;
    const way = shift ? `starts ${counted(Math.abs(shift), 'cycle')} ${shift < 0 ? 'earlier' : 'later'}` : 'starts at the same time';
    out.append(make('p', {}, `In run ${twin.run.label} it ${way} and takes ${counted(twin.run.end[twin.event] - twin.run.start[twin.event], 'cycle')}. `,
      link(view, twin.run, twin.event, 'Go there')));
  }
}

const link = (view, run, event, text) => make('button', { type: 'button', onclick: () => { choose(view, run, event); reveal(view, run, event); } }, text);

// The chain of causes, back from an event; those that only followed one another on a queue are counted.
function why(view, run, event) {
  const list = make('ol', { class: 'why' });
  let at = event;
  for (let step = 0; step < CHAIN; step++) {
    const because = run.because[at], cause = run.causes[run.cause[at]], item = make('li', {}, `${BECAUSE[because < 0 ? 'none' : cause]} `);
    list.append(item);
    if (because < 0) break;
    item.append(link(view, run, because, nameOf(run, because)), ` (${whole(run.start[because])} to ${whole(run.end[because])})`);
    at = because;
    let skipped = 0;
    while (cause === 'queue' && run.because[at] >= 0 && run.causes[run.cause[at]] === 'queue' && skipped < run.count) { at = run.because[at]; skipped++; }
    if (skipped) item.append(`, and so on: ${whole(skipped)} more, back to `, link(view, run, at, nameOf(run, at)));
  }
  return make('div', {}, make('b', {}, `Why it starts at ${whole(run.start[event])}`), list);
}

// What a buffer holds at a cycle.
function showHeld(view, run, buffer, cycle) {
  const rows = [];
  for (let claim = 0; claim < run.c_buffer.length; claim++) {
    if (run.c_buffer[claim] !== buffer || run.c_taken[claim] > cycle || run.c_back[claim] <= cycle) continue;
    rows.push([run.tensors[run.c_tensor[claim]] ?? '(unnamed)', run.c_bytes[claim], run.c_taken[claim], run.c_back[claim]]);
  }
  rows.sort((a, b) => b[1] - a[1]);
  const all = rows.reduce((sum, row) => sum + row[1], 0);
  view.chosen = null;
  view.root.querySelector('.event').replaceChildren(make('h3', {}, `${run.buffers[buffer].name} at cycle ${whole(cycle)}`),
    make('p', { class: 'note' }, `${bytesText(all)} in ${counted(rows.length, 'claim')}, the largest first`),
    facts(rows.slice(0, LISTED).map(([name, size, taken, back]) => [name, bytesText(size), `${whole(taken)} to ${whole(back)}`])),
    ...(rows.length > LISTED ? [make('p', { class: 'note' }, `and ${whole(rows.length - LISTED)} more`)] : []));
  drawOverlay(view);
}

// Figures of one run between two cycles of the axis.
function figures(run, from, to) {
  const a = Math.max(0, from / run.scale), b = Math.min(run.latency, to / run.scale), cycles = Math.max(0, b - a);
  const sum = (series, name, weight) => (cycles ? series.between(series.sum(name, weight), a, b) : 0);
  const found = { cycles, busy: 0, macs: 0, vector: 0, energy: run.staticEnergy * cycles, links: [], operators: [] };
  const cores = run.resources.filter((resource) => resource.core).length;
  run.series.forEach((series, index) => {
    for (const part of run.byKind[index].values()) found.energy += sum(part, 'energy', (event) => run.energy[event]);
    if (run.resources[index].core) {
      if (cycles) found.busy += series.between(run.working(series), a, b) / cycles / cores;
      found.macs += sum(series, 'macs', (event) => run.a_macs[run.activity[event]]);
      found.vector += sum(series, 'vector', (event) => run.a_vector[run.activity[event]]);
    } else found.links.push([index, sum(series, 'bytes', (event) => run.bytes[event])]);
  });
  const shares = new Map();
  for (let row = run.strip.after(a); row < run.strip.length && run.strip.start[row] < b; row++) {
    const operator = run.strip.event[row], share = Math.min(b, run.strip.end[row]) - Math.max(a, run.strip.start[row]);
    shares.set(operator, (shares.get(operator) ?? 0) + share);
  }
  found.operators = [...shares].sort((one, other) => other[1] - one[1]);
  found.operations = OPERATIONS_PER_MAC * found.macs + found.vector;
  found.bytes = found.links.reduce((total, [index, bytes]) => total + (run.roofs?.links.includes(index) ? bytes : 0), 0);
  return found;
}

function showRange(view) {
  const out = view.root.querySelector('.range'), { runs, selection, longest } = view;
  const [from, to] = selection ? [...selection].sort((a, b) => a - b) : [view.from, view.to], all = runs.map((run) => figures(run, from, to));
  const what = selection ? 'The selected range' : from <= 0 && to >= longest ? 'The whole run' : 'The range in view';
  const percent = (share) => `${(100 * share).toFixed(1)}\u00a0%`, each = (shown) => runs.map((run, index) => shown(run, all[index]));
  const rows = [['cycles', ...each((_, { cycles }) => whole(cycles))]];
  if (runs.some((run) => run.clock)) rows.push(['time', ...each((run, { cycles }) => (run.clock ? timeText(cycles / run.clock) : ''))]);
  rows.push(['cores busy', ...each((_, { busy }) => percent(busy))]);
  if (runs.some((run) => run.macsPerCycle)) {
    rows.push(['MACs of peak rate', ...each((run, { macs, cycles }) => (run.macsPerCycle && cycles ? percent(macs / run.macsPerCycle / cycles) : ''))]);
  }
  const names = runs[0]?.resources.flatMap(({ name, core }) => (core ? [] : [name])) ?? [];
  for (const name of names.length > MANY ? [null] : names) {
    rows.push([name ?? `${names.length} links`, ...each((run, { links, cycles }) => {
      const mine = links.filter(([at]) => name === null || run.resources[at].name === name);
      const bytes = mine.reduce((sum, [, moved]) => sum + moved, 0), rate = mine.reduce((sum, [at]) => sum + run.resources[at].rate, 0);
      return mine.length ? `${bytesText(bytes)}${cycles ? `, ${percent(bytes / cycles / rate)}` : ''}` : '';
    })]);
  }
  const paid = runs.some(hasEnergy);
  if (paid) rows.push(['energy', ...each((_, { energy }) => jouleText(energy))]);
  if (paid && runs.some((run) => run.clock)) rows.push(['average power', ...each((run, { energy, cycles }) => (run.clock && cycles ? wattText(energy / cycles * run.clock * 1e-12) : ''))]);
  if (runs.some((run) => run.a_macs.some(Boolean) || run.a_vector.some(Boolean))) {
    rows.push(['operations', ...each((_, { operations }) => number(operations))]);
    rows.push(['intensity', ...each((_, { operations, bytes }) => (bytes ? `${number(operations / bytes)} op/B` : 'no bytes'))]);
    rows.push(['performance', ...each((run, found) => {
      const roof = roofAt(run, found);
      return found.cycles ? `${number(found.operations / found.cycles)} op/cycle${roof && runs.length === 1 ? `, ${percent(found.operations / found.cycles / roof)} of its roof` : ''}` : '';
    })]);
  }
  const most = runs.length === 1 && all[0].cycles ? all[0].operators.slice(0, 3) : [];
  most.forEach(([operator, cycles], index) => rows.push([index ? '' : 'operators', `${runs[0].operators[operator] ?? '(none)'} ${percent(cycles / all[0].cycles)}`]));
  const table = facts(rows);
  if (runs.length > 1) table.prepend(make('tr', {}, make('th'), ...runs.map((run, index) => make('td', {}, patch(RUN_COLOURS[index % RUN_COLOURS.length]), run.label))));
  out.replaceChildren(make('h3', {}, what), table);
  const roofs = view.root.querySelector('.roofs');
  roofs.hidden = false;
  roofs.replaceChildren(make('h3', {}, 'On the roofline'), inset(view, all));
}

const RUN_COLOURS = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9'];
const WIDE = 380, TALL = 230, LEFT = 58, BOTTOM = 34, RIGHT = 22, ROOF = 12;

function roofAt(run, { operations, bytes }) {
  if (!run.roofs?.array) return null;
  return bytes && run.roofs.bandwidth ? Math.min(run.roofs.array, run.roofs.bandwidth * operations / bytes) : run.roofs.array;
}

// A small roofline: the machine's roofs, each whole run as a ring, the range as a disc.
function inset(view, ranges) {
  const known = view.runs.filter((run) => run.roofs?.array && run.roofs.bandwidth);
  if (!known.length) return make('p', { class: 'note' }, 'No roofline: the run moves nothing to or from memory, or the trace does not say what its machine attains.');
  const svg = svgMake('svg', { viewBox: `0 0 ${WIDE} ${TALL}`, class: 'inset', role: 'img' });
  const points = view.runs.flatMap((run, index) => (known.includes(run) ? [[index, figures(run, 0, view.longest), true], [index, ranges[index], false]] : []))
    .filter(([, { operations, cycles }]) => operations && cycles).map(([index, found, all]) => ({
      index, all, intensity: found.bytes ? found.operations / found.bytes : Infinity, rate: found.operations / found.cycles }));
  const log = Math.log10, ridges = known.map(({ roofs }) => roofs.array / roofs.bandwidth);
  const spread = [...points.map((point) => point.intensity).filter(Number.isFinite), ...ridges.map((ridge) => ridge / 8), ...ridges.map((ridge) => ridge * 8)];
  const [x0, x1] = [Math.floor(log(Math.min(...spread))), Math.ceil(log(Math.max(...spread)))];
  const rates = [...points.map((point) => point.rate), ...known.map(({ roofs }) => roofs.array), ...known.map(({ roofs }) => roofs.array / 50)];
  const [y0, y1] = [Math.floor(log(Math.min(...rates))), Math.ceil(log(Math.max(...rates)) + 0.05)];
  const x = (value) => LEFT + (Math.min(log(value), x1) - x0) / (x1 - x0) * (WIDE - LEFT - RIGHT);
  const y = (value) => TALL - BOTTOM - (log(value) - y0) / (y1 - y0) * (TALL - BOTTOM - ROOF);
  const put = (tag, attributes, text) => svg.append(svgMake(tag, attributes, text));
  const decade = (power) => (power >= -2 && power <= 5 ? number(10 ** power, 6) : `1e${power}`);
  for (let power = x0; power <= x1; power++) {
    put('line', { class: 'grid', x1: x(10 ** power), x2: x(10 ** power), y1: ROOF, y2: TALL - BOTTOM });
    put('text', { x: x(10 ** power), y: TALL - BOTTOM + 13, 'text-anchor': 'middle' }, decade(power));
  }
  for (let power = y0; power <= y1; power++) {
    put('line', { class: 'grid', x1: LEFT, x2: WIDE - RIGHT, y1: y(10 ** power), y2: y(10 ** power) });
    put('text', { x: LEFT - 5, y: y(10 ** power) + 4, 'text-anchor': 'end' }, decade(power));
  }
  put('text', { x: (LEFT + WIDE - RIGHT) / 2, y: TALL - 4, 'text-anchor': 'middle' }, 'operational intensity, op/B');
  put('text', { transform: `translate(9 ${(TALL - BOTTOM + ROOF) / 2}) rotate(-90)`, 'text-anchor': 'middle' }, 'op/cycle');
  const drawn = new Set();
  const roof = (peak, bandwidth, kind) => {
    const key = `${peak} ${bandwidth} ${kind}`, start = Math.max(10 ** x0, 10 ** y0 / bandwidth), ridge = peak / bandwidth;
    if (!peak || !bandwidth || drawn.has(key)) return;
    drawn.add(key);
    put('path', { class: kind, d: `M${x(start)} ${y(Math.min(peak, start * bandwidth))}${ridge > start ? `L${x(ridge)} ${y(peak)}` : ''}L${WIDE - RIGHT} ${y(peak)}` });
  };
  for (const { roofs } of known) {
    roof(roofs.vector, roofs.bandwidth, 'roof thin');
    roof(roofs.array, roofs.bandwidth, 'roof');
    if (roofs.measured) roof(roofs.measured.array, roofs.measured.bandwidth, 'roof measured');
  }
  const only = known[0].roofs;
  if (known.every(({ roofs }) => roofs.array === only.array && roofs.bandwidth === only.bandwidth)) put('text', { x: WIDE - RIGHT, y: y(only.array) - 4, 'text-anchor': 'end' }, `${number(only.array)} op/cycle, ${number(only.bandwidth)} B/cycle (${only.source})`);
  for (const { index, all, intensity, rate } of points) {
    const colour = RUN_COLOURS[index % RUN_COLOURS.length], at = { cx: Number.isFinite(intensity) ? x(intensity) : WIDE - RIGHT - 4, cy: y(rate) };
    put('circle', { ...at, r: all ? 7 : 5, stroke: colour, fill: all ? 'none' : colour, 'stroke-width': 2 });
    svg.lastChild.append(svgMake('title', {}, `${view.runs[index].label || 'run'}: ${all ? 'whole run' : 'range'}, ${number(intensity)} op/B, ${number(rate)} op/cycle`));
  }
  return make('figure', {}, svg, make('figcaption', { class: 'note' }, `Ring: whole run. Disc: this range.${measured(known)}`));
}

// What was measured on the machine, where that is known.
function measured(known) {
  if (known.length > 1) return known.some(({ roofs }) => roofs.measured) ? ' Dashed: measured.' : '';
  const found = known[0].roofs.measured;
  return found ? ` Dashed: measured, ${number(found.array)} op/cycle and ${number(found.bandwidth)} B/cycle.` : '';
}

function svgMake(tag, attributes, text) {
  const made = document.createElementNS(svgMake.namespace, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
svgMake.namespace = document.currentScript.parentElement.querySelector('svg').namespaceURI;
