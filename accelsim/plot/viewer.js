// Draws the timelines of one viewer. All text that comes from a file goes through textContent or fillText.
(async () => {
  const root = document.currentScript.parentElement;
  const [description, packed] = root.querySelectorAll('script[type]');
  const canvas = root.querySelector('canvas'), context = canvas.getContext('2d');
  const search = root.querySelector('input'), colours = root.querySelector('select');
  const { timelines, kindColors } = JSON.parse(description.textContent);
  const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  const payload = await new Response(stream).arrayBuffer();
  const LABEL = 92, HEAD = 26, LANE = 24, CURVE = 42, GAP = 5, AXIS = 22;
  const TYPES = { '<f8': Float64Array, '<i4': Int32Array };

  for (const line of timelines) {
    for (const [name, [type, offset, length]] of Object.entries(line.columns)) {
      const Type = TYPES[type];
      line[name] = new Type(payload.slice(offset, offset + length * Type.BYTES_PER_ELEMENT));
    }
    line.rows = line.resources.map(() => []);
    for (let event = 0; event < line.start.length; event++) line.rows[line.resource[event]].push(event);
    line.rows = line.rows.map((rows) => Int32Array.from(rows));
    line.matched = null;
    line.all = Int32Array.from(line.start.keys());
  }
  const longest = Math.max(1, ...timelines.map((line) => line.latency * line.scale));
  let from = 0, to = longest, width = 0, chosen = null, pathShown = false, queued = false, tracks = [], matches = [];
  let next = 0;

  const x = (line, cycle) => LABEL + ((cycle * line.scale - from) / (to - from)) * (width - LABEL);
  const cycleAt = (pixel) => from + ((pixel - LABEL) / (width - LABEL)) * (to - from);
  const shade = (name) => getComputedStyle(root).getPropertyValue(name) || '#888';
  const operatorColour = (operator) => (operator < 0 ? '#888' : `hsl(${(operator * 137.508) % 360} 55% 52%)`);

  function colourOf(line, event) {
    if (colours.value === 'cause') return line.causeColors[line.cause[event]];
    const activity = line.activity[event];
    return colours.value === 'operator' ? operatorColour(line.a_operator[activity]) : kindColors[line.a_kind[activity]];
  }

  function nameOf(line, event) {
    const activity = line.activity[event], operator = line.operators[line.a_operator[activity]] ?? '';
    const tile = line.a_tile[activity], tensor = line.tensors[line.a_tensor[activity]];
    const kind = line.kinds[line.a_kind[activity]];
    if (tensor === undefined) return `${kind}${tile >= 0 ? ` ${tile}` : ''} of ${operator}`;
    return `${kind}: ${tensor}${tile >= 0 ? ` for tile ${tile} of ${operator}` : ''}`;
  }

  // First of the rows, sorted by time and not overlapping, that ends behind the cycle.
  function firstEndingAfter(line, rows, cycle) {
    let low = 0, high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (line.end[rows[middle]] <= cycle) low = middle + 1; else high = middle;
    }
    return low;
  }

  function layout() {
    tracks = [];
    let y = 0;
    for (const line of timelines) {
      tracks.push({ line, y, height: HEAD, draw: drawHead });
      y += HEAD;
      line.resources.forEach((resource, index) => {
        tracks.push({ line, y, height: LANE, draw: drawLane, rows: line.rows[index], name: resource.name });
        y += LANE + GAP;
      });
      line.resources.forEach((resource, index) => {
        if (!resource.rate) return;
        const curve = { rows: line.rows[index], weight: line.bytes, top: resource.rate };
        tracks.push({ line, y, height: CURVE, draw: drawRate, name: `${resource.name} B/cycle`, ...curve });
        y += CURVE + GAP;
      });
      line.buffers.forEach((buffer, index) => {
        const curve = { cycles: line[`held${index}_cycles`], values: line[`held${index}_bytes`], top: buffer.capacity };
        tracks.push({ line, y, height: CURVE, draw: drawHeld, name: `${buffer.name} bytes`, ...curve });
        y += CURVE + GAP;
      });
      tracks.push({ line, y, height: CURVE, draw: drawPower, name: 'pJ/cycle' });
      y += CURVE + GAP;
      tracks.push({ line, y, height: AXIS, draw: drawAxis });
      y += AXIS;
    }
    const ratio = window.devicePixelRatio || 1;
    width = root.clientWidth;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(y * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${y}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  function draw() {
    queued = false;
    context.clearRect(0, 0, width, canvas.height);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    for (const track of tracks) {
      if (track.name) text(track.name, 0, track.y + track.height / 2, LABEL - 8, '--soft');
      context.save();
      context.beginPath();
      context.rect(track.draw === drawHead ? 0 : LABEL, track.y, width, track.height);
      context.clip();
      track.draw(track);
      context.restore();
    }
  }

  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };

  function text(words, left, middle, room, colour) {
    context.fillStyle = shade(colour);
    let shown = words;
    while (shown.length > 1 && context.measureText(shown).width > room) shown = `${shown.slice(0, -2)}…`;
    context.fillText(shown, left, middle);
  }

  function drawHead({ line, y }) {
    text(`${line.title}, ${line.latency.toLocaleString('en')} cycles`, 0, y + HEAD / 2, width, '--ink');
  }

  // Events narrower than a pixel share it: its colour is that of the longest, as dense as the pixel is busy.
  function drawLane({ line, rows, y }) {
    const { start, end, matched, path } = line, last = to / line.scale;
    let pixel = -1, covered = 0, most = 0, colour = '';
    const flush = () => {
      if (pixel < 0) return;
      context.globalAlpha = Math.min(1, Math.max(covered, 0.12));
      context.fillStyle = colour;
      context.fillRect(pixel, y, 1, LANE);
      pixel = -1;
    };
    for (let at = firstEndingAfter(line, rows, from / line.scale); at < rows.length; at++) {
      const event = rows[at];
      if (start[event] >= last) break;
      const left = x(line, start[event]), right = x(line, end[event]);
      const faded = (matched && !matched[event]) || (pathShown && !path[event]);
      if (right - left < 1) {
        const here = Math.floor(left);
        if (here !== pixel) { flush(); pixel = here; covered = most = 0; }
        const share = (right - left) * (faded ? 0.15 : 1);
        covered += share;
        if (share >= most) { most = share; colour = colourOf(line, event); }
        continue;
      }
      flush();
      context.globalAlpha = faded ? 0.15 : 1;
      context.fillStyle = colourOf(line, event);
      context.fillRect(left, y, right - left - (right - left > 3 ? 0.5 : 0), LANE);
      if (right - left > 46 && !faded) {
        const begin = Math.max(left, LABEL);
        context.fillStyle = '#fff';
        context.fillText(fitting(nameOf(line, event), Math.min(right, width) - begin - 8), begin + 4, y + LANE / 2);
      }
      if (chosen && chosen.line === line && chosen.event === event) {
        context.lineWidth = 2;
        context.strokeStyle = shade('--ink');
        context.strokeRect(left + 1, y + 1, right - left - 2, LANE - 2);
      }
    }
    flush();
    context.globalAlpha = 1;
  }

  const fitting = (words, room) => {
    const letters = Math.floor(room / 6.2);
    return words.length <= letters ? words : letters > 3 ? `${words.slice(0, letters - 1)}…` : '';
  };

  // What the events carry, spread evenly over their cycles, averaged over each pixel.
  function perPixel(line, rows, weight, sums) {
    const { start, end } = line, last = to / line.scale;
    const begin = rows === line.all ? 0 : firstEndingAfter(line, rows, from / line.scale);
    for (let at = begin; at < rows.length; at++) {
      const event = rows[at];
      if (start[event] >= last) break;
      const length = end[event] - start[event];
      if (!length || !weight[event] || end[event] * line.scale <= from) continue;
      const left = x(line, start[event]) - LABEL, right = x(line, end[event]) - LABEL, rate = weight[event] / length;
      const first = Math.max(0, Math.floor(left)), final = Math.min(sums.length - 1, Math.floor(right));
      if (first === final) { sums[first] += rate * (right - left); continue; }
      for (let pixel = first; pixel <= final; pixel++) {
        sums[pixel] += rate * (Math.min(right, pixel + 1) - Math.max(left, pixel));
      }
    }
  }

  function area(values, y, top, colour, label) {
    context.globalAlpha = 0.75;
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(LABEL, y + CURVE);
    values.forEach((value, pixel) => {
      const height = y + CURVE - (CURVE - 4) * Math.min(1, value / top);
      context.lineTo(LABEL + pixel, height);
      context.lineTo(LABEL + pixel + 1, height);
    });
    context.lineTo(LABEL + values.length, y + CURVE);
    context.fill();
    context.globalAlpha = 1;
    text(`${label} ${top.toLocaleString('en', { maximumSignificantDigits: 5 })}`, LABEL + 4, y + 8, 240, '--soft');
  }

  const empty = () => new Float64Array(Math.max(1, Math.floor(width - LABEL)));

  function drawRate({ line, rows, weight, top, y }) {
    const sums = empty();
    perPixel(line, rows, weight, sums);
    area(sums, y, top, kindColors[2], 'full rate');
  }

  function drawPower({ line, y }) {
    const sums = empty();
    perPixel(line, line.all, line.energy, sums);
    area(sums, y, sums.reduce((most, value) => Math.max(most, value), 1e-9), kindColors[4], 'most');
  }

  function drawHeld({ line, cycles, values, top, y }) {
    const most = empty();
    let at = 0;
    for (let low = 0, high = cycles.length; low < high;) {
      const middle = (low + high) >> 1;
      if (cycles[middle] * line.scale <= from) { at = middle; low = middle + 1; } else high = middle;
    }
    for (let pixel = 0; pixel < most.length; pixel++) {
      const until = cycleAt(LABEL + pixel + 1) / line.scale;
      if (cycleAt(LABEL + pixel) / line.scale >= line.latency) break;
      most[pixel] = values[at];
      while (at + 1 < cycles.length && cycles[at + 1] < until) most[pixel] = Math.max(most[pixel], values[++at]);
    }
    area(most, y, top, shade('--soft'), 'capacity');
  }

  function drawAxis({ y }) {
    const rough = (to - from) / Math.max(2, (width - LABEL) / 120), power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough));
    for (let cycle = Math.ceil(from / step) * step; cycle <= to; cycle += step) {
      const pixel = LABEL + ((cycle - from) / (to - from)) * (width - LABEL);
      context.fillStyle = shade('--line');
      context.fillRect(pixel, y, 1, 4);
      text(Math.round(cycle).toLocaleString('en'), pixel + 3, y + 12, 110, '--soft');
    }
  }

  function show(begin, end) {
    const span = Math.min(longest, Math.max(4, end - begin));
    from = Math.min(Math.max(0, begin), longest - span);
    to = from + span;
    redraw();
  }
  const zoom = (factor, at) => show(at - (at - from) * factor, at + (to - at) * factor);
  const pan = (share) => show(from + share * (to - from), to + share * (to - from));

  function choose(line, event) {
    chosen = { line, event };
    const out = root.querySelector('.event'), cycles = (value) => value.toLocaleString('en');
    const say = (words) => out.appendChild(document.createElement('p')).append(...words);
    out.replaceChildren();
    const bold = document.createElement('b');
    bold.textContent = nameOf(line, event);
    say([bold, ` on ${line.resources[line.resource[event]].name}`]);
    const moved = line.bytes[event] ? `, ${cycles(line.bytes[event])} bytes` : '';
    const picojoules = line.energy[event].toLocaleString('en', { maximumSignificantDigits: 4 });
    say([`Cycles ${cycles(line.start[event])} to ${cycles(line.end[event])}, ` +
      `${cycles(line.end[event] - line.start[event])} cycles${moved}, ${picojoules} pJ.`]);
    const waited = line.start[event] - line.ready[event], because = line.because[event];
    const asked = `It asked at ${cycles(line.ready[event])} and waited ${cycles(waited)} cycles more. `;
    if (because < 0) return say([asked, 'It had waited for nothing before.']), redraw();
    const button = document.createElement('button');
    button.textContent = nameOf(line, because);
    button.onclick = () => { choose(line, because); reveal(line, because); };
    say([asked, `The last that it waited for (${line.causes[line.cause[event]]}): `, button]);
    redraw();
  }

  function reveal(line, event) {
    const begin = line.start[event] * line.scale, end = line.end[event] * line.scale;
    if (begin < from || end > to) show((begin + end) / 2 - (to - from) / 2, (begin + end) / 2 + (to - from) / 2);
  }

  function find() {
    const wanted = search.value.trim().toLowerCase();
    matches = [];
    next = 0;
    for (const line of timelines) {
      line.matched = wanted ? new Uint8Array(line.start.length) : null;
      if (!wanted) continue;
      const hit = (names) => names.map((name) => name.toLowerCase().includes(wanted));
      const operators = hit(line.operators), tensors = hit(line.tensors);
      for (let event = 0; event < line.start.length; event++) {
        const activity = line.activity[event];
        if (!operators[line.a_operator[activity]] && !tensors[line.a_tensor[activity]]) continue;
        line.matched[event] = 1;
        matches.push([line, event]);
      }
    }
    root.querySelector('.matches').textContent = wanted ? `${matches.length.toLocaleString('en')} events` : '';
    redraw();
  }

  function nextMatch() {
    if (!matches.length) return;
    const [line, event] = matches[next++ % matches.length];
    choose(line, event);
    reveal(line, event);
  }

  function eventAt(pixel, height) {
    const track = tracks.find(({ y, height: high }) => height >= y && height < y + high);
    if (!track || track.draw !== drawLane || pixel < LABEL) return null;
    const slack = (to - from) / (width - LABEL) / track.line.scale, cycle = cycleAt(pixel) / track.line.scale;
    const at = firstEndingAfter(track.line, track.rows, cycle - slack);
    return at < track.rows.length && track.line.start[track.rows[at]] <= cycle + slack
      ? [track.line, track.rows[at]] : null;
  }

  function key() {
    const out = root.querySelector('.key');
    out.replaceChildren();
    const of = { kind: () => timelines[0]?.kinds.map((name, index) => [name, kindColors[index]]),
      cause: () => timelines[0]?.causes.map((name, index) => [name, timelines[0].causeColors[index]]) };
    for (const [name, colour] of of[colours.value]?.() ?? []) {
      const entry = document.createElement('span'), patch = document.createElement('i');
      patch.style.background = colour;
      entry.append(patch, name);
      out.append(' ', entry);
    }
  }

  let held = null;
  canvas.addEventListener('pointerdown', (event) => {
    held = { at: event.offsetX, from, to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!held) return;
    held.moved ||= Math.abs(event.offsetX - held.at) > 3;
    const shift = ((held.at - event.offsetX) / (width - LABEL)) * (held.to - held.from);
    if (held.moved) show(held.from + shift, held.to + shift);
  });
  canvas.addEventListener('pointerup', (event) => {
    const found = held && !held.moved && eventAt(event.offsetX, event.offsetY);
    held = null;
    if (found) choose(...found);
  });
  canvas.addEventListener('dblclick', (event) => zoom(0.4, cycleAt(event.offsetX)));
  canvas.addEventListener('wheel', (event) => {
    if (event.ctrlKey || event.metaKey) zoom(Math.exp(event.deltaY * 0.002), cycleAt(event.offsetX));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      pan((event.deltaX || event.deltaY) / (width - LABEL));
    } else return;
    event.preventDefault();
  }, { passive: false });
  canvas.addEventListener('keydown', (event) => {
    const middle = (from + to) / 2;
    const actions = { w: () => zoom(0.6, middle), s: () => zoom(1 / 0.6, middle), a: () => pan(-0.2), d: () => pan(0.2),
      ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), f: () => show(0, longest), n: nextMatch,
      c: () => { pathShown = !pathShown; redraw(); }, '/': () => { search.focus(); event.preventDefault(); } };
    if (!event.ctrlKey && !event.metaKey && !event.altKey) actions[event.key]?.();
  });
  search.addEventListener('input', find);
  search.addEventListener('keydown', (event) => { if (event.key === 'Enter') nextMatch(); });
  colours.addEventListener('change', () => { key(); redraw(); });
  window.addEventListener('resize', () => { layout(); redraw(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  layout();
  key();
  draw();
  root.viewer = { show, draw, choose, find, timelines };
  root.dataset.ready = 'yes';
})();
