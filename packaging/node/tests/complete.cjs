// Completes a text with @fugood/llama.node: node complete.cjs MODEL OUTPUT never|first, which is when lastuse is loaded.
const { writeFileSync } = require('node:fs');

const [model, output, load] = process.argv.slice(2);
const lastuse = load === 'first' ? require('lastuse') : null;
const { loadModel } = require('@fugood/llama.node');

async function main() {
  const context = await loadModel({ model, n_ctx: 1024, n_threads: 1, n_gpu_layers: 0 });
  const prompt = 'aaa baa caa daa '.repeat(20);
  const done = await context.completion({ prompt, n_predict: 12, temperature: 0, seed: 1, n_probs: 3 });
  writeFileSync(output, JSON.stringify([done.text, done.completion_probabilities]));
  if (lastuse !== null) console.log(`stats=${JSON.stringify(lastuse.stats())}`);
  await context.release();
}

main();
