// Columns of numbers as they come, and what is read from them. Nothing here knows the page.

// The bytes of a base64 text, unpacked.
async function inflate(text) {
  const letters = atob(text), packed = new Uint8Array(letters.length);
  for (let at = 0; at < packed.length; at++) packed[at] = letters.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const TYPES = { u1: Uint8Array, i2: Int16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

// A column: its first bytes stand together, then its second bytes, and so on; some hold differences to the row before.
function column(payload, [type, offset, length, differences]) {
  const Type = TYPES[type], width = Type.BYTES_PER_ELEMENT;
  const bytes = new Uint8Array(length * width);
  for (let plane = 0; plane < width; plane++) {
    const from = offset + plane * length;
    for (let row = 0, at = plane; row < length; row++, at += width) bytes[at] = payload[from + row];
  }
  const values = new Type(bytes.buffer);
  if (!differences) return values;
  const sums = new Float64Array(length);
  for (let row = 0, sum = 0; row < length; row++) sums[row] = sum += values[row];
  return sums;
}

// The values at these rows.
function gather(values, rows) {
  const found = new Float64Array(rows.length);
  for (let at = 0; at < found.length; at++) found[at] = values[rows[at]];
  return found;
}

// Intervals in order of time that do not overlap, each with the event that it belongs to.
class Series {
  constructor(start, end, event) {
    Object.assign(this, { start, end, event, length: start.length, sums: new Map() });
  }

  pick(rows) { return new Series(gather(this.start, rows), gather(this.end, rows), gather(this.event, rows)); }

  // First interval, at or behind `from`, that ends behind the cycle.
  after(cycle, from = 0) {
    const { end, length } = this;
    let low = from, step = 1;
    while (low + step <= length && end[low + step - 1] <= cycle) { low += step; step *= 2; }
    let high = Math.min(length, low + step);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end[middle] <= cycle) low = middle + 1; else high = middle;
    }
    return low;
  }

  // Sums of a weight over the intervals before each; the weight of an event is spread evenly over its cycles.
  sum(name, weight) {
    if (this.sums.has(name)) return this.sums.get(name);
    const sum = new Float64Array(this.length + 1);
    for (let row = 0; row < this.length; row++) sum[row + 1] = sum[row] + weight(this.event[row], row);
    this.sums.set(name, sum);
    return sum;
  }

  busy() { return this.sum('busy', (_, row) => this.end[row] - this.start[row]); }

  // What of the weight lies before a cycle; `row` is the first interval that ends behind it.
  upTo(sum, cycle, row) {
    if (row >= this.length || cycle <= this.start[row]) return sum[row];
    return sum[row] + (sum[row + 1] - sum[row]) * (cycle - this.start[row]) / (this.end[row] - this.start[row]);
  }

  between(sum, from, to) {
    const first = this.after(from), last = this.after(to, first);
    return this.upTo(sum, to, last) - this.upTo(sum, from, first);
  }

  // Adds, to each of `bins` of equal width, what of the weight lies in it.
  spread(sum, from, to, bins) {
    const width = (to - from) / bins.length;
    let row = this.after(from), before = this.upTo(sum, from, row);
    for (let bin = 0; bin < bins.length && row < this.length; bin++) {
      const edge = from + (bin + 1) * width;
      if (this.start[row] >= edge) continue;
      row = this.after(edge, row);
      const until = this.upTo(sum, edge, row);
      bins[bin] += until - before;
      before = until;
    }
  }
}

// A value that holds from each cycle on to the next one.
class Steps {
  constructor(cycles, values) { Object.assign(this, { cycles, values }); }

  row(cycle) {
    let low = 0, high = this.cycles.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.cycles[middle] <= cycle) low = middle + 1; else high = middle;
    }
    return Math.max(0, low - 1);
  }

  at(cycle) { return this.values.length ? this.values[this.row(cycle)] : 0; }

  // The largest value in each of the bins; 0 from `end` on.
  most(from, to, end, bins) {
    const width = (to - from) / bins.length;
    let row = this.row(from);
    for (let bin = 0; bin < bins.length; bin++) {
      if (from + bin * width >= end) break;
      const edge = from + (bin + 1) * width;
      while (row + 1 < this.cycles.length && this.cycles[row + 1] <= from + bin * width) row++;
      let most = this.values[row] ?? 0;
      while (row + 1 < this.cycles.length && this.cycles[row + 1] < edge) most = Math.max(most, this.values[++row]);
      bins[bin] = most;
    }
  }
}

