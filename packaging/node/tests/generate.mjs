// Generates tokens with node-llama-cpp in two contexts: node generate.mjs MODEL OUTPUT never|first|late, which is when lastuse
// is loaded; late is between the contexts. With lastuse first, in the main thread, graphs are captured to OUTPUT.graphs.
import { writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
import { getLlama } from 'node-llama-cpp';

const [modelPath, output, load] = process.argv.slice(2);
const isFirst = load === 'first';
const lastuse = isFirst ? await import('lastuse') : null;
if (isFirst && isMainThread) lastuse.set('capture', `${output}.graphs`);

const llama = await getLlama({ gpu: false, build: 'never', maxThreads: 1, progressLogs: false });
const model = await llama.loadModel({ modelPath });

async function generate(words) {
  const context = await model.createContext({ contextSize: 1024, batchSize: 512, threads: 1 });
  const prompt = model.tokenize('aaa baa caa daa '.repeat(words));
  const found = [];
  const options = { temperature: 0 };
  for await (const next of context.getSequence().evaluateWithMetadata(prompt, { probabilities: true }, options)) {
    found.push([next.token, [...next.probabilities]]);
    if (found.length === 8) break;
  }
  if (isFirst) console.log(`stats=${JSON.stringify(lastuse.stats())}`);
  await context.dispose();
  return found;
}

const results = [await generate(20)];
if (load === 'late') await import('lastuse');
results.push(await generate(15));
writeFileSync(output, JSON.stringify(results));
await llama.dispose();
