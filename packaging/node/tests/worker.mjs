// Runs generate.mjs, with its arguments, in a worker, which loads lastuse itself.
import { Worker } from 'node:worker_threads';

const worker = new Worker(new URL('generate.mjs', import.meta.url), { argv: process.argv.slice(2) });
worker.on('error', (error) => { throw error; });
