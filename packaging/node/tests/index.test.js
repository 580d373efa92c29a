// What holds without any ggml: node --test index.test.js, where require('lastuse') finds the package.
'use strict';

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const test = require('node:test');
const { Worker } = require('node:worker_threads');

const lastuse = require('lastuse');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'lastuse-node-'));
test.after(() => fs.rmSync(folder, { recursive: true }));

const isMapped = () => fs.readFileSync('/proc/self/maps', 'utf8').includes(lastuse.library);

test('the library is loaded and stays', () => {
  assert.strictEqual(lastuse.why, null);
  assert.ok(isMapped());
});

test('a module imports it too', async () => {
  const { set, stats, why } = await import('lastuse');
  assert.deepStrictEqual([set, stats, why], [lastuse.set, lastuse.stats, null]);
});

test('settings are variables of the environment, also for the library', () => {
  lastuse.set('Budget', '2GiB');
  lastuse.set('effort', 7);
  const shown = spawnSync('sh', ['-c', 'echo $LASTUSE_BUDGET $LASTUSE_EFFORT'], { encoding: 'utf8' }).stdout;
  assert.strictEqual(shown, '2GiB 7\n');
  lastuse.set('budget', null);
  lastuse.set('effort', undefined);
  assert.deepStrictEqual(Object.keys(process.env).filter((name) => name.startsWith('LASTUSE')), []);
  assert.throws(() => lastuse.set('rule', 'all'), /^RangeError: unknown setting rule; expected log, report, rules, /);
});

test('a worker changes no setting', async () => {
  const program = "try { require('lastuse').set('effort', 1) } catch (error) { throw new Error(`no: ${error.message}`) }";
  const worker = new Worker(program, { eval: true });
  const [error] = await new Promise((resolve) => worker.once('error', (...all) => resolve(all)));
  assert.match(error.message, /^no: settings are changed by the main thread/);
});

test('statistics are those of the allocators of this process', () => {
  assert.throws(() => lastuse.stats(), /no report is written/);
  const report = path.join(folder, 'report.jsonl');
  const { pid } = process;
  const buffer = (bytes, ggmlAlloc) => ({ id: 0, name: 'CPU', bytes, ggml_alloc_bytes: ggmlAlloc });
  const plan = (allocator, plans, buffers) => ({ event: 'plan', pid, allocator, plans, plan_us: 10 * plans, buffers });
  const events = [
    { event: 'start', pid: pid + 1, server: 'ggml-alloc' },
    { event: 'start', pid, server: 'lastuse' },
    { event: 'free', pid, allocator: 1 },
    plan(2, 1, [buffer(100, 150)]),
    plan(2, 3, [buffer(80, 120), buffer(5, null)]),
    plan(3, 1, [buffer(7, 9)]),
    { event: 'free', pid, allocator: 3 },
    { ...plan(4, 1, [buffer(1000, 1000)]), pid: pid + 1 },
  ];
  process.env.LASTUSE_REPORT = report;
  const nothing = { server: null, bytes: 0, ggmlAllocBytes: 0, plans: 0, planningUs: 0 };
  assert.deepStrictEqual(lastuse.stats(), nothing);
  fs.writeFileSync(report, events.map((event) => `${JSON.stringify(event)}\n`).join(''));
  assert.deepStrictEqual(lastuse.stats(), { server: 'lastuse', bytes: 85, ggmlAllocBytes: 125, plans: 4, planningUs: 40 });
  delete process.env.LASTUSE_REPORT;
});

/** Runs a program in another process, and returns what it prints, and its errors. */
function run(program, ...options) {
  const done = spawnSync(process.execPath, [...options, '-e', program], { encoding: 'utf8', cwd: __dirname });
  assert.strictEqual(done.status, 0, done.stderr);
  return [done.stdout, done.stderr];
}

test('a second copy, and a worker, find the library that is loaded', () => {
  const copy = path.join(folder, 'copy');
  fs.cpSync(path.dirname(lastuse.library), copy, { recursive: true });
  const program = `require('lastuse'); const { why, library } = require(${JSON.stringify(copy)});
    console.log(why, require('fs').readFileSync('/proc/self/maps', 'utf8').includes(library));`;
  assert.deepStrictEqual(run(program), ['null false\n', '']);
  const worker = "new (require('worker_threads').Worker)('console.log(require(\"lastuse\").why)', { eval: true })";
  assert.deepStrictEqual(run(worker, '--require', 'lastuse'), ['null\n', '']);
});

test('a library that cannot be loaded is a warning, and the program goes on', () => {
  const copy = path.join(folder, 'broken');
  fs.mkdirSync(copy);
  fs.copyFileSync(require.resolve('lastuse'), path.join(copy, 'index.js'));
  const [output, errors] = run(`console.log(require(${JSON.stringify(copy)}).why)`);
  assert.match(output, /^lastuse is not loaded: .*broken\/liblastuse.so: cannot open shared object file/);
  assert.match(errors, /LastuseWarning: lastuse is not loaded: /);
});

test('a ggml that is there first is a warning, and settings are refused', () => {
  // What counts is that it defines ggml's allocator.
  const addon = path.join(folder, 'node_modules', '@some', 'ggml', 'addon.node');
  fs.mkdirSync(path.dirname(addon), { recursive: true });
  fs.copyFileSync(lastuse.library, addon);
  const program = `try { process.dlopen({ exports: {} }, ${JSON.stringify(addon)}); } catch { }
    const { why, set } = require('lastuse'); console.log(why); try { set('effort', 1) } catch (error) { console.log(error.message) }`;
  const [output, errors] = run(program);
  const lines = output.trim().split('\n');
  assert.match(lines[0], /^lastuse was loaded after @some\/ggml, whose ggml may keep its own allocator: require lastuse first/);
  assert.strictEqual(lines[1], 'settings are read when a ggml is loaded, and @some/ggml has loaded one');
  assert.match(errors, /LastuseWarning: lastuse was loaded after @some\/ggml/);
});
