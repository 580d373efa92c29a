/**
 * Loads lastuse, which then places the compute buffers of a ggml that is loaded after it.
 *
 * Node gives no access to the functions of a library that is not an add-on. So settings are environment variables, which
 * the library reads when a ggml is first used, and statistics come from the report that it writes.
 */
'use strict';

const fs = require('fs');
const os = require('os');
const path = require('path');
const { isMainThread } = require('worker_threads');

/** The path of the shared library, for LD_PRELOAD. */
const library = path.join(__dirname, 'liblastuse.so');

/** The names of variables of the environment without LASTUSE_. */
const settings = [
  'log', 'report', 'rules', 'effort', 'reorder', 'budget', 'recompute', 'on_demand', 'arena', 'recycle', 'verify', 'retain', 'capture',
  'dump_dir', 'dump', 'accounting', 'live',
];

/** Returns the paths of the shared libraries and add-ons of the process. */
function mapped() {
  const lines = fs.readFileSync('/proc/self/maps', 'utf8').split('\n');
  const files = lines.filter((line) => line.includes('/')).map((line) => line.slice(line.indexOf('/')));
  return [...new Set(files)].filter((file) => /\.(so|node)(\.[\d.]+)?$/.test(file));
}

const isLastuse = (file) => /^liblastuse\.so/.test(path.basename(file));

/** Returns whether a file is a library for 64 bits that defines a function for others. */
function defines(file, name) {
  const descriptor = fs.openSync(file, 'r');
  const read = (at, size) => {
    const bytes = Buffer.alloc(Number(size));
    return bytes.subarray(0, fs.readSync(descriptor, bytes, 0, bytes.length, Number(at)));
  };
  try {
    const header = read(0, 64);
    if (header.length < 64 || header.readUInt32BE(0) !== 0x7f454c46 || header[4] !== 2) return false;
    const count = header.readUInt16LE(60);
    const table = read(header.readBigUInt64LE(40), 64 * count);
    const content = (at) => read(table.readBigUInt64LE(64 * at + 24), table.readBigUInt64LE(64 * at + 32));
    const isSymbols = (at) => table.readUInt32LE(64 * at + 4) === 11;
    const at = [...Array(count).keys()].find(isSymbols);
    if (at === undefined) return false;
    const [symbols, names] = [content(at), content(table.readUInt32LE(64 * at + 40))];
    const wanted = Buffer.from(`${name}\0`);
    for (let symbol = 0; symbol + 24 <= symbols.length; symbol += 24) {
      const start = symbols.readUInt32LE(symbol);
      const isHere = symbols.readUInt16LE(symbol + 6) !== 0;
      if (isHere && names.subarray(start, start + wanted.length).equals(wanted)) return true;
    }
    return false;
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Returns the paths of the loaded libraries with a ggml's allocator, apart from lastuse. */
function ggmls() {
  const files = mapped().filter((file) => !isLastuse(file) && fs.existsSync(file));
  return files.filter((file) => defines(file, 'ggml_gallocr_new_n'));
}

/** Returns the package that a file belongs to, or the file. */
function packageOf(file) {
  const found = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(file);
  return found ? found[1] : file;
}

/** Loads the library unless it is there, and returns why it has no effect, or may have none; null if it is there in time. */
function load() {
  if (process.platform !== 'linux') return 'lastuse is not loaded: it is for Linux';
  if (mapped().some(isLastuse)) return null;
  const earlier = [...new Set(ggmls().map(packageOf))];
  let message = 'it was closed again';
  try {
    process.dlopen({ exports: {} }, library, os.constants.dlopen.RTLD_NOW | os.constants.dlopen.RTLD_GLOBAL);
  } catch (error) {
    // There is always one, as it is no add-on. It stays loaded all the same.
    message = error.message;
  }
  if (!mapped().some(isLastuse)) return `lastuse is not loaded: ${message}`;
  if (earlier.length === 0) return null;
  const order = 'require lastuse first, or start node with --require lastuse';
  return `lastuse was loaded after ${earlier.join(', ')}, whose ggml may keep its own allocator: ${order}`;
}

/**
 * Changes a setting, such as set('budget', '2GiB'), before a ggml is loaded; null is the default. The names are those of
 * the variables without LASTUSE_, in any case. Throws where it would have no effect; the library reports values that are
 * not valid in ggml's log.
 */
function set(name, value) {
  const key = String(name).toLowerCase();
  if (!settings.includes(key)) throw new RangeError(`unknown setting ${name}; expected ${settings.join(', ')}`);
  if (!isMainThread) throw new Error('settings are changed by the main thread: a worker has a copy of its environment');
  const there = process.platform === 'linux' ? ggmls().map(packageOf) : [];
  if (there.length > 0) throw new Error(`settings are read when a ggml is loaded, and ${there[0]} has loaded one`);
  const variable = `LASTUSE_${key.toUpperCase()}`;
  if (value === null || value === undefined) delete process.env[variable];
  else process.env[variable] = String(value);
}

/**
 * Returns the statistics of this process, from the report: which allocator is the server, 'lastuse' or 'ggml-alloc', or null
 * as long as none was made; the bytes of the compute buffers that exist, and those that ggml-alloc would have taken; plans so
 * far, and the microseconds that they took. Throws if no report is written: set('report', FILE) first, with a new file.
 */
function stats() {
  const file = process.env.LASTUSE_REPORT;
  if (!file) throw new Error("no report is written: set('report', FILE), before a ggml is loaded");
  const lines = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').split('\n') : [];
  const events = lines.filter((line) => line !== '').map((line) => JSON.parse(line));
  return summary(events.filter((event) => event.pid === process.pid));
}

/** Returns the statistics of a process from its events. */
function summary(events) {
  // The last plan of each allocator counts all its plans, and names its buffers.
  const plans = new Map();
  const freed = new Set();
  let server = null;
  for (const event of events) {
    if (event.event === 'start' && server !== 'lastuse') server = event.server;
    if (event.event === 'plan') plans.set(event.allocator, event);
    if (event.event === 'free') freed.add(event.allocator);
  }
  const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
  const all = [...plans.values()];
  const buffers = all.filter((plan) => !freed.has(plan.allocator)).flatMap((plan) => plan.buffers);
  return {
    server,
    bytes: sum(buffers.map((buffer) => buffer.bytes)),
    ggmlAllocBytes: sum(buffers.map((buffer) => buffer.ggml_alloc_bytes ?? buffer.bytes)),
    plans: sum(all.map((plan) => plan.plans)),
    planningUs: sum(all.map((plan) => plan.plan_us)),
  };
}

const why = load();
if (why !== null) process.emitWarning(why, 'LastuseWarning');

module.exports = { library, why, set, stats };