const UNRECORDED = '(not recorded)'; // idle time of a foreign trace that nothing in it explains

// One run: its columns, and the series of each resource, queue and kind.
function loadRun(run, payload) {
  for (const [name, packed] of Object.entries(run.columns)) run[name] = column(payload, packed);
  const count = run.start.length, { operators, tensors } = run;
  run.count = count;
  run.end = new Float64Array(count);
  run.ready = new Float64Array(count);
  run.because = new Int32Array(count);
  run.kind = new Uint8Array(count);
  for (let row = 0; row < count; row++) {
    run.end[row] = run.start[row] + run.cycles[row];
    run.ready[row] = run.start[row] - run.wait[row];
    run.because[row] = run.back[row] ? row - run.back[row] : -1;
    run.kind[row] = run.a_kind[run.activity[row]];
  }
  const rows = run.resources.map(() => []);
  for (let row = 0; row < count; row++) rows[run.resource[row]].push(row);
  run.series = rows.map((mine) => new Series(gather(run.start, mine), gather(run.end, mine), Int32Array.from(mine)));
  run.byKind = run.series.map((series) => split(series, (event) => run.kind[event]));
  run.idle = run.resources.map((resource, index) => (resource.core ? idle(run, run.series[index]) : null));
  run.queues = run.resources.map((resource, index) => queues(run, index));
  run.held = run.buffers.map((_, index) => new Steps(run[`h${index}_cycles`], run[`h${index}_bytes`]));
  run.strip = new Series(run.o_start, run.o_start.map((start, row) => start + run.o_cycles[row]), run.o_operator);
  run.tiles = new Int32Array(operators.length + 1); // of each operator the highest tile
  run.a_operator.forEach((operator, activity) => { if (operator >= 0) run.tiles[operator] = Math.max(run.tiles[operator], run.a_tile[activity]); });
  run.unrecorded = operators.includes(UNRECORDED) ? operators.indexOf(UNRECORDED) : NaN;
  run.isRecorded = (event) => run.a_operator[run.activity[event]] !== run.unrecorded;
  run.working = (series) => series.sum('working', (event, row) => (run.isRecorded(event) ? series.end[row] - series.start[row] : 0));
  run.operatorOf = (event) => operators[run.a_operator[run.activity[event]]] ?? '';
  run.tensorOf = (event) => tensors[run.a_tensor[run.activity[event]]];
  return run;
}

// One series for each value of a key, a small whole number.
function split(series, key) {
  const counts = new Map(), keys = new Int32Array(series.length);
  for (let row = 0; row < series.length; row++) {
    keys[row] = key(series.event[row]);
    counts.set(keys[row], (counts.get(keys[row]) ?? 0) + 1);
  }
  if (counts.size === 1) return new Map([[keys[0], series]]);
  return new Map([...counts].sort(([a], [b]) => a - b).map(([value, count]) => {
    const rows = new Int32Array(count);
    for (let row = 0, at = 0; at < count; row++) if (keys[row] === value) rows[at++] = row;
    return [value, series.pick(rows)];
  }));
}

// When a core runs nothing: up to the next tile, whose cause is that of the wait; `event` is -1 after the last one.
function idle(run, series) {
  const found = { start: [], end: [], event: [] };
  const add = (start, end, event) => { found.start.push(start); found.end.push(end); found.event.push(event); };
  let before = 0;
  for (let row = 0; row < series.length; row++) {
    if (series.start[row] > before) add(before, series.start[row], series.event[row]);
    before = Math.max(before, series.end[row]);
  }
  if (before < run.latency) add(before, run.latency, -1);
  return new Series(Float64Array.from(found.start), Float64Array.from(found.end), Int32Array.from(found.event));
}

// The queues of a resource that has several: what of each is served, and when its head waits.
function queues(run, resource) {
  const parts = split(run.series[resource], (event) => run.a_queue[run.activity[event]]);
  if (run.resources[resource].queues < 2) return [];
  return [...parts].map(([queue, served]) => {
    const waits = { start: [], end: [], event: [] };
    let before = 0;
    for (let row = 0; row < served.length; row++) {
      const from = Math.max(before, run.ready[served.event[row]]);
      if (served.start[row] > from) { waits.start.push(from); waits.end.push(served.start[row]); waits.event.push(served.event[row]); }
      before = served.end[row];
    }
    const waiting = new Series(...['start', 'end', 'event'].map((name) => Float64Array.from(waits[name])));
    return { name: run.queueNames[queue], series: served, waits: waiting };
  });
}
