// The graphs and their plans, from the data in the page.

const DATA = JSON.parse(document.getElementById("data").textContent);
const SHARING = { OWN: 0, TAKES_OVER: 1, INSIDE: 2, KEPT: 3 };
const INPUT = 1, OUTPUT = 2;

class Graph {
  constructor(raw) {
    this.label = raw.label;
    this.nodes = raw.nodes;
    this.steps = raw.steps;
    this.tensors = raw.tensors;
    this.count = raw.tensors.name.length;
    this.findReaders();
    this.plans = raw.plans.map((plan) => new Plan(plan, this.count));
    this.planned = [...new Set(this.plans.flatMap((plan) => [...plan.spansOf.keys()]))];
    this.planned.sort((one, other) => this.time(one) - this.time(other) || one - other);
  }

  // Whoever only looks at memory in another shape reads nothing.
  findReaders() {
    const { sources, look } = this.tensors;
    this.readersOf = new Map();
    this.looksAt = new Map();
    for (let id = 0; id < this.count; id += 1) {
      if (this.root(id) !== id) append(this.looksAt, this.root(id), id);
      if (look[id]) continue;
      for (const source of new Set(sources[id].map((source) => this.root(source)))) append(this.readersOf, source, id);
    }
  }

  root(id) { return this.tensors.root[id] < 0 ? id : this.tensors.root[id]; }
  name(id) { return this.tensors.name[id] || `(no name, ${id})`; }
  op(id) { return this.tensors.ops[this.tensors.op[id]]; }
  kind(id) { return this.tensors.kind[id]; }
  type(id) { return this.tensors.types[this.tensors.type[id]]; }
  shape(id) { return this.tensors.shape[id].join(" × "); }
  bytes(id) { return this.tensors.bytes[id]; }
  step(id) { return this.tensors.step[id]; }
  has(id, flag) { return (this.tensors.flags[id] & flag) !== 0; }
  isExternal(id) { return this.tensors.external[this.root(id)] === 1; }
  time(id) { return this.has(id, INPUT) ? -1 : this.step(id); }

  // Whose values it reads: each once, with the view that it reads them through.
  sources(id) {
    const seen = new Map();
    for (const source of this.tensors.sources[id]) {
      if (!seen.has(this.root(source))) seen.set(this.root(source), source);
    }
    return [...seen].map(([root, source]) => ({ id: root, through: source === root ? -1 : source }));
  }

  readers(id) {
    const readers = this.readersOf.get(this.root(id)) || [];
    return readers.filter((reader) => reader !== id).sort((one, other) => this.step(one) - this.step(other));
  }

  // The step that is the last to read it; -1 when nobody does.
  lastRead(id) {
    return this.readers(id).reduce((last, reader) => Math.max(last, this.step(reader)), -1);
  }
}

class Plan {
  constructor(raw, tensors) {
    Object.assign(this, { label: raw.label, size: raw.size, pools: raw.pools });
    const count = raw.spans.length / 10;
    const column = (Type, at) => Type.from({ length: count }, (_, index) => raw.spans[index * 10 + at]);
    this.count = count;
    [this.tensor, this.pool, this.chunk, this.block] = [0, 1, 2, 3].map((at) => column(Int32Array, at));
    [this.offset, this.size_] = [4, 5].map((at) => column(Float64Array, at));
    [this.start, this.end, this.seen] = [6, 7, 8].map((at) => column(Int32Array, at));
    this.sharing = column(Uint8Array, 9);
    this.spansOf = new Map();
    this.blocks = new Map();
    for (let span = 0; span < count; span += 1) {
      if (this.sharing[span] === SHARING.KEPT) continue;
      append(this.spansOf, this.tensor[span], span);
      append(this.blocks, `${this.pool[span]} ${this.block[span]}`, span);
    }
    for (const pool of this.pools) pool.size = pool.chunks.reduce((sum, chunk) => sum + chunk, 0);
    for (const pool of this.pools) pool.peaks = peaksOf(pool);
    this.atPeak = new Map(this.pools.map((pool) => [pool.id, this.aliveAtPeak(pool)]));
  }

  // What is there at the first peak of a buffer, the largest first.
  aliveAtPeak(pool) {
    const step = pool.peaks.length ? pool.peaks[0][0] : -1;
    const isAlive = (span) => this.pool[span] === pool.id && this.sharing[span] !== SHARING.KEPT
      && this.start[span] <= step && step < this.seen[span];
    return [...this.tensor.keys()].filter(isAlive).sort((one, other) => this.size_[other] - this.size_[one]);
  }

  spanOf(tensor) {
    const spans = this.spansOf.get(tensor);
    return spans ? spans[0] : -1;
  }

  // The other tensors in the same memory that touch its bytes, in time.
  sharers(span) {
    const low = this.offset[span], high = low + this.size_[span];
    const mates = this.blocks.get(`${this.pool[span]} ${this.block[span]}`) || [];
    const touches = (mate) => this.offset[mate] < high && this.offset[mate] + this.size_[mate] > low;
    return mates.filter((mate) => mate !== span && touches(mate));
  }

  bound() { return this.pools.reduce((sum, pool) => sum + pool.bound, 0); }
}

// The steps with the most bytes alive, as ranges.
function peaksOf(pool) {
  const peaks = [];
  pool.live.forEach((load, step) => {
    if (load !== pool.bound) return;
    const last = peaks[peaks.length - 1];
    if (last && last[1] === step) last[1] = step + 1;
    else peaks.push([step, step + 1]);
  });
  return peaks;
}

function append(map, key, value) {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

