// Puts the parts together: what is looked at, and what pointer and keys do. All text that comes from a file goes
// through textContent or fillText, never through markup.
const view = { root: document.currentScript.parentElement, mode: 'kind', version: 0, pathShown: false, opened: new Set(), chosen: null, selection: null, pointer: null, raster: new Raster() };
const find = (selector) => view.root.querySelector(selector);
const [description, packed] = view.root.querySelectorAll('script[type]');
Object.assign(view, { stage: find('.stage'), canvas: find('.stage canvas'), overlay: find('.stage canvas.over'), spacer: find('.spacer') });
view.context = view.canvas.getContext('2d', { alpha: false });
const search = find('input[type=search]'), colours = find('select');
let queued = false, matches = [], next = 0, quiet = 0;

function redraw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => {
    queued = false;
    draw(view);
    drawOverlay(view);
  });
}

// The panel of the range follows when the view has come to rest.
function settle() {
  clearTimeout(quiet);
  quiet = setTimeout(() => showRange(view), 120);
}

function show(view, begin, end) {
  const least = Math.min(4, view.longest), span = Math.min(view.longest, Math.max(least, end - begin));
  view.from = Math.min(Math.max(0, begin), view.longest - span);
  view.to = view.from + span;
  find('.tip').hidden = true; // what it told of has moved
  redraw();
  settle();
}
const zoom = (factor, at = (view.from + view.to) / 2) => show(view, at - (at - view.from) * factor, at + (view.to - at) * factor);
const pan = (share) => show(view, view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

function choose(view, run, event) {
  view.chosen = { run, event, twins: view.runs.length > 1 ? twins(view, run, event) : [] };
  showEvent(view);
  redraw();
}

// The same piece of work in the other runs: the same kind, names and tile.
function twins(view, run, event) {
  const key = (of, row) => `${of.kind[row]}\n${of.operatorOf(row)}\n${of.tensorOf(row) ?? ''}\n${of.a_tile[of.activity[row]]}`;
  for (const other of view.runs) {
    if (other.byKey) continue;
    other.byKey = new Map();
    for (let row = other.count - 1; row >= 0; row--) other.byKey.set(key(other, row), row);
  }
  const wanted = key(run, event);
  return view.runs.filter((other) => other !== run && other.byKey.has(wanted)).map((other) => ({ run: other, event: other.byKey.get(wanted) }));
}

function reveal(view, run, event) {
  const begin = run.start[event] * run.scale, end = run.end[event] * run.scale, span = view.to - view.from;
  if (begin < view.from || end > view.to) {
    const wide = Math.max(span, (end - begin) * 1.5);
    show(view, (begin + end) / 2 - wide / 2, (begin + end) / 2 + wide / 2);
  }
  const track = placeOf(view, run, run.resource[event]);
  if (track && (track.y - view.stage.scrollTop < TOP || track.y + track.height - view.stage.scrollTop > view.height)) view.stage.scrollTop = track.y - TOP - 40;
}

// What is lit: events that match the search, and are on the critical path if that is shown.
function light() {
  const wanted = search.value.trim().toLowerCase();
  matches = [];
  next = 0;
  view.version++;
  for (const run of view.runs) {
    run.lit = wanted || view.pathShown ? new Uint8Array(run.count) : null;
    if (!run.lit) continue;
    const hits = (names) => Uint8Array.from(names, (name) => name.toLowerCase().includes(wanted));
    const operators = hits(run.operators), tensors = hits(run.tensors);
    for (let event = 0; event < run.count; event++) {
      const activity = run.activity[event];
      if (wanted && !operators[run.a_operator[activity]] && !tensors[run.a_tensor[activity]]) continue;
      if (wanted) matches.push([run, event]);
      if (!view.pathShown || run.path[event]) run.lit[event] = 1;
    }
  }
  find('.matches').textContent = wanted ? counted(matches.length, 'event') : '';
  redraw();
}

function nextMatch(step = 1) {
  if (!matches.length) return;
  const [run, event] = matches[((next % matches.length) + matches.length) % matches.length];
  next += step;
  choose(view, run, event);
  reveal(view, run, event);
}

// Opens or closes a block of rows, or with no key all of them.
function fold(key) {
  const keys = key ? [key] : view.tracks.flatMap(({ opens }) => opens ?? []), open = !keys.every((one) => view.opened.has(one));
  for (const one of keys) if (open) view.opened.add(one); else view.opened.delete(one);
  layout(view);
  fit(view);
  redraw();
}

function togglePath() {
  view.pathShown = !view.pathShown;
  find('[data-do=path]').setAttribute('aria-pressed', view.pathShown);
  light();
}

function clear() {
  Object.assign(view, { selection: null, chosen: null });
  search.value = '';
  if (view.pathShown) togglePath(); else light();
  showEvent(view);
  settle();
}

const actions = {
  in: () => zoom(0.6), out: () => zoom(1 / 0.6), left: () => pan(-0.2), right: () => pan(0.2), all: () => show(view, 0, view.longest),
  next: () => nextMatch(1), path: togglePath, fold: () => fold(null), clear, find: () => search.focus(),
  range: () => { if (view.selection) show(view, Math.min(...view.selection), Math.max(...view.selection)); },
};
const KEYS = { w: 'in', '+': 'in', '=': 'in', s: 'out', '-': 'out', a: 'left', ArrowLeft: 'left', d: 'right', ArrowRight: 'right',
  f: 'all', 0: 'all', n: 'next', o: 'fold', c: 'path', Escape: 'clear', '/': 'find', z: 'range' };

// Only what occurs is explained.
function legend() {
  const occurs = (column, code) => view.runs.some((run) => run[column].includes(code));
  const entries = [], [run] = view.runs, waits = new Map();
  if (run && view.mode === 'kind') run.kinds.forEach((name, code) => { if (occurs('kind', code)) entries.push([name, view.kindColours[code]]); });
  for (const one of view.runs) {
    for (const series of one.idle) {
      for (const event of series?.event ?? []) waits.set(event < 0 ? 'drain' : one.causes[one.cause[event]], true);
    }
  }
  for (const name of waits.keys()) entries.push([WAITS[name], view.causeColours[name]]);
  if (run && view.mode === 'cause') run.causes.forEach((name, code) => { if (occurs('cause', code) && !waits.has(name)) entries.push([WAITS[name], view.causeColours[name]]); });
  find('.key').replaceChildren(...entries.map(([name, colour]) => make('span', {}, patch(colour), name)));
}

const place = (event) => {
  const box = view.stage.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
};
const trackAt = ({ y }) => (y < TOP ? null : view.tracks.find((track) => y + view.scroll >= track.y && y + view.scroll < track.y + track.height));

function eventAt(point) {
  const track = trackAt(point);
  if (!track || point.x < LABEL) return null;
  const { series } = track.packed?.[Math.floor((point.y + view.scroll - track.y) / track.height * track.packed.length)] ?? track;
  if (!series) return null;
  const slack = 1.5 * (view.to - view.from) / view.pixels / track.run.scale, cycle = cycleAt(view, point.x) / track.run.scale;
  let best = -1;
  for (let row = series.after(cycle - slack); row < series.length && series.start[row] <= cycle + slack; row++) {
    if (best < 0 || series.start[row] <= cycle) best = row;
  }
  return best < 0 ? null : [track.run, series.event[best]];
}

function hover(point) {
  const tip = find('.tip'), found = eventAt(point);
  view.stage.classList.toggle('opens', point.x < LABEL && trackAt(point)?.opens !== undefined);
  tip.hidden = !found;
  if (!found) return;
  const [run, event] = found, waited = run.start[event] - run.ready[event];
  tip.replaceChildren(make('b', {}, nameOf(run, event)), make('br'),
    `${run.resources[run.resource[event]].name}: ${run.kinds[run.kind[event]]}, ${counted(run.end[event] - run.start[event], 'cycle')}${run.bytes[event] ? `, ${bytesText(run.bytes[event])}` : ''}${waited ? `; waited ${whole(waited)}` : ''}`);
  tip.style.left = `${Math.min(point.x + 14, Math.max(0, view.width - tip.offsetWidth - 4))}px`;
  tip.style.top = `${point.y + view.stage.scrollTop + 20}px`;
}

// A click on the strip selects the operator's cycles, on a buffer's curve shows its contents, on an event chooses it.
function click(point) {
  const track = trackAt(point), found = eventAt(point);
  if (found) return choose(view, ...found);
  if (track?.opens && point.x < LABEL) return fold(track.opens);
  if (!track || point.x < LABEL) return undefined;
  const { run } = track, cycle = cycleAt(view, point.x) / run.scale;
  if (track.paint === paintStrip) {
    const row = run.strip.after(cycle);
    if (row < run.strip.length) view.selection = [run.strip.start[row] * run.scale, run.strip.end[row] * run.scale];
    settle();
  }
  if (track.paint === paintHeld) showHeld(view, run, track.buffer, Math.floor(cycle));
  return redraw();
}

let held = null;
view.stage.addEventListener('pointerdown', (event) => {
  const point = place(event);
  if (event.button || point.x > view.stage.clientWidth) return;
  const what = point.y < OVERVIEW ? 'overview' : event.shiftKey || point.y < TOP ? 'select' : 'pan';
  held = { x: point.x, y: point.y, from: view.from, to: view.to, scroll: view.stage.scrollTop, what, moved: false };
  view.stage.setPointerCapture(event.pointerId);
  if (what === 'overview') overview(point);
});
function overview(point) {
  const middle = (point.x - LABEL) / view.pixels * view.longest, half = (view.to - view.from) / 2;
  show(view, middle - half, middle + half);
}
view.stage.addEventListener('pointermove', (event) => {
  const point = place(event);
  view.pointer = point;
  if (!held) { hover(point); return drawOverlay(view); }
  find('.tip').hidden = true;
  held.moved ||= Math.abs(point.x - held.x) > 3 || Math.abs(point.y - held.y) > 3;
  if (!held.moved) return undefined;
  if (held.what === 'overview') return overview(point);
  if (held.what === 'select') {
    view.selection = [held.x, point.x].map((x) => Math.min(view.longest, Math.max(0, cycleAt(view, x))));
    settle();
    return redraw();
  }
  const shift = (held.x - point.x) / view.pixels * (held.to - held.from);
  view.stage.scrollTop = held.scroll + held.y - point.y;
  return show(view, held.from + shift, held.to + shift);
});
view.stage.addEventListener('pointerup', (event) => {
  const was = held;
  held = null;
  if (was && !was.moved && was.what === 'pan') click(place(event));
  if (was && !was.moved && was.what === 'select') { view.selection = null; settle(); redraw(); }
});
view.stage.addEventListener('pointercancel', () => { held = null; });
view.stage.addEventListener('pointerleave', () => { view.pointer = null; find('.tip').hidden = true; drawOverlay(view); });
view.stage.addEventListener('dblclick', (event) => zoom(0.4, cycleAt(view, place(event).x)));
view.stage.addEventListener('scroll', redraw);
view.stage.addEventListener('wheel', (event) => {
  const point = place(event);
  if (event.ctrlKey || event.metaKey || point.y < TOP) zoom(Math.exp(event.deltaY * 0.002), cycleAt(view, point.x));
  else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / view.pixels);
  else return;
  event.preventDefault();
}, { passive: false });
view.stage.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in KEYS)) return;
  actions[KEYS[event.key]]();
  event.preventDefault();
});
search.addEventListener('input', light);
search.addEventListener('keydown', (event) => {
  if (event.key === 'Enter') nextMatch(event.shiftKey ? -1 : 1);
  if (event.key === 'Escape') { clear(); view.stage.focus(); }
});
colours.addEventListener('change', () => { view.mode = colours.value; legend(); redraw(); });
for (const button of view.root.querySelectorAll('[data-do]')) button.addEventListener('click', () => actions[button.dataset.do]());
new ResizeObserver(() => { if (view.longest) { fit(view); redraw(); } }).observe(view.root);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);

inflate(packed.textContent).then((payload) => {
  const content = JSON.parse(description.textContent);
  Object.assign(view, { kindColours: content.kindColors, causeColours: content.causeColors });
  view.runs = content.runs.map((run) => loadRun(run, payload));
  if (view.runs.every((run) => new Set(run.kind).size < 2)) view.mode = colours.value = 'operator'; // one kind tells nothing
  view.longest = Math.max(1, ...view.runs.map((run) => run.latency * run.scale));
  Object.assign(view, { from: 0, to: view.longest });
  layout(view);
  fit(view);
  legend();
  draw(view);
  showEvent(view);
  showRange(view);
  Object.assign(view.root, { viewer: Object.assign(view, { show: (from, to) => show(view, from, to), redrawNow: () => draw(view), pick: (run, event) => choose(view, view.runs[run], event), actions }) });
  view.root.dataset.ready = 'yes';
});
